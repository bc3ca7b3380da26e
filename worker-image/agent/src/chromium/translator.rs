//! Commands of clients that name something of the client's machine or network, with what stands for it here.
//!
//! They come by DevTools, by WebDriver BiDi, and as commands of DevTools that a client sends by either kind of WebDriver.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Map, Value};

use super::context_proxies::ContextProxies;
use super::targets::Targets;

/// Names of the command of WebDriver BiDi by which a client sends one of DevTools.
const OF_DEVTOOLS: [&str; 2] = ["goog:cdp.sendCommand", "cdp.sendCommand"];
/// Where protocols have a command's name, and where drivers have that of a command of DevTools.
const METHOD: &str = "method";
const DRIVERS_METHOD: &str = "cmd";

/// Knows what stands for what here.
pub(super) struct Translator {
    targets: Arc<Targets>,
    proxies: Arc<ContextProxies>,
}

impl Translator {
    /// For the clients of one browser.
    pub(super) const fn new(targets: Arc<Targets>, proxies: Arc<ContextProxies>) -> Self {
        Self { targets, proxies }
    }

    /// A command of DevTools or of WebDriver BiDi with what stands here for what it names; none where nothing has to.
    pub(super) async fn clients_command(&self, command: &str) -> Option<String> {
        let mut command = serde_json::from_str(command).ok()?;
        self.translate(&mut command, METHOD).await.then(|| command.to_string())
    }

    /// The same for the body of a driver's command that sends one of DevTools.
    pub(super) async fn drivers_command(&self, body: &[u8]) -> Option<Bytes> {
        let mut command = serde_json::from_slice(body).ok()?;
        self.translate(&mut command, DRIVERS_METHOD).await.then(|| command.to_string().into())
    }

    /// Changes a command whose member `name` is its name; `true` if anything was changed.
    async fn translate(&self, command: &mut Value, name: &str) -> bool {
        let Some((method, params)) = innermost(command, name) else { return false };
        match method.as_str() {
            "Target.createBrowserContext" => self.proxies.redirect(params).await,
            "Browser.setDownloadBehavior" | "Page.setDownloadBehavior" => self.targets.downloads.said(params),
            "browser.setDownloadBehavior" => self.targets.downloads.said_by_bidi(params),
            _ => false,
        }
    }
}

/// The name and the parameters of a command, or of the one of DevTools that it sends.
fn innermost<'a>(command: &'a mut Value, name: &str) -> Option<(String, &'a mut Map<String, Value>)> {
    let method = command[name].as_str()?.to_owned();
    let params = command.get_mut("params")?;
    if OF_DEVTOOLS.contains(&method.as_str()) {
        innermost(params, METHOD)
    } else {
        Some((method, params.as_object_mut()?))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::egress::Egress;
    use crate::worker::Worker;

    /// Where no folder can be made, by whomever.
    const NOWHERE: &str = "/proc/none/Downloads";

    #[tokio::test]
    async fn folders_of_the_clients_machine_give_way_whoever_names_them() {
        let home = tempfile::tempdir().unwrap();
        let worker = Worker::of_tests(home.path());
        let (here, by_id) = (worker.files.downloads(), worker.files.downloads_by_id());
        let targets = Targets::new(worker);
        let translator = Translator::new(targets, Arc::new(ContextProxies::new(Arc::new(Egress::new()))));
        let behavior = |behavior: &str, folder: &dyn AsRef<std::path::Path>| json!({"behavior": behavior, "downloadPath": folder.as_ref()});
        let bidi = |folder: &dyn AsRef<std::path::Path>| json!({"downloadBehavior": {"type": "allowed", "destinationFolder": folder.as_ref()}});
        for (method, named, ours) in [
            ("Page.setDownloadBehavior", behavior("allow", &NOWHERE), behavior("allow", &here)),
            ("Browser.setDownloadBehavior", behavior("allowAndName", &NOWHERE), behavior("allowAndName", &by_id)),
            ("browser.setDownloadBehavior", bidi(&NOWHERE), bidi(&here)),
        ] {
            let command = |params: &Value| json!({"id": 1, "method": method, "params": params, "sessionId": "s"});
            let changed = translator.clients_command(&command(&named).to_string()).await.unwrap();
            assert_eq!(serde_json::from_str::<Value>(&changed).unwrap(), command(&ours));
            assert_eq!(translator.clients_command(&command(&ours).to_string()).await, None, "it is here already");

            let sent = |params: &Value| json!({"id": 1, "method": "goog:cdp.sendCommand", "params": command(params)});
            let changed = translator.clients_command(&sent(&named).to_string()).await.unwrap();
            assert_eq!(serde_json::from_str::<Value>(&changed).unwrap(), sent(&ours));

            let body = |params: &Value| json!({"cmd": method, "params": params});
            let changed = translator.drivers_command(body(&named).to_string().as_bytes()).await.unwrap();
            assert_eq!(serde_json::from_slice::<Value>(&changed).unwrap(), body(&ours));
        }
        for other in ["", "[]", r#"{"cmd": "Page.setDownloadBehavior"}"#, r#"{"cmd": 1, "params": {}}"#] {
            assert_eq!(translator.drivers_command(other.as_bytes()).await, None, "{other}");
            assert_eq!(translator.clients_command(other).await, None, "{other}");
        }
    }
}
