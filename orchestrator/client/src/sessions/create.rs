//! `warmpool sessions create`: takes a session.

use std::path::PathBuf;
use std::time::Duration;

use ::http::Method;
use clap::Args;
use serde_json::{Map, Value, json};
use warmpool_core::browser::Engine;
use warmpool_core::metadata::Label;

use crate::arguments::{Service, labels, put};
use crate::error::ClientError;
use crate::http::Caller;
use crate::naming::{SentFile, SetBy, given};
use crate::output::{for_people, note, tell};
use crate::submit::read;
use crate::{open, show, values};

/// The session that is wanted.
#[derive(Debug, Clone, Args)]
pub struct CreateArguments {
    /// File with a request to POST /sessions/create, for what has no option here; - reads standard input.
    pub file: Option<PathBuf>,
    /// The first page; the daemon's own otherwise.
    #[arg(long, value_name = "URL")]
    pub page: Option<String>,
    /// The engine.
    #[arg(long, value_name = "ENGINE", value_parser = values::engine())]
    pub browser_type: Option<Engine>,
    /// Give the browser a display.
    #[arg(long)]
    pub headed: bool,
    /// For clients of WebDriver, such as Selenium.
    #[arg(long)]
    pub webdriver: bool,
    /// How long the session may last, such as 1h; the daemon's default otherwise.
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    pub session_timeout: Option<Duration>,
    /// How long it may stand idle.
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    pub idle_timeout: Option<Duration>,
    /// Keep it for the whole of its time, whether its client stays or not.
    #[arg(long)]
    pub keep_alive: bool,
    /// Block ads.
    #[arg(long)]
    pub block_ads: bool,
    /// Load this extension, by its id; may be repeated.
    #[arg(long = "extension", value_name = "ID")]
    pub extensions: Vec<String>,
    /// Begin with this profile.
    #[arg(long, value_name = "NAME")]
    pub profile: Option<String>,
    /// Save the profile, too; one that is not there is made.
    #[arg(long, requires = "profile")]
    pub save_profile: bool,
    /// The end user it is for: an id or a name, and never a secret.
    #[arg(long, value_name = "TEXT", env = "WARMPOOL_SERVICE_PASSCODE", hide_env_values = true)]
    pub service_passcode: Option<String>,
    /// A label of the session; may be repeated.
    #[arg(long, value_name = "KEY=VALUE", value_parser = values::label)]
    pub metadata: Vec<Label>,
    /// Open its live view as `sessions watch` does.
    #[arg(long)]
    pub watch: bool,
    /// Print JSON on a terminal, too.
    #[arg(long)]
    pub json: bool,
    /// Whom to ask.
    #[command(flatten)]
    pub service: Service,
}

impl CreateArguments {
    /// The options that were given, by the fields that they set.
    fn given(&self) -> Vec<SetBy> {
        given([
            (self.page.is_some(), "url", "--page"),
            (self.browser_type.is_some(), "browser_type", "--browser-type"),
            (self.headed, "headless", "--headed"),
            (self.session_timeout.is_some(), "session_timeout", "--session-timeout"),
            (self.idle_timeout.is_some(), "idle_timeout", "--idle-timeout"),
            (self.keep_alive, "keep_alive", "--keep-alive"),
            (self.block_ads, "advanced.block_ads", "--block-ads"),
            (!self.extensions.is_empty(), "advanced.extension_ids", "--extension"),
            (self.profile.is_some(), "profile", "--profile"),
            (self.service_passcode.is_some(), "service_passcode", "--service-passcode"),
            (!self.metadata.is_empty(), "metadata", "--metadata"),
        ])
    }

    /// The request: that of the file, with the options of the command line.
    fn body(&self) -> Result<Map<String, Value>, ClientError> {
        let mut body = self.file.as_deref().map(read).transpose()?.unwrap_or_default();
        // Browsers of the command line are headless, as those of tasks are.
        body.entry("headless").or_insert(Value::Bool(true));
        put(
            &mut body,
            json!({
                "url": self.page,
                "browser_type": self.browser_type,
                "headless": self.headed.then_some(false),
                "session_timeout": self.session_timeout.map(|time| time.as_secs()),
                "idle_timeout": self.idle_timeout.map(|time| time.as_secs()),
                "keep_alive": self.keep_alive.then_some(true),
                "profile": self.profile.as_ref().map(|name| {
                    json!({"name": name, "mode": if self.save_profile { "write" } else { "read" }})
                }),
                "service_passcode": self.service_passcode,
                "metadata": labels(&self.metadata),
            }),
        );
        let advanced = [
            ("block_ads", self.block_ads.then_some(json!(true))),
            ("extension_ids", (!self.extensions.is_empty()).then(|| json!(self.extensions))),
        ];
        for (name, value) in advanced.into_iter().filter_map(|(name, value)| Some((name, value?))) {
            match body.entry("advanced").or_insert_with(|| json!({})) {
                Value::Object(advanced) => drop(advanced.insert(name.to_owned(), value)),
                _ => return Err(ClientError::Usage("`advanced` of the file is not an object".to_owned())),
            }
        }
        Ok(body)
    }
}

pub(super) async fn carry_out(arguments: CreateArguments) -> Result<(), ClientError> {
    let caller = Caller::new(&arguments.service)?;
    let path = if arguments.webdriver { "/sessions/webdriver/create" } else { "/sessions/create" };
    let made = caller.json::<Value>(Method::POST, path, Some(&Value::Object(arguments.body()?))).await;
    let file = arguments.file.as_deref().map(SentFile::new);
    let made = made.map_err(|error| error.named(&arguments.given(), file.as_ref()))?;
    tell(&made, arguments.json, || show::created(&made));
    for warning in made["warnings"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        note(format_args!("warning: {}", show::plain(warning)));
    }
    if arguments.watch
        && let Some(url) = made["livestream_url"].as_str()
    {
        // JSON has the address, and whoever reads it expects no line behind it.
        if for_people(arguments.json) { open::show(url) } else { open::in_browser(url) }
    }
    Ok(())
}
