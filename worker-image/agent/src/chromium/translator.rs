//! Commands of clients that name something of the client's machine or network, with what stands for it here.
//!
//! They come by DevTools, by WebDriver BiDi, and as commands of DevTools that a client sends by either kind of WebDriver.

use std::path::Path;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::context_proxies::ContextProxies;
use super::targets::Targets;

/// Names of the command of WebDriver BiDi by which a client sends one of DevTools.
const OF_DEVTOOLS: [&str; 2] = ["goog:cdp.sendCommand", "cdp.sendCommand"];
/// The command of DevTools that gives files to an upload field.
pub(super) const SET_FILES: &str = "DOM.setFileInputFiles";
/// Where protocols have a command's name, and where drivers have that of a command of DevTools.
const METHOD: &str = "method";
const DRIVERS_METHOD: &str = "cmd";

/// What becomes of a command.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Translation {
    /// It passes as it is.
    Same,
    /// This takes its place.
    Changed(String),
    /// It names a file by this path, and the session has no such file.
    NoFile(String),
}

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

    /// Puts into a command of DevTools or of WebDriver BiDi what stands here for what it names.
    pub(super) async fn clients_command(&self, command: &str) -> Translation {
        self.translate(command.as_bytes(), METHOD).await
    }

    /// The same for the body of a driver's command that sends one of DevTools.
    pub(super) async fn drivers_command(&self, body: &[u8]) -> Translation {
        self.translate(body, DRIVERS_METHOD).await
    }

    /// Translates a command whose member `name` is its name.
    async fn translate(&self, command: &[u8], name: &str) -> Translation {
        let Ok(mut command) = serde_json::from_slice(command) else { return Translation::Same };
        match self.change(&mut command, name).await {
            Ok(true) => Translation::Changed(command.to_string()),
            Ok(false) => Translation::Same,
            Err(path) => Translation::NoFile(path),
        }
    }

    /// Returns whether anything was changed.
    /// Errors: the path of a file that is not here.
    async fn change(&self, command: &mut Value, name: &str) -> Result<bool, String> {
        let Some((method, params)) = innermost(command, name) else { return Ok(false) };
        Ok(match method.as_str() {
            "Target.createBrowserContext" => self.proxies.redirect(params).await,
            "Browser.setDownloadBehavior" | "Page.setDownloadBehavior" => self.targets.downloads.said(params),
            "browser.setDownloadBehavior" => self.targets.downloads.said_by_bidi(params),
            SET_FILES | "input.setFiles" => self.find_files(params)?,
            _ => false,
        })
    }

    /// Puts the session's files in the place of those that a client names by paths of its own machine: a browser takes any path, and
    /// its page then has a file without content.
    fn find_files(&self, params: &mut Map<String, Value>) -> Result<bool, String> {
        let Some(paths) = params.get_mut("files").and_then(Value::as_array_mut) else { return Ok(false) };
        let mut is_changed = false;
        for path in paths {
            let Some(named) = path.as_str() else { continue };
            let found = self.targets.downloads.files().find(named).ok_or_else(|| named.to_owned())?;
            if found != Path::new(named) {
                *path = json!(found);
                is_changed = true;
            }
        }
        Ok(is_changed)
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
            let changed = command_of(translator.clients_command(&command(&named).to_string()).await);
            assert_eq!(changed, command(&ours));
            let here = translator.clients_command(&command(&ours).to_string()).await;
            assert_eq!(here, Translation::Same, "it is here already");

            let sent = |params: &Value| json!({"id": 1, "method": "goog:cdp.sendCommand", "params": command(params)});
            assert_eq!(command_of(translator.clients_command(&sent(&named).to_string()).await), sent(&ours));

            let body = |params: &Value| json!({"cmd": method, "params": params});
            let changed = command_of(translator.drivers_command(body(&named).to_string().as_bytes()).await);
            assert_eq!(changed, body(&ours));
        }
        for other in ["", "[]", r#"{"cmd": "Page.setDownloadBehavior"}"#, r#"{"cmd": 1, "params": {}}"#] {
            assert_eq!(translator.drivers_command(other.as_bytes()).await, Translation::Same, "{other}");
            assert_eq!(translator.clients_command(other).await, Translation::Same, "{other}");
        }
    }

    #[tokio::test]
    async fn files_of_the_clients_machine_give_way_to_those_stored_for_upload() {
        let home = tempfile::tempdir().unwrap();
        let worker = Worker::of_tests(home.path());
        let uploads = worker.files.downloads().with_file_name("uploads");
        let stored = ["cv.pdf", "photo.png"].map(|name| uploads.join(name));
        stored.iter().for_each(|path| std::fs::write(path, "1").unwrap());
        let translator = Translator::new(Targets::new(worker), Arc::new(ContextProxies::new(Arc::new(Egress::new()))));
        for method in [SET_FILES, "input.setFiles"] {
            let command = |files: Value| json!({"id": 1, "method": method, "params": {"files": files}});
            let translated = async |files: Value| translator.clients_command(&command(files).to_string()).await;
            let elsewhere = json!(["/home/me/cv.pdf", stored[1]]);
            assert_eq!(command_of(translated(elsewhere).await), command(json!(stored)));
            assert_eq!(translated(json!(stored)).await, Translation::Same);
            assert_eq!(translated(json!([])).await, Translation::Same);
            let missing = json!([stored[0], "/home/me/none.txt"]);
            assert_eq!(translated(missing).await, Translation::NoFile("/home/me/none.txt".to_owned()));
        }
        let body = json!({"cmd": SET_FILES, "params": {"files": ["/home/me/cv.pdf"]}}).to_string();
        let ours = json!({"cmd": SET_FILES, "params": {"files": [stored[0]]}});
        assert_eq!(command_of(translator.drivers_command(body.as_bytes()).await), ours);
    }

    fn command_of(translation: Translation) -> Value {
        let Translation::Changed(command) = translation else { panic!("{translation:?}") };
        serde_json::from_str(&command).unwrap()
    }
}
