//! One running Chromium.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};
use warmpool_protocol::Size;

use crate::storage::KnownOrigins;

use crate::cdp::{Cdp, CdpError};
use crate::domain::Domain;
use crate::error::BootError;
use crate::ports::{self, LocalPort};
use crate::process::Process;
use crate::program::{Program, ReadySign};
use crate::worker::Worker;

use super::profile;
use super::switches::DEBUGGING_PORT;
use super::targets::Targets;

/// The program itself; the wrapper script beside it would add switches of its own.
pub(super) const PROGRAM: &str = Domain::Chromium.program();
/// Its name in messages.
const NAME: &str = "chromium";
/// What it prints once its debugging port listens, followed by the websocket's URL.
const READY: &str = "DevTools listening on ws://";
/// What its first tab shows.
const BLANK: &str = "about:blank";
/// The name of that file in the home directory.
const STORAGE_FILE: &str = "storage.json";
/// How long it may take, and how long its first page may.
const START_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a browser may still run that has closed the agent's connection: as it does before it ends, with what it has to write.
const END_TIMEOUT: Duration = Duration::from_secs(10);
/// Time between two attempts to connect again to a browser that refuses.
const RECONNECT_PAUSE: Duration = Duration::from_secs(1);
/// Time between two looks for the first page, which no event announces to a new connection.
pub(super) const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// A running browser with the agent's own DevTools connection to it.
pub(super) struct Browser {
    /// Its main process.
    pub(super) process: Process,
    /// Its debugging port.
    pub(super) port: LocalPort,
    /// Path of its browser-level websocket.
    pub(super) path: String,
    /// The agent's own connection.
    pub(super) cdp: Cdp,
    /// Keeps settings true over that connection.
    pub(super) targets: Arc<Targets>,
    /// The tab it started with.
    first: OnceLock<String>,
    /// The origins that keep something though no tab may show them.
    pub(super) known_origins: Mutex<KnownOrigins>,
    /// Where a file is made that carries much of a state to a page.
    pub(super) storage_file: tokio::sync::Mutex<PathBuf>,
}

impl Browser {
    /// Takes over a browser that listens.
    pub(super) async fn connect(
        worker: &Arc<Worker>,
        process: Process,
        port: LocalPort,
        path: String,
    ) -> Result<Self, CdpError> {
        let targets = Targets::new(Arc::clone(worker));
        let handler = Arc::clone(&targets);
        let cdp = Cdp::connect(port, &path, move |cdp, event| handler.handle(cdp, event)).await?;
        targets.watch(&cdp).await?;
        tokio::spawn(end_without(cdp.clone(), process.clone()));
        Ok(Self::new(worker, process, (port, path), cdp, targets))
    }

    /// A browser that listens there, with the agent's own connection to it.
    pub(super) fn new(
        worker: &Worker,
        process: Process,
        (port, path): (LocalPort, String),
        cdp: Cdp,
        targets: Arc<Targets>,
    ) -> Self {
        let storage_file = tokio::sync::Mutex::new(worker.home.join(STORAGE_FILE));
        let (first, known_origins) = (OnceLock::new(), Mutex::default());
        Self { process, port, path, cdp, targets, first, known_origins, storage_file }
    }

    /// Starts a browser with these switches and a new profile.
    pub(super) async fn start(
        worker: &Arc<Worker>,
        switches: &[String],
        profile: &Path,
        environment: &[(&str, String)],
    ) -> Result<Self, BootError> {
        let start = |source| BootError::Start { program: NAME, source };
        profile::make(profile, &worker.files.downloads()).map_err(start)?;
        Self::start_in(worker, switches, profile, environment).await
    }

    /// Starts a browser with these switches and a profile that is there.
    pub(super) async fn start_in(
        worker: &Arc<Worker>,
        switches: &[String],
        profile: &Path,
        environment: &[(&str, String)],
    ) -> Result<Self, BootError> {
        let mut command = Command::new(PROGRAM);
        ports::hide(&mut command)
            .args(switches)
            .arg(format!("--remote-debugging-port={}", DEBUGGING_PORT.number()))
            .arg(format!("--user-data-dir={}", profile.display()))
            .arg(BLANK)
            .envs(environment.iter().map(|(name, value)| (name, value)));
        let program =
            Program::start(&worker.processes, Domain::Chromium, NAME, &mut command, Some(ReadySign::Stderr(READY)))?;
        let line = program.until(START_TIMEOUT, program.ready()).await.map_err(|error| match error {
            BootError::Ended { output, .. } if output.contains("No usable sandbox") => BootError::NoSandbox,
            error => error,
        })?;
        let path = line.split_once(READY).and_then(|(_, rest)| Some(rest.split_once('/')?.1));
        let path = path.ok_or_else(|| BootError::Undriveable("the browser printed no DevTools path".into()))?;
        Self::connect(worker, program.process, DEBUGGING_PORT, format!("/{path}"))
            .await
            .map_err(|e| BootError::Undriveable(e.to_string()))
    }

    /// Waits until the first page exists, answers and has painted, in a window of this size if one is given.
    pub(super) async fn warm_up(&self, window: Option<Size>) -> Result<(), BootError> {
        match timeout(START_TIMEOUT, self.drive_first_page(window)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(e)) => Err(BootError::Undriveable(e.to_string())),
            Err(_) => Err(BootError::Undriveable("its first page does not answer".into())),
        }
    }

    /// Waits until the first page exists and answers: less than [`Browser::warm_up`], for a client who waits.
    pub(super) async fn prepare(&self, window: Option<Size>) -> Result<(), BootError> {
        let prepared = async {
            let session = self.await_first_page(window).await?;
            self.cdp.call(Some(&session), "Page.bringToFront", json!({})).await?;
            self.detach(&session).await
        };
        match timeout(START_TIMEOUT, prepared).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(e)) => Err(BootError::Undriveable(e.to_string())),
            Err(_) => Err(BootError::Undriveable("its first page does not answer".into())),
        }
    }

    /// Waits for the first page and a session with it, in which it has an address.
    async fn await_first_page(&self, window: Option<Size>) -> Result<String, CdpError> {
        let page = loop {
            if let Some(page) = self.first_page().await? {
                break page;
            }
            sleep(POLL_INTERVAL).await;
        };
        let _ = self.first.set(page.clone());
        if let Some(window) = window {
            self.size_window(&page, window).await?;
        }
        let session = self.attach(&page).await?;
        // A tab that never navigated has no address while it first does, and Puppeteer overlooks
        // tabs without one.
        self.cdp.call(Some(&session), "Page.navigate", json!({"url": BLANK})).await?;
        self.cdp.call(Some(&session), "Runtime.evaluate", json!({"expression": "1"})).await?;
        Ok(session)
    }

    async fn drive_first_page(&self, window: Option<Size>) -> Result<(), CdpError> {
        let session = self.await_first_page(window).await?;
        let call = |method, params| self.cdp.call(Some(&session), method, params);
        call("Page.captureScreenshot", json!({"format": "jpeg"})).await?;
        self.open_and_close_tab().await?;
        // With a blank page the address bar has the focus, and the page would not believe that it is looked at.
        call("Page.bringToFront", json!({})).await?;
        self.detach(&session).await
    }

    /// Does what most clients do first, so that the second time, theirs, takes less.
    async fn open_and_close_tab(&self) -> Result<(), CdpError> {
        let tab = self.cdp.call(None, "Target.createTarget", json!({"url": BLANK})).await?;
        let tab = tab["targetId"].as_str().unwrap_or_default();
        let session = self.attach(tab).await?;
        self.cdp.call(Some(&session), "Runtime.evaluate", json!({"expression": "1"})).await?;
        self.cdp.call(None, "Target.closeTarget", json!({"targetId": tab})).await?;
        // The reply comes before the tab is gone, and nobody else is to see it.
        while self.pages().await?.iter().any(|page| page == tab) {
            sleep(POLL_INTERVAL).await;
        }
        Ok(())
    }

    /// Id of the tab the browser started with, if there is one yet.
    pub(super) async fn first_page(&self) -> Result<Option<String>, CdpError> {
        if let Some(page) = self.first.get() {
            return Ok(Some(page.clone()));
        }
        // Before any client came, there is only one.
        Ok(self.pages().await?.pop())
    }

    async fn pages(&self) -> Result<Vec<String>, CdpError> {
        let tabs = tabs(&self.cdp).await?;
        Ok(tabs.iter().filter_map(|tab| tab["targetId"].as_str().map(str::to_owned)).collect())
    }

    /// Opens a session of our own with a target.
    pub(super) async fn attach(&self, target: &str) -> Result<String, CdpError> {
        let params = json!({"targetId": target, "flatten": true});
        let attached = self.cdp.call(None, "Target.attachToTarget", params).await?;
        match &attached["sessionId"] {
            Value::String(session) => Ok(session.clone()),
            _ => Err(CdpError::Refused("no session was given".into())),
        }
    }

    /// Ends such a session.
    pub(super) async fn detach(&self, session: &str) -> Result<(), CdpError> {
        self.cdp.call(None, "Target.detachFromTarget", json!({"sessionId": session})).await?;
        Ok(())
    }

    /// Puts the window of a tab in the screen's corner, in this size. Windows that come later are as large, but popups are as
    /// their openers want them; a switch for the size would be for these, too.
    pub(super) async fn size_window(&self, page: &str, size: Size) -> Result<(), CdpError> {
        let window = self.cdp.call(None, "Browser.getWindowForTarget", json!({"targetId": page})).await?;
        let bounds = json!({"left": 0, "top": 0, "width": size.width, "height": size.height});
        let params = json!({"windowId": window["windowId"], "bounds": bounds});
        self.cdp.call(None, "Browser.setWindowBounds", params).await.map(drop)
    }

    /// Makes an extra connection of the agent's anew each time it ends, until the browser ends. With one that ends its sessions leave
    /// their tabs, and take along what others have set there.
    pub(super) async fn keep_connected<F>(&self, mut connection: Cdp, connect: impl Fn() -> F)
    where
        F: Future<Output = Result<Cdp, CdpError>>,
    {
        loop {
            connection.closed().await;
            connection = loop {
                if !self.process.running() {
                    return;
                }
                match connect().await {
                    Ok(another) => {
                        self.targets.left_tabs(&self.cdp).await;
                        break another;
                    }
                    Err(error) => tracing::debug!(%error, "an extra connection to the browser is not there yet"),
                }
                sleep(RECONNECT_PAUSE).await;
            };
        }
    }

    /// Makes the first tab's window as large as its page.
    pub(super) async fn fit_window(&self, size: Size) -> Result<(), CdpError> {
        let Some(page) = self.first_page().await? else { return Ok(()) };
        let window = self.cdp.call(None, "Browser.getWindowForTarget", json!({"targetId": page})).await?;
        let id = &window["windowId"];
        // One that fills the display keeps its size.
        let normal = json!({"windowId": id, "bounds": {"windowState": "normal"}});
        self.cdp.call(None, "Browser.setWindowBounds", normal).await?;
        let params = json!({"windowId": id, "width": size.width, "height": size.height});
        self.cdp.call(None, "Browser.setContentsSize", params).await.map(drop)
    }
}

/// What the browser says of its tabs. Of a page's frames and workers it says nothing: a page may have any number of them, at
/// addresses as long as it likes.
pub(super) async fn tabs(cdp: &Cdp) -> Result<Vec<Value>, CdpError> {
    let mut targets = cdp.call(None, "Target.getTargets", json!({"filter": [{"type": "page"}]})).await?;
    Ok(match targets["targetInfos"].take() {
        Value::Array(tabs) => tabs,
        _ => Vec::new(),
    })
}

/// Ends a browser that goes on without the agent's connection: its settings hold no longer, and nobody hears when it hangs.
async fn end_without(cdp: Cdp, process: Process) {
    cdp.closed().await;
    if timeout(END_TIMEOUT, process.exited()).await.is_err() {
        tracing::warn!("the agent's connection to the browser is lost; the browser is ended");
        process.kill().await;
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::UnixStream;
    use warmpool_protocol::Settings;

    use super::super::fake::{FakeBrowser, connection};
    use super::*;
    use crate::process::{Exit, Processes};

    #[tokio::test]
    async fn tabs_have_their_settings_again_after_a_connection_was_lost() {
        let home = tempfile::tempdir().unwrap();
        let (browser, mut fake) = FakeBrowser::started(&Worker::of_tests(home.path())).await;
        let viewport = Some(Size { width: 400, height: 300 });
        let applied = browser.targets.apply(&browser.cdp, Settings { viewport, ..Settings::default() });
        let (applied, ()) = tokio::join!(applied, async {
            let attach = fake.hear("Target.setAutoAttach").await;
            let tab = json!({"sessionId": "S", "targetInfo": {"type": "page", "targetId": "T"}});
            fake.say(&json!({"method": "Target.attachedToTarget", "params": tab})).await;
            fake.say(&json!({"id": attach["id"], "result": {}})).await;
            for method in ["Target.setAutoAttach", "Emulation.setDeviceMetricsOverride"] {
                let command = fake.answer(method, json!({})).await;
                assert_eq!(command["sessionId"], "S");
            }
        });
        assert!(applied.unwrap().is_empty());

        let (lost, other_end) = connection(|_, _| {}).await;
        drop(other_end);
        let (another, _other_end) = connection(|_, _| {}).await;
        let kept = browser.keep_connected(lost, || async { Ok(another.clone()) });
        tokio::select! {
            () = kept => panic!("the browser runs"),
            command = fake.answer("Emulation.setDeviceMetricsOverride", json!({})) => {
                assert_eq!((&command["sessionId"], &command["params"]["width"]), (&json!("S"), &json!(400)));
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_browser_that_has_lost_the_connection_is_ended() {
        let processes = Processes::of_tests();
        let (sleeper, _) = processes.spawn(Domain::Open, Command::new("sleep").arg("600")).unwrap();
        let (ours, theirs) = UnixStream::pair().unwrap();
        let accept = tokio_tungstenite::accept_async(theirs);
        let (cdp, browser) = tokio::join!(Cdp::over(ours, "ws://127.0.0.1/devtools", |_, _| {}), accept);
        let ending = tokio::spawn(end_without(cdp.unwrap(), sleeper.clone()));
        drop(browser);
        while sleeper.running() {
            sleep(POLL_INTERVAL).await;
            processes.reap();
        }
        ending.await.unwrap();
        assert_eq!(sleeper.exited().await, Exit { code: None, signal: Some(9) });
    }
}
