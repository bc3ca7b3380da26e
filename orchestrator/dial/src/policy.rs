//! Which addresses may be reached.

use std::net::IpAddr;
use std::sync::OnceLock;

use ipnet::IpNet;

use warmpool_config::{EgressRule, EgressRules};
use warmpool_core::address;

/// The rules of one session, nearest first: those of its key, its preset and the configuration. The first that names an
/// address decides. Where none does, public addresses are allowed and others are not.
#[derive(Debug, Clone, Default)]
pub struct Policy {
    levels: Vec<EgressRules>,
    opens: Opens,
}

/// What opens addresses that are not public.
#[derive(Debug, Clone, Default)]
enum Opens {
    /// A rule that allows them.
    #[default]
    Rules,
    /// These networks. Rules only deny.
    Networks(Vec<IpNet>),
}

/// Why an address may not be reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// A rule denies it.
    Denied,
    /// It is not public, and of this kind.
    NotPublic(&'static str),
    /// It is this host's own.
    Own,
}

impl Refusal {
    /// The short name in records and metrics.
    pub const fn code(self) -> &'static str {
        match self {
            Self::Denied => "denied",
            Self::NotPublic(_) => "not_public",
            Self::Own => "this_host",
        }
    }

    /// What is wrong with the address, in words that follow its name.
    pub const fn problem(self) -> &'static str {
        match self {
            Self::Denied => "is denied by an egress rule",
            Self::NotPublic(kind) => kind,
            Self::Own => "is an address of the host that Warmpool runs on",
        }
    }
}

impl Policy {
    /// Rules, nearest first.
    pub const fn new(levels: Vec<EgressRules>) -> Self {
        Self { levels, opens: Opens::Rules }
    }

    /// What worlds' attachments may be fetched from: public addresses and these networks, but for what the rules deny. What
    /// the rules allow to pages is not meant for whoever names an attachment.
    pub fn for_attachments(mut levels: Vec<EgressRules>, networks: Vec<IpNet>) -> Self {
        if let Some(last) = levels.last_mut() {
            // So that `*` denies what neither the rules nor the networks name.
            last.allow.extend(networks.iter().copied().map(EgressRule::from));
        }
        Self { levels, opens: Opens::Networks(networks) }
    }

    /// Judges an address, and the name that led to it.
    /// Errors: the reason why it may not be reached.
    pub fn judge(&self, name: Option<&str>, address: IpAddr, port: u16) -> Result<(), Refusal> {
        self.judge_named(name.as_slice(), address, port, &OwnAddresses::default())
    }

    /// Judges an address, and every name that led to it: the one asked for, and the one below a search domain that has it. Several
    /// addresses of one name are judged with the same `own`.
    /// Errors: the reason why it may not be reached.
    pub(crate) fn judge_named(
        &self,
        names: &[impl AsRef<str>],
        address: IpAddr,
        port: u16,
        own: &OwnAddresses,
    ) -> Result<(), Refusal> {
        let canonical = address.to_canonical();
        // A translator on the way would lead there, so what is denied there is denied here.
        let carried = match address {
            IpAddr::V6(address) => address::carried_v4(address).map(IpAddr::V4),
            IpAddr::V4(_) => None,
        };
        let leads_there =
            |rule: &EgressRule| carried.is_some_and(|carried| !rule.is_general() && rule.matches(None, carried, port));
        let is_named = |rule: &EgressRule| names.iter().any(|name| rule.names(name.as_ref(), port));
        let decided = self.decide(|rule, allows| {
            rule.matches(None, canonical, port) || is_named(rule) || (!allows && leads_there(rule))
        });
        match (decided, &self.opens) {
            (Some(false), _) => return Err(Refusal::Denied),
            (Some(true), Opens::Rules) => return Ok(()),
            (_, Opens::Networks(networks)) if networks.iter().any(|network| network.contains(&canonical)) => {
                return Ok(());
            }
            (Some(true) | None, _) => {}
        }
        match address::special_kind(address) {
            Some(kind) => Err(Refusal::NotPublic(kind)),
            None if own.has(canonical) || carried.is_some_and(|carried| own.has(carried)) => Err(Refusal::Own),
            None => Ok(()),
        }
    }

    /// Whether the nearest rules that match allow it; none where no rule matches. Within one origin a denial wins over what is
    /// allowed, except `*`, which matches what no other rule there names. `names` hears whether the rule would allow.
    fn decide(&self, names: impl Fn(&EgressRule, bool) -> bool) -> Option<bool> {
        self.levels.iter().find_map(|EgressRules { allow, deny, .. }| {
            let steps = [(deny, false, false), (allow, false, true), (deny, true, false), (allow, true, true)];
            let any = |rules: &[EgressRule], general: bool, allows: bool| {
                rules.iter().any(|rule| rule.is_general() == general && names(rule, allows))
            };
            steps
                .into_iter()
                .find(|(rules, general, allows)| any(rules, *general, *allows))
                .map(|(_, _, allowed)| allowed)
        })
    }

    /// Judges a name that a proxy resolves, so that its addresses are unknown here.
    /// Errors: the reason why it may not be asked for.
    pub(crate) fn judge_name(&self, name: &str, port: u16) -> Result<(), Refusal> {
        match self.decide(|rule, _| rule.names(name, port)) {
            Some(true) => return Ok(()),
            Some(false) => return Err(Refusal::Denied),
            None => {}
        }
        if address::is_localhost(name) { Err(Refusal::NotPublic("is a loopback name")) } else { Ok(()) }
    }
}

/// The addresses of this host's interfaces, read when somebody first asks: services there may trust local connections. None where
/// the system does not say, so that every address may be one.
#[derive(Debug, Default)]
pub(crate) struct OwnAddresses(OnceLock<Option<Vec<IpAddr>>>);

impl OwnAddresses {
    fn has(&self, address: IpAddr) -> bool {
        self.0.get_or_init(Self::read).as_ref().is_none_or(|own| own.contains(&address))
    }

    fn read() -> Option<Vec<IpAddr>> {
        let addresses = nix::ifaddrs::getifaddrs().ok()?.filter_map(|interface| interface.address);
        let address = |own: nix::sys::socket::SockaddrStorage| {
            own.as_sockaddr_in().map(|own| IpAddr::V4(own.ip())).or(own.as_sockaddr_in6().map(|own| own.ip().into()))
        };
        Some(addresses.filter_map(address).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(allow: &[&str], deny: &[&str]) -> EgressRules {
        let parse = |rules: &[&str]| rules.iter().map(|rule| rule.parse().unwrap()).collect();
        EgressRules { allow: parse(allow), deny: parse(deny), ..EgressRules::default() }
    }

    #[test]
    fn what_is_not_public_is_refused_unless_a_rule_allows_it() {
        let policy = Policy::new(vec![rules(
            &["10.0.0.0/8", "127.0.0.1:3000", "intranet.example"],
            &["10.0.0.1", "evil.example"],
        )]);
        let judge = |name: Option<&str>, address: &str, port| policy.judge(name, address.parse().unwrap(), port);
        assert_eq!(judge(None, "8.8.8.8", 443), Ok(()));
        assert_eq!(judge(None, "10.1.1.1", 80), Ok(()));
        assert_eq!(judge(None, "::ffff:10.1.1.1", 80), Ok(()), "the same address");
        assert_eq!(judge(None, "10.0.0.1", 80), Err(Refusal::Denied), "deny wins");
        assert_eq!(judge(Some("evil.example"), "8.8.8.8", 443), Err(Refusal::Denied));
        assert_eq!(judge(None, "127.0.0.1", 3000), Ok(()));
        assert!(matches!(judge(None, "127.0.0.1", 4444), Err(Refusal::NotPublic(_))));
        assert!(matches!(judge(None, "169.254.169.254", 80), Err(Refusal::NotPublic(_))));
        assert_eq!(judge(Some("intranet.example"), "192.168.0.9", 80), Ok(()));
        assert!(judge(Some("other.example"), "192.168.0.9", 80).is_err(), "a name that was rebound");
    }

    #[test]
    fn each_name_that_led_to_an_address_is_judged() {
        let policy =
            Policy::new(vec![rules(&["10.0.0.0/8", "wiki.corp.example", "intranet"], &["admin.corp.example", "old"])]);
        let judge = |name: &str, address: &str| {
            let names = [name.to_owned(), format!("{name}.corp.example")];
            policy.judge_named(&names, address.parse().unwrap(), 80, &OwnAddresses::default())
        };
        assert_eq!((judge("wiki", "192.168.0.9"), judge("intranet", "192.168.0.9")), (Ok(()), Ok(())));
        assert_eq!(
            (judge("admin", "10.1.1.1"), judge("old", "10.1.1.1")),
            (Err(Refusal::Denied), Err(Refusal::Denied))
        );
        assert_eq!(judge("other", "10.1.1.1"), Ok(()));
        assert!(matches!(judge("other", "192.168.0.9"), Err(Refusal::NotPublic(_))));
    }

    #[test]
    fn the_nearest_rules_decide() {
        let policy =
            Policy::new(vec![rules(&["10.0.0.5"], &["8.8.8.8"]), rules(&["10.0.0.0/8"], &["10.0.0.5", "10.0.0.6"])]);
        let judge = |address: &str| policy.judge(None, address.parse().unwrap(), 80).is_ok();
        assert_eq!(policy.judge_name("a.localhost", 80), Err(Refusal::NotPublic("is a loopback name")));
        assert!(judge("10.0.0.5") && judge("10.0.0.7"));
        assert!(!judge("10.0.0.6") && !judge("8.8.8.8"));
    }

    #[test]
    fn a_star_stands_for_what_no_other_rule_names() {
        let policy =
            Policy::new(vec![rules(&["10.0.0.5", "a.example"], &["*", "10.0.0.5:22"]), rules(&["10.0.0.6"], &[])]);
        let judge = |name, address: &str, port| policy.judge(name, address.parse().unwrap(), port);
        assert_eq!(judge(None, "10.0.0.5", 80), Ok(()));
        assert_eq!(judge(Some("a.example"), "8.8.8.8", 443), Ok(()));
        for (address, port) in [("10.0.0.5", 22), ("10.0.0.6", 80), ("8.8.8.8", 443)] {
            assert_eq!(judge(None, address, port), Err(Refusal::Denied), "{address}:{port}");
        }
        let open = Policy::new(vec![rules(&["*"], &["8.8.8.8"])]);
        assert_eq!(open.judge(None, "127.0.0.1".parse().unwrap(), 1), Ok(()));
        assert_eq!(open.judge(None, "8.8.8.8".parse().unwrap(), 1), Err(Refusal::Denied));
    }

    #[test]
    fn what_is_denied_is_denied_in_every_form() {
        let policy = Policy::new(vec![rules(&["10.0.0.5"], &["8.8.8.8"])]);
        let judge = |address: &str| policy.judge(None, address.parse().unwrap(), 80);
        for form in ["8.8.8.8", "::ffff:8.8.8.8", "64:ff9b::808:808", "2002:808:808::1"] {
            assert_eq!(judge(form), Err(Refusal::Denied), "{form}");
        }
        assert!(matches!(judge("64:ff9b::a00:5"), Err(Refusal::NotPublic(_))), "only the address itself is allowed");
    }

    #[test]
    fn attachments_come_from_public_addresses_and_named_networks() {
        let networks = || vec!["10.20.0.0/16".parse().unwrap()];
        let attachments = |allow: &[&str], deny: &[&str]| Policy::for_attachments(vec![rules(allow, deny)], networks());
        let policy = attachments(&["10.0.0.0/8", "127.0.0.1"], &["evil.example", "10.20.0.9"]);
        let judge = |name, address: &str| policy.judge(name, address.parse().unwrap(), 443);
        assert_eq!((judge(None, "8.8.8.8"), judge(None, "10.20.0.1")), (Ok(()), Ok(())));
        assert_eq!(judge(None, "::ffff:10.20.0.1"), Ok(()));
        for address in ["10.0.0.1", "127.0.0.1", "::ffff:127.0.0.1", "169.254.169.254"] {
            assert!(matches!(judge(None, address), Err(Refusal::NotPublic(_))), "{address}: pages alone may");
        }
        for (name, address) in [(Some("evil.example"), "8.8.8.8"), (None, "10.20.0.9"), (None, "::ffff:10.20.0.9")] {
            assert_eq!(judge(name, address), Err(Refusal::Denied), "{address}");
        }
        let narrow = attachments(&["pictures.example"], &["*"]);
        let judge = |name, address: &str| narrow.judge(name, address.parse().unwrap(), 443);
        assert_eq!((judge(Some("pictures.example"), "8.8.8.8"), judge(None, "10.20.0.1")), (Ok(()), Ok(())));
        assert_eq!(judge(None, "8.8.8.8"), Err(Refusal::Denied));
        assert!(judge(Some("pictures.example"), "10.0.0.1").is_err(), "a name that was rebound");
    }
}
