//! Authorities that WebKit trusts: its library reads one file, which in the image is a link to where the agent writes.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::Path;

/// The public authorities.
const PUBLIC: &str = "/usr/local/share/warmpool/ca-certificates.crt";
/// Where the image's link leads.
const FILE: &str = "/tmp/warmpool-ca-certificates.crt";
/// How many letters of Base64 a line of PEM has.
const LINE: usize = 64;

/// Has a browser that starts from now on trust the public authorities and these, DER in Base64.
/// Fails when the file cannot be written.
pub(super) fn trust(certificates: &[String]) -> io::Result<()> {
    write(Path::new(PUBLIC), Path::new(FILE), certificates)
}

fn write(public: &Path, file: &Path, certificates: &[String]) -> io::Result<()> {
    if certificates.is_empty() {
        return symlink(public, file);
    }
    let mut all = fs::read_to_string(public)?;
    for certificate in certificates {
        pem(certificate, &mut all);
    }
    fs::write(file, all)
}

fn pem(base64: &str, all: &mut String) {
    all.push_str("-----BEGIN CERTIFICATE-----\n");
    for line in base64.as_bytes().chunks(LINE) {
        // Base64 is ASCII, so that no chunk ends within a letter.
        let _ = writeln!(all, "{}", String::from_utf8_lossy(line));
    }
    all.push_str("-----END CERTIFICATE-----\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_public_ones_stay() {
        let home = tempfile::tempdir().unwrap();
        let (public, file) = (home.path().join("public"), home.path().join("file"));
        fs::write(&public, "public\n").unwrap();
        write(&public, &file, &[]).unwrap();
        assert_eq!(fs::read_link(&file).unwrap(), public);
        fs::remove_file(&file).unwrap();
        write(&public, &file, &["A".repeat(65)]).unwrap();
        let written = fs::read_to_string(&file).unwrap();
        let wanted = format!("public\n-----BEGIN CERTIFICATE-----\n{}\nA\n-----END CERTIFICATE-----\n", "A".repeat(64));
        assert_eq!(written, wanted);
    }
}
