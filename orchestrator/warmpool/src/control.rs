//! The operator's way to a running daemon: a socket in the data directory that only its owner may open.
//!
//! One request a connection, a line of JSON each way. The command line uses it where a daemon runs, and does the same
//! work on the store itself where none does.

mod lookup;
mod perform;

use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::time::timeout;

use warmpool_config::EgressRules;
use warmpool_core::accept;
use warmpool_core::browser::Engine;
use warmpool_core::drain::{Drain, Phase};
use warmpool_keys::{KeyRecord, KeyRole, Keys, NewKey};
use warmpool_sessions::video;
use warmpool_store::{Folder, Store};
use warmpool_tasks::task;
use warmpool_workers::pool::{NodeStatus, Pool};
use warmpool_worlds::{self, IntegrationKey, IntegrationKeys, IntegrationKind};

pub(crate) use perform::{OrderError, ask_daemon, check_daemon, perform, store_directory};

use lookup::{find_integration, find_key, find_revoked_key, integration_secret, owner_of};

/// The longest line, in bytes.
const LINE_LIMIT: u64 = 1 << 20;
/// Orders are short, so sending one takes no longer. Carrying one out may: a backup has as many files as there are.
const ORDER_TIMEOUT: Duration = Duration::from_secs(10);

/// The system takes no longer path for a socket, in bytes.
const SOCKET_PATH_LIMIT: usize = 108;

/// Why an order about a pool is not carried out.
const NO_DAEMON: &str = "no daemon runs";

/// The folders whose files a backup can hold.
pub(crate) const FOLDERS: [Folder; 3] = [task::FOLDER, warmpool_worlds::FOLDER, video::FOLDER];

/// What an operator may order.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "order", rename_all = "snake_case")]
pub(crate) enum ControlRequest {
    /// Make a key.
    CreateKey {
        /// What to call it.
        name: String,
        /// What its holder may do in the console.
        #[serde(default)]
        role: KeyRole,
        /// What pages of its sessions may reach.
        #[serde(default)]
        egress: EgressRules,
    },
    ListKeys,
    /// Give a key a new secret.
    RotateKey {
        /// Which, by id or name.
        id: String,
        /// How long the old secret still works, in seconds.
        keep_old_for: u64,
    },
    /// Give a key other rules for what pages may reach.
    SetKeyEgress {
        /// Which, by id or name.
        id: String,
        /// The rules.
        egress: EgressRules,
    },
    /// Make a key useless, and end what it opened.
    RevokeKey {
        /// Which, by id or name.
        id: String,
    },
    /// Forget a revoked key.
    RemoveKey {
        /// Which, by id or name.
        id: String,
    },
    /// Make an integration key.
    CreateIntegrationKey {
        /// What to call it.
        name: String,
        /// The service key that it belongs to, by id or name; the only active one where none is named.
        owner: Option<String>,
        /// What it is for.
        kind: IntegrationKind,
    },
    ListIntegrationKeys,
    /// Give an integration key a new secret.
    RotateIntegrationKey {
        /// Which, by id or name.
        id: String,
        /// How long the old secret still works, in seconds.
        keep_old_for: u64,
    },
    /// Make an integration key useless.
    RevokeIntegrationKey {
        /// Which, by id or name.
        id: String,
    },
    /// Notes how far the build of an engine's image is.
    ReportImage {
        engine: Engine,
        /// What the build does now; none once it has ended.
        progress: Option<String>,
    },
    ListNodes,
    /// Take a node of the swarm out of use, or into use again.
    DrainNode {
        /// Which, by name or id.
        node: String,
        undo: bool,
    },
    /// Write everything the store holds, and the files of tasks, into a file.
    Backup {
        file: PathBuf,
        /// Whether the recordings of sessions go with it.
        #[serde(default)]
        recordings: bool,
    },
}

/// What came of it.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ControlReply {
    /// A key and its secret, which is shown this once.
    Secret {
        /// The key's id.
        id: String,
        name: String,
        /// The whole key.
        secret: String,
    },
    /// The keys, newest first.
    Keys(Vec<KeyRecord>),
    /// The key that was changed.
    Changed(KeyRecord),
    /// The key that was revoked.
    Revoked(KeyRecord),
    /// The key that was removed.
    Removed(KeyRecord),
    IntegrationKeys(Vec<IntegrationKey>),
    /// The integration key that was revoked.
    IntegrationRevoked(Box<IntegrationKey>),
    /// What the backup has.
    BackedUp {
        /// How many rows.
        rows: u64,
        /// How many files.
        files: u64,
        /// Its size, in bytes.
        bytes: u64,
    },
    /// The nodes of the swarm.
    Nodes(Vec<NodeStatus>),
    /// The node that was changed.
    Node(NodeStatus),
    /// The report was taken.
    Noted,
    /// It was refused.
    Refused(String),
}

/// Carries an order out. There is no pool where no daemon runs.
pub(crate) async fn carry_out(
    order: ControlRequest,
    keys: &Keys,
    integrations: &IntegrationKeys,
    store: &Store,
    pool: Option<&Pool>,
) -> ControlReply {
    let key_id = |text: &str| find_key(&keys.list(), text);
    let secret = |new: NewKey| ControlReply::Secret {
        id: new.record.id.to_string(),
        name: new.record.name.clone(),
        secret: new.secret.expose().to_owned(),
    };
    let done = match order {
        ControlRequest::CreateKey { name, role, egress } => {
            keys.create_with(&name, role, egress).await.map(secret).map_err(|error| error.to_string())
        }
        ControlRequest::ListKeys => Ok(ControlReply::Keys(keys.list())),
        ControlRequest::RotateKey { id, keep_old_for } => match key_id(&id) {
            Ok(id) => {
                let keep = Duration::from_secs(keep_old_for);
                keys.rotate(&id, keep).await.map(secret).map_err(|error| error.to_string())
            }
            Err(error) => Err(error),
        },
        ControlRequest::SetKeyEgress { id, egress } => match key_id(&id) {
            Ok(id) => keys.set_egress(&id, egress).await.map(ControlReply::Changed).map_err(|error| error.to_string()),
            Err(error) => Err(error),
        },
        ControlRequest::RevokeKey { id } => match key_id(&id) {
            Ok(id) => keys.revoke(&id).await.map(ControlReply::Revoked).map_err(|error| error.to_string()),
            Err(error) => Err(error),
        },
        ControlRequest::RemoveKey { id } => match find_revoked_key(&keys.list(), &id) {
            Ok(id) => keys.remove(&id).await.map(ControlReply::Removed).map_err(|error| error.to_string()),
            Err(error) => Err(error),
        },
        ControlRequest::CreateIntegrationKey { name, owner, kind } => match owner_of(&keys.list(), owner.as_deref()) {
            Ok(owner) => {
                let made = integrations.create(&owner, &name, kind).await;
                made.map(integration_secret).map_err(|error| error.to_string())
            }
            Err(error) => Err(error),
        },
        ControlRequest::ListIntegrationKeys => Ok(ControlReply::IntegrationKeys(integrations.list(None))),
        ControlRequest::RotateIntegrationKey { id, keep_old_for } => {
            match find_integration(&integrations.list(None), &id) {
                Ok(key) => {
                    let rotated = integrations.rotate(&key.id, Duration::from_secs(keep_old_for)).await;
                    rotated.map(integration_secret).map_err(|error| error.to_string())
                }
                Err(error) => Err(error),
            }
        }
        ControlRequest::RevokeIntegrationKey { id } => match find_integration(&integrations.list(None), &id) {
            Ok(key) => {
                let revoked = integrations.revoke(&key.id).await;
                revoked.map(|key| ControlReply::IntegrationRevoked(Box::new(key))).map_err(|error| error.to_string())
            }
            Err(error) => Err(error),
        },
        ControlRequest::ReportImage { engine, progress } => match pool {
            Some(pool) => {
                pool.report_image_build(engine, progress).await;
                Ok(ControlReply::Noted)
            }
            None => Err(NO_DAEMON.to_owned()),
        },
        ControlRequest::ListNodes => match pool {
            Some(pool) => pool.list_nodes().await.map(ControlReply::Nodes).map_err(|error| error.to_string()),
            None => Err(NO_DAEMON.to_owned()),
        },
        ControlRequest::DrainNode { node, undo } => match pool {
            Some(pool) => pool.drain_node(&node, undo).await.map(ControlReply::Node).map_err(|error| error.to_string()),
            None => Err(NO_DAEMON.to_owned()),
        },
        ControlRequest::Backup { file, recordings } => {
            let folders = if recordings { &FOLDERS[..] } else { &[task::FOLDER, warmpool_worlds::FOLDER] };
            let done = store.dump(&file, folders).await.map_err(|error| error.to_string());
            done.map(|dumped| ControlReply::BackedUp { rows: dumped.lines, files: dumped.files, bytes: dumped.bytes })
        }
    };
    done.unwrap_or_else(ControlReply::Refused)
}

/// The socket's place.
#[must_use]
pub(crate) fn socket(data_dir: &Path) -> PathBuf {
    data_dir.join("control.sock")
}

/// Listens for orders until the daemon stops.
/// Errors: when the socket cannot be made.
pub(crate) async fn listen(
    data_dir: &Path,
    keys: Keys,
    integrations: IntegrationKeys,
    store: Store,
    pool: Pool,
    drain: Drain,
) -> io::Result<()> {
    // Commands in other directories find the daemon by the path of its socket, see `perform`.
    let absolute = std::path::absolute(data_dir).map(|dir| socket(&dir)).ok();
    let path = absolute.filter(|path| path.as_os_str().len() < SOCKET_PATH_LIMIT).unwrap_or_else(|| socket(data_dir));
    // This process holds the store, so the owner of this socket is gone.
    match std::fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = UnixListener::bind(&path)?;
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600))?;
    let stopping = drain.clone();
    drain.spawn(async move {
        loop {
            let (stream, _) = tokio::select! {
                () = stopping.reached(Phase::Stopped) => break,
                accepted = accept::next(|| listener.accept()) => accepted,
            };
            let (keys, integrations, store, pool) = (keys.clone(), integrations.clone(), store.clone(), pool.clone());
            tokio::spawn(async move {
                if let Err(error) = serve(stream, &keys, &integrations, &store, &pool).await {
                    tracing::debug!(%error, "an order broke off");
                }
            });
        }
        let _ = std::fs::remove_file(&path);
    });
    Ok(())
}

async fn serve(
    stream: UnixStream,
    keys: &Keys,
    integrations: &IntegrationKeys,
    store: &Store,
    pool: &Pool,
) -> io::Result<()> {
    let (reader, mut writer) = stream.into_split();
    let mut line = String::new();
    let mut reader = BufReader::new(reader.take(LINE_LIMIT));
    timeout(ORDER_TIMEOUT, reader.read_line(&mut line)).await??;
    let answer = match serde_json::from_str(&line) {
        Ok(order) => carry_out(order, keys, integrations, store, Some(pool)).await,
        Err(error) => ControlReply::Refused(format!("the order cannot be read: {error}")),
    };
    let mut reply = serde_json::to_vec(&answer)?;
    reply.push(b'\n');
    writer.write_all(&reply).await
}
