//! The DevTools commands that apply settings to a target.

use serde_json::{Value, json};

use warmpool_protocol::{Permission, Settings};

use super::user_agent;

/// What a target is, as far as settings go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A tab or a popup.
    Page,
    /// A frame in a process of its own.
    Frame,
    /// A worker of one page.
    Worker,
    /// A worker of any number of pages.
    SharedWorker,
    /// Nothing that runs a page's scripts.
    Other,
}

impl Kind {
    /// From the type DevTools gives.
    pub(super) fn of(target_type: &str) -> Self {
        match target_type {
            "page" | "webview" => Self::Page,
            "iframe" => Self::Frame,
            "worker" => Self::Worker,
            "service_worker" | "shared_worker" => Self::SharedWorker,
            _ => Self::Other,
        }
    }
}

/// A command and its parameters.
pub(super) type Command = (&'static str, Value);

/// The commands for a target of that kind, in order.
pub(super) fn commands(settings: &Settings, kind: Kind) -> Vec<Command> {
    if kind == Kind::Other {
        return Vec::new();
    }
    let viewport = (kind == Kind::Page).then(|| viewport(settings)).flatten();
    let media = matches!(kind, Kind::Page | Kind::Frame).then(|| media(settings)).flatten();
    let script = (kind == Kind::SharedWorker).then(|| worker_script(settings)).flatten();
    let place = (kind == Kind::Page).then(|| geolocation(settings)).flatten();
    let all = [identity(settings), locale(settings), timezone(settings), viewport, media, place, script];
    all.into_iter().flatten().collect()
}

/// Makes `navigator.webdriver` true, as the standard wants it of a page that WebDriver drives.
pub(super) fn automation(kind: Kind) -> Option<Command> {
    let has_navigator = matches!(kind, Kind::Page | Kind::Frame);
    has_navigator.then(|| ("Emulation.setAutomationOverride", json!({"enabled": true})))
}

/// Makes `navigator.userAgent` say so in a shared or service worker, where the override reaches
/// the requests but not the script. Other workers have it from their page.
fn worker_script(settings: &Settings) -> Option<Command> {
    let user_agent = Value::from(settings.user_agent.as_deref()?);
    let script = format!(
        "{{const p = WorkerNavigator.prototype, d = Object.getOwnPropertyDescriptor(p, 'userAgent');\
         Object.defineProperty(p, 'userAgent', {{...d, get() {{ return {user_agent}; }}}});}}"
    );
    Some(("Runtime.evaluate", json!({"expression": script})))
}

/// User agent with its client hints, and accepted languages.
fn identity(settings: &Settings) -> Option<Command> {
    if settings.user_agent.is_none() && settings.locales.is_empty() {
        return None;
    }
    // An empty user agent leaves the browser's own, with its own hints.
    let user_agent = settings.user_agent.as_deref().unwrap_or_default();
    let mut params = json!({"userAgent": user_agent});
    if !settings.locales.is_empty() {
        params["acceptLanguage"] = accept_language(&settings.locales).into();
    }
    if let Some(metadata) = user_agent::metadata(user_agent) {
        params["userAgentMetadata"] = metadata;
    }
    Some(("Emulation.setUserAgentOverride", params))
}

/// What `Intl` uses where a script names no locale. It holds for a whole renderer process.
pub(super) fn locale(settings: &Settings) -> Option<Command> {
    let locale = settings.locales.first()?;
    Some(("Emulation.setLocaleOverride", json!({"locale": locale})))
}

/// Restores the renderer's own locale.
pub(super) fn no_locale() -> Command {
    ("Emulation.setLocaleOverride", json!({"locale": ""}))
}

/// The time zone of dates. It holds for a whole renderer process.
pub(super) fn timezone(settings: &Settings) -> Option<Command> {
    let timezone = settings.timezone.as_deref()?;
    Some(("Emulation.setTimezoneOverride", json!({"timezoneId": timezone})))
}

/// Restores the renderer's own time zone.
pub(super) fn no_timezone() -> Command {
    ("Emulation.setTimezoneOverride", json!({"timezoneId": ""}))
}

/// What media queries find.
pub(super) fn media(settings: &Settings) -> Option<Command> {
    let features = media_features(settings);
    (!features.is_empty()).then(|| ("Emulation.setEmulatedMedia", json!({"features": features})))
}

fn media_features(settings: &Settings) -> Vec<Value> {
    let color_scheme = settings.color_scheme.map(|scheme| if scheme.is_dark() { "dark" } else { "light" });
    let motion = settings.reduced_motion.map(|motion| if motion.is_reduced() { "reduce" } else { "no-preference" });
    let features = [("prefers-color-scheme", color_scheme), ("prefers-reduced-motion", motion)];
    features.into_iter().filter_map(|(name, value)| Some(json!({"name": name, "value": value?}))).collect()
}

/// Where a page finds itself.
pub(super) fn geolocation(settings: &Settings) -> Option<Command> {
    Some(("Emulation.setGeolocationOverride", json!(settings.geolocation?)))
}

/// What pages of a browser context may do without asking, for the browser itself; without a context, of the first one.
pub(super) fn permissions(settings: &Settings, context: Option<&str>) -> Vec<Command> {
    let grant = |permission: &Permission| {
        let mut params = json!({"permission": {"name": permission.as_str()}, "setting": "granted"});
        if let Some(context) = context {
            params["browserContextId"] = context.into();
        }
        ("Browser.setPermission", params)
    };
    settings.permissions.iter().map(grant).collect()
}

/// Inner size, and a screen of that size around it.
pub(super) fn viewport(settings: &Settings) -> Option<Command> {
    let size = settings.viewport?;
    let params = json!({
        "width": size.width, "height": size.height,
        "screenWidth": size.width, "screenHeight": size.height,
        // Zero leaves the display's own.
        "deviceScaleFactor": 0, "mobile": false,
    });
    Some(("Emulation.setDeviceMetricsOverride", params))
}

/// The list as the browser takes it; it adds the weights of the header itself. Doubles go, for
/// they would make weights that no browser sends.
fn accept_language(locales: &[String]) -> String {
    let mut list: Vec<&str> = Vec::with_capacity(locales.len());
    for locale in locales {
        if !list.iter().any(|seen| seen.eq_ignore_ascii_case(locale)) {
            list.push(locale);
        }
    }
    list.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use warmpool_protocol::{ColorScheme, Geolocation, ReducedMotion, Size};

    fn all() -> Settings {
        Settings {
            locales: ["de-CH", "fr", "DE-ch"].map(str::to_owned).to_vec(),
            user_agent: Some("my bot".into()),
            viewport: Some(Size { width: 400, height: 300 }),
            timezone: Some("Asia/Tokyo".into()),
            color_scheme: Some(ColorScheme::NoPreference),
            reduced_motion: Some(ReducedMotion::Reduce),
            geolocation: Some(Geolocation { latitude: 1.5, longitude: 2.0, accuracy: 3.0 }),
            permissions: vec![Permission::Geolocation],
        }
    }

    fn names(kind: Kind) -> Vec<&'static str> {
        commands(&all(), kind).into_iter().map(|(name, _)| name).collect()
    }

    #[test]
    fn languages_keep_their_order_without_doubles() {
        assert_eq!(accept_language(&all().locales), "de-CH,fr");
    }

    #[test]
    fn each_kind_gets_what_it_has() {
        let (ua, locale, metrics) =
            ("Emulation.setUserAgentOverride", "Emulation.setLocaleOverride", "Emulation.setDeviceMetricsOverride");
        let (zone, media) = ("Emulation.setTimezoneOverride", "Emulation.setEmulatedMedia");
        let place = "Emulation.setGeolocationOverride";
        assert_eq!(names(Kind::Page), [ua, locale, zone, metrics, media, place]);
        assert_eq!(names(Kind::Frame), [ua, locale, zone, media]);
        assert_eq!(names(Kind::of("worker")), [ua, locale, zone]);
        assert_eq!(names(Kind::of("service_worker")), [ua, locale, zone, "Runtime.evaluate"]);
        assert!(names(Kind::of("browser_ui")).is_empty());
    }

    #[test]
    fn automation_shows_where_scripts_can_ask() {
        assert!(automation(Kind::Page).is_some() && automation(Kind::Frame).is_some());
        assert!(automation(Kind::Worker).is_none() && automation(Kind::Other).is_none());
    }

    #[test]
    fn only_what_is_wanted_is_told() {
        assert!(commands(&Settings::default(), Kind::Page).is_empty());
        let languages = Settings { user_agent: None, viewport: None, ..all() };
        let (_, params) = commands(&languages, Kind::Page).remove(0);
        assert_eq!(params, json!({"userAgent": "", "acceptLanguage": "de-CH,fr"}));
        let scheme = Settings { color_scheme: Some(ColorScheme::NoPreference), ..Settings::default() };
        let (_, params) = commands(&scheme, Kind::Page).remove(0);
        assert_eq!(params, json!({"features": [{"name": "prefers-color-scheme", "value": "light"}]}));
    }

    #[test]
    fn permissions_are_of_a_context() {
        let granted = json!({"permission": {"name": "geolocation"}, "setting": "granted"});
        assert_eq!(permissions(&all(), None), [("Browser.setPermission", granted)]);
        assert_eq!(permissions(&all(), Some("C"))[0].1["browserContextId"], "C");
        assert!(permissions(&Settings::default(), None).is_empty());
    }

    #[test]
    fn hints_come_with_a_user_agent_that_has_them() {
        let mut settings = all();
        assert!(commands(&settings, Kind::Page)[0].1.get("userAgentMetadata").is_none());
        settings.user_agent = Some("Mozilla/5.0 (X11; Linux x86_64) Chrome/130.0.0.0".into());
        assert!(commands(&settings, Kind::Page)[0].1["userAgentMetadata"].is_object());
    }
}
