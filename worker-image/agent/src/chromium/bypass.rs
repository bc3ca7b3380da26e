//! A list of hosts that a browser context reaches without its proxy, as Chromium reads one.

use std::net::IpAddr;

use crate::socks::Site;

/// The rules of a list; the last that knows a host decides.
#[derive(Debug, Default)]
pub(super) struct Bypass(Vec<Rule>);

#[derive(Debug)]
struct Rule {
    /// Whether pages of this rule are encrypted; none for both kinds.
    encrypted: Option<bool>,
    hosts: Hosts,
    port: Option<u16>,
}

#[derive(Debug)]
enum Hosts {
    /// `<-loopback>`: names and addresses of this machine have a proxy.
    NotLoopback,
    /// `<local>`: names without a dot.
    Simple,
    /// A name in small letters, where `*` stands for anything.
    Pattern(String),
    /// An address and the length of its prefix.
    Network(IpAddr, u32),
}

impl Bypass {
    /// Reads a list; leaves out what is no rule, as Chromium does.
    pub(super) fn parse(list: &str) -> Self {
        Self(list.split([',', ';']).filter_map(|rule| Rule::parse(rule.trim())).collect())
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a site needs no proxy. Where the browser does not say how it speaks to the site, the port does.
    pub(super) fn has(&self, site: &Site, encrypted: bool) -> bool {
        let host = site.host.trim_matches(['[', ']']).to_ascii_lowercase();
        let decides = |rule: &Rule| {
            let knows = rule.encrypted.is_none_or(|wanted| wanted == encrypted)
                && rule.port.is_none_or(|port| port == site.port)
                && rule.hosts.know(&host);
            knows.then_some(!matches!(rule.hosts, Hosts::NotLoopback))
        };
        self.0.iter().rev().find_map(decides).unwrap_or(false)
    }
}

impl Rule {
    fn parse(text: &str) -> Option<Self> {
        let text = text.to_ascii_lowercase();
        let (encrypted, rest) = match text.split_once("://") {
            Some(("http" | "ws", rest)) => (Some(false), rest),
            Some(("https" | "wss", rest)) => (Some(true), rest),
            Some(_) => return None,
            None => (None, text.as_str()),
        };
        let rule = |hosts, port| Some(Self { encrypted, hosts, port });
        if let Some((address, length)) = rest.split_once('/') {
            let address: IpAddr = address.trim_matches(['[', ']']).parse().ok()?;
            let length: u32 = length.parse().ok().filter(|length| *length <= bits(address).1)?;
            return rule(Hosts::Network(address, length), None);
        }
        match rest {
            "" => return None,
            "<local>" => return rule(Hosts::Simple, None),
            "<-loopback>" => return rule(Hosts::NotLoopback, None),
            _ => {}
        }
        let address = |text: &str| text.trim_matches(['[', ']']).parse::<IpAddr>().ok();
        let whole = |address: IpAddr| Hosts::Network(address, bits(address).1);
        if let Some(address) = address(rest) {
            return rule(whole(address), None);
        }
        let (host, port) = match rest.rsplit_once(':') {
            Some((host, port)) => (host, Some(port.parse().ok()?)),
            None => (rest, None),
        };
        if let Some(address) = address(host) {
            return rule(whole(address), port);
        }
        let all = if host.starts_with('.') { "*" } else { "" };
        rule(Hosts::Pattern(format!("{all}{host}")), port)
    }
}

impl Hosts {
    fn know(&self, host: &str) -> bool {
        let address = host.parse::<IpAddr>().ok();
        match (self, address) {
            (Self::NotLoopback, Some(address)) => address.to_canonical().is_loopback(),
            (Self::NotLoopback, None) => host == "localhost" || host.ends_with(".localhost"),
            (Self::Simple, address) => address.is_none() && !host.contains('.'),
            (Self::Pattern(pattern), _) => fits(pattern.as_bytes(), host.as_bytes()),
            (Self::Network(network, length), Some(address)) => {
                let ((network, width), (address, other)) = (bits(*network), bits(address.to_canonical()));
                width == other && (network ^ address).checked_shr(width - length).unwrap_or(0) == 0
            }
            (Self::Network(..), None) => false,
        }
    }
}

/// An address as a number, and how many bits it has.
fn bits(address: IpAddr) -> (u128, u32) {
    match address {
        IpAddr::V4(address) => (u32::from(address).into(), 32),
        IpAddr::V6(address) => (address.into(), 128),
    }
}

/// Whether a text fits a pattern, of which `*` stands for any text. After a `*` that fits, only the last one can have to
/// give way.
fn fits(pattern: &[u8], text: &[u8]) -> bool {
    let (mut at, mut read, mut star) = (0, 0, None);
    while read < text.len() {
        if pattern.get(at) == Some(&b'*') {
            star = Some((at, read));
            at += 1;
        } else if pattern.get(at) == Some(&text[read]) {
            (at, read) = (at + 1, read + 1);
        } else if let Some((star_at, from)) = star {
            star = Some((star_at, from + 1));
            (at, read) = (star_at + 1, from + 1);
        } else {
            return false;
        }
    }
    pattern[at..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_read_as_chromium_reads_it() {
        for (list, host, port, encrypted, is_in) in [
            ("a.example", "a.example", 80, false, true),
            ("a.example", "A.EXAMPLE", 443, true, true),
            ("a.example", "x.a.example", 80, false, false),
            (".a.example", "x.a.example", 80, false, true),
            (".a.example", "a.example", 80, false, false),
            ("b.example, *.a.*:8080;c", "x.a.example", 8080, false, true),
            ("*.a.*:8080", "x.a.example", 80, false, false),
            ("*a*b*", "xxaxxbxx", 80, false, true),
            ("*a*b", "abab", 80, false, true),
            ("*a*b", "aba", 80, false, false),
            ("*", "anything", 1, true, true),
            ("https://a.example", "a.example", 443, true, true),
            ("https://a.example", "a.example", 80, false, false),
            ("ftp://a.example", "a.example", 21, false, false),
            ("10.0.0.7:3000", "10.0.0.7", 3000, false, true),
            ("10.0.0.0/8", "10.200.0.1", 443, true, true),
            ("10.0.0.0/8", "11.0.0.1", 443, true, false),
            ("0.0.0.0/0", "11.0.0.1", 443, true, true),
            ("10.0.0.0/33", "10.0.0.1", 80, false, false),
            ("[::1]:80", "[::1]", 80, false, true),
            ("fd00::/8", "fd12::1", 80, false, true),
            ("fd00::/8", "10.0.0.1", 80, false, false),
            ("<local>", "intranet", 80, false, true),
            ("<local>", "a.example", 80, false, false),
            ("<local>", "::1", 80, false, false),
            ("localhost;<-loopback>", "localhost", 80, false, false),
            ("<-loopback>;localhost", "localhost", 80, false, true),
            ("*;<-loopback>", "127.0.0.9", 80, false, false),
            ("", "a.example", 80, false, false),
            (";,a.example:http", "a.example", 80, false, false),
        ] {
            let site = Site { host: host.to_owned(), port };
            assert_eq!(Bypass::parse(list).has(&site, encrypted), is_in, "{list} {host}:{port}");
        }
    }
}
