//! Which elements of a page are wanted.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use warmpool_api::Object;

use super::time;
use super::wire::unwrap;
use crate::Error;
use crate::perform::WAIT;
use warmpool_core::error::FieldFault as _;

/// The most selectors of a call.
const MOST: usize = 100;

/// The elements of one selector.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Element {
    /// Their CSS selector.
    selector: String,
    /// How long the first of them may take to come, in milliseconds: 30000 where it is left out.
    timeout: Option<u64>,
}

/// What else is wanted of a page.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct DebugOptions {
    /// Not served by this release: `true` is refused.
    console: Option<bool>,
    /// Not served by this release: `true` is refused.
    network: Option<bool>,
    /// The page's cookies.
    cookies: Option<bool>,
    /// The page's HTML.
    html: Option<bool>,
    /// A picture of the page, in base64.
    screenshot: Option<bool>,
}

/// What is wanted of a page, checked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Scrape {
    /// Each selector, and how long its first element may take.
    pub(crate) elements: Vec<(String, Option<Duration>)>,
    pub(crate) cookies: bool,
    pub(crate) html: bool,
    pub(crate) screenshot: bool,
}

impl Scrape {
    /// Checks what a body asks for.
    /// Errors: `Field`.
    pub(crate) fn new(
        elements: Option<Vec<Object<Element>>>,
        debug: Option<Object<DebugOptions>>,
    ) -> Result<Self, Error> {
        let elements = elements.unwrap_or_default();
        if elements.is_empty() {
            return Err(Error::invalid("elements", "must name at least one element, as [{\"selector\": \"h1\"}]"));
        }
        if elements.len() > MOST {
            return Err(Error::invalid("elements", format!("may have {MOST} entries at most")));
        }
        let debug = unwrap(debug).unwrap_or_default();
        for (field, given) in [("debugOpts.console", debug.console), ("debugOpts.network", debug.network)] {
            if given == Some(true) {
                let remedy = "is not served: leave it out, or listen by a client of DevTools";
                return Err(Error::not_supported(field, remedy));
            }
        }
        let elements = elements.into_iter().map(|Object(element)| (element.selector, time(element.timeout, WAIT)));
        Ok(Self {
            elements: elements.collect(),
            cookies: debug.cookies == Some(true),
            html: debug.html == Some(true),
            screenshot: debug.screenshot == Some(true),
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::wire::ScrapeBody;
    use super::*;
    use warmpool_core::error::{Fault as _, read_json};

    fn check(body: Value) -> Result<Scrape, Error> {
        let body = read_json::<ScrapeBody, _>(body).map_err(Error::from)?;
        Scrape::new(body.elements, body.debug_opts)
    }

    #[test]
    fn faults_name_their_field() {
        for (body, field) in [
            (json!({}), "elements"),
            (json!({"elements": []}), "elements"),
            (json!({"elements": [{"selector": "a", "xpath": "//a"}]}), "elements[0].xpath"),
            (json!({"elements": [{"selector": "a"}], "debugOpts": {"console": true}}), "debugOpts.console"),
        ] {
            assert_eq!(check(body.clone()).unwrap_err().field(), Some(field), "{body}");
        }
        let scrape = check(
            json!({"elements": [{"selector": "a", "timeout": 5}, {"selector": "b"}, {"selector": "c", "timeout": 0}]}),
        );
        let times: Vec<Option<Duration>> = scrape.unwrap().elements.into_iter().map(|(_, time)| time).collect();
        assert_eq!(times, [Some(Duration::from_millis(5)), Some(WAIT), None]);
    }
}
