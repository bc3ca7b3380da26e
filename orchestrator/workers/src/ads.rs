//! The rules by which sessions block ads: lists in EasyList's format, read and compiled once for all sessions.

mod list;

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use adblock::Engine as RuleEngine;
use adblock::content_blocking::{CbRule, ignore_previous_fp_documents};
use adblock::lists::{FilterSet, ParseOptions};
use bytes::Bytes;
use tokio::sync::Mutex;

use crate::Error;
use warmpool_config::BUILT_IN_AD_LIST;
use warmpool_core::browser::Engine;
use warmpool_core::error::{FieldFault as _, ServiceFault as _};

/// Rules as one worker takes them.
#[derive(Debug, Clone)]
pub enum AdRules {
    /// Brave's engine, or the rules of WebKit, which its browser compiles.
    Plain(Bytes),
    /// Brave's engine over [`BUILT_IN_AD_LIST`] alone, the list that Chromium's image has for its browser's own filter.
    BuiltIn(Bytes),
    /// Rules of WebKit, compiled by a browser of that worker's version.
    Compiled(Bytes),
}

/// The lists, shared by its clones.
#[derive(Clone)]
pub struct AdLists(Arc<ListSet>);

/// The lists and what was compiled of them last.
struct ListSet {
    lists: Vec<String>,
    /// Compiled for the first session that blocks ads, and again when a file has changed.
    compiled: Mutex<Option<Compiled>>,
}

#[derive(Clone)]
struct Compiled {
    versions: Vec<Version>,
    /// Brave's engine over all lists.
    engine: Bytes,
    /// The same for WebKit, made when a session first wants it.
    webkit: Option<Bytes>,
    /// What WebKits have compiled of that, by their versions.
    by_version: HashMap<String, Bytes>,
}

/// Identifies a version of a file's content.
type Version = Option<(SystemTime, u64)>;

impl AdLists {
    /// The rules of these lists: paths, or [`BUILT_IN_AD_LIST`].
    pub fn new(lists: Vec<String>) -> Self {
        Self(Arc::new(ListSet { lists, compiled: Mutex::new(None) }))
    }

    /// Returns the rules as a worker takes them whose browser has this version.
    /// Errors: `NotSupported` when there is no list; `Internal` when one cannot be read and none was before.
    pub async fn rules_for(&self, engine: Engine, version: Option<&str>) -> Result<AdRules, Error> {
        let mut compiled = self.0.compiled.lock().await;
        let inner = Arc::clone(&self.0);
        // A copy, of shared bytes: what is there stays when the rest of this fails, or whoever waits for it leaves.
        let known = compiled.clone();
        let work = tokio::task::spawn_blocking(move || {
            let mut fresh = inner.refresh(known)?;
            if engine == Engine::Webkit && fresh.webkit.is_none() {
                fresh.webkit = Some(inner.for_webkit()?);
            }
            Ok::<_, Error>(fresh)
        });
        let fresh = work.await.map_err(Error::internal)??;
        let rules = match (engine, &fresh.webkit) {
            (Engine::Webkit, Some(rules)) => match version.and_then(|version| fresh.by_version.get(version)) {
                Some(ready) => AdRules::Compiled(ready.clone()),
                None => AdRules::Plain(rules.clone()),
            },
            (Engine::Chromium, _) if self.0.lists == [BUILT_IN_AD_LIST] => AdRules::BuiltIn(fresh.engine.clone()),
            _ => AdRules::Plain(fresh.engine.clone()),
        };
        *compiled = Some(fresh);
        Ok(rules)
    }

    /// Keeps what a WebKit of this version has compiled of these rules, unless the lists have changed meanwhile.
    pub async fn keep_compiled(&self, rules: &Bytes, version: String, ready: Bytes) {
        if let Some(compiled) = &mut *self.0.compiled.lock().await
            && compiled.webkit.as_ref() == Some(rules)
        {
            tracing::debug!(version, bytes = ready.len(), "a browser has compiled the rules of ads");
            compiled.by_version.insert(version, ready);
        }
    }

    /// Forgets what a WebKit of this version has compiled: another one could not read it.
    pub async fn forget_compiled(&self, version: &str) {
        if let Some(compiled) = &mut *self.0.compiled.lock().await {
            compiled.by_version.remove(version);
        }
    }
}

impl ListSet {
    /// The lists as they are now. What is known stays when no file has changed, or one cannot be read.
    fn refresh(&self, known: Option<Compiled>) -> Result<Compiled, Error> {
        let versions: Vec<_> = self.lists.iter().map(|list| version(list)).collect();
        match known {
            Some(known) if known.versions == versions => Ok(known),
            Some(known) => self.compile(versions).or_else(|error| {
                tracing::warn!(%error, "a list of ads cannot be read; the rules stay as they are");
                Ok(known)
            }),
            None => self.compile(versions),
        }
    }

    fn compile(&self, versions: Vec<Version>) -> Result<Compiled, Error> {
        let mut rules = FilterSet::new(false);
        let mut count = 0;
        for name in &self.lists {
            let text = list::read(name).map_err(Error::internal)?;
            let checked = list::check(&text);
            checked.log(name);
            count += checked.rules;
            rules.add_filter_list(text, ParseOptions::default());
        }
        if count == 0 {
            let problem = "needs rules, and this daemon has none: run scripts/ad-list and build the daemon, or name \
                           files of rules in `ads.lists`";
            return Err(Error::not_supported("advanced.block_ads", problem));
        }
        let engine = RuleEngine::new_with_filter_set(rules).serialize().into();
        tracing::info!(rules = count, "the rules of ads are compiled");
        Ok(Compiled { versions, engine, webkit: None, by_version: HashMap::new() })
    }

    /// The rules in WebKit's own form. Those that it cannot express are left out.
    fn for_webkit(&self) -> Result<Bytes, Error> {
        // It keeps the text of each rule, which the translation needs.
        let mut rules = FilterSet::new(true);
        for name in &self.lists {
            rules.add_filter_list(list::read(name).map_err(Error::internal)?, ParseOptions::default());
        }
        let (rules, _) =
            rules.into_content_blocking().map_err(|()| Error::internal("the rules of ads cannot be translated"))?;
        tracing::info!(rules = rules.len(), "the rules of ads are translated for WebKit");
        webkit_json(&rules).map(Bytes::from).map_err(Error::internal)
    }
}

/// WebKit's rules as JSON. The translation keeps all documents of a page's own site, so that pages are never blocked; WebKit
/// can say that of pages alone.
fn webkit_json(rules: &[CbRule]) -> serde_json::Result<Vec<u8>> {
    let of_own_site = ignore_previous_fp_documents();
    let pages = serde_json::json!({
        "trigger": {"url-filter": ".*", "resource-type": ["document"], "load-context": ["top-frame"]},
        "action": {"type": "ignore-previous-rules"},
    });
    let mut json = vec![b'['];
    for (index, rule) in rules.iter().enumerate() {
        if index > 0 {
            json.push(b',');
        }
        if *rule == of_own_site {
            serde_json::to_writer(&mut json, &pages)?;
        } else {
            serde_json::to_writer(&mut json, rule)?;
        }
    }
    json.push(b']');
    Ok(json)
}

fn version(list: &str) -> Version {
    if list == BUILT_IN_AD_LIST {
        return None;
    }
    let metadata = Path::new(list).metadata().ok()?;
    Some((metadata.modified().ok()?, metadata.len()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use warmpool_core::error::Fault as _;

    async fn compiled(rules: &AdLists) -> RuleEngine {
        let mut engine = RuleEngine::default();
        let AdRules::Plain(bytes) = rules.rules_for(Engine::Chromium, None).await.unwrap() else { panic!("compiled") };
        engine.deserialize(&bytes).unwrap();
        engine
    }

    fn blocks(engine: &RuleEngine, url: &str) -> bool {
        let request = adblock::request::Request::new(url, "https://site.example/", "script", "GET").unwrap();
        engine.check_network_request(&request).should_block()
    }

    #[tokio::test]
    async fn a_changed_file_is_read_again_and_one_that_goes_is_not_missed() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("rules.txt");
        std::fs::write(&file, "||one.example^\n").unwrap();
        let rules = AdLists::new(vec![file.display().to_string()]);
        assert!(blocks(&compiled(&rules).await, "https://one.example/a.js"));
        std::fs::write(&file, "||another.example^\n").unwrap();
        let engine = compiled(&rules).await;
        assert!(blocks(&engine, "https://another.example/a.js") && !blocks(&engine, "https://one.example/a.js"));
        std::fs::remove_file(&file).unwrap();
        assert!(blocks(&compiled(&rules).await, "https://another.example/a.js"));
    }

    #[tokio::test]
    async fn rules_outlast_what_cannot_be_made_of_them() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("rules.txt");
        std::fs::write(&file, "||one.example^\n").unwrap();
        let rules = AdLists::new(vec![file.display().to_string()]);
        compiled(&rules).await;
        std::fs::remove_file(&file).unwrap();
        assert!(rules.rules_for(Engine::Webkit, None).await.is_err(), "its rules are made of the file");
        assert!(blocks(&compiled(&rules).await, "https://one.example/a.js"));
    }

    #[tokio::test]
    async fn no_rules_are_an_error_that_names_the_field() {
        let error = AdLists::new(Vec::new()).rules_for(Engine::Chromium, None).await.unwrap_err();
        assert_eq!(error.field(), Some("advanced.block_ads"));
    }

    #[tokio::test]
    async fn what_one_webkit_has_compiled_serves_others_of_its_version() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("rules.txt");
        std::fs::write(&file, "||one.example^\n##.ad\n").unwrap();
        let lists = AdLists::new(vec![file.display().to_string()]);
        let of = async |version| lists.rules_for(Engine::Webkit, Some(version)).await.unwrap();
        let AdRules::Plain(rules) = of("2.50").await else { panic!("compiled") };
        let json: serde_json::Value = serde_json::from_slice(&rules).unwrap();
        assert_eq!(json.as_array().unwrap().len(), 3, "{json}");
        let is_for_pages = |rule: &serde_json::Value| rule["trigger"]["load-context"][0] == "top-frame";
        assert!(json.as_array().unwrap().iter().any(is_for_pages), "{json}");
        lists.keep_compiled(&rules, "2.50".to_owned(), Bytes::from_static(b"ready")).await;
        assert!(matches!(of("2.50").await, AdRules::Compiled(bytes) if bytes == "ready"));
        assert!(matches!(of("2.52").await, AdRules::Plain(_)));
        std::fs::write(&file, "||another.example^\n").unwrap();
        assert!(matches!(of("2.50").await, AdRules::Plain(_)), "the lists have changed");
        lists.keep_compiled(&rules, "2.50".to_owned(), Bytes::from_static(b"stale")).await;
        assert!(matches!(of("2.50").await, AdRules::Plain(_)), "what was compiled are older rules");
    }
}
