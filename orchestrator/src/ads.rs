//! The rules by which sessions block ads: lists in EasyList's format, read and compiled once for all sessions.

mod list;

use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use adblock::Engine as RuleEngine;
use adblock::lists::{FilterSet, ParseOptions};
use bytes::Bytes;
use tokio::sync::Mutex;

use crate::engine::Engine;
use crate::error::Error;

/// The name of the list that is built into the daemon.
pub(crate) const BUILT_IN: &str = "easylist";

/// The compiled lists, shared by its clones.
#[derive(Clone)]
pub(crate) struct AdRules(Arc<Inner>);

struct Inner {
    lists: Vec<String>,
    /// Compiled for the first session that blocks ads, and again when a file has changed.
    compiled: Mutex<Option<Compiled>>,
}

#[derive(Clone)]
struct Compiled {
    versions: Vec<Version>,
    /// Brave's engine over all lists.
    engine: Bytes,
}

/// What tells one content of a file from another.
type Version = Option<(SystemTime, u64)>;

impl AdRules {
    /// The rules of these lists: paths, or [`BUILT_IN`].
    pub(crate) fn new(lists: Vec<String>) -> Self {
        Self(Arc::new(Inner { lists, compiled: Mutex::new(None) }))
    }

    /// The rules as that engine's workers take them.
    ///
    /// # Errors
    /// `NotSupported` when there is no list; `Internal` when one cannot be read and none was before.
    pub(crate) async fn of_engine(&self, _engine: Engine) -> Result<Bytes, Error> {
        let mut compiled = self.0.compiled.lock().await;
        let inner = Arc::clone(&self.0);
        let known = compiled.clone();
        let fresh = tokio::task::spawn_blocking(move || inner.refresh(known)).await.map_err(Error::internal)??;
        let rules = fresh.engine.clone();
        *compiled = Some(fresh);
        Ok(rules)
    }
}

impl Inner {
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
        Ok(Compiled { versions, engine })
    }
}

fn version(list: &str) -> Version {
    if list == BUILT_IN {
        return None;
    }
    let metadata = Path::new(list).metadata().ok()?;
    Some((metadata.modified().ok()?, metadata.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn compiled(rules: &AdRules) -> RuleEngine {
        let mut engine = RuleEngine::default();
        engine.deserialize(&rules.of_engine(Engine::Chromium).await.unwrap()).unwrap();
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
        let rules = AdRules::new(vec![file.display().to_string()]);
        assert!(blocks(&compiled(&rules).await, "https://one.example/a.js"));
        std::fs::write(&file, "||another.example^\n").unwrap();
        let engine = compiled(&rules).await;
        assert!(blocks(&engine, "https://another.example/a.js") && !blocks(&engine, "https://one.example/a.js"));
        std::fs::remove_file(&file).unwrap();
        assert!(blocks(&compiled(&rules).await, "https://another.example/a.js"));
    }

    #[tokio::test]
    async fn no_rules_are_an_error_that_names_the_field() {
        let error = AdRules::new(Vec::new()).of_engine(Engine::Chromium).await.unwrap_err();
        assert_eq!(error.named_field(), Some("advanced.block_ads"));
    }
}
