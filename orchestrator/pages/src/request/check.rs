//! Checks what all bodies have, and says what an engine cannot do.

use std::collections::BTreeMap;
use std::time::Duration;

use http::{HeaderName, HeaderValue};
use regex::{Regex, RegexBuilder};
use serde_json::{Value, json};
use url::Url;

use super::wire::{
    Cookie, Credentials, Fields, GotoOptions, Interceptor, LifecycleEvent, Viewport, WaitForEvent, WaitForFunction,
    WaitForSelector,
};
use super::{Source, Tag};
use crate::Error;
use warmpool_core::browser::Engine;
use warmpool_core::error::FieldFault as _;
use warmpool_sessions::session::page_address;

/// The most entries of a list in a body.
const MOST: usize = 100;
/// How large a regular expression may become, in bytes.
const EXPRESSION: usize = 64 << 10;
/// The longest regular expression, in bytes: reading one takes a hundred times as much memory.
const LONGEST_EXPRESSION: usize = 10_000;
/// The largest side of a page, in CSS pixels.
const LARGEST: u32 = 8192;
/// The most pixels of a screen to a pixel of CSS.
const FINEST: f64 = 4.0;
/// What Chromium calls the kinds of requests that can be held back.
const TYPES: [&str; 16] = [
    "cspviolationreport",
    "document",
    "eventsource",
    "fetch",
    "font",
    "image",
    "manifest",
    "media",
    "other",
    "ping",
    "prefetch",
    "preflight",
    "script",
    "stylesheet",
    "texttrack",
    "xhr",
];

/// What all calls ask for, checked.
#[derive(Debug)]
pub(crate) struct PageRequest {
    pub(crate) source: Source,
    pub(crate) goto: GotoOptions,
    pub(crate) wait_for_timeout: Option<Duration>,
    pub(crate) wait_for_function: Option<WaitForFunction>,
    pub(crate) wait_for_selector: Option<WaitForSelector>,
    pub(crate) wait_for_event: Option<WaitForEvent>,
    pub(crate) best_attempt: bool,
    /// As DevTools takes them.
    pub(crate) cookies: Vec<Value>,
    pub(crate) viewport: Option<Viewport>,
    pub(crate) user_agent: Option<String>,
    pub(crate) authenticate: Option<Credentials>,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) java_script: bool,
    pub(crate) media_type: Option<String>,
    pub(crate) styles: Vec<Tag>,
    pub(crate) scripts: Vec<Tag>,
    pub(crate) rejected_types: Vec<String>,
    pub(crate) rejected_patterns: Vec<Regex>,
    pub(crate) interceptors: Vec<(Regex, Value)>,
    /// By which name the site's `robots.txt` knows the reader; none where it is not asked.
    pub(crate) robots: Option<String>,
}

impl PageRequest {
    /// Checks the fields for a browser of `engine`.
    /// Errors: `Field`.
    pub(crate) fn new(fields: Fields, engine: Engine) -> Result<Self, Error> {
        check_engine(&fields, engine)?;
        let source = source(fields.url, fields.html)?;
        if let Some(selector) = &fields.wait_for_selector
            && selector.visible
            && selector.hidden
        {
            return Err(Error::invalid("waitForSelector.hidden", "cannot be true together with `visible`"));
        }
        let polling = fields.wait_for_function.as_ref().and_then(|wait| wait.polling.as_ref());
        if let Some(polling) = polling
            && polling.as_u64().is_none()
            && !matches!(polling.as_str(), Some("raf" | "mutation"))
        {
            return Err(Error::invalid(
                "waitForFunction.polling",
                "must be raf, mutation, or a number of milliseconds",
            ));
        }
        if let Some(media) = fields.media_type.as_deref().filter(|media| !matches!(*media, "screen" | "print")) {
            return Err(Error::invalid(
                "emulateMediaType",
                format!("must be screen or print, and is `{}`", cut(media)),
            ));
        }
        Ok(Self {
            cookies: cookies(fields.cookies, &source)?,
            viewport: fields.viewport.map(viewport).transpose()?,
            headers: headers("setExtraHTTPHeaders", fields.headers)?,
            styles: limited("addStyleTag", fields.styles)?
                .into_iter()
                .enumerate()
                .map(|(at, tag)| self::tag(format!("addStyleTag[{at}]"), "style", (tag.url, tag.content), json!({})))
                .collect::<Result<_, _>>()?,
            scripts: limited("addScriptTag", fields.scripts)?
                .into_iter()
                .enumerate()
                .map(|(at, tag)| {
                    let more = json!({"type": tag.kind, "id": tag.id});
                    self::tag(format!("addScriptTag[{at}]"), "script", (tag.url, tag.content), more)
                })
                .collect::<Result<_, _>>()?,
            rejected_types: types(fields.rejected_types)?,
            rejected_patterns: limited("rejectRequestPattern", fields.rejected_patterns)?
                .into_iter()
                .enumerate()
                .map(|(at, pattern)| expression(&format!("rejectRequestPattern[{at}]"), &pattern))
                .collect::<Result<_, _>>()?,
            interceptors: limited("requestInterceptors", fields.interceptors)?
                .into_iter()
                .enumerate()
                .map(|(at, interceptor)| answer(&format!("requestInterceptors[{at}]"), interceptor))
                .collect::<Result<_, _>>()?,
            source,
            robots: None,
            goto: fields.goto_options.unwrap_or_default(),
            wait_for_timeout: fields.wait_for_timeout.map(Duration::from_millis),
            wait_for_function: fields.wait_for_function,
            wait_for_selector: fields.wait_for_selector,
            wait_for_event: fields.wait_for_event,
            best_attempt: fields.best_attempt,
            user_agent: fields.user_agent,
            authenticate: fields.authenticate,
            java_script: fields.java_script,
            media_type: fields.media_type,
        })
    }

    /// Whether requests have to stop at the daemon on their way.
    pub(crate) const fn intercepts(&self) -> bool {
        !self.rejected_types.is_empty()
            || !self.rejected_patterns.is_empty()
            || !self.interceptors.is_empty()
            || self.authenticate.is_some()
    }
}

/// Refuses what only DevTools can do where there is none.
fn check_engine(fields: &Fields, engine: Engine) -> Result<(), Error> {
    if engine == Engine::Chromium {
        return Ok(());
    }
    let goto = fields.goto_options.as_ref();
    let idle = |moment: &LifecycleEvent| matches!(moment, LifecycleEvent::NetworkIdle0 | LifecycleEvent::NetworkIdle2);
    let waits_for_idle = goto.and_then(|goto| goto.wait_until.as_ref()).is_some_and(|until| until.0.iter().any(idle));
    let viewport = fields.viewport.as_ref();
    for (field, given) in [
        ("cookies", !fields.cookies.is_empty()),
        ("authenticate", fields.authenticate.is_some()),
        ("setExtraHTTPHeaders", !fields.headers.is_empty()),
        ("setJavaScriptEnabled", !fields.java_script),
        ("emulateMediaType", fields.media_type.is_some()),
        ("rejectResourceTypes", !fields.rejected_types.is_empty()),
        ("rejectRequestPattern", !fields.rejected_patterns.is_empty()),
        ("requestInterceptors", !fields.interceptors.is_empty()),
        ("gotoOptions.waitUntil", waits_for_idle),
        ("gotoOptions.referer", goto.is_some_and(|goto| goto.referer.is_some())),
        ("gotoOptions.referrerPolicy", goto.is_some_and(|goto| goto.referrer_policy.is_some())),
        ("viewport.deviceScaleFactor", viewport.is_some_and(|it| it.device_scale_factor.is_some_and(|by| by != 1.0))),
        ("viewport.isMobile", viewport.is_some_and(|it| it.is_mobile)),
        ("viewport.hasTouch", viewport.is_some_and(|it| it.has_touch)),
        ("viewport.isLandscape", viewport.is_some_and(|it| it.is_landscape)),
    ] {
        only_chromium(field, given, engine)?;
    }
    Ok(())
}

/// Refuses a field that another engine than Chromium cannot carry out, if it is given.
/// Errors: `Field`.
pub(crate) fn only_chromium(field: &str, given: bool, engine: Engine) -> Result<(), Error> {
    if given && engine != Engine::Chromium {
        return Err(Error::not_supported(field, format!("takes Chromium: leave it out, or `browser={engine}`")));
    }
    Ok(())
}

fn source(url: Option<String>, html: Option<String>) -> Result<Source, Error> {
    match (url, html) {
        (Some(_), Some(_)) => Err(Error::invalid("html", "cannot be given together with `url`: send one of the two")),
        (None, Some(html)) => Ok(Source::Html(html)),
        (Some(url), None) => {
            let address = page_address(&url).map_err(|wrong| Error::invalid("url", wrong.to_string()))?;
            Ok(Source::Url(Url::parse(&address).map_err(|wrong| Error::invalid("url", wrong.to_string()))?))
        }
        (None, None) => Err(Error::invalid("url", "is missing: send the address of a page, or its HTML as `html`")),
    }
}

fn viewport(viewport: Viewport) -> Result<Viewport, Error> {
    for (field, side) in [("viewport.width", viewport.width), ("viewport.height", viewport.height)] {
        if !(1..=LARGEST).contains(&side) {
            return Err(Error::invalid(field, format!("must be 1 to {LARGEST}")));
        }
    }
    if viewport.device_scale_factor.is_some_and(|factor| !(0.0..=FINEST).contains(&factor)) {
        return Err(Error::invalid("viewport.deviceScaleFactor", format!("must be 0 to {FINEST}")));
    }
    Ok(viewport)
}

fn cookies(cookies: Vec<Cookie>, source: &Source) -> Result<Vec<Value>, Error> {
    let own = match source {
        Source::Url(url) if matches!(url.scheme(), "http" | "https") => Some(url.to_string()),
        _ => None,
    };
    let one = |(at, cookie): (usize, Cookie)| {
        let url = cookie.url.or_else(|| own.clone().filter(|_| cookie.domain.is_none()));
        if url.is_none() && cookie.domain.is_none() {
            let problem = "needs `url` or `domain`, because the page has no address of its own";
            return Err(Error::invalid(format!("cookies[{at}]"), problem));
        }
        for (field, value, known) in [
            ("sameSite", &cookie.same_site, ["Strict", "Lax", "None"]),
            ("priority", &cookie.priority, ["Low", "Medium", "High"]),
        ] {
            if value.as_deref().is_some_and(|value| !known.contains(&value)) {
                return Err(Error::invalid(format!("cookies[{at}].{field}"), format!("must be {}", known.join(", "))));
            }
        }
        let expires = cookie.expires.filter(|at| *at >= 0.0);
        let mut made = json!({"name": cookie.name, "value": cookie.value});
        for (name, value) in [
            ("url", json!(url)),
            ("domain", json!(cookie.domain)),
            ("path", json!(cookie.path)),
            ("secure", json!(cookie.secure)),
            ("httpOnly", json!(cookie.http_only)),
            ("sameSite", json!(cookie.same_site)),
            ("expires", json!(expires)),
            ("priority", json!(cookie.priority)),
        ] {
            if !value.is_null() {
                made[name] = value;
            }
        }
        Ok(made)
    };
    limited("cookies", cookies)?.into_iter().enumerate().map(one).collect()
}

fn headers(field: &str, headers: BTreeMap<String, String>) -> Result<BTreeMap<String, String>, Error> {
    for (name, value) in &headers {
        if HeaderName::try_from(name).is_err() {
            return Err(Error::invalid(field, format!("has `{}`, which is not a name of a header", cut(name))));
        }
        if HeaderValue::try_from(value).is_err() {
            return Err(Error::invalid(format!("{field}.{}", cut(name)), "is not a value of a header"));
        }
    }
    Ok(headers)
}

fn tag(field: String, kind: &str, from: (Option<String>, Option<String>), more: Value) -> Result<Tag, Error> {
    let mut value = more;
    value["tag"] = json!(kind);
    match from {
        (Some(url), None) => value["url"] = json!(url),
        (None, Some(content)) => value["content"] = json!(content),
        _ => return Err(Error::invalid(field, "needs either `url` or `content`")),
    }
    Ok(Tag { value, field })
}

fn types(types: Vec<String>) -> Result<Vec<String>, Error> {
    let one = |(at, kind): (usize, String)| {
        let (field, kind) = (format!("rejectResourceTypes[{at}]"), kind.to_lowercase());
        match kind.as_str() {
            "websocket" => Err(Error::not_supported(field, "cannot be held back: reject the script that opens it")),
            known if TYPES.contains(&known) => Ok(kind),
            _ => Err(Error::invalid(field, format!("must be one of {}", TYPES.join(", ")))),
        }
    };
    limited("rejectResourceTypes", types)?.into_iter().enumerate().map(one).collect()
}

fn expression(field: &str, pattern: &str) -> Result<Regex, Error> {
    if pattern.len() > LONGEST_EXPRESSION {
        return Err(Error::invalid(field, format!("may have {LONGEST_EXPRESSION} bytes at most")));
    }
    RegexBuilder::new(pattern).size_limit(EXPRESSION).build().map_err(|error| {
        let reason = error.to_string().lines().last().unwrap_or_default().trim().to_owned();
        Error::invalid(field, format!("is no regular expression that is taken here: {reason}"))
    })
}

/// An interceptor as DevTools takes its answer.
fn answer(field: &str, interceptor: Interceptor) -> Result<(Regex, Value), Error> {
    use base64::Engine as _;

    let pattern = expression(&format!("{field}.pattern"), &interceptor.pattern)?;
    let response = interceptor.response.0;
    let status = response.status.unwrap_or(200);
    if !(100..600).contains(&status) {
        return Err(Error::invalid(format!("{field}.response.status"), "must be 100 to 599"));
    }
    let given = headers(&format!("{field}.response.headers"), response.headers)?;
    let mut headers: Vec<Value> = given.iter().map(|(name, value)| json!({"name": name, "value": value})).collect();
    if let Some(kind) = &response.content_type {
        if HeaderValue::try_from(kind).is_err() {
            return Err(Error::invalid(format!("{field}.response.contentType"), "is no media type"));
        }
        headers.push(json!({"name": "content-type", "value": kind}));
    }
    let body = base64::engine::general_purpose::STANDARD.encode(response.body);
    Ok((pattern, json!({"responseCode": status, "responseHeaders": headers, "body": body})))
}

fn limited<T>(field: &str, list: Vec<T>) -> Result<Vec<T>, Error> {
    if list.len() > MOST {
        return Err(Error::invalid(field, format!("may have {MOST} entries at most")));
    }
    Ok(list)
}

/// So much of a client's text as an error repeats.
pub(crate) fn cut(text: &str) -> String {
    text.chars().take(60).collect()
}

#[cfg(test)]
mod tests;
