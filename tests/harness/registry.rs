//! A registry of images, as Debian packs it, without TLS.

use std::fs;
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use tempfile::TempDir;

use crate::{eventually, suite};

const PROGRAM: &str = "docker-registry";

/// Who may use a registry that asks for a password.
pub const USER: &str = "pool";
/// The password, with letters that the two alphabets of base64 write differently.
pub const PASSWORD: &str = "word~of?the>pool";
/// Both as a line of `htpasswd -B`.
const USERS: &str = "pool:$2b$04$KTvLh6Dy4Q6TE64HAEoqg.2/Q1syqrZnBIes4nCeeHNvzpUXKefWi\n";

/// A registry that runs until it is dropped, and whose images go with it.
pub struct Registry {
    process: Child,
    port: u16,
    _folder: TempDir,
}

impl Registry {
    /// Starts one on all addresses of this machine that asks for the password.
    pub async fn start() -> Result<Self> {
        let folder = tempfile::tempdir()?;
        // It takes no port 0.
        let port = TcpListener::bind("0.0.0.0:0")?.local_addr()?.port();
        let config = folder.path().join("config.yml");
        let root = folder.path().join("images");
        let users = folder.path().join("users");
        fs::write(&users, USERS)?;
        let text = format!(
            "version: 0.1\nstorage: {{filesystem: {{rootdirectory: {}}}}}\nhttp: {{addr: '0.0.0.0:{port}'}}\n\
             auth: {{htpasswd: {{realm: test, path: {}}}}}\n",
            root.display(),
            users.display()
        );
        fs::write(&config, text)?;
        let log = fs::File::create(suite::new_log("registry")?)?;
        let mut command = Command::new(PROGRAM);
        command.arg("serve").arg(&config).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let process = command.spawn().with_context(|| format!("{PROGRAM}, which scripts/test installs"))?;
        let registry = Self { process, port, _folder: folder };
        eventually!("the registry listens", 20, tokio::net::TcpStream::connect(("127.0.0.1", port)).await.is_ok())?;
        Ok(registry)
    }

    /// What `docker login` would keep, in a folder for `DOCKER_CONFIG`.
    pub fn logged_in(&self) -> Result<TempDir> {
        let folder = tempfile::tempdir()?;
        let auth = STANDARD.encode(format!("{USER}:{PASSWORD}"));
        let config = serde_json::json!({ "auths": { format!("127.0.0.1:{}", self.port): { "auth": auth } } });
        fs::write(folder.path().join("config.json"), config.to_string())?;
        Ok(folder)
    }

    /// The port that it listens on.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.port
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
