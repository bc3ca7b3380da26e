//! The types a setting may have: how each is read from text and written as TOML.

use std::{
    net::{IpAddr, SocketAddr},
    path::PathBuf,
    str::FromStr,
    time::Duration,
};

use ipnet::IpNet;
use url::Url;

/// Why a text is not a value, and what to write instead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct InvalidValue {
    pub(super) what: String,
    pub(super) remedy: String,
}

impl InvalidValue {
    pub(super) fn new(what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { what: what.into(), remedy: remedy.into() }
    }

    pub(super) fn not(text: &str, kind: &str, remedy: &str) -> Self {
        Self::new(format!("{text:?} is not {kind}"), remedy)
    }
}

/// How a value may be written in TOML.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TomlForm {
    /// A string.
    Text,
    Number,
    /// `true` or `false`.
    Switch,
    /// A string with a unit, or a whole number in the smallest unit.
    Quantity,
    /// An array of strings, or one string with commas.
    List,
    /// An array of tables.
    Tables,
}

/// A type a setting may have.
pub(super) trait Value: Sized {
    /// How it may be written in TOML.
    const TOML_FORM: TomlForm;
    /// The placeholder for it in the flags' help.
    const PLACEHOLDER: &'static str;

    /// Reads it from text, as flags and the environment give it.
    fn parse(text: &str) -> Result<Self, InvalidValue>;

    /// Writes it as TOML; `None` if there is nothing to write.
    fn toml(&self) -> Option<String>;

    /// Whether it is smaller than `least`; only types with an order answer.
    fn below(&self, _least: &Self) -> bool {
        false
    }
}

/// Makes a type a setting that TOML has as a string, by what reads it. It is written by `Display`.
macro_rules! text_value {
    ($Type:ty, $placeholder:expr, |$text:ident| $parse:expr) => {
        impl Value for $Type {
            const TOML_FORM: TomlForm = TomlForm::Text;
            const PLACEHOLDER: &'static str = $placeholder;

            fn parse($text: &str) -> Result<Self, InvalidValue> {
                $parse
            }

            fn toml(&self) -> Option<String> {
                Some(quoted(&self.to_string()))
            }
        }
    };
}
pub(super) use text_value;

/// TOML's basic string for `text`.
pub(super) fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

impl<T: Value> Value for Option<T> {
    const TOML_FORM: TomlForm = T::TOML_FORM;
    const PLACEHOLDER: &'static str = T::PLACEHOLDER;

    fn parse(text: &str) -> Result<Self, InvalidValue> {
        if text.trim().is_empty() { Ok(None) } else { T::parse(text).map(Some) }
    }

    fn toml(&self) -> Option<String> {
        self.as_ref().and_then(T::toml)
    }

    fn below(&self, least: &Self) -> bool {
        matches!((self, least), (Some(value), Some(least)) if value.below(least))
    }
}

impl<T: Value> Value for Vec<T> {
    const TOML_FORM: TomlForm = TomlForm::List;
    const PLACEHOLDER: &'static str = "LIST";

    fn parse(text: &str) -> Result<Self, InvalidValue> {
        text.split(',').map(str::trim).filter(|item| !item.is_empty()).map(T::parse).collect()
    }

    fn toml(&self) -> Option<String> {
        let items: Vec<_> = self.iter().filter_map(T::toml).collect();
        Some(format!("[{}]", items.join(", ")))
    }
}

text_value!(String, "TEXT", |text| match text.trim() {
    "" => Err(InvalidValue::new("is empty", "write a value, or leave the setting out to have its default")),
    text => Ok(text.to_owned()),
});

impl Value for PathBuf {
    const TOML_FORM: TomlForm = TomlForm::Text;
    const PLACEHOLDER: &'static str = "PATH";

    fn parse(text: &str) -> Result<Self, InvalidValue> {
        // The layers replace what is not UTF-8, and a path with a replaced character is another path.
        if text.contains(char::REPLACEMENT_CHARACTER) {
            return Err(InvalidValue::not(text, "valid UTF-8", "use a path of UTF-8 characters"));
        }
        if text.is_empty() {
            return Err(InvalidValue::new("is empty", "write a path"));
        }
        Ok(Self::from(text))
    }

    fn toml(&self) -> Option<String> {
        Some(quoted(&self.to_string_lossy()))
    }
}

impl Value for bool {
    const TOML_FORM: TomlForm = TomlForm::Switch;
    const PLACEHOLDER: &'static str = "true|false";

    fn parse(text: &str) -> Result<Self, InvalidValue> {
        match text.trim().to_ascii_lowercase().as_str() {
            "true" | "1" | "yes" | "on" => Ok(true),
            "false" | "0" | "no" | "off" => Ok(false),
            _ => Err(InvalidValue::not(text, "a switch", "write true or false")),
        }
    }

    fn toml(&self) -> Option<String> {
        Some(self.to_string())
    }
}

/// Makes a type of numbers a setting.
macro_rules! number_value {
    ($Type:ty, |$text:ident| $parse:expr) => {
        impl Value for $Type {
            const TOML_FORM: TomlForm = TomlForm::Number;
            const PLACEHOLDER: &'static str = "NUMBER";

            fn parse($text: &str) -> Result<Self, InvalidValue> {
                $parse
            }

            fn toml(&self) -> Option<String> {
                Some(format!("{self:?}"))
            }

            fn below(&self, least: &Self) -> bool {
                self < least
            }
        }
    };
}
number_value!(usize, |text| whole_number(text));
number_value!(u32, |text| whole_number(text));
number_value!(f64, |text| {
    let number = text.trim().parse::<Self>().ok().filter(|number| number.is_finite());
    number.ok_or_else(|| InvalidValue::not(text, "a number", "write a number such as 2 or 1.5"))
});

fn whole_number<T: FromStr>(text: &str) -> Result<T, InvalidValue> {
    let remedy = format!("write a number from 0 to {}", u32::MAX);
    text.trim().parse().map_err(|_| InvalidValue::not(text, "a whole number", &remedy))
}

impl Value for Duration {
    const TOML_FORM: TomlForm = TomlForm::Quantity;
    const PLACEHOLDER: &'static str = "DURATION";

    fn parse(text: &str) -> Result<Self, InvalidValue> {
        let text = text.trim();
        let parsed = match text.parse::<u64>() {
            Ok(seconds) => Some(Self::from_secs(seconds)),
            Err(_) => humantime::parse_duration(text).ok(),
        };
        // Deadlines are added to the clock: beyond ten years lie only slips and overflow.
        parsed.filter(|duration| *duration <= Self::from_secs(10 * 365 * 86_400)).ok_or_else(|| {
            InvalidValue::not(
                text,
                "a duration of at most ten years",
                "write it with a unit, such as 300ms, 30s, 5m or 24h; a bare number counts seconds",
            )
        })
    }

    fn toml(&self) -> Option<String> {
        Some(quoted(&humantime::format_duration(*self).to_string()))
    }

    fn below(&self, least: &Self) -> bool {
        self < least
    }
}

text_value!(SocketAddr, "ADDRESS:PORT", |text| {
    let remedy = "write an IP address and a port, such as 127.0.0.1:4444, 0.0.0.0:4444 or [::1]:4444";
    text.trim().parse().map_err(|_| InvalidValue::not(text, "an address and port", remedy))
});

text_value!(IpNet, "NETWORK", |text| {
    let text = text.trim();
    let network = text.parse().or_else(|_| text.parse().map(|host: IpAddr| Self::from(host)));
    network.map_err(|_| InvalidValue::not(text, "an address or network", "write one such as 10.0.0.7 or 10.0.0.0/8"))
});

text_value!(Url, "URL", |text| {
    let remedy = "write one with its scheme, such as https://example.com/";
    Self::parse(text.trim()).map_err(|error| InvalidValue::new(format!("{text:?} is not a URL ({error})"), remedy))
});
