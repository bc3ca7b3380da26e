//! New WebDriver sessions, with the warm browser or with one started for them.
//!
//! The driver only ever attaches. A browser of a client's own is therefore started by the agent as
//! the warm one was, at the same ports, and the driver does not notice.

use std::path::PathBuf;
use std::sync::Arc;

use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Response, StatusCode};
use serde_json::{Value, json};
use warmpool_protocol::{DriverMode, NewDriverSession};

use crate::body::{Body, full};
use crate::error::{ApiError, BootError};

use super::browser::{Browser, Start};
use super::options::Options;
use super::profile::ClientProfile;
use super::{Firefox, gone, profile};

impl Firefox {
    pub(crate) async fn new_session(&self, wanted: NewDriverSession) -> Result<Response<Body>, ApiError> {
        let _alone = self.sessions.lock().await;
        let mut capabilities = wanted.capabilities;
        let options = Options::take(&mut capabilities, &self.worker.claim.firefox)?;
        match wanted.mode {
            DriverMode::Warm => {
                if !options.prefs.is_empty() {
                    let set = self.browser()?.control.call("prefs", Value::Object(options.prefs)).await;
                    set.map_err(gone)?;
                }
                self.ask_driver(capabilities).await
            }
            DriverMode::Cold => {
                let answer = match self.replace(options).await {
                    Ok(()) => self.ask_driver(capabilities).await,
                    Err(error) => Ok(not_created(&error.to_string())),
                };
                // The client may try again with other capabilities.
                if answer.as_ref().map_or(true, |answer| answer.status() != StatusCode::OK) {
                    self.replace(Options::default()).await?;
                }
                answer
            }
        }
    }

    /// Starts a browser with these options in place of the present one.
    async fn replace(&self, options: Options) -> Result<(), ApiError> {
        let failed = |e: &dyn std::fmt::Display| ApiError::upstream(e.to_string());
        let Options { args, prefs, environment, profile: archive } = options;
        if self.profiles.has_folder() {
            // A folder goes with its session.
            if archive.is_some() {
                return Err(ApiError::bad_request(
                    "moz:firefoxOptions.profile: the session has a profile folder already",
                ));
            }
            let profile = self.close_browser().await?;
            profile::choose(&profile, &prefs)?;
            return self.start_in(profile, &args, &environment).await;
        }
        let profile = self.profiles.next();
        let (place, limit, allowed) =
            (profile.clone(), self.worker.claim.file_limit, self.worker.claim.firefox.clone());
        let open = move || archive.map(|archive| ClientProfile::open(&archive, &allowed)).transpose();
        let own = tokio::task::spawn_blocking(open).await.map_err(|e| failed(&e))??;
        // Before its successor's profile exists, since it writes wherever a client sends its downloads.
        if let Ok(browser) = self.browser() {
            browser.process.retire().await;
        }
        tokio::task::spawn_blocking(move || profile::make(&place, own, &prefs, limit))
            .await
            .map_err(|e| failed(&e))??;
        self.start_in(profile, &args, &environment).await
    }

    /// Starts a browser in a profile whose browser has ended.
    pub(super) async fn start_in(
        &self,
        profile: PathBuf,
        args: &[String],
        environment: &[(String, String)],
    ) -> Result<(), ApiError> {
        let display = self.display.get().map(|display| display.name.as_str());
        let how = Start { profile: &profile, args, environment, display };
        let unusable = |error: BootError| ApiError::upstream(error.to_string());
        let browser = Browser::start(&self.worker, how).await.map_err(unusable)?;
        if let Err(error) = browser.prepare().await {
            // Its successor listens where it does.
            browser.process.retire().await;
            return Err(unusable(error));
        }
        self.profiles.set_current(profile);
        self.install(Arc::new(browser)).await.map(drop)
    }

    async fn ask_driver(&self, capabilities: Value) -> Result<Response<Body>, ApiError> {
        let driver = self.driver.get().ok_or_else(|| ApiError::upstream("no driver is running"))?;
        driver.new_session(&self.worker, capabilities).await
    }
}

/// The driver's own form of refusing a session.
fn not_created(message: &str) -> Response<Body> {
    let body = json!({"value": {"error": "session not created", "message": message, "stacktrace": ""}});
    let mut response = Response::new(full(body.to_string()));
    *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
