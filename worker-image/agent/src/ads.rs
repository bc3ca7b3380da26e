//! Which requests are for ads, and what pages hide: Brave's engine over rules that the daemon has compiled.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use adblock::Engine;
use adblock::request::Request;
use bytes::Bytes;
use serde::Deserialize;
use tokio::sync::watch;
use tokio::time::sleep;

use crate::error::ApiError;
use crate::status::Status;

/// Time between two reports of how many requests were blocked.
const REPORT_INTERVAL: Duration = Duration::from_secs(1);

/// Rules, as the daemon brings them.
#[derive(Debug, Clone)]
pub(crate) enum AdRules {
    /// Brave's engine, or what WebKit is to compile.
    Plain(Bytes),
    /// The same of the list that images are built with, and of no other.
    BuiltIn(Bytes),
    /// As a WebKit of this very version has compiled them.
    Compiled(Bytes),
}

/// The compiled rules of one session.
pub(crate) struct AdBlocker {
    engine: Engine,
    blocked: watch::Sender<u64>,
}

/// What a page hides by its address.
pub(crate) struct Hidden {
    /// Style rules.
    pub(crate) css: String,
    /// Whether rules for all sites apply too; [`AdBlocker::generic_css`] has those.
    pub(crate) generic: bool,
    /// Selectors that this page is excepted from.
    pub(crate) exceptions: HashSet<String>,
}

/// Names in a page for which there may be generic rules.
#[derive(Default, Deserialize)]
pub(crate) struct Names {
    classes: Vec<String>,
    ids: Vec<String>,
}

impl AdBlocker {
    /// Loads rules and reports to the status how many requests they block.
    pub(crate) fn new(rules: &AdRules, status: &Arc<Status>) -> Result<Arc<Self>, ApiError> {
        let rules = match rules {
            AdRules::Plain(rules) | AdRules::BuiltIn(rules) => rules,
            AdRules::Compiled(_) => return Err(ApiError::bad_request("block_ads: only WebKit compiles rules")),
        };
        let mut engine = Engine::default();
        engine.deserialize(rules).map_err(|error| {
            ApiError::bad_request(format!("the rules of ads have another format than this image reads: {error:?}"))
        })?;
        let (blocked, mut reported) = watch::channel(0);
        status.report_ads_blocked(0);
        let status = Arc::clone(status);
        tokio::spawn(async move {
            while reported.changed().await.is_ok() {
                status.report_ads_blocked(*reported.borrow_and_update());
                sleep(REPORT_INTERVAL).await;
            }
        });
        Ok(Arc::new(Self { engine, blocked }))
    }

    /// Whether a request is for an ad, and counts it if so. `source` is the address of the page or frame that asks.
    pub(crate) fn blocks(&self, url: &str, source: &str, kind: &str, method: &str) -> bool {
        let Ok(request) = Request::new(url, source, kind, method) else { return false };
        let blocks = self.engine.check_network_request(&request).should_block();
        if blocks {
            self.count();
        }
        blocks
    }

    /// Counts a request that was blocked.
    pub(crate) fn count(&self) {
        self.blocked.send_modify(|count| *count += 1);
    }

    /// What a page at this address hides.
    pub(crate) fn hidden(&self, url: &str) -> Hidden {
        let resources = self.engine.url_cosmetic_resources(url);
        Hidden {
            css: css(&resources.hide_selectors),
            generic: !resources.generichide,
            exceptions: resources.exceptions,
        }
    }

    /// The generic rules for classes and ids that a page has, but for those it is excepted from.
    pub(crate) fn generic_css(&self, names: &Names, exceptions: &HashSet<String>) -> String {
        css(&self.engine.hidden_class_id_selectors(&names.classes, &names.ids, exceptions))
    }
}

/// One rule for each selector: a browser skips a selector that it cannot read, with the whole of its rule.
fn css<'a>(selectors: impl IntoIterator<Item = &'a String>) -> String {
    selectors.into_iter().map(|selector| format!("{selector}{{display:none!important}}\n")).collect()
}

#[cfg(test)]
mod tests {
    use adblock::lists::{FilterSet, ParseOptions};

    use super::*;

    fn blocker(rules: &str) -> Arc<AdBlocker> {
        let mut set = FilterSet::new(false);
        set.add_filter_list(rules.to_owned(), ParseOptions::default());
        let rules = AdRules::Plain(Engine::new_with_filter_set(set).serialize().into());
        AdBlocker::new(&rules, &Arc::new(Status::new())).unwrap()
    }

    #[tokio::test]
    async fn requests_are_blocked_by_address_type_and_party() {
        let blocker = blocker("||ads.example^\n/banner/*$image\n||cdn.example^$third-party\n@@||ads.example/ok^\n");
        let blocks = |url, kind| blocker.blocks(url, "https://site.example/", kind, "GET");
        assert!(blocks("https://x.ads.example/a.js", "script"));
        assert!(!blocks("https://ads.example/ok/a.js", "script"));
        assert!(blocks("https://site.example/banner/1.png", "image"));
        assert!(!blocks("https://site.example/banner/1.js", "script"));
        assert!(blocks("https://cdn.example/a.js", "script"));
        assert!(!blocker.blocks("https://cdn.example/a.js", "https://www.cdn.example/", "script", "GET"));
        assert_eq!(*blocker.blocked.borrow(), 3);
    }

    #[tokio::test]
    async fn pages_hide_what_their_address_and_their_names_say() {
        let blocker = blocker(
            "##.ad-banner\n##div[data-ad]\nsite.example###top\nfree.example#@#.ad-banner\n@@||quiet.example^$generichide\n",
        );
        let generic = |hidden: &Hidden| {
            let names = Names { classes: vec!["ad-banner".into(), "text".into()], ids: Vec::new() };
            blocker.generic_css(&names, &hidden.exceptions)
        };
        let site = blocker.hidden("https://site.example/");
        assert!(site.css.contains("#top{display:none!important}") && site.css.contains("div[data-ad]"));
        assert_eq!(generic(&site), ".ad-banner{display:none!important}\n");
        let free = blocker.hidden("https://free.example/");
        assert!(generic(&free).is_empty() && !free.css.contains("#top"));
        let quiet = blocker.hidden("https://quiet.example/");
        assert!(!quiet.generic && quiet.css.is_empty());
    }

    #[tokio::test]
    async fn rules_of_another_format_are_refused() {
        for rules in [AdRules::Plain("nonsense".into()), AdRules::Compiled(Bytes::new())] {
            assert!(AdBlocker::new(&rules, &Arc::new(Status::new())).is_err());
        }
    }
}
