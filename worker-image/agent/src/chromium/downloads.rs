//! Where the browser saves downloads, and what it says of them.
//!
//! Clients name folders of their own machine. One that cannot be made here gives way to the agent's, since the browser would
//! cancel the download.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::{Map, Value, json};

use crate::cdp::{Cdp, CdpError, CdpEvent};
use crate::files::Files;
use crate::worker::Worker;

use super::browser::tabs;

const COMMAND: &str = "Browser.setDownloadBehavior";
/// The member of that command that names the folder.
const FOLDER: &str = "downloadPath";
/// The members that name it in WebDriver BiDi.
const BIDI_BEHAVIOR: &str = "downloadBehavior";
const BIDI_FOLDER: &str = "destinationFolder";
/// Says that files have ids for names, and only events tell what they would be called.
const BY_ID: &str = "allowAndName";

/// The downloads of one browser.
pub(super) struct Downloads {
    worker: Arc<Worker>,
    contexts: Mutex<HashMap<String, Context>>,
}

/// What happens to the downloads of a browser context.
enum Context {
    /// They are reported.
    Reported,
    /// They will be, as the client wants them, once the context has its first target.
    Wanted(Value),
    /// The client has forbidden them.
    Forbidden,
}

impl Downloads {
    pub(super) fn new(worker: Arc<Worker>) -> Self {
        Self { worker, contexts: Mutex::default() }
    }

    /// The session's files.
    pub(super) fn files(&self) -> &Files {
        &self.worker.files
    }

    /// Makes the browser report downloads, in this context and in later ones.
    pub(super) async fn watch(&self, cdp: &Cdp) -> Result<(), CdpError> {
        let behavior = json!({"behavior": "allow", FOLDER: self.worker.files.downloads(), "eventsEnabled": true});
        cdp.call(None, COMMAND, behavior).await?;
        for target in tabs(cdp).await? {
            if let Some(context) = target["browserContextId"].as_str() {
                self.contexts.lock().insert(context.to_owned(), Context::Reported);
            }
        }
        Ok(())
    }

    /// Makes the browser report the downloads of a context that the agent itself opened.
    pub(super) async fn watch_context(&self, cdp: &Cdp, context: &str) -> Result<(), CdpError> {
        self.contexts.lock().insert(context.to_owned(), Context::Reported);
        cdp.call(None, COMMAND, self.of(context)).await.map(drop)
    }

    pub(super) fn forget_context(&self, context: &str) {
        self.contexts.lock().remove(context);
    }

    fn of(&self, context: &str) -> Value {
        json!({
            "behavior": "allow", FOLDER: self.worker.files.downloads(),
            "eventsEnabled": true, "browserContextId": context,
        })
    }

    /// A client is about to say this of downloads. Changes what cannot be done here; `true` if anything was changed.
    pub(super) fn said(&self, params: &mut Map<String, Value>) -> bool {
        let is_changed = self.replace_folder(params);
        let behavior = params.get("behavior").and_then(Value::as_str).unwrap_or_default();
        let now = match behavior {
            "deny" => Context::Forbidden,
            "allow" | BY_ID => {
                let mut wanted = params.clone();
                wanted.insert("eventsEnabled".to_owned(), true.into());
                Context::Wanted(wanted.into())
            }
            _ => return is_changed,
        };
        if let Some(context) = params.get("browserContextId").and_then(Value::as_str) {
            let mut contexts = self.contexts.lock();
            if !matches!(contexts.get(context), Some(Context::Reported)) {
                contexts.insert(context.to_owned(), now);
            }
        }
        is_changed
    }

    /// The same, said by WebDriver BiDi.
    pub(super) fn said_by_bidi(&self, params: &mut Map<String, Value>) -> bool {
        let behavior = params.get_mut(BIDI_BEHAVIOR).and_then(Value::as_object_mut);
        let Some(behavior) = behavior.filter(|behavior| gives_way(behavior.get(BIDI_FOLDER))) else { return false };
        behavior.insert(BIDI_FOLDER.to_owned(), json!(self.worker.files.downloads()));
        true
    }

    /// Puts a folder of ours in the place of one that cannot be made.
    fn replace_folder(&self, params: &mut Map<String, Value>) -> bool {
        let gives_way = gives_way(params.get(FOLDER));
        if gives_way {
            let files = &self.worker.files;
            let is_by_id = params.get("behavior").is_some_and(|behavior| behavior == BY_ID);
            let ours = if is_by_id { files.downloads_by_id() } else { files.downloads() };
            params.insert(FOLDER.to_owned(), json!(ours));
        }
        gives_way
    }

    /// A target was created. A context that a client opened takes downloads only after a command to do so.
    pub(super) fn target_created(&self, cdp: &Cdp, params: &Value) {
        let Some(context) = params["targetInfo"]["browserContextId"].as_str() else { return };
        let params = match self.contexts.lock().insert(context.to_owned(), Context::Reported) {
            Some(Context::Reported | Context::Forbidden) => return,
            Some(Context::Wanted(params)) => params,
            None => self.of(context),
        };
        let cdp = cdp.clone();
        tokio::spawn(async move { cdp.call(None, COMMAND, params).await });
    }

    /// The browser says something of a download.
    pub(super) fn reported(&self, event: &CdpEvent) {
        let text = |field: &str| event.params[field].as_str();
        let Some(guid) = text("guid") else { return };
        let files = &self.worker.files;
        match (event.method.as_str(), text("state")) {
            ("Browser.downloadWillBegin", _) => {
                files.download_began(guid, text("suggestedFilename").unwrap_or_default());
            }
            (_, Some("completed")) => {
                files.download_completed(guid, text("filePath").map(PathBuf::from));
            }
            (_, Some("canceled")) => files.download_canceled(guid),
            _ => {}
        }
    }
}

/// Whether this is a folder that cannot be made here.
fn gives_way(folder: Option<&Value>) -> bool {
    let folder = folder.and_then(Value::as_str).map(Path::new);
    folder.is_some_and(|folder| folder.is_absolute() && std::fs::create_dir_all(folder).is_err())
}
