//! A Kubernetes cluster of the test's own, by `scripts/kubernetes`: a control plane and two nodes on this machine, each in
//! namespaces of its own, so that a node's cable can be pulled and its power can fail.
//!
//! Several runs on one machine may have a cluster each. Lost nodes are known within seconds.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use tempfile::TempDir;
use tokio::process::Command;

use crate::docker::Docker;
use crate::{evidence, suite};

/// What the script exits with where this machine cannot have a cluster.
const SKIPPED: i32 = 77;

/// Within this time a node that is lost is not ready, and its Pods are evicted: what the script calls short.
pub const EVICTED_WITHIN: Duration = Duration::from_secs(30);

/// The seccomp profile that each node has for workers, as a Pod names it: `localhostProfile`.
pub const SECCOMP_PROFILE: &str = "warmpool.json";

/// The cluster. Dropping it ends its nodes and removes what they had.
pub struct Kubernetes {
    folder: TempDir,
    nodes: usize,
}

impl Kubernetes {
    /// Two nodes that have these images, as this machine's engine has them. Where the machine cannot have a cluster: `None`,
    /// and a line in the log.
    pub async fn start(images: &[&str]) -> Result<Option<Self>> {
        Self::start_nodes(images, 2).await
    }

    /// The same with this many nodes, nine at most.
    pub async fn start_nodes(images: &[&str], nodes: usize) -> Result<Option<Self>> {
        let parent = suite::target_dir().join("e2e-kubernetes");
        std::fs::create_dir_all(&parent)?;
        let folder = tempfile::Builder::new().prefix("cluster-").tempdir_in(&parent)?;
        let cluster = Self { folder, nodes };
        let count = nodes.to_string();
        let mut arguments = vec!["up", "--short", "--prune", "--nodes", &count];
        arguments.extend(images.iter().flat_map(|image| ["--image", image]));
        let output = cluster.script(&arguments).output().await.context("scripts/kubernetes")?;
        let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        match output.status.code() {
            Some(0) => Ok(Some(cluster)),
            Some(SKIPPED) => {
                evidence::cannot(format!("there is no cluster: {}", said.trim()));
                Ok(None)
            }
            _ => bail!("scripts/kubernetes up: {}\n{said}", output.status),
        }
    }

    /// What an administrator connects with.
    #[must_use]
    pub fn kubeconfig(&self) -> PathBuf {
        self.folder.path().join("kubeconfig")
    }

    /// The nodes' names.
    #[must_use]
    pub fn nodes(&self) -> Vec<String> {
        (1..=self.nodes).map(name).collect()
    }

    /// The address of this machine at which Pods reach what listens here.
    pub fn outside_address(&self) -> Result<String> {
        let number = std::fs::read_to_string(self.folder.path().join("number"))?;
        Ok(format!("10.{}.254.1", 220 + number.trim().parse::<u8>()?))
    }

    /// A `kubectl` command of the administrator, not started yet.
    #[must_use]
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(self.folder.path().join("bin/kubectl"));
        command
            .arg("--kubeconfig")
            .arg(self.kubeconfig())
            .arg("--cache-dir")
            .arg(self.folder.path().join("etc/kubectl"));
        command.args(arguments).stdin(Stdio::null()).kill_on_drop(true);
        command
    }

    /// Runs `kubectl` as the administrator and returns its standard output.
    pub async fn kubectl(&self, arguments: &[&str]) -> Result<String> {
        let output = self.command(arguments).output().await.context("kubectl")?;
        let problem = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "kubectl {}: {problem}", arguments.join(" "));
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }

    /// Where a node's own folders lie: `lib` is its `/var/lib`, `run` and `log` are what their names say.
    pub fn folder_of(&self, node: &str) -> Result<PathBuf> {
        Ok(self.folder.path().join(format!("nodes/{}", number(node)?)))
    }

    /// The container engine of a node that has not lost its power: what really runs there, whatever the apiserver says.
    pub fn engine(&self, node: &str) -> Result<Docker> {
        let socket = self.folder_of(node)?.join("run/docker.sock");
        // The path is short, whatever the target directory's is: the kernel allows 108 bytes.
        let short = self.link(node);
        if !short.is_symlink() {
            symlink(socket, &short)?;
        }
        Ok(Docker::at(format!("unix://{}", short.display())))
    }

    fn link(&self, node: &str) -> PathBuf {
        let folder = self.folder.path().file_name().unwrap_or_default().to_string_lossy();
        std::env::temp_dir().join(format!("{folder}-{node}.sock"))
    }

    /// Pulls a node's cable. What runs there runs on.
    pub async fn cut(&self, node: &str) -> Result<()> {
        self.node("cut", node).await
    }

    /// Puts it in again.
    pub async fn heal(&self, node: &str) -> Result<()> {
        self.node("heal", node).await
    }

    /// Ends a node's kubelet at once. Its containers run on.
    pub async fn stop(&self, node: &str) -> Result<()> {
        self.node("stop", node).await
    }

    /// Ends a node as if its power had failed: nothing there sends a farewell.
    pub async fn kill(&self, node: &str) -> Result<()> {
        self.node("kill", node).await
    }

    /// Starts what is not there of a node: its power, and its kubelet.
    pub async fn restart(&self, node: &str) -> Result<()> {
        self.node("start", node).await
    }

    /// Ends the apiserver at once.
    pub async fn stop_apiserver(&self) -> Result<()> {
        self.run(&["apiserver", "stop"]).await
    }

    /// Starts it, and waits until it is ready.
    pub async fn start_apiserver(&self) -> Result<()> {
        self.run(&["apiserver", "start"]).await
    }

    async fn node(&self, command: &str, node: &str) -> Result<()> {
        self.run(&["node", command, &number(node)?.to_string()]).await
    }

    async fn run(&self, arguments: &[&str]) -> Result<()> {
        let output = self.script(arguments).output().await.context("scripts/kubernetes")?;
        let problem = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "scripts/kubernetes {}: {problem}", arguments.join(" "));
        Ok(())
    }

    fn script(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(script());
        command.args(arguments).arg("--dir").arg(self.folder.path()).env("CARGO_TARGET_DIR", suite::target_dir());
        command.stdin(Stdio::null());
        command
    }
}

impl Drop for Kubernetes {
    fn drop(&mut self) {
        let mut down = std::process::Command::new(script());
        let _ = down.arg("down").arg("--dir").arg(self.folder.path()).stdout(Stdio::null()).status();
        for node in self.nodes() {
            let _ = std::fs::remove_file(self.link(&node));
        }
    }
}

fn script() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("scripts").join("kubernetes")
}

fn name(number: usize) -> String {
    format!("node-{number}")
}

fn number(node: &str) -> Result<usize> {
    node.strip_prefix("node-").and_then(|number| number.parse().ok()).with_context(|| format!("no node {node}"))
}
