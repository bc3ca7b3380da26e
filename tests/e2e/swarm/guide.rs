//! The blocks of the guide `orchestrator/docs/swarm.md`, run on the machines of the test's swarm in the page's order.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use tokio::process::Command;
use warmpool_tests::swarm::FENCE;
use warmpool_tests::{Docker, Swarm};

use super::stack::root;
use crate::readme::{BlockCheck, Page};

const GUIDE: &str = "orchestrator/docs/swarm.md";
/// Names of places in the page.
const FIRST: &str = "the first machine";
const OTHERS: &str = "each other machine";
const SETTINGS: &str = "own.yml";
/// The engine's socket on a machine of its own.
const SOCKET: &str = "/var/run/docker.sock";
/// What the test adds to the operator's settings, in a file beside theirs.
pub(crate) const TEST_SETTINGS: &str = "test.yml";

/// A reader of the guide, who has a folder with the repository's files and a shell on each machine.
pub(crate) struct Reader<'a> {
    swarm: &'a Swarm,
    folder: &'a Path,
    /// The stack's daemon image.
    image: String,
    blocks: std::vec::IntoIter<(String, String)>,
    deploy: Option<String>,
}

impl<'a> Reader<'a> {
    /// Opens the guide.
    pub(crate) fn new(swarm: &'a Swarm, folder: &'a Path, image: String) -> Result<Self> {
        let page = Page::read(GUIDE)?;
        ensure!(page.blocks.iter().any(|block| block.text == FENCE), "the guide shows the fence that nodes have here");
        let run = page.blocks.into_iter().filter_map(|block| match block.mark {
            BlockCheck::RunOn(place) => Some((place, block.text)),
            _ => None,
        });
        let blocks: Vec<_> = run.collect();
        std::os::unix::fs::symlink(root().join("deploy"), folder.join("deploy"))?;
        Ok(Self { swarm, folder, image, blocks: blocks.into_iter(), deploy: None })
    }

    /// Does what the page says, up to and with the step that has these words; gives what the last command printed.
    pub(crate) async fn follow(&mut self, words: &str) -> Result<String> {
        let mut token = String::new();
        loop {
            let (place, text) = self.blocks.next().with_context(|| format!("a step with `{words}`"))?;
            let printed = match place.as_str() {
                SETTINGS => {
                    std::fs::write(self.folder.join(SETTINGS), &text)?;
                    String::new()
                }
                FIRST => {
                    let printed = self.run(self.swarm.manager(), &text, "").await?;
                    if text.contains("join-token") {
                        token = printed.lines().last().unwrap_or_default().to_owned();
                    }
                    if text.contains("stack deploy") {
                        self.deploy = Some(text.clone());
                    }
                    printed
                }
                OTHERS => {
                    for node in &self.swarm.engines()[1..] {
                        self.run(node, &text, &token).await?;
                    }
                    String::new()
                }
                place => anyhow::bail!("{GUIDE} has a block for `{place}`"),
            };
            if text.contains(words) {
                return Ok(printed);
            }
        }
    }

    /// Deploys again, with another image.
    pub(crate) async fn deploy_again(&mut self, image: String) -> Result<()> {
        self.image = image;
        let text = self.deploy.clone().context("the step that deploys")?;
        self.run(self.swarm.manager(), &text, "").await.map(drop)
    }

    /// Runs a block on a machine.
    async fn run(&self, node: &Docker, text: &str, token: &str) -> Result<String> {
        let host = node.host().context("an engine")?;
        let socket = host.strip_prefix("unix://").context("a socket")?;
        // The kernel of a test machine need not have what encryption takes.
        let text = text.replace(" --opt encrypted", "").replace(SOCKET, socket);
        let both = format!("--compose-file {SETTINGS} --compose-file {TEST_SETTINGS}");
        let text = text.replace(&format!("--compose-file {SETTINGS}"), &both);
        let mut shell = Command::new("bash");
        shell.args(["-euo", "pipefail", "-c", &text]).current_dir(self.folder).kill_on_drop(true);
        shell.env("DOCKER_HOST", host).env("FIRST", self.swarm.manager_address()).env("TOKEN", token);
        let output = shell.env("WARMPOOL_IMAGE", &self.image).env("DOCKER_SOCKET", socket).output().await?;
        let problem = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{text}\n{problem}");
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }
}
