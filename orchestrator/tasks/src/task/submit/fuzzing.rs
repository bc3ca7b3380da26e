//! Tasks for the fuzzer: what is accepted can be read again from the disk, and no body is our own fault.

use std::sync::LazyLock;

use serde_json::Value;

use super::{SubmitRequest, TaskKind, TaskSpec};
use crate::Error;
use warmpool_api::Members;
use warmpool_config::{Config, Flags, Host};
use warmpool_core::error::{Code, Fault as _, read_json};

static CONFIG: LazyLock<Config> = LazyLock::new(|| {
    let host = Host { memory: 8 << 30, cores: 2, root: true, ..Host::default() };
    Config::resolve(None, std::iter::empty(), &Flags::default(), &host)
        .unwrap_or_else(|error| panic!("without settings, there is nothing to check: {error}"))
});

/// Bodies of all three calls. The first byte of an input sets which.
pub fn seeds() -> Vec<Vec<u8>> {
    let run = br##"{"title":"t","steps":[{"type":"setViewport","width":800,"height":600,"deviceScaleFactor":1,"isMobile":false,"hasTouch":false,"isLandscape":false},{"type":"navigate","url":"https://{{input.host}}/"},{"type":"click","selectors":[["aria/Go"],["#a","b"],"text/x","xpath///b"],"offsetX":1,"offsetY":2,"frame":[0],"timeout":100,"assertedEvents":[{"type":"navigation","url":"https://a.test/"}]},{"type":"change","value":"{{secret.pw}}","selectors":["#p"]},{"type":"keyDown","key":"Enter"},{"type":"waitForElement","selectors":["a"],"operator":">=","count":2,"visible":true},{"type":"waitForExpression","expression":"1 === 1"},{"type":"scroll","x":0,"y":9},{"type":"customStep","name":"lam:screenshot","parameters":{}}],"inputs":{"host":"a.test"},"secrets":{"pw":"x"},"timeout":5000,"metadata":{"a":"b"}}"##;
    let extract = br##"{"url":"https://a.test/?q={{input.q}}","rows":"#r > li","schema":{"n":{"selector":"h2","required":true},"a":{"selector":"h2 a","attribute":"href"},"s":{"attribute":"data-s","type":"regex","pattern":"T-(\\d+)","group":1},"p":{"selector":".p","type":"number","decimal":","},"i":{"selector":".s","type":"boolean","pattern":"(?i)in"},"d":{"xpath":".//time","type":"date","format":"%Y"},"t":{"selector":".t li","type":"list"}},"next":{"selector":["a[rel=next]","aria/Next page"],"pages":5},"wait_for":"#a","validate":{"type":"object","required":["n"],"properties":{"p":{"type":"number","minimum":1}}},"inputs":{"q":1},"browser_type":"firefox","headless":false}"##;
    let rows = br##"{"url":"https://a.test/","builtins":["json_ld","meta","links"],"schema":{"o":{"type":"nested","selector":"b","fields":{"x":"i"}},"w":{"type":"table","selector":"table","headers":true}}}"##;
    let fleet = br##"{"run":{"steps":[{"type":"navigate","url":"{{input.url}}"}]},"urls":["https://a.test/","https://b.test/"],"concurrency":2,"isolation":"container","settings":{"locales":["de-DE"],"viewport":{"width":800,"height":600}},"profile":{"name":"p","mode":"read"}}"##;
    [(0, &run[..]), (1, extract), (1, rows), (2, fleet)].map(|(kind, body)| [&[kind], body].concat()).into()
}

/// Panics when an accepted task cannot be read again, or a body is an internal error.
pub fn check(bytes: &[u8]) {
    if let Some(Err(error)) = accepted(bytes) {
        assert_ne!(error.code(), Code::Internal, "{error:?} is our fault");
    }
}

/// Whether a body makes a task; nothing for bytes that are no such body.
fn accepted(bytes: &[u8]) -> Option<Result<(), Error>> {
    let [kind, body @ ..] = bytes else { return None };
    let config = &*CONFIG;
    let kind = [TaskKind::Run, TaskKind::Extract, TaskKind::Fleet][usize::from(*kind) % 3];
    let members = read_json::<Members, _>(serde_json::from_slice::<Value>(body).ok()?).ok()?;
    Some(SubmitRequest::read(kind, members).and_then(|request| request.check(config)).and_then(|(spec, secrets)| {
        let work = spec.parse_work()?;
        let _ = (spec.first_page(), spec.first_host(&spec.inputs), spec.title());
        let stored = serde_json::to_vec(&spec).unwrap_or_default();
        let restored = serde_json::from_slice::<TaskSpec>(&stored);
        assert!(restored.as_ref().is_ok_and(|restored| restored.parse_work().is_ok()), "{restored:?} is accepted");
        let again = restored.ok().and_then(|restored| serde_json::to_vec(&restored).ok());
        assert!(again == Some(stored), "{spec:?} is another one from the disk");
        // A fleet's items bring values of their own.
        if kind == TaskKind::Fleet {
            Ok(())
        } else {
            work.templates().check(&spec.values(None, &secrets.values), u64::MAX)
        }
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_seed_makes_a_task() {
        for seed in seeds() {
            let made = accepted(&seed);
            assert!(matches!(made, Some(Ok(()))), "{}: {made:?}", String::from_utf8_lossy(&seed));
        }
    }
}
