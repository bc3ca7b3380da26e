//! Images for engines of the tests' own: loaded once, and linked into each engine's data from then on, which costs neither time
//! nor disk. They stay under `target/`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::docker::Docker;

/// Where an engine keeps an image.
const FOLDERS: [&str; 2] = ["image", "overlay2"];
/// The file that says which images these are.
const IDS: &str = "ids";

/// A folder with images as an engine keeps them.
pub(crate) struct Seed {
    folder: PathBuf,
    ids: String,
}

impl Seed {
    /// The place of these images, as this machine's engine has them.
    pub(crate) async fn of(images: &[&str], parent: &Path) -> Result<Self> {
        let id = ["image", "inspect", "--format", "{{.Id}}"];
        let ids = Docker::default().run(&[&id, images].concat()).await;
        let ids = ids.context("a worker image is not built: scripts/images")?;
        let name: String = images.join("+").chars().map(|c| if c.is_alphanumeric() { c } else { '-' }).collect();
        Ok(Self { folder: parent.join(format!("seed-{name}")), ids })
    }

    /// Links the images into an engine's data that does not run yet; whether they are there to be linked.
    pub(crate) fn plant(&self, data: &Path) -> Result<bool> {
        let there = fs::read_to_string(self.folder.join(IDS)).is_ok_and(|ids| ids == self.ids);
        if there {
            link(&self.folder, data)?;
        }
        Ok(there)
    }

    /// Keeps what an engine has that loaded the images.
    pub(crate) fn keep(&self, data: &Path) -> Result<()> {
        let parent = self.folder.parent().context("a folder")?;
        let new = tempfile::Builder::new().prefix("new-seed-").tempdir_in(parent)?;
        link(data, new.path())?;
        fs::write(new.path().join(IDS), &self.ids)?;
        let _ = fs::remove_dir_all(&self.folder);
        // Another run may have been quicker.
        let _ = fs::rename(new.path(), &self.folder);
        Ok(())
    }
}

/// Links an engine's images into another's data. Nobody writes into a layer, so that engines can share its files.
pub(crate) fn link(from: &Path, to: &Path) -> Result<()> {
    for part in FOLDERS {
        let mut copy = Command::new("cp");
        copy.args(["--archive", "--link"]).arg(from.join(part)).arg(to);
        ensure!(copy.status().context("cp")?.success(), "an image cannot be linked");
    }
    Ok(())
}
