//! Solving CAPTCHAs: the challenges by which sites tell people from programs, in sessions that ask for it.
//!
//! The agent finds them and fills in the answers; this module gets the answers. `monitor` takes one challenge after the other
//! to a person, whom a `webhook` and the live view notify, or to a `solver`, a service that the operator pays. `history` is
//! what the session's record keeps about them.

mod client;
mod history;
mod monitor;
mod solver;
mod webhook;

use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::{CancellationToken, DropGuard};
use url::Url;

pub use monitor::Verdict;

use crate::hiding::{Hide, Hiding};
use crate::worker::Worker;
use client::Client;
use history::History;
use monitor::CaptchaMonitor;
use solver::Solver;
use warmpool_api::captcha::{CaptchaRecord, WaitingCaptcha};
use warmpool_config::{CaptchaMode, Config};
use warmpool_core::secret::Secret;
use warmpool_dial::Lookups;
use webhook::Webhook;

/// Why the settings of `captcha` cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CaptchaError {
    /// A file with a secret cannot be read.
    #[error("`{setting}` {path} cannot be read: {source}")]
    Read {
        /// The setting that names the file.
        setting: &'static str,
        /// The file.
        path: String,
        /// What the system says.
        source: std::io::Error,
    },
    /// A file has no secret in it.
    #[error("`{setting}` {path} is empty: write the secret into it")]
    Empty {
        /// The setting that names the file.
        setting: &'static str,
        /// The file.
        path: String,
    },
}

/// Gets the challenges of all sessions solved. Clones share it.
#[derive(Debug, Clone)]
pub struct Captchas(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    config: Arc<Config>,
    solver: Option<Solver>,
    webhook: Option<Webhook>,
}

impl Captchas {
    /// Reads the secrets that the settings name.
    /// Errors: when one cannot be read.
    pub fn new(
        config: &Arc<Config>,
        tls: &tokio_rustls::rustls::ClientConfig,
        lookups: Lookups,
    ) -> Result<Self, CaptchaError> {
        let settings = &config.captcha;
        let client = Client::new(tls, lookups);
        let solver = match (settings.mode, &settings.solver_url, &settings.solver_key_file) {
            (CaptchaMode::Solver, Some(url), Some(file)) => {
                let key = secret("captcha.solver_key_file", file)?;
                Some(Solver::new(client.clone(), url.clone(), key, settings))
            }
            _ => None,
        };
        let webhook = match (settings.mode, &settings.webhook_url, &settings.webhook_secret_file) {
            (CaptchaMode::Person, Some(url), Some(file)) => {
                let secret = secret("captcha.webhook_secret_file", file)?;
                Some(Webhook::new(client, url.clone(), secret))
            }
            _ => None,
        };
        Ok(Self(Arc::new(Shared { config: Arc::clone(config), solver, webhook })))
    }

    /// Follows the challenges of one session until its return value is dropped. `before` are those that an earlier process has listed,
    /// of the `counted` that it has seen.
    pub fn follow(
        &self,
        worker: Arc<Worker>,
        facts: SessionFacts,
        before: Vec<CaptchaRecord>,
        counted: usize,
    ) -> SessionCaptchas {
        let stop = CancellationToken::new();
        let history = Arc::new(Mutex::new(History::new(before, counted)));
        let waiting = Arc::new(watch::Sender::new(None));
        let (verdicts, to_do) = mpsc::channel(1);
        let hiding = Hiding::default();
        let following = CaptchaMonitor {
            shared: Arc::clone(&self.0),
            worker,
            facts,
            history: Arc::clone(&history),
            waiting: Arc::clone(&waiting),
            hiding: hiding.clone(),
        };
        tokio::spawn(stop.clone().run_until_cancelled_owned(following.run(to_do)));
        SessionCaptchas { history, waiting, verdicts, hiding, _following: Some(stop.drop_guard()) }
    }
}

/// What webhooks and solvers learn about a session.
#[derive(Debug, Clone)]
pub struct SessionFacts {
    /// The session's id.
    pub session_id: String,
    /// The token of its live view.
    pub view_token: String,
}

impl SessionFacts {
    /// Where a person sees the session and can act in it: an address where the daemon knows its own, else a path.
    fn live_view(&self, public_url: Option<&Url>) -> String {
        let base = public_url.map(|url| url.as_str().trim_end_matches('/').to_owned()).unwrap_or_default();
        format!("{base}/sessions/{}/stream?token={}&enable_actions=true", self.session_id, self.view_token)
    }
}

/// The challenges of one session.
#[derive(Debug)]
pub struct SessionCaptchas {
    history: Arc<Mutex<History>>,
    waiting: Arc<watch::Sender<Option<WaitingCaptcha>>>,
    verdicts: mpsc::Sender<Verdict>,
    hiding: Hiding,
    _following: Option<DropGuard>,
}

impl SessionCaptchas {
    /// For a session that does not look for any.
    pub fn none() -> Self {
        Self {
            history: Arc::default(),
            waiting: Arc::new(watch::Sender::new(None)),
            verdicts: mpsc::channel(1).0,
            hiding: Hiding::default(),
            _following: None,
        }
    }

    /// Takes out of what is told of their pages what may not be. The first one holds.
    pub fn hide(&self, hide: Hide) {
        self.hiding.begin(hide);
    }

    /// The challenge that waits now.
    #[must_use]
    pub fn waiting(&self) -> Option<WaitingCaptcha> {
        self.waiting.borrow().clone()
    }

    /// A receiver of the challenge that waits.
    pub fn watch(&self) -> watch::Receiver<Option<WaitingCaptcha>> {
        self.waiting.subscribe()
    }

    /// The last challenges that are over.
    #[must_use]
    pub fn ended(&self) -> Vec<CaptchaRecord> {
        self.history.lock().records()
    }

    /// How many there have been in this session, beyond those listed too.
    #[must_use]
    pub fn count(&self) -> usize {
        self.history.lock().count()
    }

    /// Takes a person's verdict on the challenge that waits for them.
    pub fn decide(&self, verdict: Verdict) {
        // The first verdict counts.
        let _ = self.verdicts.try_send(verdict);
    }
}

fn secret(setting: &'static str, file: &Path) -> Result<Secret, CaptchaError> {
    let path = file.display().to_string();
    let text = std::fs::read_to_string(file);
    let text = text.map_err(|source| CaptchaError::Read { setting, path: path.clone(), source })?;
    let text = text.trim();
    if text.is_empty() { Err(CaptchaError::Empty { setting, path }) } else { Ok(Secret::new(text.to_owned())) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_live_view_is_an_address_where_the_daemon_knows_its_own() {
        let facts = SessionFacts { session_id: "ses_a".to_owned(), view_token: "t".to_owned() };
        assert_eq!(facts.live_view(None), "/sessions/ses_a/stream?token=t&enable_actions=true");
        let public = Url::parse("https://a.example/pool/").unwrap();
        let url = "https://a.example/pool/sessions/ses_a/stream?token=t&enable_actions=true";
        assert_eq!(facts.live_view(Some(&public)), url);
    }

    #[test]
    fn a_secret_is_the_text_of_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("key");
        assert!(matches!(secret("captcha.solver_key_file", &file), Err(CaptchaError::Read { .. })));
        std::fs::write(&file, "\n").unwrap();
        assert!(matches!(secret("captcha.solver_key_file", &file), Err(CaptchaError::Empty { .. })));
        std::fs::write(&file, "word\n").unwrap();
        assert_eq!(secret("captcha.solver_key_file", &file).unwrap().expose(), "word");
    }
}
