//! The operator's way to a running daemon: a socket in the data directory that only its owner may open.
//!
//! One request a connection, a line of JSON each way. The command line uses it where a daemon runs, and does the same
//! work on the store itself where none does. While a daemon is starting nobody does it: see [`Starting`].

mod lookup;
mod owner;
mod perform;
mod starting;

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
use warmpool_core::panics::keep_running;
use warmpool_keys::{IntegrationKey, IntegrationKeys, IntegrationKind};
use warmpool_keys::{KeyId, KeyKind, KeyRecord, KeyRole, Keys, NewKey};
use warmpool_runtime::NodeOrder;
use warmpool_sessions::video;
use warmpool_store::{Folder, Store};
use warmpool_tasks::task;
use warmpool_workers::pool::{NodeStatus, Pool};

pub(crate) use owner::check_owner;
pub(crate) use perform::{
    ControlRequestError, DaemonHealth, ask_daemon, check_daemon, perform, store_directory, store_options,
};
pub(crate) use starting::Starting;

use lookup::{find_integration, find_key, find_owner, find_revoked_key};

/// The longest line, in bytes.
const LINE_LIMIT: u64 = 1 << 20;
/// Orders are short, so sending one takes no longer. Carrying one out may: a backup has as many files as there are.
const ORDER_TIMEOUT: Duration = Duration::from_secs(10);

/// The system takes no longer path for a socket, in bytes.
const SOCKET_PATH_LIMIT: usize = 108;

/// Why an order about a pool is not carried out.
const NO_DAEMON: &str = "no daemon runs";

/// The folders whose files a backup can hold.
pub(crate) const FOLDERS: [Folder; 5] =
    [task::FOLDER, warmpool_worlds::FOLDER, warmpool_profiles::FOLDER, warmpool_extensions::FOLDER, video::FOLDER];

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
    Revoked {
        /// The key.
        #[serde(flatten)]
        key: Box<KeyRecord>,
        /// Its integration keys, which ended with it.
        #[serde(default)]
        integrations: Vec<IntegrationKey>,
    },
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
    try_carry_out(order, keys, integrations, store, pool).await.unwrap_or_else(ControlReply::Refused)
}

/// Errors: what the operator reads.
async fn try_carry_out(
    order: ControlRequest,
    keys: &Keys,
    integrations: &IntegrationKeys,
    store: &Store,
    pool: Option<&Pool>,
) -> Result<ControlReply, String> {
    let key_id = |text: &str| find_key(&keys.list(), text);
    let integration_id = |text: &str| find_integration(&integrations.list(), text);
    let pool = pool.ok_or_else(|| NO_DAEMON.to_owned());
    Ok(match order {
        ControlRequest::CreateKey { name, role, egress } => {
            secret(keys.create_with(&name, role, egress).await.map_err(message)?)
        }
        ControlRequest::ListKeys => ControlReply::Keys(keys.list()),
        ControlRequest::RotateKey { id, keep_old_for } => {
            secret(keys.rotate(&key_id(&id)?, Duration::from_secs(keep_old_for)).await.map_err(message)?)
        }
        ControlRequest::SetKeyEgress { id, egress } => {
            ControlReply::Changed(keys.set_egress(&key_id(&id)?, egress).await.map_err(message)?)
        }
        ControlRequest::RevokeKey { id } => {
            let (key, ended) = keys.revoke_with(integrations, &key_id(&id)?).await.map_err(message)?;
            ControlReply::Revoked { key: Box::new(key), integrations: ended }
        }
        ControlRequest::RemoveKey { id } => {
            let id = find_revoked_key(&keys.list(), &id)?;
            ControlReply::Removed(keys.remove(&id).await.map_err(message)?)
        }
        ControlRequest::CreateIntegrationKey { name, owner, kind } => {
            let owner = find_owner(&keys.list(), owner.as_deref())?;
            // `world.max_keys` binds clients. The operator could raise it as well.
            let works = |owner: &KeyId| keys.is_active(owner);
            secret(integrations.create(&owner, &name, kind, usize::MAX, works).await.map_err(message)?)
        }
        ControlRequest::ListIntegrationKeys => ControlReply::IntegrationKeys(integrations.list()),
        ControlRequest::RotateIntegrationKey { id, keep_old_for } => {
            let rotated = integrations.rotate(&integration_id(&id)?, Duration::from_secs(keep_old_for)).await;
            secret(rotated.map_err(message)?)
        }
        ControlRequest::RevokeIntegrationKey { id } => {
            let revoked = integrations.revoke(&integration_id(&id)?).await.map_err(message)?;
            ControlReply::IntegrationRevoked(Box::new(revoked))
        }
        ControlRequest::ReportImage { engine, progress } => {
            pool?.report_image_build(engine, progress).await;
            ControlReply::Noted
        }
        ControlRequest::ListNodes => ControlReply::Nodes(pool?.list_nodes().await.map_err(message)?),
        ControlRequest::DrainNode { node, undo } => {
            let order = if undo { NodeOrder::Use } else { NodeOrder::Drain };
            ControlReply::Node(pool?.order_node(&node, order).await.map_err(message)?)
        }
        ControlRequest::Backup { file, recordings } => {
            let folders = if recordings { &FOLDERS[..] } else { &FOLDERS[..FOLDERS.len() - 1] };
            let dumped = store.dump(&file, folders).await.map_err(message)?;
            ControlReply::BackedUp { rows: dumped.lines, files: dumped.files, bytes: dumped.bytes }
        }
    })
}

fn secret<K: KeyKind>(new: NewKey<K>) -> ControlReply {
    let (id, name) = (new.record.id.to_string(), new.record.name);
    ControlReply::Secret { id, name, secret: new.secret.expose().to_owned() }
}

fn message(error: impl std::error::Error) -> String {
    error.to_string()
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
    let taking = async move || {
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
    };
    drain.spawn(keep_running("take orders", taking));
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
