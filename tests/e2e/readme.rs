//! What the README shows: its examples are the files they name, its commands run.

use std::path::PathBuf;
use std::process::Stdio;

use anyhow::{Context, Result, ensure};
use tokio::process::Command;
use warmpool_tests::{Group, Settings, Stage, daemon, group, programs};

pub(crate) fn group() -> Group {
    group!("readme", Some(Settings::new()),
        quick: [examples_are_the_files, commands_run],
        full: [],
    )
}

/// A fenced block and the comment right above it.
struct Block {
    mark: String,
    text: String,
}

fn blocks() -> Result<Vec<Block>> {
    let root: PathBuf = programs::examples().join("..");
    let readme = std::fs::read_to_string(root.join("README.md"))?;
    let mut blocks = Vec::new();
    let mut lines = readme.lines();
    let mut above = "";
    while let Some(line) = lines.next() {
        if line.starts_with("```") {
            let text: Vec<&str> = lines.by_ref().take_while(|line| !line.starts_with("```")).collect();
            let mark = above.strip_prefix("<!-- ").and_then(|mark| mark.strip_suffix(" -->")).unwrap_or_default();
            blocks.push(Block { mark: mark.to_owned(), text: text.join("\n") });
        }
        above = line;
    }
    Ok(blocks)
}

async fn examples_are_the_files(_: Stage) -> Result<()> {
    let mut shown = 0;
    for block in blocks()? {
        if let Some(name) = block.mark.strip_prefix("file: ") {
            let file = std::fs::read_to_string(programs::examples().join("..").join(name)).context(name.to_owned())?;
            ensure!(file.trim_end() == block.text, "README.md shows another {name} than the file");
            shown += 1;
        }
    }
    ensure!(shown > 0, "README.md shows no example");
    Ok(())
}

async fn commands_run(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let binary = daemon::binary();
    let folder = binary.parent().context("the binary's folder")?;
    let path = format!("{}:{}", folder.display(), std::env::var("PATH")?);
    let mut run = 0;
    for block in blocks()?.into_iter().filter(|block| block.mark == "run") {
        let output = Command::new("bash")
            .args(["-euo", "pipefail", "-c", &block.text])
            .env("PATH", &path)
            .env("WARMPOOL_URL", daemon.url())
            .env("WARMPOOL_SECRET_KEY", daemon.key())
            .env("WARMPOOL_STORE_DATA_DIR", daemon.data_dir())
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .output()
            .await?;
        let said = String::from_utf8_lossy(&output.stdout);
        let problem = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{}\n{said}{problem}", block.text);
        ensure!(!said.contains("\"error\""), "{}\n{said}", block.text);
        run += 1;
    }
    ensure!(run > 1, "README.md has no commands");
    // The commands leave a session behind, as a reader would.
    let listed = daemon.api().get("/sessions?status=running").await?.ok()?;
    for session in listed["sessions"].as_array().context("sessions")? {
        let id = session["session_id"].as_str().context("session_id")?;
        daemon.api().delete(&format!("/sessions/{id}")).await?.ok()?;
    }
    Ok(())
}
