//! Which addresses clients may name.

use url::{Host, Url};

use warmpool_config::{Config, EgressRules};
use warmpool_core::address;
use warmpool_dial::Policy;

/// The longest address of a webhook, in bytes.
pub const MAX_ADDRESS: usize = 2048;

/// Why an address cannot be a webhook's, in words that follow the name of its field.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// It is too long.
    #[error("may have {MAX_ADDRESS} bytes at most")]
    TooLong,
    /// It is not of the kind that is called.
    #[error("must be an address of https or http, such as https://app.example.com/hooks")]
    NotHttp,
    /// It has a user or a password in it.
    #[error("must have no user and no password in it: the signature tells who sends")]
    Credentials,
    /// The policy refuses it.
    #[error("names {host}, which {problem}: name a public host, or one in `webhooks.networks`")]
    Refused {
        /// The host.
        host: String,
        /// What is wrong with it.
        problem: &'static str,
    },
}

/// Checks an address that a client names. A name is not resolved: what it leads to is judged when a message is sent.
/// Errors: [`AddressError`].
pub fn check_address(text: &str, config: &Config) -> Result<Url, AddressError> {
    if text.len() > MAX_ADDRESS {
        return Err(AddressError::TooLong);
    }
    let url = Url::parse(text).ok().filter(|url| matches!(url.scheme(), "http" | "https") && url.host_str().is_some());
    let url = url.ok_or(AddressError::NotHttp)?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err(AddressError::Credentials);
    }
    let host = url.host_str().and_then(address::host).ok_or(AddressError::NotHttp)?;
    if !matches!(host, Host::Domain(_))
        && let Some(ip) = address::host_ip(&host)
        && let Err(refusal) = policy(config, Vec::new()).judge(None, ip, url.port_or_known_default().unwrap_or(443))
    {
        return Err(AddressError::Refused { host: host.to_string(), problem: refusal.problem() });
    }
    Ok(url)
}

/// What clients' addresses are judged by; `of_key` are the rules of the client's key.
pub(super) fn policy(config: &Config, mut of_key: Vec<EgressRules>) -> Policy {
    let (allow, deny) = (config.egress.allow.clone(), config.egress.deny.clone());
    of_key.push(EgressRules { allow, deny, ..EgressRules::default() });
    Policy::for_attachments(of_key, config.webhooks.networks.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use warmpool_config::{Flags, Host as Machine};

    #[test]
    fn only_public_addresses_and_named_networks_are_taken() {
        let machine = Machine { memory: 8 << 30, cores: 2, root: true, ..Machine::default() };
        let with = |env: Vec<(String, String)>| Config::resolve(None, env, &Flags::default(), &machine).unwrap();
        let config = with(Vec::new());
        let check = |config: &Config, text: &str| check_address(text, config).map(|url| url.to_string());
        assert!(check(&config, "https://hooks.example/a?b=c").is_ok());
        for text in ["ftp://a.example/", "nonsense", "data:,x", "/path"] {
            assert_eq!(check(&config, text), Err(AddressError::NotHttp), "{text}");
        }
        assert_eq!(check(&config, "https://me:pass@a.example/"), Err(AddressError::Credentials));
        assert_eq!(check(&config, &format!("https://a.example/{}", "x".repeat(2048))), Err(AddressError::TooLong));
        for text in
            ["http://127.0.0.1/", "http://0x7f.1:81/", "http://[::1]/", "http://10.1.1.1/", "http://169.254.169.254/"]
        {
            assert!(matches!(check(&config, text), Err(AddressError::Refused { .. })), "{text}");
        }
        let config = with(vec![("WARMPOOL_WEBHOOKS_NETWORKS".to_owned(), "10.0.0.0/8".to_owned())]);
        assert!(check(&config, "http://10.1.1.1/").is_ok());
    }
}
