//! Where the browser saves downloads, and what it says of them.
//!
//! Clients name folders of their own machine. One that cannot be made here gives way to the agent's, since the browser would
//! cancel the download.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use serde_json::{Map, Value, json};

use crate::cdp::{Cdp, CdpError, CdpEvent};
use crate::worker::Worker;

const COMMAND: &str = "Browser.setDownloadBehavior";
/// The member of that command that names the folder.
const FOLDER: &str = "downloadPath";
/// Says that files have ids for names, and only events tell what they would be called.
const BY_ID: &str = "allowAndName";

/// The downloads of one browser.
pub(super) struct Downloads {
    worker: Arc<Worker>,
    /// Browser contexts whose downloads are reported.
    contexts: Mutex<HashMap<String, Reported>>,
    /// Whether a client has forbidden downloads, so that it says itself which contexts may have any.
    forbidden: AtomicBool,
}

/// By whose wish downloads of a context are reported.
enum Reported {
    /// Nobody's but the agent's.
    Already,
    /// A client's, with what it wants of them, once the context has its first target.
    AsWanted(Value),
}

impl Downloads {
    pub(super) fn new(worker: Arc<Worker>) -> Self {
        Self { worker, contexts: Mutex::default(), forbidden: AtomicBool::new(false) }
    }

    /// Makes the browser report downloads, in this context and in later ones.
    pub(super) async fn watch(&self, cdp: &Cdp) -> Result<(), CdpError> {
        let behavior = json!({"behavior": "allow", FOLDER: self.worker.files.downloads(), "eventsEnabled": true});
        cdp.call(None, COMMAND, behavior).await?;
        let listed = cdp.call(None, "Target.getTargets", json!({})).await?;
        for target in listed["targetInfos"].as_array().into_iter().flatten() {
            if let Some(context) = target["browserContextId"].as_str() {
                self.contexts.lock().insert(context.to_owned(), Reported::Already);
            }
        }
        Ok(())
    }

    /// Makes the browser report the downloads of a context that the agent itself opened.
    pub(super) async fn watch_context(&self, cdp: &Cdp, context: &str) -> Result<(), CdpError> {
        self.contexts.lock().insert(context.to_owned(), Reported::Already);
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

    /// A client is about to forbid downloads somewhere.
    pub(super) fn forbid(&self) {
        self.forbidden.store(true, Ordering::Release);
    }

    /// A client is about to say this of downloads. Changes what cannot be done here; `true` if anything was changed.
    pub(super) fn wanted(&self, params: &mut Map<String, Value>) -> bool {
        let Some(folder) = params.get(FOLDER).and_then(Value::as_str) else { return false };
        let is_ours = Path::new(folder).is_absolute() && std::fs::create_dir_all(folder).is_err();
        if is_ours {
            let files = &self.worker.files;
            let folder = if params["behavior"] == BY_ID { files.downloads_by_id() } else { files.downloads() };
            params.insert(FOLDER.to_owned(), json!(folder));
        }
        if let Some(context) = params.get("browserContextId").and_then(Value::as_str) {
            let mut wanted = params.clone();
            wanted.insert("eventsEnabled".to_owned(), true.into());
            self.contexts.lock().entry(context.to_owned()).or_insert(Reported::AsWanted(wanted.into()));
        }
        is_ours
    }

    /// A target was created. A context that a client opened takes downloads only after a command to do so.
    pub(super) fn target_created(&self, cdp: &Cdp, params: &Value) {
        let Some(context) = params["targetInfo"]["browserContextId"].as_str() else { return };
        let before = self.contexts.lock().insert(context.to_owned(), Reported::Already);
        let params = match before {
            Some(Reported::Already) => return,
            Some(Reported::AsWanted(params)) => params,
            // A client may have forbidden them.
            None if self.forbidden.load(Ordering::Acquire) => return,
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
