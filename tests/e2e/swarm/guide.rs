//! The blocks of the guide `orchestrator/docs/swarm.md`, run on the machines of the test's swarm in the page's order.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use tokio::process::Command;
use warmpool_tests::swarm::{self, FENCE};
use warmpool_tests::{Docker, Swarm};

use super::stack::root;
use crate::readme::{BlockCheck, Page};

const GUIDE: &str = "orchestrator/docs/swarm.md";
/// Names of places in the page.
const FIRST: &str = "the first machine";
const OTHERS: &str = "each other machine";
const MANAGER: &str = "the daemon's machine";
const SETTINGS: &str = "own.yml";
/// The engine's socket on a machine of its own.
const SOCKET: &str = "/var/run/docker.sock";
/// The daemon's image.
const IMAGE: &str = "warmpool/daemon:latest";
/// What the test adds to the operator's settings, in a file beside theirs.
pub(crate) const TEST_SETTINGS: &str = "test.yml";

/// A reader of the guide, who has a folder with the repository's files and a shell on each machine.
pub(crate) struct Reader<'a> {
    folder: &'a Path,
    /// The stack's daemon image.
    image: String,
    blocks: std::vec::IntoIter<(String, String)>,
    deploy: Option<String>,
    token: String,
    /// Where the daemon is; at first nobody knows.
    pub(crate) manager: Option<Docker>,
}

impl<'a> Reader<'a> {
    /// Opens the guide.
    pub(crate) fn new(folder: &'a Path, image: String) -> Result<Self> {
        let page = Page::read(GUIDE)?;
        ensure!(page.blocks.iter().any(|block| block.text == FENCE), "the guide shows the fence that nodes have here");
        let run = page.blocks.into_iter().filter_map(|block| match block.mark {
            BlockCheck::RunOn(place) => Some((place, block.text)),
            _ => None,
        });
        let blocks: Vec<_> = run.collect();
        std::os::unix::fs::symlink(root().join("deploy"), folder.join("deploy"))?;
        Ok(Self { folder, image, blocks: blocks.into_iter(), deploy: None, token: String::new(), manager: None })
    }

    /// Does what the page says, up to and with the step that has these words; gives what the last command printed.
    pub(crate) async fn follow(&mut self, swarm: &Swarm, words: &str) -> Result<String> {
        let first = swarm.manager_address();
        loop {
            let (place, text) = self.blocks.next().with_context(|| format!("a step with `{words}`"))?;
            let printed = match place.as_str() {
                SETTINGS => {
                    std::fs::write(self.folder.join(SETTINGS), &text)?;
                    String::new()
                }
                FIRST => {
                    let printed = self.run(swarm.manager(), &text, &first, "").await?;
                    if text.contains("join-token") {
                        self.token = printed.lines().last().unwrap_or_default().to_owned();
                    }
                    if text.contains("stack deploy") {
                        self.deploy = Some(text.clone());
                    }
                    printed
                }
                OTHERS => {
                    for node in &swarm.engines()[1..] {
                        self.run(node, &text, &first, &self.token).await?;
                    }
                    String::new()
                }
                MANAGER => self.run(self.manager.as_ref().context("the daemon's machine")?, &text, &first, "").await?,
                place => anyhow::bail!("{GUIDE} has a block for `{place}`"),
            };
            if text.contains(words) {
                return Ok(printed);
            }
        }
    }

    /// Leaves the next step with these words out.
    pub(crate) fn skip(&mut self, words: &str) -> Result<()> {
        let found = self.blocks.find(|(_, text)| text.contains(words));
        found.map(drop).with_context(|| format!("a step with `{words}`"))
    }

    /// Deploys again, with another image.
    pub(crate) async fn deploy_again(&mut self, swarm: &Swarm, image: String) -> Result<()> {
        self.image = image;
        let first = swarm.manager_address();
        let text = self.deploy.clone().context("the step that deploys")?;
        self.run(swarm.manager(), &text, &first, "").await.map(drop)
    }

    /// Runs a block on a machine.
    async fn run(&self, node: &Docker, text: &str, first: &str, token: &str) -> Result<String> {
        let host = node.host().context("an engine")?;
        let socket = host.strip_prefix("unix://").context("a socket")?;
        let image = &self.image;
        // The kernel of a test machine need not have what encryption takes.
        let text = text.replace(" --opt encrypted", "").replace(SOCKET, socket).replace(IMAGE, image);
        let both = format!("--compose-file {SETTINGS} --compose-file {TEST_SETTINGS}");
        let text = text.replace(&format!("--compose-file {SETTINGS}"), &both);
        let mut shell = Command::new("bash");
        shell.args(["-euo", "pipefail", "-c", &text]).current_dir(self.folder).kill_on_drop(true);
        shell.env("DOCKER_HOST", host).env("FIRST", first).env("TOKEN", token);
        let output = shell.env("WARMPOOL_IMAGE", image).env("DOCKER_SOCKET", swarm::SOCKET).output().await?;
        let problem = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{text}\n{problem}");
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }
}
