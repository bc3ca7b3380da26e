//! Upstream proxies: the `[[egress.upstreams]]` tables.

use std::fmt;

use serde::{Deserialize, Serialize};
use url::{Host, Url};

use super::named_tables::{NamedTable, check_name, named_tables, tables_toml};
use super::value::{InvalidValue, TomlForm, Value};
use warmpool_core::address;
use warmpool_core::error::FieldError;
use warmpool_core::secret::Secret;

/// The largest weight of an upstream; its share of the sessions is its weight's.
const MAX_WEIGHT: u32 = 1000;

/// The protocol of a proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProxyScheme {
    /// HTTP, with CONNECT.
    Http,
    /// The same over TLS.
    Https,
    /// SOCKS 5, which resolves names itself.
    Socks5,
}

impl ProxyScheme {
    /// The scheme of a URL, and the port where it names none.
    fn from_scheme(scheme: &str) -> Option<(Self, u16)> {
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
    /// Its name, and what it is chosen by.
    pub table: UpstreamTable,
    /// The protocol it speaks.
    pub scheme: ProxyScheme,
    /// The host it listens on.
    pub host: Host,
    /// The port it listens on.
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
    /// Its name in records and metrics.
    pub name: String,
    url: String,
    /// The user name; may have `{country}`, `{state}`, `{city}`, `{zip}` and `{session}` in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub username: Option<String>,
    #[serde(skip_serializing)]
    password: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    password_file: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    password_env: Option<String>,
    /// The country of its addresses, in lower case.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub country: Option<String>,
    /// Their state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// Their city.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub city: Option<String>,
    /// Their ZIP code.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zip: Option<u32>,
    /// Its share of sessions, relative to the other upstreams that fit; from 1 to 1000.
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
        named_tables(text).map(Self)
    }

    /// Without passwords, which nothing prints.
    fn toml(&self) -> Option<String> {
        tables_toml(self.0.iter().map(|upstream| &upstream.table))
    }
}

impl NamedTable for UpstreamProxy {
    const KIND: &'static str = "upstream";
    const REMEDY: &'static str = "write an [[egress.upstreams]] table for each, or an array such as \
                                  [{ name = \"de\", url = \"socks5://proxy.example:1080\", country = \"de\" }]";
    const SECRET: bool = true;
    type Table = UpstreamTable;

    fn name(&self) -> &str {
        &self.table.name
    }

    fn check(table: UpstreamTable, misfit: &dyn Fn(FieldError) -> InvalidValue) -> Result<Self, InvalidValue> {
        check_upstream(table).map_err(misfit)
    }
}

fn check_upstream(table: UpstreamTable) -> Result<UpstreamProxy, FieldError> {
    let invalid = |field: &str, problem: String| FieldError::invalid(field, problem);
    check_name(&table.name)?;
    let wrong_url = || {
        let problem = "must be http://, https:// or socks5:// with a host and a port, and without a user name";
        FieldError::invalid("url", problem)
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
