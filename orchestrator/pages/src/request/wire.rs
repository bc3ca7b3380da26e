//! The bodies as clients write them: the names and shapes of browserless's REST and of Puppeteer's options.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::value::{SeqAccessDeserializer, StrDeserializer};
use serde::de::{self, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use warmpool_api::{Members, Object, null_is_default};

use super::pdf::PdfOptions;
use super::robots::Robots;
use super::scrape::{DebugOptions, Element};
use super::screenshot::ScreenshotOptions;

/// Declares the bodies, each with the fields that all of them have and its own.
macro_rules! bodies {
    ($($(#[doc = $about:literal])+ $name:ident { $($(#[$meta:meta])* $field:ident: $type:ty,)* })+) => {$(
        $(#[doc = $about])+
        #[derive(Debug, Default, Deserialize, JsonSchema)]
        #[serde(deny_unknown_fields, default, rename_all = "camelCase")]
        pub struct $name {
            /// The address of the page: `http`, `https`, `data:` or `about:blank`. Either this or `html` is needed.
            url: Option<String>,
            /// The page itself. Either this or `url` is needed.
            html: Option<String>,
            /// How the page is opened, and until when.
            goto_options: Option<Object<GotoOptions>>,
            /// Waits this long, in milliseconds, once the page is open.
            wait_for_timeout: Option<u64>,
            /// Waits until a function in the page returns something that is true.
            wait_for_function: Option<Object<WaitForFunction>>,
            /// Waits until an element is there, can be seen, or has gone.
            wait_for_selector: Option<Object<WaitForSelector>>,
            /// Waits until an event is dispatched in the page.
            wait_for_event: Option<Object<WaitForEvent>>,
            /// Whether the call goes on when the page does not open, or a wait does not end, in time.
            best_attempt: Option<bool>,
            /// Cookies that the browser has when it opens the page.
            cookies: Option<Vec<Object<Cookie>>>,
            /// The size of the page, and what kind of screen it is on.
            viewport: Option<Object<Viewport>>,
            /// The user agent in the request header and in the page.
            user_agent: Option<String>,
            /// The name and password for the site's HTTP authentication.
            authenticate: Option<Object<Credentials>>,
            /// Headers that every request of the page has.
            #[serde(rename = "setExtraHTTPHeaders")]
            set_extra_http_headers: Option<BTreeMap<String, String>>,
            /// Whether the page's own scripts run.
            set_java_script_enabled: Option<bool>,
            /// The media type of style sheets: `screen` or `print`.
            emulate_media_type: Option<String>,
            /// Scripts that are added to the page once it is open.
            add_script_tag: Option<Vec<Object<ScriptTag>>>,
            /// Styles that are added to the page once it is open.
            add_style_tag: Option<Vec<Object<StyleTag>>>,
            /// Kinds of requests that the browser does not send, such as `image`.
            reject_resource_types: Option<Vec<String>>,
            /// Regular expressions for addresses that the browser does not ask for.
            reject_request_pattern: Option<Vec<String>>,
            /// Answers that the browser gets in the place of a site's own.
            request_interceptors: Option<Vec<Object<Interceptor>>>,
            $($(#[$meta])* pub(crate) $field: $type,)*
        }

        impl $name {
            /// The fields that all bodies have.
            pub(crate) fn take_fields(&mut self) -> Fields {
                Fields {
                    url: self.url.take(),
                    html: self.html.take(),
                    goto_options: unwrap(self.goto_options.take()),
                    wait_for_timeout: self.wait_for_timeout,
                    wait_for_function: unwrap(self.wait_for_function.take()),
                    wait_for_selector: unwrap(self.wait_for_selector.take()),
                    wait_for_event: unwrap(self.wait_for_event.take()),
                    best_attempt: self.best_attempt.unwrap_or(false),
                    cookies: list(self.cookies.take()),
                    viewport: unwrap(self.viewport.take()),
                    user_agent: self.user_agent.take(),
                    authenticate: unwrap(self.authenticate.take()),
                    headers: self.set_extra_http_headers.take().unwrap_or_default(),
                    java_script: self.set_java_script_enabled.unwrap_or(true),
                    media_type: self.emulate_media_type.take(),
                    scripts: list(self.add_script_tag.take()),
                    styles: list(self.add_style_tag.take()),
                    rejected_types: self.reject_resource_types.take().unwrap_or_default(),
                    rejected_patterns: self.reject_request_pattern.take().unwrap_or_default(),
                    interceptors: list(self.request_interceptors.take()),
                }
            }
        }
    )+};
}

bodies! {
    /// The page whose HTML is wanted.
    ContentBody {}
    /// The page that is read, and what else is wanted of it.
    ReadBody {
        /// What to read besides, as JSON by a schema: `schema`, `rows`, `builtins` and `validate` of POST /lam/extract.
        #[schemars(with = "Option<serde_json::Map<String, Value>>")]
        extract: Option<Members>,
        /// Whether a picture of what is seen is wanted, too.
        screenshot: Option<bool>,
        /// Whether the page is read only where its site's `robots.txt` allows that: `true`, or the name by which that file knows
        /// the reader, which is `Warmpool` otherwise.
        robots: Option<Robots>,
    }
    /// The page that is printed, and how.
    PdfBody {
        /// Puppeteer's options of `page.pdf`, and `fullPage`.
        options: Option<Object<PdfOptions>>,
    }
    /// The page that is pictured, and how.
    ScreenshotBody {
        /// Puppeteer's options of `page.screenshot`.
        options: Option<Object<ScreenshotOptions>>,
        /// Pictures the first element of this CSS selector alone.
        selector: Option<String>,
        /// Whether the page is scrolled to its end and back first, for what loads as it comes into view.
        scroll_page: Option<bool>,
    }
    /// The page whose elements are wanted, and which of them.
    ScrapeBody {
        /// Which elements, by CSS selectors.
        elements: Option<Vec<Object<Element>>>,
        /// What else is wanted of the page.
        debug_opts: Option<Object<DebugOptions>>,
    }
}

impl ReadBody {
    /// What is to be read besides, for whoever knows that language.
    pub fn take_extract(&mut self) -> Option<Members> {
        self.extract.take()
    }
}

/// The fields that all bodies have, as the client gave them.
#[derive(Debug, Default)]
pub(crate) struct Fields {
    pub(crate) url: Option<String>,
    pub(crate) html: Option<String>,
    pub(crate) goto_options: Option<GotoOptions>,
    pub(crate) wait_for_timeout: Option<u64>,
    pub(crate) wait_for_function: Option<WaitForFunction>,
    pub(crate) wait_for_selector: Option<WaitForSelector>,
    pub(crate) wait_for_event: Option<WaitForEvent>,
    pub(crate) best_attempt: bool,
    pub(crate) cookies: Vec<Cookie>,
    pub(crate) viewport: Option<Viewport>,
    pub(crate) user_agent: Option<String>,
    pub(crate) authenticate: Option<Credentials>,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) java_script: bool,
    pub(crate) media_type: Option<String>,
    pub(crate) scripts: Vec<ScriptTag>,
    pub(crate) styles: Vec<StyleTag>,
    pub(crate) rejected_types: Vec<String>,
    pub(crate) rejected_patterns: Vec<String>,
    pub(crate) interceptors: Vec<Interceptor>,
}

pub(crate) fn unwrap<T>(object: Option<Object<T>>) -> Option<T> {
    object.map(|Object(value)| value)
}

fn list<T>(objects: Option<Vec<Object<T>>>) -> Vec<T> {
    objects.unwrap_or_default().into_iter().map(|Object(value)| value).collect()
}

/// One value, or a list of them.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct OneOrMore<T>(pub(crate) Vec<T>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for OneOrMore<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for Either<T> {
            type Value = OneOrMore<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string or a list of strings")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
                T::deserialize(StrDeserializer::new(text)).map(|one| OneOrMore(vec![one]))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Self::Value, A::Error> {
                Vec::deserialize(SeqAccessDeserializer::new(list)).map(OneOrMore)
            }
        }

        deserializer.deserialize_any(Either(PhantomData))
    }
}

impl<T: JsonSchema> JsonSchema for OneOrMore<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("OneOrMore{}", T::schema_name()).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let one = generator.subschema_for::<T>();
        schemars::json_schema!({"anyOf": [one, {"type": "array", "items": one}]})
    }
}

/// A moment at which a page counts as open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LifecycleEvent {
    /// The page and all that it asked for at once are there.
    Load,
    /// The page itself has been read.
    DomContentLoaded,
    /// No request has been under way for half a second.
    NetworkIdle0,
    /// No more than two requests have been under way for half a second.
    NetworkIdle2,
}

/// How a page is opened, and until when: Puppeteer's options of `page.goto`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, rename_all = "camelCase")]
pub(crate) struct GotoOptions {
    /// How long it may take, in milliseconds: 30000 where it is left out, and as long as the call with 0.
    pub(crate) timeout: Option<u64>,
    /// The moments of all of which it waits: `load` where it is left out.
    pub(crate) wait_until: Option<OneOrMore<LifecycleEvent>>,
    /// The header `Referer`.
    pub(crate) referer: Option<String>,
    /// The policy of that header.
    pub(crate) referrer_policy: Option<String>,
}

/// A function to wait for.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct WaitForFunction {
    /// A function of JavaScript, or an expression. A promise is waited for.
    #[serde(rename = "fn")]
    pub(crate) code: String,
    /// How often it is called: every so many milliseconds, or `raf` or `mutation`, which is here ten times a second.
    pub(crate) polling: Option<Value>,
    /// How long it may take, in milliseconds: 30000 where it is left out.
    pub(crate) timeout: Option<u64>,
}

/// An element to wait for.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct WaitForSelector {
    /// Its CSS selector.
    pub(crate) selector: String,
    /// Whether it has to be visible.
    #[serde(default, deserialize_with = "null_is_default")]
    #[schemars(with = "Option<bool>")]
    pub(crate) visible: bool,
    /// Whether it has to be absent or invisible.
    #[serde(default, deserialize_with = "null_is_default")]
    #[schemars(with = "Option<bool>")]
    pub(crate) hidden: bool,
    /// How long it may take, in milliseconds: 30000 where it is left out.
    pub(crate) timeout: Option<u64>,
}

/// An event to wait for.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct WaitForEvent {
    /// Its name.
    pub(crate) event: String,
    /// How long it may take, in milliseconds: 30000 where it is left out.
    pub(crate) timeout: Option<u64>,
}

/// A cookie.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[schemars(rename = "PageCookie")]
pub(crate) struct Cookie {
    pub(crate) name: String,
    pub(crate) value: String,
    /// The address that it is for, in the place of `domain` and `path`: the page's own where all are left out.
    pub(crate) url: Option<String>,
    pub(crate) domain: Option<String>,
    pub(crate) path: Option<String>,
    pub(crate) secure: Option<bool>,
    pub(crate) http_only: Option<bool>,
    /// `Strict`, `Lax` or `None`.
    pub(crate) same_site: Option<String>,
    /// In seconds since 1970; -1 makes it a cookie of the session.
    pub(crate) expires: Option<f64>,
    /// `Low`, `Medium` or `High`.
    pub(crate) priority: Option<String>,
}

/// The size of a page, and what kind of screen it is on.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct Viewport {
    #[schemars(range(min = 1, max = 8192))]
    pub(crate) width: u32,
    #[schemars(range(min = 1, max = 8192))]
    pub(crate) height: u32,
    /// Pixels of the screen to a pixel of CSS.
    #[schemars(range(max = 4))]
    pub(crate) device_scale_factor: Option<f64>,
    /// Whether the page's `meta viewport` counts.
    #[serde(default, deserialize_with = "null_is_default")]
    #[schemars(with = "Option<bool>")]
    pub(crate) is_mobile: bool,
    /// Whether there are fingers.
    #[serde(default, deserialize_with = "null_is_default")]
    #[schemars(with = "Option<bool>")]
    pub(crate) has_touch: bool,
    /// Whether the screen lies on its side.
    #[serde(default, deserialize_with = "null_is_default")]
    #[schemars(with = "Option<bool>")]
    pub(crate) is_landscape: bool,
}

/// A name and a password.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Credentials {
    pub(crate) username: String,
    pub(crate) password: String,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").finish_non_exhaustive()
    }
}

/// A script to add: its address, or its text.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ScriptTag {
    pub(crate) url: Option<String>,
    pub(crate) content: Option<String>,
    /// `module` for a module.
    #[serde(rename = "type")]
    pub(crate) kind: Option<String>,
    pub(crate) id: Option<String>,
}

/// A style to add: its address, or its text.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct StyleTag {
    pub(crate) url: Option<String>,
    pub(crate) content: Option<String>,
}

/// An answer in the place of a site's own.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Interceptor {
    /// A regular expression for the addresses that it answers.
    pub(crate) pattern: String,
    /// What it answers.
    pub(crate) response: Object<InterceptedResponse>,
}

/// What a request gets in the place of a site's answer.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, rename_all = "camelCase")]
pub(crate) struct InterceptedResponse {
    #[schemars(range(min = 100, max = 599))]
    pub(crate) status: Option<u16>,
    #[serde(deserialize_with = "null_is_default")]
    #[schemars(with = "Option<BTreeMap<String, String>>")]
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) content_type: Option<String>,
    #[serde(deserialize_with = "null_is_default")]
    #[schemars(with = "Option<String>")]
    pub(crate) body: String,
}
