//! `POST /launch`: hands the worker to a client.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;
use warmpool_protocol::{Launch, Launched};

use super::Claimed;
use crate::captchas::Captchas;
use crate::error::ApiError;

/// What the first tab of a warm browser shows.
const BLANK_PAGE: &str = "about:blank";
/// How long after the answer a browser that its launch did not need stays stopped, unless a call needs it before. A dozen processes
/// wake up and compete for the processor, and the daemon, which has just got the answer, has its own client to answer first.
const REST: Duration = Duration::from_millis(2);

impl Claimed {
    /// `POST /launch`: hands the worker to a client.
    pub(crate) async fn launch(self: &Arc<Self>, launch: Launch) -> Result<Launched, ApiError> {
        let Launch { url, settings, block_ads, captchas, kiosk, folder, extensions, log, storage, playwright } = launch;
        settings.check().map_err(|error| ApiError::bad_request(error.to_string()))?;
        if let Some(playwright) = &playwright {
            self.engine.check_playwright(playwright)?;
        }
        let ad_rules = self.brought.take_ad_rules(block_ads)?;
        let profile = self.brought.take_folder(folder)?;
        // Those of the claim are loaded already.
        let extensions = self.brought.take_extensions(extensions && !self.waits_with_extensions())?;
        let state = self.brought.take_storage(storage)?;
        self.activate()?;
        let preset = self.preset.get();
        let mut warnings = preset.map(|(_, warnings)| warnings.clone()).unwrap_or_default();
        // The settings of the preset hold already.
        let holds = preset.map_or_else(|| settings.is_empty(), |(preset, _)| *preset == settings);
        let begins_with_more = extensions.is_some() || profile.is_some() || state.is_some() || playwright.is_some();
        if !holds || ad_rules.is_some() || captchas.is_some() || kiosk || log || begins_with_more {
            self.wake();
        }
        if log {
            // Whatever browser comes instead tells as well.
            self.shared.log.begin();
        }
        if let Some(profile) = profile {
            self.engine.open_folder(profile).await?;
        }
        if let Some(extensions) = extensions {
            self.engine.load_extensions(extensions).await?;
        }
        if kiosk {
            self.engine.show_pages_alone(settings.viewport.unwrap_or(self.shared.claim.page)).await?;
        }
        if !holds {
            warnings = self.engine.apply(settings).await?;
        }
        if let Some(rules) = ad_rules {
            self.engine.block_ads(rules).await?;
        }
        if let Some(solver) = captchas {
            let captchas = Arc::new(Captchas::new(solver, Arc::clone(&self.shared.status)));
            self.engine.watch_captchas(Arc::clone(&captchas)).await?;
            let _ = self.captchas.set(captchas);
        }
        if log {
            self.engine.keep_log().await?;
        }
        if let Some(state) = state {
            warnings.extend(self.engine.write_storage(state).await?);
        }
        if let Some(playwright) = playwright {
            self.engine.start_playwright(playwright).await?;
        }
        tokio::spawn(Arc::clone(self).look_after());
        tokio::spawn(Arc::clone(self).watch_memory());
        // The first tab shows the blank page already.
        if let Some(url) = url.filter(|url| url != BLANK_PAGE) {
            self.engine.expect_first_page();
            tokio::spawn(Arc::clone(self).open_first_page(url, log));
        }
        Ok(Launched { warnings })
    }

    /// Takes the worker from those that wait. The lock keeps it from being stopped after that.
    fn activate(&self) -> Result<(), ApiError> {
        let _frozen = self.frozen.lock();
        if self.shared.status.activate() {
            Ok(())
        } else {
            Err(ApiError::conflict("not_warm", "only a warm worker can be launched"))
        }
    }

    /// Wakes the browser, if nobody has yet, and only then watches whether it answers.
    async fn look_after(self: Arc<Self>) {
        sleep(REST).await;
        self.wake();
        self.watch_for_hangs().await;
    }

    async fn open_first_page(self: Arc<Self>, url: String, log: bool) {
        self.wake();
        if log && self.engine.is_listened_to() {
            self.shared.log.wait_for_daemon().await;
        }
        let failure = self.engine.navigate(&url).await.unwrap_or_else(|error| Some(error.to_string()));
        if let Some(reason) = failure {
            tracing::info!(reason, "the first page did not load");
            self.shared.status.report_page_failure(reason);
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;
    use warmpool_protocol::{Settings, WorkerState};

    use super::*;
    use crate::process::Exit;

    #[tokio::test(start_paused = true)]
    async fn a_browser_that_its_launch_does_not_need_wakes_up_soon_after_the_answer() {
        for has_ended in [false, true] {
            let home = tempfile::tempdir().unwrap();
            let worker = Claimed::of_tests(home.path());
            worker.launch(Launch::default()).await.unwrap();
            assert_eq!(worker.shared.status.state(), WorkerState::Active);
            if has_ended {
                worker.shared.status.report_exit(Exit { code: None, signal: Some(9) }, false);
            }
            sleep(REST / 2).await;
            assert!(worker.is_frozen(), "the answer goes first");
            sleep(REST).await;
            assert!(!worker.is_frozen(), "its driver and its display wake up as well");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_first_page_wakes_its_browser_at_once() {
        let home = tempfile::tempdir().unwrap();
        let worker = Claimed::of_tests(home.path());
        let begun = Instant::now();
        worker.launch(Launch { url: Some("http://a.test/".to_owned()), ..Launch::default() }).await.unwrap();
        assert!(worker.is_frozen(), "the answer goes first");
        while worker.is_frozen() {
            tokio::task::yield_now().await;
        }
        assert_eq!(begun.elapsed(), Duration::ZERO);
    }

    #[tokio::test]
    async fn a_launch_wakes_the_browser_that_it_needs() {
        let home = tempfile::tempdir().unwrap();
        let worker = Claimed::of_tests(home.path());
        let settings = Settings { locales: vec!["de-CH".to_owned()], ..Settings::default() };
        assert!(worker.launch(Launch { settings, ..Launch::default() }).await.is_err(), "there is no browser");
        assert!(!worker.is_frozen());
    }

    #[tokio::test]
    async fn a_launch_that_comes_to_nothing_wakes_nobody() {
        let home = tempfile::tempdir().unwrap();
        let worker = Claimed::of_tests(home.path());
        assert!(worker.launch(Launch { block_ads: true, ..Launch::default() }).await.is_err(), "no rules were brought");
        assert!(worker.is_frozen());
        assert_eq!(worker.shared.status.state(), WorkerState::Warm);
    }
}
