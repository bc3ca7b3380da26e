//! `warmpool man`: manual pages, made of the same tables as the help.

use std::path::Path;

use clap::Command;
use clap_mangen::Man;

use warmpool_client::exit::Exit;
use warmpool_client::{ClientError, write_bytes};

/// Prints the page of the program, or of the command that `path` leads to.
pub(super) fn print(program: Command, path: &[String]) -> anyhow::Result<Exit> {
    let command = path.iter().try_fold(program, |command, name| {
        let found = command.find_subcommand(name).cloned();
        let title = format!("{}-{name}", command.get_name());
        let unknown = || ClientError::Usage(format!("there is no command `{}`", path.join(" ")));
        found.map(|found| found.name(title)).ok_or_else(unknown)
    })?;
    let mut page = Vec::new();
    Man::new(command).render(&mut page)?;
    write_bytes(&page)?;
    Ok(Exit::Success)
}

/// Writes the pages of all commands into a folder.
pub(super) fn write_all(program: Command, folder: &Path) -> anyhow::Result<Exit> {
    let unwritten = |error| ClientError::Usage(format!("cannot write manual pages into {}: {error}", folder.display()));
    std::fs::create_dir_all(folder).map_err(unwritten)?;
    clap_mangen::generate_to(program, folder).map_err(unwritten)?;
    Ok(Exit::Success)
}
