//! Upstream proxies: the `[[egress.upstreams]]` tables. A variable or a flag takes the same as an array of inline tables.

use std::fmt;

use serde::{Deserialize, Serialize};
use toml::Value as Toml;
use url::{Host, Url};

use super::value::{InvalidValue, TomlForm, Value};
use warmpool_core::address;
use warmpool_core::error::FieldError;
use warmpool_core::secret::Secret;

const REMEDY: &str = "write an [[egress.upstreams]] table for each, or an array such as \
                      [{ name = \"de\", url = \"socks5://proxy.example:1080\", country = \"de\" }]";
const MAX_WEIGHT: u32 = 1000;

/// The protocol of a proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProxyScheme {
    Http,
    Https,
    Socks5,
}

impl ProxyScheme {
    /// The scheme of a URL, and the port where it names none.
    pub fn from_scheme(scheme: &str) -> Option<(Self, u16)> {
        match scheme {
            "http" => Some((Self::Http, 80)),
            "https" => Some((Self::Https, 443)),
            "socks5" | "socks5h" => Some((Self::Socks5, 1080)),
            _ => None,
        }
    }
}

/// One proxy of the operator's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpstreamProxy {
    pub table: UpstreamTable,
    pub scheme: ProxyScheme,
    pub host: Host,
    pub port: u16,
    /// The password, from wherever the table says.
    pub password: Option<Secret>,
}

/// Every upstream proxy; no two share a name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UpstreamProxies(pub Vec<UpstreamProxy>);

/// An upstream as TOML.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UpstreamTable {
    pub name: String,
    url: String,
    /// May have `{country}`, `{state}`, `{city}`, `{zip}` and `{session}` in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub username: Option<String>,
    #[serde(skip_serializing)]
    password: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    password_file: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    password_env: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub country: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub city: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zip: Option<u32>,
    #[serde(default = "one")]
    pub weight: u32,
}

const fn one() -> u32 {
    1
}

impl fmt::Debug for UpstreamTable {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("UpstreamTable").field("name", &self.name).field("url", &self.url).finish_non_exhaustive()
    }
}

impl Value for UpstreamProxies {
    const TOML_FORM: TomlForm = TomlForm::Tables;
    const PLACEHOLDER: &'static str = "UPSTREAMS";

    fn parse(text: &str) -> Result<Self, InvalidValue> {
        if text.trim().is_empty() {
            return Ok(Self::default());
        }
        let read = toml::de::ValueDeserializer::parse(text).and_then(Vec::<Toml>::deserialize);
        // The text may hold passwords, so no message shows it.
        let tables = read.map_err(|_| InvalidValue::new("is no array of TOML tables", REMEDY))?;
        let mut upstreams: Vec<UpstreamProxy> = Vec::new();
        for (index, table) in tables.into_iter().enumerate() {
            let upstream = upstream(index, table)?;
            if upstreams.iter().any(|other| other.table.name == upstream.table.name) {
                let what = format!("{:?} is there twice", upstream.table.name);
                return Err(InvalidValue::new(what, "give each upstream its own name"));
            }
            upstreams.push(upstream);
        }
        Ok(Self(upstreams))
    }

    /// Without passwords, which nothing prints.
    fn toml(&self) -> Option<String> {
        let tables = self.0.iter().map(|upstream| Toml::try_from(&upstream.table).ok());
        Some(Toml::Array(tables.collect::<Option<_>>()?).to_string())
    }
}

/// Reads one upstream. A fault is reported with the upstream's name, since there may be several.
fn upstream(index: usize, table: Toml) -> Result<UpstreamProxy, InvalidValue> {
    let label =
        table.get("name").and_then(Toml::as_str).map_or(format!("upstream {}", index + 1), |name| format!("{name:?}"));
    let misfit = |error: FieldError| InvalidValue::new(format!("{label}: {error}"), REMEDY);
    let table: UpstreamTable = serde_path_to_error::deserialize(table).map_err(|error| {
        let path = error.path().to_string();
        misfit(FieldError::from_serde(&path, error.into_inner().message()))
    })?;
    let invalid = |field: &str, problem: String| misfit(FieldError::invalid(field, problem));
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_".contains(&byte);
    if !(1..=32).contains(&table.name.len()) || !table.name.bytes().all(plain) {
        return Err(invalid("name", "must be 1 to 32 small letters, digits, - or _".to_owned()));
    }
    let wrong_url = || {
        invalid(
            "url",
            "must be http://, https:// or socks5:// with a host and a port, and without a user name".to_owned(),
        )
    };
    let url = Url::parse(&table.url).map_err(|_| wrong_url())?;
    let (scheme, port) = ProxyScheme::from_scheme(url.scheme()).ok_or_else(wrong_url)?;
    let host = url.host_str().and_then(address::host).ok_or_else(wrong_url)?;
    if !url.username().is_empty() || url.password().is_some() || !matches!(url.path(), "" | "/") {
        return Err(wrong_url());
    }
    if !(1..=MAX_WEIGHT).contains(&table.weight) {
        return Err(invalid("weight", format!("must be from 1 to {MAX_WEIGHT}")));
    }
    let password = match (&table.password, &table.password_file, &table.password_env) {
        (None, None, None) => None,
        (Some(password), None, None) => Some(password.clone()),
        (None, Some(file), None) => {
            let text =
                std::fs::read_to_string(file).map_err(|error| invalid("password_file", format!("{file}: {error}")))?;
            Some(text.trim_end_matches(['\r', '\n']).to_owned())
        }
        (None, None, Some(name)) => {
            Some(std::env::var(name).map_err(|_| invalid("password_env", format!("names {name}, which is not set")))?)
        }
        _ => {
            return Err(invalid(
                "password",
                "comes from one place: password, password_file or password_env".to_owned(),
            ));
        }
    };
    if password.is_some() && table.username.is_none() {
        return Err(invalid("username", "is wanted beside a password".to_owned()));
    }
    let location = [("country", &table.country), ("state", &table.state), ("city", &table.city)];
    for (field, value) in location {
        if value.as_ref().is_some_and(|value| {
            value.is_empty() || value.contains(char::is_whitespace) || *value != value.to_lowercase()
        }) {
            return Err(invalid(field, "must be in lower case and without spaces".to_owned()));
        }
    }
    Ok(UpstreamProxy { scheme, host, port: url.port().unwrap_or(port), password: password.map(Secret::new), table })
}

/// The upstreams of such a text.
#[cfg(any(test, feature = "testing"))]
pub fn upstreams_from(text: &str) -> Vec<UpstreamProxy> {
    UpstreamProxies::parse(text).unwrap_or_else(|fault| panic!("{text}: {fault:?}")).0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_upstream_is_read_and_its_password_is_not_written() {
        let text = r#"[{ name = "de", url = "socks5://p.example:1081", username = "u-{session}", password = "hunter2", country = "de" },
            { name = "any", url = "https://p.example", weight = 3 }]"#;
        let upstreams = UpstreamProxies::parse(text).unwrap();
        let [de, any] = upstreams.0.as_slice() else { panic!("two") };
        assert_eq!((de.scheme, de.port, any.scheme, any.port), (ProxyScheme::Socks5, 1081, ProxyScheme::Https, 443));
        assert_eq!(de.password.as_ref().unwrap().expose(), "hunter2");
        let written = upstreams.toml().unwrap();
        assert!(!written.contains("hunter2") && !format!("{upstreams:?}").contains("hunter2"), "{written}");
    }

    #[test]
    fn each_fault_is_named_and_no_password_is_shown() {
        for (table, what) in [
            (r#"name = "A", url = "http://p""#, "`name`"),
            (r#"name = "a", url = "ftp://p""#, "`url`"),
            (r#"name = "a", url = "socks5://p..example""#, "`url`"),
            (r#"name = "a", url = "http://u:word@p""#, "`url`"),
            (r#"name = "a", url = "http://p", weight = 0"#, "`weight`"),
            (r#"name = "a", url = "http://p", password = "word""#, "`username`"),
            (r#"name = "a", url = "http://p", country = "DE""#, "`country`"),
            (r#"name = "a", url = "http://p", password_env = "NO_SUCH_VARIABLE", username = "u""#, "`password_env`"),
            (r#"name = "a", url = "http://p", colour = "red""#, "colour"),
        ] {
            let fault = UpstreamProxies::parse(&format!("[{{ {table} }}]")).unwrap_err();
            assert!(fault.what.contains(what) && !fault.what.contains("word@"), "{table}: {fault:?}");
        }
    }
}
