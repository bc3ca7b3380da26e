//! Authorities that Chromium trusts beside the public ones: an enterprise policy, which it reads at its start.
//!
//! The folder of policies belongs to root; one of its files is a link to where the agent may write. Chromium lets the last of several
//! files win, and that is the image's own, so whoever could replace this one would undo nothing that the image forbids. There are
//! hundreds of policies that the image does not name, so the file is there in any case: what a client downloads cannot become it.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use serde_json::json;

/// Where the image's link leads.
const FOLDER: &str = "/tmp/warmpool-policies";
const FILE: &str = "ca-certificates.json";

/// Has every browser that starts from now on trust these, DER in Base64.
/// Fails when the policy cannot be written.
pub(super) fn trust(certificates: &[String]) -> io::Result<()> {
    write(Path::new(FOLDER), certificates)
}

fn write(folder: &Path, certificates: &[String]) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    let policies = if certificates.is_empty() { json!({}) } else { json!({"CACertificates": certificates}) };
    fs::write(folder.join(FILE), policies.to_string())?;
    // What a browser saves for a person cannot end up here.
    fs::set_permissions(folder.join(FILE), Permissions::from_mode(0o444))?;
    fs::set_permissions(folder, Permissions::from_mode(0o555))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_policy_has_the_certificates_and_nobody_writes_beside_it() {
        for (certificates, wanted) in [(vec!["MA==".to_owned()], r#"{"CACertificates":["MA=="]}"#), (Vec::new(), "{}")]
        {
            let home = tempfile::tempdir().unwrap();
            let folder = home.path().join("policies");
            write(&folder, &certificates).unwrap();
            assert_eq!(fs::read_to_string(folder.join(FILE)).unwrap(), wanted);
            let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
            assert_eq!((mode(&folder), mode(&folder.join(FILE))), (0o555, 0o444));
            fs::set_permissions(&folder, Permissions::from_mode(0o755)).unwrap();
        }
    }
}
