//! The daemon's own container, where it runs in one. The engine knows the data directory by another path there, and the
//! folders that workers share with the daemon lie in it.
//!
//! The kernel's list of mounts names the container, and the engine names the volume behind the directory, so a plain named
//! volume serves.

use std::path::{Path, PathBuf};

use bollard::query_parameters::InspectContainerOptions;

use crate::RuntimeError;
use crate::client::{Client, unless};

/// The kernel's list of what is mounted for this process.
const MOUNTS: &str = "/proc/self/mountinfo";
/// The hexadecimal digits of a container's id.
const ID_LENGTH: usize = 64;

/// Returns the data directory as the engine knows it.
/// Errors: [`RuntimeError`]; `Folder` where the directory lies inside this daemon's container, out of every worker's reach.
pub(super) async fn path_on_host(client: &Client, data_dir: &Path) -> Result<PathBuf, RuntimeError> {
    let data_dir = std::path::absolute(data_dir).unwrap_or_else(|_| data_dir.to_owned());
    let Some(id) = std::fs::read_to_string(MOUNTS).ok().and_then(|mounts| container_id(&mounts)) else {
        return Ok(data_dir);
    };
    let (id, options) = (&id, None::<InspectContainerOptions>);
    let inspect = async move |engine: bollard::Docker| engine.inspect_container(id, options).await;
    let own = client.look("inspect the daemon's own container", inspect).await;
    // An engine that does not know the container is not the one that runs it: they share their paths, or `start` says so.
    let Some(own) = unless(&[404], own)? else { return Ok(data_dir) };
    let mounts = own.mounts.unwrap_or_default().into_iter();
    let mounts: Vec<(PathBuf, PathBuf)> =
        mounts.filter_map(|mount| Some((mount.destination?.into(), mount.source?.into()))).collect();
    translate(&data_dir, &mounts).ok_or_else(|| {
        RuntimeError::Folder(format!(
            "{} is inside the daemon's own container, where no worker can reach it: mount a volume there",
            data_dir.display()
        ))
    })
}

/// Returns the id of the container that this process runs in: engines mount files of the container's own folder, `/etc/hostname` for one.
fn container_id(mounts: &str) -> Option<String> {
    let roots = mounts.lines().filter_map(|line| line.split(' ').nth(3));
    // The first is Docker's, the second Podman's.
    let ids = roots.flat_map(|root| {
        ["/containers/", "/overlay-containers/"]
            .into_iter()
            .filter_map(|folder| root.split_once(folder)?.1.split('/').next())
    });
    ids.filter(|id| id.len() == ID_LENGTH && id.bytes().all(|byte| byte.is_ascii_hexdigit())).map(str::to_owned).next()
}

/// Returns the path behind the innermost of these mounts, each a path in the container and its source on the host.
fn translate(path: &Path, mounts: &[(PathBuf, PathBuf)]) -> Option<PathBuf> {
    let around = mounts.iter().filter(|(inside, _)| path.starts_with(inside));
    let (inside, source) = around.max_by_key(|(inside, _)| inside.components().count())?;
    Some(source.join(path.strip_prefix(inside).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_mounts_name_the_container() {
        let id = "4f".repeat(32);
        let mounts = format!(
            "612 580 0:51 / / rw - overlay overlay rw\n\
             640 612 254:0 /var/lib/docker/containers/{id}/resolv.conf /etc/resolv.conf rw - ext4 /dev/vda rw\n"
        );
        assert_eq!(container_id(&mounts), Some(id.clone()));
        let podman =
            format!("640 612 0:24 /containers/storage/overlay-containers/{id}/userdata/hostname /etc/hostname rw\n");
        assert_eq!(container_id(&podman), Some(id));
        assert_eq!(container_id("22 1 254:0 / / rw - ext4 /dev/vda rw\n"), None);
        assert_eq!(container_id("22 1 254:0 /var/lib/docker/containers/short/hostname /etc/hostname rw\n"), None);
    }

    #[test]
    fn a_path_is_found_behind_the_innermost_mount() {
        let mounts = [("/", "/overlay"), ("/var/lib/warmpool", "/volumes/pool/_data"), ("/var", "/elsewhere")]
            .map(|(inside, source)| (inside.into(), source.into()));
        let found = |path: &str| translate(Path::new(path), &mounts).map(|path| path.display().to_string());
        assert_eq!(found("/var/lib/warmpool/data").as_deref(), Some("/volumes/pool/_data/data"));
        assert_eq!(found("/var/lib/warmpool-other").as_deref(), Some("/elsewhere/lib/warmpool-other"));
        assert_eq!(translate(Path::new("/data"), &mounts[1..]), None);
    }
}
