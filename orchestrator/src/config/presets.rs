//! Presets: pools of browsers that wait with settings of their own, as one setting writes them.
//!
//! One preset is `NAME: ENGINE MODE COUNT setting=value …`; several are items of an array in the file, and stand on
//! lines of their own or between semicolons in a variable or flag.

use warmpool_protocol::{Settings, Size, check_locales, check_user_agent, check_viewport};

use super::value::{Misfit, Shape, Value, quoted};
use crate::engine::{Engine, Mode, PoolKey, PresetId};
use crate::error::FieldError;

/// The longest name, in bytes.
const MAX_NAME: usize = 32;
const FORM: &str = "write one as NAME: ENGINE MODE COUNT and its settings, such as \
                    german: firefox headed 1 locales=de-DE,de viewport=1400x900 user_agent=\"Mozilla/5.0 …\"";

/// One preset: so many workers of an engine and mode wait with these settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolPreset {
    /// Its name in `/status` and the metrics.
    pub name: String,
    /// The engine.
    pub engine: Engine,
    /// Headed or headless.
    pub mode: Mode,
    /// How many wait warm.
    pub target: usize,
    /// Their settings.
    pub settings: Settings,
}

impl PoolPreset {
    /// The shelf its workers stand on.
    #[must_use]
    pub fn key(&self) -> PoolKey {
        PoolKey { engine: self.engine, mode: self.mode, preset: Some(PresetId::of(&self.settings)) }
    }
}

/// Every preset of a configuration; no two share a name or are the same but for it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Presets(pub Vec<PoolPreset>);

impl Presets {
    /// How many workers wait for them altogether.
    #[must_use]
    pub fn warm(&self) -> usize {
        self.0.iter().fold(0, |warm, preset| warm.saturating_add(preset.target))
    }
}

impl Value for Presets {
    const SHAPE: Shape = Shape::Lines;
    const FORM: &'static str = "PRESETS";

    fn parse(text: &str) -> Result<Self, Misfit> {
        let mut presets: Vec<PoolPreset> = Vec::new();
        for item in items(text)? {
            let preset = preset(&item)?;
            if presets.iter().any(|other| other.name == preset.name) {
                return Err(Misfit::new(format!("{:?} is there twice", preset.name), "give each preset its own name"));
            }
            if let Some(other) = presets.iter().find(|other| other.key() == preset.key()) {
                let what = format!("{:?} and {:?} differ in nothing but their names", other.name, preset.name);
                return Err(Misfit::new(what, "keep one of them, with the sum of both counts"));
            }
            presets.push(preset);
        }
        Ok(Self(presets))
    }

    fn toml(&self) -> Option<String> {
        let items: Vec<_> = self.0.iter().map(|preset| quoted(&written(preset))).collect();
        Some(format!("[{}]", items.join(", ")))
    }
}

/// The words of each preset; quotes hold a word together and are taken off.
fn items(text: &str) -> Result<Vec<Vec<String>>, Misfit> {
    let (mut items, mut words) = (Vec::new(), Vec::new());
    let (mut word, mut begun, mut quote) = (String::new(), false, None);
    for letter in text.chars().chain(['\n']) {
        match (quote, letter) {
            (Some(open), _) if letter == open => quote = None,
            (Some(_), '\n') => break,
            (Some(_), _) => word.push(letter),
            (None, '"' | '\'') => (quote, begun) = (Some(letter), true),
            (None, ';') => end(&mut items, &mut words, &mut word, &mut begun, true),
            (None, _) if letter.is_whitespace() => end(&mut items, &mut words, &mut word, &mut begun, letter == '\n'),
            (None, _) => (begun, ()) = (true, word.push(letter)),
        }
    }
    match quote {
        Some(quote) => Err(Misfit::new(format!("a {quote} is not closed"), "close it on the same line")),
        None => Ok(items),
    }
}

/// Ends a word, and with it perhaps a preset.
fn end(items: &mut Vec<Vec<String>>, words: &mut Vec<String>, word: &mut String, begun: &mut bool, item: bool) {
    if std::mem::take(begun) {
        words.push(std::mem::take(word));
    }
    if item && !words.is_empty() {
        items.push(std::mem::take(words));
    }
}

fn preset(words: &[String]) -> Result<PoolPreset, Misfit> {
    let [name, engine, mode, count, chosen @ ..] = words else {
        return Err(Misfit::new(format!("{:?} is not a preset", words.join(" ")), FORM));
    };
    let Some(name) = name.strip_suffix(':').filter(|name| is_name(name)) else {
        let remedy = format!("begin with a name of at most {MAX_NAME} small letters, digits, - or _, and a colon");
        return Err(Misfit::new(format!("{name:?} is not the name of a preset"), remedy));
    };
    // A preset's fault is told with its name: there may be several.
    let misfit = |what: String, remedy: &str| Misfit::new(format!("{name:?}: {what}"), remedy);
    let field = |error| misfit(FieldError::from(error).to_string(), "correct it");
    let engine: Engine = engine
        .parse()
        .map_err(|()| misfit(format!("{engine:?} is not an engine"), "write chromium, firefox or webkit"))?;
    let mode: Mode =
        mode.parse().map_err(|()| misfit(format!("{mode:?} is not a mode"), "write headed or headless"))?;
    let target = count
        .parse()
        .map_err(|_| misfit(format!("{count:?} is not a count"), "write how many workers are to wait, such as 1"))?;
    let mut settings = Settings::default();
    for word in chosen {
        let known = "write locales=…, user_agent=… or viewport=WIDTHxHEIGHT, each once";
        let Some((key, value)) = word.split_once('=') else {
            return Err(misfit(format!("{word:?} is not a setting"), known));
        };
        match key {
            "locales" if settings.locales.is_empty() => {
                let tags: Vec<String> = value.split(',').map(|tag| tag.trim().to_owned()).collect();
                settings.locales = check_locales(&tags).map_err(field)?;
            }
            "user_agent" if settings.user_agent.is_none() => {
                check_user_agent(value).map_err(field)?;
                settings.user_agent = Some(value.to_owned());
            }
            "viewport" if settings.viewport.is_none() => {
                let sides = value.split_once('x').and_then(|(w, h)| Some((w.parse().ok()?, h.parse().ok()?)));
                let Some((width, height)) = sides else {
                    return Err(misfit(
                        format!("{value:?} is not a size"),
                        "write viewport=WIDTHxHEIGHT, such as 1400x900",
                    ));
                };
                let size = Size { width, height };
                check_viewport(size).map_err(field)?;
                settings.viewport = Some(size);
            }
            "locales" | "user_agent" | "viewport" => return Err(misfit(format!("{key} is there twice"), known)),
            _ => return Err(misfit(format!("{key:?} is not a setting"), known)),
        }
    }
    if settings.is_empty() {
        let remedy = format!("name a setting, or use pool.{engine}_{} for browsers without any", mode.as_str());
        return Err(misfit("has no settings".to_owned(), &remedy));
    }
    Ok(PoolPreset { name: name.to_owned(), engine, mode, target, settings })
}

fn is_name(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_".contains(&byte);
    (1..=MAX_NAME).contains(&name.len()) && name.bytes().all(plain)
}

fn written(preset: &PoolPreset) -> String {
    let PoolPreset { name, engine, mode, target, settings } = preset;
    let mut text = format!("{name}: {engine} {} {target}", mode.as_str());
    if !settings.locales.is_empty() {
        text += &format!(" locales={}", settings.locales.join(","));
    }
    if let Some(Size { width, height }) = settings.viewport {
        text += &format!(" viewport={width}x{height}");
    }
    if let Some(agent) = &settings.user_agent {
        // Quotes have no escape, but those of the other kind may stand between them.
        let parts: Vec<String> = agent.split('"').map(|part| format!("\"{part}\"")).collect();
        text += &format!(" user_agent={}", parts.join("'\"'"));
    }
    text
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
            "german: firefox headed 1 locales=de-de,de viewport=1400x900 user_agent=\"{agent}\"\n\
             wide: chromium headless 2 viewport=1920x1080; plain-agent: webkit headed 0 user_agent=Own/2;"
        ));
        let names: Vec<_> = presets.iter().map(|preset| (preset.name.as_str(), preset.target)).collect();
        assert_eq!(names, [("german", 1), ("wide", 2), ("plain-agent", 0)]);
        let german = &presets[0];
        assert_eq!((german.engine, german.mode), (Engine::Firefox, Mode::Headed));
        let locales = vec!["de-DE".to_owned(), "de".to_owned()];
        let viewport = Size { width: 1400, height: 900 };
        let settings = Settings { locales, user_agent: Some(agent.to_owned()), viewport: Some(viewport) };
        assert_eq!(german.settings, settings);
        assert_eq!(Presets(presets.clone()).warm(), 3);
        assert!(read("").is_empty());
    }

    #[test]
    fn what_is_written_reads_the_same() {
        let text =
            "a: firefox headed 1 locales=de-DE user_agent='say \"a; b\" twice'\nb: webkit headless 3 viewport=1x2";
        let presets = Presets::parse(text).unwrap();
        let lines: Vec<_> = presets.0.iter().map(written).collect();
        assert_eq!(Presets::parse(&lines.join("\n")).unwrap(), presets);
    }

    #[test]
    fn each_fault_is_named_with_its_remedy() {
        for (text, what) in [
            ("german", "is not a preset"),
            ("german firefox headed 1", "is not the name"),
            ("Ger man: firefox headed 1", "is not the name"),
            ("a: opera headed 1 locales=de", "\"opera\" is not an engine"),
            ("a: firefox hidden 1 locales=de", "\"hidden\" is not a mode"),
            ("a: firefox headed some locales=de", "\"some\" is not a count"),
            ("a: firefox headed 1", "has no settings"),
            ("a: firefox headed 1 german", "is not a setting"),
            ("a: firefox headed 1 timezone=UTC", "\"timezone\" is not a setting"),
            ("a: firefox headed 1 locales=de locales=fr", "locales is there twice"),
            ("a: firefox headed 1 locales=de_DE", "`locales[0]` must be a locale tag"),
            ("a: firefox headed 1 viewport=1400", "is not a size"),
            ("a: firefox headed 1 viewport=0x900", "`viewport.width` must be from 1"),
            ("a: firefox headed 1 user_agent=", "`user_agent` must be"),
            ("a: firefox headed 1 user_agent=\"x", "is not closed"),
            ("a: firefox headed 1 locales=de; a: webkit headed 1 locales=de", "is there twice"),
            ("a: firefox headed 1 locales=de; b: firefox headed 1 locales=de", "differ in nothing"),
        ] {
            let fault = Presets::parse(text).unwrap_err();
            assert!(fault.what.contains(what), "{text}: {fault:?}");
            assert!(!fault.remedy.is_empty(), "{text}");
        }
    }
}
