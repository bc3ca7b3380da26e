//! A registry of images, as Debian packs it, without TLS. What is pushed stays under `target/`: an engine does not compress and
//! push layers again that it has pushed to the registry of an earlier run.

use std::fs;
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use tempfile::TempDir;

use crate::docker::Docker;
use crate::{eventually, suite};

const PROGRAM: &str = "docker-registry";

/// Who may use a registry that asks for a password.
pub const USER: &str = "pool";
/// The password, with letters that the two alphabets of base64 write differently.
pub const PASSWORD: &str = "word~of?the>pool";
/// Both as a line of `htpasswd -B`.
const USERS: &str = "pool:$2b$04$KTvLh6Dy4Q6TE64HAEoqg.2/Q1syqrZnBIes4nCeeHNvzpUXKefWi\n";

/// The file that says which image was pushed.
const ID: &str = "id";

/// A registry that runs until it is dropped.
pub struct Registry {
    process: Child,
    port: u16,
    _folder: TempDir,
}

impl Registry {
    /// Starts one on all addresses of this machine that asks for the password. It has what was pushed of this image before, as long
    /// as that is what this machine's engine has.
    pub async fn start(image: &str) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let root = suite::target_dir().join("e2e-registry");
        let id = Docker::default().run(&["image", "inspect", "--format", "{{.Id}}", image]).await?;
        if fs::read_to_string(root.join(ID)).is_ok_and(|pushed| pushed != id) {
            fs::remove_dir_all(&root)?;
        }
        fs::create_dir_all(&root)?;
        fs::write(root.join(ID), id)?;
        // It takes no port 0.
        let port = TcpListener::bind("0.0.0.0:0")?.local_addr()?.port();
        let config = folder.path().join("config.yml");
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
