//! Presets: browsers that wait with settings applied, the `[[pool.presets]]` tables.

use serde::{Deserialize, Serialize};
use warmpool_protocol::{
    ColorScheme, Geolocation, Permission, ReducedMotion, Settings, Size, check_locales, check_timezone,
};

use super::egress::EgressRules;
use super::named_tables::{NamedTable, check_name, named_tables, tables_toml};
use super::value::{InvalidValue, TomlForm, Value};
use warmpool_core::browser::{Engine, Mode, PoolKey, PresetId};
use warmpool_core::error::FieldError;
use warmpool_core::ids::ExtensionId;

/// One preset: a number of workers of an engine and mode that wait with these settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolPreset {
    /// Its name in `/status` and the metrics.
    pub name: String,
    /// The engine of its workers.
    pub engine: Engine,
    /// Headed or headless.
    pub mode: Mode,
    /// How many wait warm.
    pub target: usize,
    /// What is set in the waiting browsers.
    pub settings: Settings,
    /// The extensions that they have loaded.
    pub extensions: Vec<ExtensionId>,
    /// Egress rules of their own, beside the daemon's.
    pub egress: EgressRules,
}

impl PoolPreset {
    /// The kind of its workers, but for the authorities that they trust.
    #[must_use]
    pub fn key(&self) -> PoolKey {
        PoolKey {
            preset: Some(PresetId::new(&self.settings, &self.extensions)),
            ..PoolKey::plain(self.engine, self.mode)
        }
    }
}

/// Every preset of a configuration; no two share a name or are the same but for it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Presets(pub Vec<PoolPreset>);

impl Presets {
    /// The preset whose browsers wait with just these settings and extensions. Its egress rules are for the sessions that ask
    /// for both, and for no others.
    #[must_use]
    pub fn with(
        &self,
        (engine, mode): (Engine, Mode),
        settings: &Settings,
        extensions: &[ExtensionId],
    ) -> Option<&PoolPreset> {
        self.0.iter().find(|preset| {
            (preset.engine, preset.mode, &preset.settings, preset.extensions.as_slice())
                == (engine, mode, settings, extensions)
        })
    }

    /// How many workers wait for them altogether.
    #[must_use]
    pub fn warm(&self) -> usize {
        self.0.iter().fold(0, |warm, preset| warm.saturating_add(preset.target))
    }
}

/// A preset as TOML.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PresetTable {
    name: String,
    engine: Engine,
    mode: Mode,
    count: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    locales: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    viewport: Option<Size>,
    #[serde(skip_serializing_if = "Option::is_none")]
    user_agent: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    timezone: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    color_scheme: Option<ColorScheme>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reduced_motion: Option<ReducedMotion>,
    #[serde(skip_serializing_if = "Option::is_none")]
    geolocation: Option<Geolocation>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    permissions: Vec<Permission>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    extension_ids: Vec<String>,
    #[serde(default, skip_serializing_if = "EgressRules::is_empty")]
    egress: EgressRules,
}

impl Value for Presets {
    const TOML_FORM: TomlForm = TomlForm::Tables;
    const PLACEHOLDER: &'static str = "PRESETS";

    fn parse(text: &str) -> Result<Self, InvalidValue> {
        let presets: Vec<PoolPreset> = named_tables(text)?;
        for (at, preset) in presets.iter().enumerate() {
            if let Some(other) = presets[..at].iter().find(|other| other.key() == preset.key()) {
                let what = format!("{:?} and {:?} differ in nothing but their names", other.name, preset.name);
                return Err(InvalidValue::new(what, "keep one of them, with the sum of both counts"));
            }
        }
        Ok(Self(presets))
    }

    fn toml(&self) -> Option<String> {
        tables_toml(self.0.iter().map(|preset| {
            let PoolPreset { name, engine, mode, target, settings, extensions, egress } = preset.clone();
            let Settings {
                locales,
                user_agent,
                viewport,
                timezone,
                color_scheme,
                reduced_motion,
                geolocation,
                permissions,
            } = settings;
            let locales = (!locales.is_empty()).then_some(locales);
            PresetTable {
                name,
                engine,
                mode,
                count: target,
                locales,
                viewport,
                user_agent,
                timezone,
                color_scheme,
                reduced_motion,
                geolocation,
                permissions,
                extension_ids: extensions.iter().map(ToString::to_string).collect(),
                egress,
            }
        }))
    }
}

impl NamedTable for PoolPreset {
    const KIND: &'static str = "preset";
    const REMEDY: &'static str = "write a [[pool.presets]] table for each, or an array such as \
                                  [{ name = \"german\", engine = \"firefox\", mode = \"headed\", count = 1, locales = [\"de-DE\", \"de\"] }]";
    const SECRET: bool = false;
    type Table = PresetTable;

    fn name(&self) -> &str {
        &self.name
    }

    fn check(table: PresetTable, misfit: &dyn Fn(FieldError) -> InvalidValue) -> Result<Self, InvalidValue> {
        let PresetTable { name, engine, mode, count, locales, viewport, user_agent, egress, .. } = table;
        check_name(&name).map_err(misfit)?;
        let locales =
            locales.map_or(Ok(Vec::new()), |tags| check_locales(&tags)).map_err(|error| misfit(error.into()))?;
        let timezone = table.timezone.map(|name| check_timezone(&name).map(str::to_owned)).transpose();
        let timezone = timezone.map_err(|error| misfit(error.into()))?;
        let (color_scheme, reduced_motion) = (table.color_scheme, table.reduced_motion);
        let (geolocation, permissions) = (table.geolocation, table.permissions);
        let mut settings = Settings {
            locales,
            user_agent,
            viewport,
            timezone,
            color_scheme,
            reduced_motion,
            geolocation,
            permissions,
        };
        settings.check().map_err(|error| misfit(error.into()))?;
        engine.check_settings(&settings).map_err(misfit)?;
        settings.sort_permissions();
        if engine == Engine::Webkit && !table.extension_ids.is_empty() {
            return Err(misfit(FieldError::not_supported("extension_ids", "WebKit loads no extensions")));
        }
        let extensions = ExtensionId::read_all(&table.extension_ids);
        let extensions = extensions.map_err(|error| misfit(error.within("extension_ids")))?;
        if settings.is_empty() && extensions.is_empty() {
            let remedy = format!("name a setting, or use pool.{engine}_{} for browsers without any", mode.as_str());
            return Err(InvalidValue::new(format!("{name:?}: has no settings"), remedy));
        }
        Ok(Self { name, engine, mode, target: count, settings, extensions, egress })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Vec<PoolPreset> {
        Presets::parse(text).unwrap_or_else(|fault| panic!("{text}: {fault:?}")).0
    }

    #[test]
    fn a_preset_names_pool_and_settings() {
        let agent = "Mozilla/5.0 (X11; Linux x86_64) Own/1";
        let presets = read(&format!(
            r#"[{{ name = "german", engine = "firefox", mode = "headed", count = 1, locales = ["de-de", "de"],
                   viewport = {{ width = 1400, height = 900 }}, user_agent = "{agent}" }},
                {{ name = "wide", engine = "chromium", mode = "headless", count = 2, viewport = {{ width = 1920, height = 1080 }} }},
                {{ name = "night", engine = "chromium", mode = "headless", count = 1, timezone = "asia/tokyo", color_scheme = "dark", reduced_motion = "no-preference",
                   geolocation = {{ latitude = 35.5, longitude = 139.75 }}, permissions = ["geolocation", "clipboard-read"] }},
                {{ name = "plain-agent", engine = "webkit", mode = "headed", count = 0, user_agent = "Own/2", egress = {{ allow = ["10.0.0.0/8"], deny = ["*"] }} }},
                {{ name = "blocker", engine = "chromium", mode = "headless", count = 1, extension_ids = ["ext_a", "ext_b"] }}]"#
        ));
        let names: Vec<_> = presets.iter().map(|preset| (preset.name.as_str(), preset.target)).collect();
        assert_eq!(names, [("german", 1), ("wide", 2), ("night", 1), ("plain-agent", 0), ("blocker", 1)]);
        let german = &presets[0];
        assert_eq!((german.engine, german.mode), (Engine::Firefox, Mode::Headed));
        let locales = vec!["de-DE".to_owned(), "de".to_owned()];
        let viewport = Size { width: 1400, height: 900 };
        let settings =
            Settings { locales, user_agent: Some(agent.to_owned()), viewport: Some(viewport), ..Settings::default() };
        assert_eq!(german.settings, settings);
        assert_eq!((presets[3].egress.allow.len(), presets[3].egress.deny.len()), (1, 1));
        assert_eq!(presets[2].settings.timezone.as_deref(), Some("Asia/Tokyo"));
        assert_eq!(presets[4].extensions, ["ext_a", "ext_b"].map(ExtensionId::from));
        assert_eq!(Presets(presets.clone()).warm(), 5);
        assert_eq!(read(&Presets(presets.clone()).toml().unwrap()), presets, "what is written reads the same");
        assert!(read("").is_empty());
    }

    #[test]
    fn a_preset_is_for_those_who_ask_for_its_settings_and_its_extensions() {
        let presets = Presets(read(
            r#"[{ name = "blocker", engine = "chromium", mode = "headless", count = 0, extension_ids = ["ext_a"] },
                { name = "other", engine = "chromium", mode = "headless", count = 0, extension_ids = ["ext_b"] }]"#,
        ));
        let with = |extensions: &[&str]| {
            let extensions: Vec<ExtensionId> = extensions.iter().map(|id| ExtensionId::from(*id)).collect();
            let found = presets.with((Engine::Chromium, Mode::Headless), &Settings::default(), &extensions);
            found.map(|preset| preset.name.clone())
        };
        assert_eq!((with(&[]), with(&["ext_a", "ext_b"])), (None, None));
        assert_eq!((with(&["ext_a"]).as_deref(), with(&["ext_b"]).as_deref()), (Some("blocker"), Some("other")));
    }

    #[test]
    fn each_fault_is_named_with_its_remedy() {
        let german = r#"name = "a", engine = "firefox", mode = "headed", count = 1"#;
        for (text, what) in [
            ("german: firefox headed 1 locales=de-DE", "is not an array"),
            (r#"["german: firefox headed 1 locales=de-DE"]"#, "is not a table"),
            (r#"[{ engine = "firefox" }]"#, "preset 1: "),
            (&format!("[{{ {german} }}]"), "has no settings"),
            (&format!(r#"[{{ {german}, time_zone = "UTC" }}]"#), "unknown field `time_zone`"),
            (&format!(r#"[{{ {german}, timezone = "Berlin" }}]"#), "`timezone` must be a time zone"),
            (&format!(r#"[{{ {german}, color_scheme = "sepia" }}]"#), "`color_scheme`"),
            (
                &format!("[{{ {german}, geolocation = {{ latitude = nan, longitude = 0.0 }} }}]"),
                "`geolocation.latitude`",
            ),
            (&format!(r#"[{{ {}, permissions = ["camera"] }}]"#, german.replace("firefox", "webkit")), "firefox can"),
            (&format!(r#"[{{ {german}, locales = ["de_DE"] }}]"#), "`locales[0]` must be a locale tag"),
            (&format!("[{{ {german}, viewport = {{ width = 0, height = 900 }} }}]"), "`viewport.width` must be from 1"),
            (&format!("[{{ {german}, viewport = {{ width = 9 }} }}]"), "height"),
            (&format!(r#"[{{ {german}, user_agent = "" }}]"#), "`user_agent` must be"),
            (&format!(r#"[{{ {german}, locales = ["de"] }}, {{ {german}, locales = ["fr"] }}]"#), "is there twice"),
            (&format!(r#"[{{ {german}, locales = ["de"], egress = {{ allow = ["a b"] }} }}]"#), "is not a network"),
            (&format!(r#"[{{ {german}, extension_ids = ["../x"] }}]"#), "`extension_ids[0]` must be an id"),
            (&format!(r#"[{{ {german}, extension_ids = ["ext_a", "ext_a"] }}]"#), "`extension_ids[1]` is there twice"),
            (
                &format!(r#"[{{ {}, extension_ids = ["ext_a"] }}]"#, german.replace("firefox", "webkit")),
                "WebKit loads no",
            ),
            (&german_twice(german), "differ in nothing"),
            (&format!(r#"[{{ {}, locales = ["de"] }}]"#, german.replace("\"a\"", "\"Ger man\"")), "`name` must be"),
            (&format!(r#"[{{ {}, locales = ["de"] }}]"#, german.replace("firefox", "opera")), "`engine`"),
            (&format!(r#"[{{ {}, locales = ["de"] }}]"#, german.replace("headed", "hidden")), "`mode`"),
            (&format!(r#"[{{ {}, locales = ["de"] }}]"#, german.replace("= 1", "= -1")), "`count`"),
        ] {
            let fault = Presets::parse(text).unwrap_err();
            assert!(fault.what.contains(what), "{text}: {fault:?}");
            assert!(!fault.remedy.is_empty(), "{text}");
        }
    }

    fn german_twice(german: &str) -> String {
        let other = german.replace("\"a\"", "\"b\"");
        format!(r#"[{{ {german}, locales = ["de"] }}, {{ {other}, locales = ["de"] }}]"#)
    }
}
