//! New WebDriver sessions, with the warm browser or with one of the driver's own.

use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use tokio::time::timeout;
use warmpool_protocol::{DriverMode, NewDriverSession, Size};

use crate::body::{Body, full};
use crate::error::ApiError;
use crate::ports::LocalPort;
use crate::process::Process;

use super::browser::Browser;
use super::capabilities::{self, ColdStart};
use super::folder::{NO_COMPILED_SCRIPTS, allowed_by_visitors};
use super::{Chromium, gone, profile, switches};

/// How long the report of a browser may take that the driver has already started.
const NEWS: Duration = Duration::from_secs(5);

impl Chromium {
    pub(crate) async fn new_session(&self, wanted: NewDriverSession) -> Result<Response<Body>, ApiError> {
        let mut reports = self.reports.lock().await;
        match wanted.mode {
            DriverMode::Warm => {
                let browser = self.browser()?;
                let capabilities = capabilities::warm(wanted.capabilities, &browser.port.authority())?;
                let (shown, answer) =
                    tokio::join!(browser.targets.show_automation(&browser.cdp), self.ask_driver(capabilities));
                shown.map_err(gone)?;
                self.hide_bars(switches::BARS + switches::AUTOMATION_BAR).await?;
                answer
            }
            DriverMode::Cold => {
                let reports =
                    reports.as_mut().ok_or_else(|| ApiError::conflict("not_warm", "the worker is still starting"))?;
                self.cold_session(wanted.capabilities, reports).await
            }
        }
    }

    async fn cold_session(
        &self,
        wanted: Value,
        reports: &mut crate::shim::Reports,
    ) -> Result<Response<Body>, ApiError> {
        // A folder goes with its session: the driver's browser has the profile that was unpacked.
        let folder = self.profiles.has_folder();
        let (profile, allowed_by_visitors) = if folder {
            let profile = self.close_browser().await?;
            let allowed = allowed_by_visitors(&profile);
            (profile, allowed)
        } else {
            (self.profiles.next(), Value::Null)
        };
        let mut switches = switches::base(&self.worker.claim);
        switches.extend(folder.then(|| NO_COMPILED_SCRIPTS.to_owned()));
        let how = ColdStart {
            binary: &self.program,
            switches: &switches,
            profile: &profile,
            downloads: &self.worker.files.downloads(),
            allowed: &self.worker.claim.chromium,
            allowed_by_visitors,
        };
        let window = self.window().filter(|_| !capabilities::places_window(&wanted));
        let capabilities = capabilities::cold(wanted, &how)?;
        if let Ok(browser) = self.browser() {
            browser.process.retire().await;
        }
        if !folder {
            // The driver makes it, and takes what is there. The browser before wrote wherever its client sent downloads.
            profile::clear(&profile)?;
        }
        reports.clear();
        let answer = self.ask_driver(capabilities).await;
        let refused = answer.as_ref().map_or(true, |answer| answer.status() != StatusCode::OK);
        if refused {
            match folder {
                true => self.open_folder(profile).await?,
                false => self.restart().await?,
            }
            // The browser before may have had the bar about automation.
            self.hide_bars(switches::BARS).await?;
            return answer;
        }
        self.profiles.set_current(profile);
        let (parts, body) = answer?.into_parts();
        let failed = |e: &dyn std::fmt::Display| ApiError::upstream(e.to_string());
        let body = body.collect().await.map_err(|e| failed(&e))?.to_bytes();
        let process = timeout(NEWS, reports.next())
            .await
            .ok()
            .flatten()
            .ok_or_else(|| ApiError::upstream("the driver started no browser"))?;
        self.adopt(process, &body, window).await?;
        Ok(Response::from_parts(parts, full(body)))
    }

    /// Makes the browser of a driver's new session the current one, with a first window of this size if one is given.
    async fn adopt(&self, process: Process, answer: &[u8], window: Option<Size>) -> Result<(), ApiError> {
        let failed = |e: &dyn std::fmt::Display| ApiError::upstream(e.to_string());
        let answer: Value = serde_json::from_slice(answer).map_err(|e| failed(&e))?;
        let port = answer["value"]["capabilities"]["goog:chromeOptions"]["debuggerAddress"]
            .as_str()
            .and_then(LocalPort::from_authority)
            .ok_or_else(|| ApiError::upstream("the driver did not tell its browser's address"))?;
        let version = self.worker.upstream.forward(get(), port, "/json/version").await?;
        let version = version.into_body().collect().await.map_err(|e| failed(&e))?.to_bytes();
        let version: Value = serde_json::from_slice(&version).map_err(|e| failed(&e))?;
        let path = version["webSocketDebuggerUrl"]
            .as_str()
            .and_then(|url| url.split_once("/devtools/"))
            .map(|(_, rest)| format!("/devtools/{rest}"))
            .ok_or_else(|| ApiError::upstream("the browser told no DevTools path"))?;
        let browser = Browser::connect(&self.worker, process, port, path).await.map_err(|e| failed(&e))?;
        if let (Some(size), Some(page)) = (window, browser.first_page().await.map_err(gone)?) {
            browser.size_window(&page, size).await.map_err(gone)?;
        }
        self.install(browser).await?;
        // Where a driver starts it, it has no bar about automation; the browser before may have had one.
        self.hide_bars(switches::BARS).await
    }

    /// Starts a browser like the warm one again, so that the client can try once more.
    async fn restart(&self) -> Result<(), ApiError> {
        let failed = |e: &dyn std::fmt::Display| ApiError::upstream(e.to_string());
        let switches = switches::base(&self.worker.claim);
        let profile = self.profiles.next();
        self.profiles.set_current(profile.clone());
        let browser =
            Browser::start(&self.worker, &switches, &profile, &self.environment()).await.map_err(|e| failed(&e))?;
        browser.warm_up(self.window()).await.map_err(|e| failed(&e))?;
        self.install(browser).await
    }

    async fn ask_driver(&self, capabilities: Value) -> Result<Response<Body>, ApiError> {
        let body = json!({"capabilities": capabilities}).to_string();
        let mut request = Request::new(Full::new(Bytes::from(body)));
        *request.method_mut() = Method::POST;
        request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        self.worker.upstream.forward(request, self.driver()?, "/session").await
    }
}

fn get() -> Request<Full<Bytes>> {
    Request::new(Full::default())
}
