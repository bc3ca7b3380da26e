//! What the README and the guides show: examples are the files they name, commands run, settings hold, links lead
//! somewhere.
//!
//! The comment right above a fenced block says how the block is checked:
//!
//! - `file: PATH`: the block is that file;
//! - `part of: PATH`: the lines of the block stand together in that file;
//! - `run`: the commands run. Those of one page share a shell, as they would share a reader's;
//! - `run bare`: the commands run on a Debian to which only the scripts have added something;
//! - `run on: PLACE`: the group `swarm` runs it, on a machine of a swarm, or takes it for a file;
//! - `settings`: the daemon takes the block as its configuration file;
//! - `not run: REASON`: nobody runs it, for a reason.

mod fence;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use tokio::process::Command;
use warmpool_tests::{Daemon, Docker, Group, Settings, Stage, daemon, group, programs};

use self::fence::tests_of_the_fence_are_there;

/// The folder of the guides.
const GUIDES: &str = "orchestrator/docs";

/// Pages outside that folder, of which the same is asked.
const OTHER_PAGES: [&str; 2] = ["README.md", "CONTRIBUTING.md"];

/// Pages of which only the links are checked.
const LINKING_PAGES: [&str; 3] = ["ARCHITECTURE.md", "CHANGELOG.md", "examples/tasks/README.md"];

/// Languages whose blocks a reader would run, or load into the daemon.
const LANGUAGES: [&str; 6] = ["sh", "js", "ts", "python", "rust", "toml"];

/// The commands of a page that take longer have hung.
const PAGE_LIMIT: Duration = Duration::from_secs(100);

/// A Debian with what the scripts bring for the examples.
const BARE: &str = "warmpool-readme-test/bare:latest";

/// Where Debian has the certificates of authorities.
const AUTHORITIES: &str = "/etc/ssl/certs/ca-certificates.crt";

/// Separates the output of two blocks of a page.
const NEXT_BLOCK: &str = "--- next block ---";

pub(crate) fn group() -> Group {
    group!(Some(Settings::new().set("PAGES_FUNCTIONS", "true")),
        quick: [
            blocks_are_marked,
            examples_are_the_files,
            links_lead_somewhere,
            guides_are_in_the_index,
            tests_of_the_fence_are_there,
            settings_hold,
        ],
        full: [commands_run, examples_run_on_a_bare_debian],
    )
}

/// How a fenced block is checked.
#[derive(PartialEq, Eq)]
pub(crate) enum BlockCheck {
    File(String),
    PartOf(String),
    Run,
    RunBare,
    RunOn(String),
    Settings,
    NotRun,
    None,
}

impl BlockCheck {
    /// Reads the line above a block.
    fn read(line: &str) -> Self {
        let comment = line.trim().strip_prefix("<!-- ").and_then(|mark| mark.strip_suffix(" -->")).unwrap_or_default();
        match comment.split_once(": ").unwrap_or((comment, "")) {
            ("file", path) => Self::File(path.to_owned()),
            ("part of", path) => Self::PartOf(path.to_owned()),
            ("run", "") => Self::Run,
            ("run bare", "") => Self::RunBare,
            ("run on", place) => Self::RunOn(place.to_owned()),
            ("settings", "") => Self::Settings,
            ("not run", reason) if !reason.is_empty() => Self::NotRun,
            _ => Self::None,
        }
    }
}

/// A fenced block.
pub(crate) struct Block {
    pub(crate) mark: BlockCheck,
    language: String,
    pub(crate) text: String,
}

/// A page of Markdown.
pub(crate) struct Page {
    path: String,
    pub(crate) blocks: Vec<Block>,
    /// All that is not in a fenced block.
    prose: String,
}

impl Page {
    pub(crate) fn read(path: &str) -> Result<Self> {
        Self::read_in(&root(), path)
    }

    fn read_in(root: &Path, path: &str) -> Result<Self> {
        let text = std::fs::read_to_string(root.join(path)).with_context(|| path.to_owned())?;
        let (mut blocks, mut prose) = (Vec::new(), String::new());
        let mut lines = text.lines();
        let mut above = "";
        while let Some(line) = lines.next() {
            if let Some(language) = line.trim_start().strip_prefix("```") {
                let indent = line.len() - line.trim_start().len();
                let body: Vec<&str> = lines
                    .by_ref()
                    .take_while(|line| !line.trim_start().starts_with("```"))
                    .map(|line| line.get(indent..).unwrap_or_default())
                    .collect();
                blocks.push(Block {
                    mark: BlockCheck::read(above),
                    language: language.trim().to_owned(),
                    text: body.join("\n"),
                });
            } else {
                prose.push_str(line);
                prose.push('\n');
            }
            above = line;
        }
        Ok(Self { path: path.to_owned(), blocks, prose })
    }

    /// The blocks that run, as one script.
    fn script(&self) -> Option<String> {
        let run: Vec<&str> =
            self.blocks.iter().filter(|block| block.mark == BlockCheck::Run).map(|block| block.text.as_str()).collect();
        let between = format!("\necho '{NEXT_BLOCK}'\n");
        (!run.is_empty()).then(|| run.join(&between))
    }

    /// Where its links lead, as they are written.
    fn links(&self) -> impl Iterator<Item = &str> {
        let targets = self.prose.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
        targets.map(|(target, _)| target).filter(|target| !target.contains("://"))
    }

    /// The names by which links reach its headings, as GitHub makes them.
    fn anchors(&self) -> BTreeSet<String> {
        let headings = self.prose.lines().filter(|line| line.starts_with('#'));
        headings
            .map(|line| {
                let kept = |letter: &char| letter.is_alphanumeric() || matches!(letter, ' ' | '-' | '_');
                line.trim_start_matches('#').trim().to_lowercase().chars().filter(kept).collect::<String>()
            })
            .map(|heading| heading.replace(' ', "-"))
            .collect()
    }
}

fn root() -> PathBuf {
    programs::examples().join("..")
}

/// The guides by their path, in order.
fn guides() -> Result<Vec<String>> {
    let mut found = BTreeSet::new();
    for entry in std::fs::read_dir(root().join(GUIDES)).context(GUIDES)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if name.ends_with(".md") {
            found.insert(format!("{GUIDES}/{name}"));
        }
    }
    ensure!(found.len() > 1, "there are no guides in {GUIDES}");
    Ok(found.into_iter().collect())
}

/// Every page whose blocks are checked.
fn pages() -> Result<Vec<Page>> {
    let paths = OTHER_PAGES.iter().map(|path| (*path).to_owned()).chain(guides()?);
    paths.map(|path| Page::read(&path)).collect()
}

/// A block that nothing checks says so, and why.
async fn blocks_are_marked(_: Stage) -> Result<()> {
    for page in pages()? {
        for block in &page.blocks {
            let (path, text) = (&page.path, &block.text);
            match &block.mark {
                BlockCheck::Run => ensure!(block.language == "sh", "{path} runs a block that is no shell: {text}"),
                BlockCheck::RunBare => ensure!(path == "README.md", "{path} has a block for a bare machine: {text}"),
                BlockCheck::Settings => {
                    ensure!(block.language == "toml", "{path} loads a block that is no TOML: {text}")
                }
                BlockCheck::None => {
                    let is_code = LANGUAGES.contains(&block.language.as_str());
                    ensure!(!is_code, "{path}: a comment above this block must say how it is checked:\n{text}");
                }
                BlockCheck::RunOn(_) => {
                    ensure!(path.ends_with("/swarm.md"), "{path} has a block for a swarm, which nobody runs: {text}")
                }
                BlockCheck::File(_) | BlockCheck::PartOf(_) | BlockCheck::NotRun => {}
            }
        }
    }
    Ok(())
}

async fn examples_are_the_files(_: Stage) -> Result<()> {
    let (mut whole, mut parts) = (0, 0);
    for page in pages()? {
        for block in &page.blocks {
            let (BlockCheck::File(name) | BlockCheck::PartOf(name)) = &block.mark else { continue };
            let file = std::fs::read_to_string(root().join(name)).with_context(|| name.clone())?;
            if matches!(block.mark, BlockCheck::File(_)) {
                ensure!(file.trim_end() == block.text, "{} shows another {name} than the file", page.path);
                whole += 1;
            } else {
                let stands = format!("\n{file}").contains(&format!("\n{}\n", block.text));
                ensure!(stands && !block.text.is_empty(), "{} shows lines that {name} does not have", page.path);
                parts += 1;
            }
        }
    }
    ensure!(whole > 1 && parts > 0, "{whole} examples and parts of {parts} are shown");
    Ok(())
}

async fn links_lead_somewhere(_: Stage) -> Result<()> {
    let mut paths: Vec<String> = pages()?.into_iter().map(|page| page.path).collect();
    paths.extend(LINKING_PAGES.map(str::to_owned));
    follow_links(&root(), &paths)
}

/// Follows the links of pages below a folder.
pub(crate) fn follow_links(root: &Path, paths: &[String]) -> Result<()> {
    let pages = paths.iter().map(|path| Page::read_in(root, path)).collect::<Result<Vec<_>>>()?;
    let mut anchors = BTreeMap::new();
    for page in &pages {
        anchors.insert(root.join(&page.path).canonicalize()?, page.anchors());
    }
    let mut followed = 0;
    for page in &pages {
        let own = root.join(&page.path);
        for link in page.links() {
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = if file.is_empty() { own.clone() } else { own.with_file_name(file) };
            let Ok(target) = target.canonicalize() else { bail!("{} links to {link}, which is not there", page.path) };
            if !anchor.is_empty() {
                let known = anchors.get(&target).with_context(|| format!("{}: {link} has no headings", page.path))?;
                ensure!(known.contains(anchor), "{} links to {link}, which has no such heading: {known:?}", page.path);
            }
            followed += 1;
        }
    }
    ensure!(followed > 10, "only {followed} links were found");
    Ok(())
}

/// Nobody finds a guide that the index does not name, and the README is read to its end only while it is short.
async fn guides_are_in_the_index(_: Stage) -> Result<()> {
    let readme = std::fs::read_to_string(root().join("README.md"))?;
    ensure!(readme.lines().count() <= 150, "the README is too long: move a part of it into a guide");
    let index = Page::read(&format!("{GUIDES}/README.md"))?;
    for guide in guides()? {
        let name = guide.rsplit('/').next().unwrap_or_default();
        ensure!(name == "README.md" || index.links().any(|link| link == name), "the index does not link to {name}");
    }
    Ok(())
}

async fn settings_hold(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("warmpool.toml");
    let mut held = 0;
    for page in pages()? {
        for block in page.blocks.iter().filter(|block| block.mark == BlockCheck::Settings) {
            std::fs::write(&file, &block.text)?;
            let arguments = ["serve", "--print-config", "--config", file.to_str().context("a path")?];
            daemon.cli_ok(&arguments).await.with_context(|| format!("{}: {}", page.path, block.text))?;
            held += 1;
        }
    }
    ensure!(held > 0, "no settings are shown");
    Ok(())
}

async fn commands_run(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let mut run = 0;
    for page in pages()? {
        let Some(script) = page.script() else { continue };
        run_script(daemon, &script).await.with_context(|| page.path.clone())?;
        // The commands leave sessions behind, as a reader would. The next page needs their places.
        daemon.end_all().await?;
        run += 1;
    }
    ensure!(run > 4, "only {run} pages have commands");
    Ok(())
}

/// Runs a page's commands in a folder of their own, with what a reader's shell has.
async fn run_script(daemon: &Daemon, script: &str) -> Result<()> {
    let binary = std::path::absolute(daemon::binary())?;
    let path = format!("{}:{}", binary.parent().context("the binary's folder")?.display(), std::env::var("PATH")?);
    let folder = tempfile::tempdir()?;
    // A reader's shell stands in the source.
    std::os::unix::fs::symlink(programs::examples(), folder.path().join("examples"))?;
    let mut command = Command::new("bash");
    command.args(["-euo", "pipefail", "-c", script]).current_dir(folder.path()).env("PATH", &path);
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("WARMPOOL_")) {
        command.env_remove(name);
    }
    command
        .env("WARMPOOL_URL", daemon.url())
        .env("WARMPOOL_SECRET_KEY", daemon.key())
        .env("WARMPOOL_STORE_DATA_DIR", daemon.data_dir())
        .stdin(Stdio::null())
        .kill_on_drop(true);
    let output = tokio::time::timeout(PAGE_LIMIT, command.output()).await.context("the commands hung")??;
    let said = String::from_utf8_lossy(&output.stdout);
    let problem = String::from_utf8_lossy(&output.stderr);
    // The block that failed is the last one that said anything.
    let last = said.rsplit(NEXT_BLOCK).next().unwrap_or_default();
    let failed = script.split(NEXT_BLOCK).nth(said.matches(NEXT_BLOCK).count()).unwrap_or(script);
    ensure!(output.status.success(), "{failed}\n{last}{problem}");
    ensure!(!said.contains("\"error\""), "{script}\n{said}");
    Ok(())
}

/// The examples of the README, with what the scripts bring to a Debian that has nothing: neither Node nor Python.
async fn examples_run_on_a_bare_debian(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let page = Page::read("README.md")?;
    let bare = page.blocks.iter().find(|block| block.mark == BlockCheck::RunBare).context("the block of the README")?;
    let site = format!("{}/", stage.site_for(daemon).await?);
    // A page of the tests' own, and not the public one.
    let script =
        bare.text.replace(".mjs", &format!(".mjs {site}")).replace("_example.py", &format!("_example.py {site}"));

    let folder = tempfile::tempdir()?;
    let copy = |from: &str, to: &str| -> Result<()> {
        let target = folder.path().join(to);
        std::fs::create_dir_all(target.parent().context("a folder")?)?;
        std::fs::copy(root().join(from), target).with_context(|| from.to_owned()).map(drop)
    };
    copy("scripts/lib.sh", "scripts/lib.sh")?;
    copy("scripts/hosts.sh", "scripts/hosts.sh")?;
    copy("Cargo.toml", "Cargo.toml")?;
    for entry in std::fs::read_dir(programs::examples())?.flatten().filter(|entry| entry.path().is_file()) {
        let name = entry.file_name().to_string_lossy().into_owned();
        copy(&format!("examples/{name}"), &format!("examples/{name}"))?;
    }
    // The mirrors of this machine may have certificates of an authority of its own.
    std::fs::copy(AUTHORITIES, folder.path().join("authorities.crt")).context(AUTHORITIES)?;
    let output = Command::new(root().join("scripts/base")).stdin(Stdio::null()).output().await?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let base = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    std::fs::write(
        folder.path().join("Dockerfile"),
        format!(
            "FROM {base}\nCOPY authorities.crt {AUTHORITIES}\n\
             ENV NODE_EXTRA_CA_CERTS={AUTHORITIES} PIP_CERT={AUTHORITIES}\n\
             WORKDIR /tree\nCOPY scripts scripts\nCOPY Cargo.toml .\n\
             RUN bash -c '. scripts/lib.sh && ensure_node && ensure_python'\nCOPY examples examples\n"
        ),
    )?;
    let docker = Docker::default();
    let mut build = docker.command(&["build", "--network", "host", "--tag", BARE]);
    for name in ["http_proxy", "https_proxy", "no_proxy"] {
        if let Ok(value) = std::env::var(name) {
            build.arg("--build-arg").arg(format!("{name}={value}"));
        }
    }
    let built = build.env("DOCKER_BUILDKIT", "0").arg(folder.path()).stdin(Stdio::null()).output().await?;
    let said = String::from_utf8_lossy(&built.stdout).into_owned() + &String::from_utf8_lossy(&built.stderr);
    ensure!(built.status.success(), "{said}");

    let (url, key) = (format!("WARMPOOL_URL={}", daemon.url()), format!("WARMPOOL_SECRET_KEY={}", daemon.key()));
    // As the README's own line has it, before.
    let script = format!("set -e; PATH=$PWD/.warmpool/bin:$PATH; {script}");
    let arguments = ["run", "--rm", "--network", "host", "--env", &url, "--env", &key, BARE, "bash", "-ec", &script];
    let said = docker.run(&arguments).await?;
    ensure!(said.matches("title: Test site").count() == 3, "{said}");
    Ok(())
}
