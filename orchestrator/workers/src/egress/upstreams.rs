//! Chooses a session's upstream proxy: the nearest that is up, and the same one for as long as it stays up.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::proxy::Proxy;
use super::socks::Credentials;
use crate::Error;
use warmpool_config::{UpstreamProxy, UpstreamTable};
use warmpool_core::error::{FieldError, FieldFault as _};
use warmpool_core::secret::Secret;

/// Where a client wants its requests to come from. Without any member, anywhere.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "ProxyLocation")]
pub struct Location {
    /// The country's code of two small letters, such as `de`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = "^[a-z0-9]{2}$"))]
    pub country: Option<String>,
    /// The state's code in small letters, such as `ca`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = "^[a-z0-9]{1,3}$"))]
    pub state: Option<String>,
    /// The city's name in small letters and without spaces, such as `newyork`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 100))]
    pub city: Option<String>,
    /// The postal code.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 999_999_999))]
    pub zip: Option<u32>,
}

impl Location {
    /// Checks what the types alone do not.
    /// Errors: the member that is wrong.
    pub fn check(&self) -> Result<(), FieldError> {
        let code = |text: &str, lengths: std::ops::RangeInclusive<usize>| {
            lengths.contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
        };
        if self.country.as_ref().is_some_and(|country| !code(country, 2..=2)) {
            return Err(FieldError::invalid("country", "must be a country's code of two small letters, such as `de`"));
        }
        if self.state.as_ref().is_some_and(|state| !code(state, 1..=3)) {
            return Err(FieldError::invalid("state", "must be a state's code in small letters, such as `ca`"));
        }
        let name = |city: &String| {
            let fits =
                |c: char| (c.is_alphabetic() && c.to_lowercase().eq([c])) || c.is_ascii_digit() || "-_.'".contains(c);
            (1..=100).contains(&city.chars().count()) && city.chars().all(fits)
        };
        if self.city.as_ref().is_some_and(|city| !name(city)) {
            return Err(FieldError::invalid(
                "city",
                "must be a name in small letters and without spaces, such as `newyork`",
            ));
        }
        if self.zip.is_some_and(|zip| zip > 999_999_999) {
            return Err(FieldError::invalid("zip", "must be a postal code as a whole number"));
        }
        Ok(())
    }

    /// Where an upstream says that it is.
    fn from_table(table: &UpstreamTable) -> Self {
        let UpstreamTable { country, state, city, zip, .. } = table.clone();
        Self { country, state, city, zip }
    }

    /// This place, with what it leaves open taken from another.
    fn or(self, other: &Self) -> Self {
        Self {
            country: self.country.or_else(|| other.country.clone()),
            state: self.state.or_else(|| other.state.clone()),
            city: self.city.or_else(|| other.city.clone()),
            zip: self.zip.or(other.zip),
        }
    }

    /// The members, broadest first, as texts.
    fn members(&self) -> [(&'static str, Option<String>); 4] {
        // Codes of the United States have five digits, the first of which may be 0.
        let zip = self
            .zip
            .map(|zip| if self.country.as_deref() == Some("us") { format!("{zip:05}") } else { zip.to_string() });
        [("country", self.country.clone()), ("state", self.state.clone()), ("city", self.city.clone()), ("zip", zip)]
    }
}

/// An upstream and its health.
#[derive(Debug)]
pub(crate) struct Upstream {
    pub(super) config: UpstreamProxy,
    pub(super) is_up: AtomicBool,
}

/// The upstream of one session, and the proxy address for it.
#[derive(Debug, Clone)]
pub struct ChosenUpstream {
    pub(super) upstream: Arc<Upstream>,
    pub(super) proxy: Proxy,
}

/// The operator's upstreams.
#[derive(Debug, Clone, Default)]
pub struct Upstreams(pub(super) Arc<[Arc<Upstream>]>);

impl Upstreams {
    /// The upstreams of the configuration, all of which count as up until they are checked.
    #[must_use]
    pub fn new(configured: &[UpstreamProxy]) -> Self {
        let upstream =
            |config: &UpstreamProxy| Arc::new(Upstream { config: config.clone(), is_up: AtomicBool::new(true) });
        Self(configured.iter().map(upstream).collect())
    }

    /// Returns the nearest upstream that is up. Weights decide between equals, for one session always the same way.
    /// Errors: when no upstream is there, or none is up.
    pub fn choose(&self, wanted: &Location, session: &str) -> Result<ChosenUpstream, Error> {
        let problem = |problem: &str| Error::invalid("advanced.proxy", problem);
        if self.0.is_empty() {
            return Err(problem(
                "needs an upstream proxy, and none is configured: set `egress.upstreams`, or leave it out",
            ));
        }
        let near: Vec<(u8, &Arc<Upstream>)> =
            self.0.iter().filter_map(|upstream| Some((nearness(&upstream.config, wanted)?, upstream))).collect();
        if near.is_empty() {
            return Err(problem("names a place where no upstream proxy is: see `egress.upstreams`"));
        }
        let up = || near.iter().filter(|(_, upstream)| upstream.is_up.load(Ordering::Relaxed));
        let nearest = up().map(|(nearness, _)| *nearness).max();
        let best = up().filter(|(nearness, _)| Some(*nearness) == nearest);
        // Weighted rendezvous hashing: a session keeps its upstream while others come and go.
        let chosen = best.max_by(|(_, a), (_, b)| lot(&a.config, session).total_cmp(&lot(&b.config, session)));
        let Some((_, upstream)) = chosen else {
            return Err(Error::NoUpstream);
        };
        let proxy =
            proxy(&upstream.config, wanted, session).ok_or_else(|| problem("has a proxy whose host cannot be read"))?;
        Ok(ChosenUpstream { upstream: Arc::clone(upstream), proxy })
    }
}

impl ChosenUpstream {
    /// Returns the upstream's name and place, for the client.
    pub fn shown(&self) -> serde_json::Value {
        #[derive(Serialize)]
        struct Shown<'a> {
            upstream: &'a str,
            #[serde(flatten)]
            location: Location,
        }
        let table = &self.upstream.config.table;
        serde_json::json!(Shown { upstream: &table.name, location: Location::from_table(table) })
    }
}

/// How near an upstream is to the wanted place; none where the broadest wanted member differs, or where its user name
/// needs a member that neither side names.
fn nearness(upstream: &UpstreamProxy, wanted: &Location) -> Option<u8> {
    let table = &upstream.table;
    let own = Location::from_table(table);
    let template = table.username.as_deref().unwrap_or_default();
    let (mut nearness, mut is_broadest) = (0, true);
    for ((name, wanted), (_, own)) in wanted.members().into_iter().zip(own.members()) {
        let in_template = template.contains(&format!("{{{name}}}"));
        let Some(wanted) = wanted else {
            if in_template && own.is_none() {
                return None;
            }
            continue;
        };
        let fits = own.map_or(in_template, |own| own == wanted);
        if is_broadest && !fits {
            return None;
        }
        is_broadest = false;
        nearness = nearness * 2 + u8::from(fits);
    }
    Some(nearness)
}

/// The rendezvous score of an upstream for a session, in proportion to the upstream's weight.
fn lot(upstream: &UpstreamProxy, session: &str) -> f64 {
    let hash = Sha256::digest(format!("{session}/{}", upstream.table.name));
    let drawn = hash[..6].iter().fold(0.0, |sum, byte| sum * 256.0 + f64::from(*byte));
    let share = (drawn + 1.0) / 281_474_976_710_657.0;
    f64::from(upstream.table.weight) / -share.ln()
}

fn proxy(upstream: &UpstreamProxy, wanted: &Location, session: &str) -> Option<Proxy> {
    let table = &upstream.table;
    let place = Location::from_table(table).or(wanted);
    let user = table.username.as_ref().map(|template| {
        let user = place.members().into_iter().fold(template.clone(), |user, (name, value)| {
            user.replace(&format!("{{{name}}}"), &value.unwrap_or_default())
        });
        user.replace("{session}", &hex::encode(&Sha256::digest(session)[..8]))
    });
    let password = upstream.password.clone().unwrap_or_else(|| Secret::new(String::new()));
    Some(Proxy {
        scheme: upstream.scheme,
        host: upstream.host.clone(),
        port: upstream.port,
        credentials: user.map(|user| Credentials { user, password }),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use warmpool_config::upstreams_from;
    use warmpool_core::error::Fault as _;

    fn upstreams(tables: &str) -> Upstreams {
        Upstreams::new(&upstreams_from(tables))
    }

    fn location(json: serde_json::Value) -> Location {
        serde_json::from_value(json).unwrap()
    }

    #[test]
    fn the_nearest_one_is_chosen() {
        let upstreams = upstreams(
            r#"[{ name = "de", url = "http://p", country = "de" },
                { name = "ny", url = "http://p", country = "us", state = "ny", city = "newyork" },
                { name = "ca", url = "http://p", country = "us", state = "ca", city = "oakland" },
                { name = "any", url = "http://p", username = "u-{country}-{city}-{zip}" }]"#,
        );
        let name =
            |wanted| upstreams.choose(&location(wanted), "s").map(|chosen| chosen.upstream.config.table.name.clone());
        let json = serde_json::json!({"country": "us", "state": "ca", "city": "losangeles"});
        assert_eq!(name(json).unwrap(), "ca", "no city, but the state");
        assert_eq!(name(serde_json::json!({"country": "de"})).unwrap(), "de");
        assert_eq!(name(serde_json::json!({"city": "newyork"})).unwrap(), "ny");
        let chosen =
            upstreams.choose(&location(serde_json::json!({"country": "us", "city": "x", "zip": 2116})), "s").unwrap();
        assert_eq!(chosen.proxy.credentials.unwrap().user, "u-us-x-02116");
        let error = name(serde_json::json!({"country": "fr"})).unwrap_err();
        assert_eq!(error.field(), Some("advanced.proxy"));
        assert!(Upstreams::default().choose(&Location::default(), "s").is_err());
    }

    #[test]
    fn a_session_keeps_its_upstream_and_weights_count() {
        let upstreams = upstreams(
            r#"[{ name = "a", url = "http://p", weight = 3 }, { name = "b", url = "http://p" }, { name = "c", url = "http://p", weight = 2 }]"#,
        );
        let name = |session: &str| {
            upstreams.choose(&Location::default(), session).map(|chosen| chosen.upstream.config.table.name.clone())
        };
        let count = |wanted: &str| (0..600).filter(|session| name(&session.to_string()).unwrap() == wanted).count();
        assert!((240..360).contains(&count("a")), "{}", count("a"));
        assert!((60..140).contains(&count("b")), "{}", count("b"));
        let before = name("7").unwrap();
        assert_eq!(name("7").unwrap(), before);
        for upstream in upstreams.0.iter().filter(|upstream| upstream.config.table.name == before) {
            upstream.is_up.store(false, Ordering::Relaxed);
        }
        assert_ne!(name("7").unwrap(), before, "another takes its place");
        upstreams.0.iter().for_each(|upstream| upstream.is_up.store(false, Ordering::Relaxed));
        assert!(matches!(name("7"), Err(Error::NoUpstream)), "never a direct connection");
    }

    #[test]
    fn members_are_checked_as_the_contract_says() {
        for wrong in [
            serde_json::json!({"country": "DE"}),
            serde_json::json!({"country": "deu"}),
            serde_json::json!({"state": "CA"}),
            serde_json::json!({"city": "New York"}),
            serde_json::json!({"city": "new york"}),
            serde_json::json!({"city": ""}),
            serde_json::json!({"zip": 4_000_000_000_u32}),
        ] {
            let member = wrong.as_object().unwrap().keys().next().unwrap().clone();
            assert_eq!(location(wrong).check().unwrap_err().path(), member);
        }
        let right = serde_json::json!({"country": "us", "state": "ca", "city": "losangeles", "zip": 90001});
        assert!(location(right).check().is_ok());
    }
}
