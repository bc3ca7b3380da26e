//! WebKitGTK and its driver, behind [`crate::engine::Engine`].
//!
//! The browser is a shell of our own around the library (`worker-image/webkit`), which takes commands on standard input.
//! The driver and the agent's own inspector connection are two clients of the one remote inspector that it serves, so one
//! warm browser is good for both kinds of session.

mod ads;
mod ca_certificates;
mod captchas;
mod driver;
mod folder;
mod inspector;
mod log;
mod shell;
mod storage;
mod websockets;
mod wire;

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Method, Request, Response};
use http_body_util::Full;
use parking_lot::Mutex;
use serde_json::{Value, json};
use warmpool_protocol::{Identity, NewDriverSession, Page, PageAction, Settings};

use crate::ads::AdRules;
use crate::attach::Endpoint;
use crate::body::Body;
use crate::captchas::Captchas;
use crate::display::Display;
use crate::error::{ApiError, BootError};
use crate::files::Unfinished;
use crate::ports::LocalPort;
use crate::worker::Worker;

use driver::Driver;
use inspector::{INSPECTOR, Inspector};
use shell::{Shell, ShellError};

/// How the names of options end, with the port of WebKit before it.
const OPTIONS: &str = ":browserOptions";

/// WebKit, its driver and its display.
pub(crate) struct Webkit {
    worker: Arc<Worker>,
    running: OnceLock<Running>,
    /// The browser of now.
    shell: Mutex<Option<Arc<Shell>>>,
    /// Its inspector's other end.
    inspector: Arc<Mutex<Option<Inspector>>>,
    /// What pages see, for a browser that comes later.
    settings: Mutex<Settings>,
    /// What it keeps for sites.
    profile: Mutex<PathBuf>,
    /// What of the state that it was given it did not take.
    unwritten: Mutex<storage::Unwritten>,
    /// Rules of ads that the browser has compiled, until the daemon fetches them.
    compiled_ads: Mutex<Option<Bytes>>,
    /// New sessions one after another: the driver has one at a time.
    sessions: tokio::sync::Mutex<()>,
}

/// What every browser of this worker has.
struct Running {
    driver: Driver,
    display: Display,
    /// Where the agent serves the inspector as websockets.
    websockets: LocalPort,
}

impl Webkit {
    /// Nothing runs yet.
    pub(crate) fn new(worker: Arc<Worker>) -> Self {
        let profile = Mutex::new(worker.home.join("webkit"));
        Self {
            worker,
            running: OnceLock::new(),
            shell: Mutex::default(),
            inspector: Arc::default(),
            settings: Mutex::default(),
            profile,
            unwritten: Mutex::default(),
            compiled_ads: Mutex::default(),
            sessions: tokio::sync::Mutex::default(),
        }
    }

    pub(crate) fn worker(&self) -> &Worker {
        &self.worker
    }

    pub(crate) fn display(&self) -> Option<&Display> {
        self.running.get().map(|running| &running.display)
    }

    pub(crate) async fn boot(&self) -> Result<Identity, BootError> {
        let claim = &self.worker.claim;
        // The shell gives no other file such a name.
        self.worker.files.tell_unfinished(Unfinished::NameEnds(".wkdownload"));
        // Headless too: WebKitGTK draws to a display or not at all.
        let display = Display::start(&self.worker.processes, claim.page).await?;
        let undriveable = |e: &dyn std::fmt::Display| BootError::Undriveable(e.to_string());
        ca_certificates::trust(&claim.ca_certificates).map_err(|e| undriveable(&e))?;
        let profile = self.profile.lock().clone();
        let shell = Shell::start(&self.worker, &display, &profile)?;
        let warm = shell.warm_up().await?;
        let inspector = inspect().await.map_err(|e| undriveable(&e))?;
        self.install(shell, inspector).await.map_err(|e| undriveable(&e))?;
        let websockets = websockets::serve(Arc::clone(&self.inspector)).map_err(|e| undriveable(&e))?;
        let driver = Driver::start(&self.worker, &display).await?;
        let identity = Identity {
            browser: Some(format!("WebKitGTK/{}", warm.version)),
            driver: Some(format!("WebKitWebDriver/{}", warm.version)),
            user_agent: Some(warm.user_agent),
            headless: claim.headless,
            args: Vec::new(),
        };
        let _ = self.running.set(Running { driver, display, websockets });
        Ok(identity)
    }

    /// Makes a browser the current one, with the settings of the one before, and watches it.
    async fn install(&self, shell: Shell, inspector: Inspector) -> Result<(), ShellError> {
        let settings = self.settings.lock().clone();
        if !settings.is_empty() {
            // Its library is the same, and knows the time zone.
            shell.commands.apply(&settings).await?;
        }
        if self.worker.log.has_begun() {
            log::keep(inspector.clone(), Arc::clone(&self.worker.log)).await;
        }
        *self.inspector.lock() = Some(inspector);
        self.worker.watch_browser(&shell.program.process);
        *self.shell.lock() = Some(Arc::new(shell));
        Ok(())
    }

    /// The browser, as long as it runs.
    fn shell(&self) -> Result<Arc<Shell>, ApiError> {
        let shell = self.shell.lock().clone();
        shell.filter(|shell| shell.program.process.running()).ok_or_else(|| ApiError::upstream("no browser is running"))
    }

    /// What it has beside it.
    fn running(&self) -> Result<&Running, ApiError> {
        self.shell()?;
        self.running.get().ok_or_else(|| ApiError::upstream("no browser is running"))
    }

    pub(crate) async fn apply(&self, settings: Settings) -> Result<Vec<String>, ApiError> {
        let mut warnings = Vec::new();
        if settings.locales.len() > 1 {
            warnings.push(
                "settings.locales: WebKit sends all of them in Accept-Language and shows pages the first alone in \
                 navigator.languages"
                    .to_owned(),
            );
        }
        match self.shell()?.commands.apply(&settings).await.map_err(failed)? {
            true => {
                *self.settings.lock() = settings;
                Ok(warnings)
            }
            // Its library has the time zones of its own release.
            false => {
                Err(ApiError::not_supported("timezone: this WebKit does not know it yet; chromium and firefox do"))
            }
        }
    }

    pub(crate) async fn block_ads(&self, rules: AdRules) -> Result<(), ApiError> {
        let blocked = ads::block(&self.shell()?.commands, &self.worker.home, rules).await;
        *self.compiled_ads.lock() = blocked.map_err(|error| ApiError::upstream(error.to_string()))?;
        Ok(())
    }

    pub(crate) async fn watch_captchas(&self, found: Arc<Captchas>) -> Result<(), ApiError> {
        let shell = self.shell()?;
        let messages = shell.messages().ok_or_else(|| ApiError::internal("captchas: they are watched already"))?;
        captchas::watch(shell.commands.clone(), messages, found).await.map_err(failed)
    }

    pub(crate) async fn keep_log(&self) -> Result<(), ApiError> {
        let inspector = self.inspector.lock().clone().ok_or_else(|| ApiError::upstream("no browser is running"))?;
        log::keep(inspector, Arc::clone(&self.worker.log)).await;
        Ok(())
    }

    pub(crate) fn compiled_ads(&self) -> Result<Bytes, ApiError> {
        self.compiled_ads.lock().take().ok_or_else(|| ApiError::not_found("no rules are here that were compiled here"))
    }

    pub(crate) async fn navigate(&self, url: &str) -> Result<Option<String>, ApiError> {
        self.shell()?.open(url).await.map_err(failed)
    }

    pub(crate) async fn ping(&self) {
        if let Ok(shell) = self.shell() {
            let _ = shell.commands.ping().await;
        }
    }

    pub(crate) async fn pages(&self) -> Result<Vec<Page>, ApiError> {
        self.shell()?.commands.pages().await.map_err(failed)
    }

    pub(crate) async fn act(&self, page: &str, action: &PageAction) -> Result<bool, ApiError> {
        self.shell()?.commands.act(page, action).await.map_err(failed)
    }

    pub(crate) fn devtools(&self, path: Option<&str>) -> Result<Endpoint, ApiError> {
        let path = path.map_or_else(|| "/devtools".to_owned(), |rest| format!("/devtools/{rest}"));
        Ok(Endpoint { port: self.running()?.websockets, path, listener: None })
    }

    pub(crate) fn debugging(&self) -> Result<LocalPort, ApiError> {
        Ok(self.running()?.websockets)
    }

    /// Starts the driver anew, in place of one that has ended.
    pub(crate) async fn start_driver(&self) -> Result<(), BootError> {
        let running = self.running().map_err(|error| BootError::Undriveable(error.message))?;
        Driver::start(&self.worker, &running.display).await.map(drop)
    }

    pub(crate) fn driver(&self) -> Result<LocalPort, ApiError> {
        Ok(self.running()?.driver.port)
    }

    /// WebKit's driver takes the picture that was painted last, which may
    /// be older than what a script has found in the page already.
    pub(crate) async fn before_command(&self) -> Result<(), ApiError> {
        self.shell()?.commands.paint().await.map_err(failed)
    }

    /// See [`crate::engine::Engine::new_session`]. Every session has the warm browser: what a client may ask of this
    /// driver takes effect there.
    pub(crate) async fn new_session(&self, wanted: NewDriverSession) -> Result<Response<Body>, ApiError> {
        check_options(&wanted.capabilities)?;
        let _one_at_a_time = self.sessions.lock().await;
        let body = json!({"capabilities": wanted.capabilities}).to_string();
        let mut request = Request::new(Full::new(Bytes::from(body)));
        *request.method_mut() = Method::POST;
        request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        self.worker.upstream.forward(request, self.driver()?, "/session").await
    }
}

/// The options name a program to start and what to tell it. The driver has its browser, and the daemon has taken them out.
fn check_options(capabilities: &Value) -> Result<(), ApiError> {
    let always = &capabilities["alwaysMatch"];
    let first = capabilities["firstMatch"].as_array().into_iter().flatten();
    let mut names = first.chain([always]).filter_map(Value::as_object).flat_map(serde_json::Map::keys);
    match names.find(|name| name.ends_with(OPTIONS)) {
        Some(name) => Err(ApiError::bad_request(format!("{name}: the browser runs already"))),
        None => Ok(()),
    }
}

async fn inspect() -> io::Result<Inspector> {
    Inspector::start(INSPECTOR.connect().await?).await
}

#[expect(clippy::needless_pass_by_value, reason = "the form map_err wants")]
fn failed(error: ShellError) -> ApiError {
    ApiError::upstream(error.to_string())
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::time::Duration;

    use nix::sys::signal::Signal;
    use tokio::sync::mpsc::Receiver;
    use tokio::time::timeout;

    use super::*;
    use crate::domain::Domain;
    use crate::process::Processes;
    use crate::program::Program;

    #[tokio::test]
    async fn the_browser_of_a_profile_folder_has_the_settings_of_the_one_before() {
        let home = tempfile::tempdir().unwrap();
        let webkit = Webkit::new(Worker::of_tests(home.path()));
        let settings = Settings { locales: vec!["de-CH".to_owned()], ..Settings::default() };
        let start = || {
            let mut sleeper = Command::new("sleep");
            Program::start(&Processes::of_tests(), Domain::Open, "sleep", sleeper.arg("600"), None).unwrap()
        };
        let told = async |asked: &mut Receiver<(String, shell::Answer)>| {
            let (line, answer) = timeout(Duration::from_secs(60), asked.recv()).await.expect("it is told").unwrap();
            answer.send(Ok(String::new())).unwrap();
            line
        };
        let (warm, mut asked) = Shell::of_tests(start());
        let process = warm.program.process.clone();
        webkit.install(warm, inspector::tests::pair().await.0).await.unwrap();
        let (applied, line) = tokio::join!(webkit.apply(settings), told(&mut asked));
        assert!(applied.unwrap().is_empty());
        process.signal(Signal::SIGKILL);

        let (next, mut asked) = Shell::of_tests(start());
        let process = next.program.process.clone();
        let (inspector, _browser) = inspector::tests::pair().await;
        let (installed, again) = tokio::join!(webkit.install(next, inspector), told(&mut asked));
        installed.unwrap();
        assert_eq!((line.as_str(), again), ("do=settings&locales=de%2DCH", line.clone()));
        process.signal(Signal::SIGKILL);
    }

    #[test]
    fn no_client_names_a_program() {
        let options = json!({"binary": "/bin/sh", "args": ["-c", "true"]});
        for name in ["webkitgtk:browserOptions", "wpe:browserOptions"] {
            assert!(check_options(&json!({"alwaysMatch": {name: options}})).is_err());
            assert!(check_options(&json!({"firstMatch": [{}, {name: options}]})).is_err());
        }
        assert!(check_options(&json!({"alwaysMatch": {"acceptInsecureCerts": true}, "firstMatch": [{}]})).is_ok());
    }
}
