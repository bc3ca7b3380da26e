use std::collections::BTreeSet;
use std::fs;
use std::net::Ipv4Addr;

use tempfile::TempDir;
use tokio::net::UdpSocket;
use tokio::sync::watch;

use super::*;
use crate::{DialError, Dialler, Policy, Refusal};
use warmpool_config::EgressRules;

/// Nobody answers for the names below this one.
const SILENT: &str = ".silent.test";
/// Nobody says whether this one has an IPv6 address.
const HALF: &str = "half.test";
/// Nobody has these names.
const UNKNOWN: &str = ".unknown.test";
const ANSWER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 7);
const MINUTE: Duration = Duration::from_secs(60);
const LIMITS: ResolverLimits = ResolverLimits { at_once: 4, time: MINUTE, max_ttl: MINUTE, max_negative_ttl: MINUTE };

impl Lookups {
    async fn addresses(&self, name: &str) -> Result<Vec<IpAddr>, UnknownName> {
        self.look_up(name).await.map(|found| found.addresses)
    }
}

/// A name server, and the files that name it.
struct NameServer {
    folder: TempDir,
    port: u16,
    /// For which names it was asked for an IPv4 address, each time.
    asked: watch::Receiver<Vec<String>>,
}

impl NameServer {
    async fn start(ttl: u32) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let port = socket.local_addr().unwrap().port();
        let (heard, asked) = watch::channel(Vec::new());
        tokio::spawn(async move {
            let mut question = [0; 512];
            while let Ok((length, client)) = socket.recv_from(&mut question).await {
                let (name, reply) = answer(&question[..length], ttl);
                if let Some(reply) = reply {
                    let _ = socket.send_to(&reply, client).await;
                }
                heard.send_modify(|heard: &mut Vec<String>| heard.extend(name));
            }
        });
        let server = Self { folder: tempfile::tempdir().unwrap(), port, asked };
        server.write("resolv.conf", "nameserver 127.0.0.1\nsearch corp.test\noptions trust-ad what-is-that:3\n");
        server.write("hosts", "# known\n10.1.1.1 Known.test known # not.this\n10.1.1.2 known.test\nnot-an-address x\n");
        server
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.folder.path().join(name), text).unwrap();
    }

    fn resolver(&self, limits: ResolverLimits) -> Resolver {
        let [resolv_conf, hosts] = ["resolv.conf", "hosts"].map(|name| self.folder.path().join(name));
        let files = SystemFiles { resolv_conf, hosts, port: self.port, look: Duration::ZERO };
        Resolver::from_files(files, limits, |_| None)
    }

    fn asked(&self) -> Vec<String> {
        self.asked.borrow().clone()
    }
}

/// The name in a question (RFC 1035) for an IPv4 address, and the answer to it: other types have none.
fn answer(question: &[u8], ttl: u32) -> (Option<String>, Option<Vec<u8>>) {
    let (mut at, mut labels) = (12, Vec::new());
    while question[at] != 0 {
        let end = at + 1 + usize::from(question[at]);
        labels.push(std::str::from_utf8(&question[at + 1..end]).unwrap().to_ascii_lowercase());
        at = end;
    }
    let name = labels.join(".");
    let is_address = question[at + 1..at + 3] == [0, 1];
    let is_known = !name.ends_with(UNKNOWN) && !name.contains("unknown.test.");
    let mut reply = question[..2].to_vec();
    reply.extend([0x81, if is_known { 0x80 } else { 0x83 }, 0, 1, 0, u8::from(is_address && is_known), 0, 0, 0, 0]);
    reply.extend(&question[12..at + 5]);
    if is_address && is_known {
        reply.extend([0xc0, 12, 0, 1, 0, 1]);
        reply.extend(ttl.to_be_bytes());
        reply.extend([0, 4]);
        reply.extend(ANSWER.octets());
    }
    let is_silent = name.ends_with(SILENT) || (name == HALF && !is_address);
    (is_address.then_some(name), (!is_silent).then_some(reply))
}

#[tokio::test]
async fn look_ups_that_nobody_answers_are_in_nobody_elses_way() {
    let mut server = NameServer::start(0).await;
    let resolver = server.resolver(LIMITS);
    let mut pages = Vec::new();
    for session in 0..6 {
        let share = resolver.share();
        for number in 0..100 {
            let share = share.clone();
            pages.push(tokio::spawn(async move { share.addresses(&format!("{number}-{session}{SILENT}")).await }));
        }
    }
    let names = |asked: &Vec<String>| asked.iter().cloned().collect::<BTreeSet<_>>();
    server.asked.wait_for(|asked| names(asked).len() == 6 * LIMITS.at_once).await.unwrap();
    for number in 0..20 {
        let found = resolver.share().addresses(&format!("{number}.another.test")).await;
        assert_eq!(found, Ok(vec![ANSWER.into()]));
    }
    let silent = server.asked().into_iter().filter(|name| name.ends_with(SILENT)).collect();
    assert_eq!(names(&silent).len(), 6 * LIMITS.at_once, "each session has its share and no more");
    pages.iter().for_each(tokio::task::JoinHandle::abort);
}

#[tokio::test]
async fn the_deadline_frees_the_place() {
    let server = NameServer::start(0).await;
    let share = server.resolver(ResolverLimits { at_once: 1, time: Duration::from_secs(1), ..LIMITS }).share();
    let silent = format!("a{SILENT}");
    let (silent, next) = tokio::join!(share.addresses(&silent), share.addresses("b.test"));
    assert_eq!((silent, next), (Err(UnknownName), Ok(vec![ANSWER.into()])));
}

#[tokio::test]
async fn a_connection_waits_no_longer_for_a_place_or_an_answer() {
    let mut server = NameServer::start(0).await;
    let limits = ResolverLimits { at_once: 1, ..LIMITS };
    let share = server.resolver(limits).share();
    let (first, limit) = (share.clone(), Duration::from_millis(300));
    let has_the_place = tokio::spawn(async move { first.addresses(&format!("a{SILENT}")).await });
    server.asked.wait_for(|asked| !asked.is_empty()).await.unwrap();
    let of_its_own = server.resolver(limits).share();
    for (share, name) in [(&share, "known-by-nobody.test".to_owned()), (&of_its_own, format!("b{SILENT}"))] {
        let host = url::Host::Domain(name);
        let asked = timeout(MINUTE / 2, share.connect(&host, 80, limit)).await.expect("it ends");
        assert!(matches!(asked, Err(DialError::LookupTimedOut)), "{host}: {asked:?}");
    }
    has_the_place.abort();
}

#[tokio::test]
async fn silence_about_ipv6_hides_no_ipv4_address() {
    let server = NameServer::start(0).await;
    let limits = ResolverLimits { time: Duration::from_secs(2), ..LIMITS };
    assert_eq!(server.resolver(limits).share().addresses(HALF).await, Ok(vec![ANSWER.into()]));
}

#[tokio::test]
async fn an_answer_is_kept_as_long_as_it_says_and_no_longer_than_the_limit() {
    for (ttl, max_ttl, questions) in [(300, MINUTE, 1), (0, MINUTE, 3), (300, Duration::ZERO, 3)] {
        let server = NameServer::start(ttl).await;
        let resolver = server.resolver(ResolverLimits { max_ttl, ..LIMITS });
        for _ in 0..3 {
            // The answers are everybody's, unlike the places.
            assert_eq!(resolver.share().addresses("a.test").await, Ok(vec![ANSWER.into()]));
        }
        assert_eq!(server.asked().len(), questions, "{ttl} s, and {max_ttl:?} at most");
    }
}

#[tokio::test]
async fn the_systems_files_hold_as_they_are_now() {
    let server = NameServer::start(0).await;
    let resolver = server.resolver(LIMITS);
    let share = resolver.share();
    let known = vec![Ipv4Addr::new(10, 1, 1, 1).into(), Ipv4Addr::new(10, 1, 1, 2).into()];
    assert_eq!(share.addresses("known.test").await, Ok(known));
    assert_eq!(share.addresses("known").await, Ok(vec![Ipv4Addr::new(10, 1, 1, 1).into()]));
    assert!(server.asked().is_empty(), "{:?}", server.asked());
    assert_eq!(share.addresses("intranet").await, Ok(vec![ANSWER.into()]));
    assert_eq!(server.asked(), ["intranet.corp.test"]);
    assert_eq!(share.addresses(&format!("a{UNKNOWN}")).await, Err(UnknownName));
    assert_eq!(share.addresses("under_score.test").await, Ok(vec![ANSWER.into()]));
    server.write("hosts", "10.1.1.3 known.test # and one more\n");
    assert_eq!(share.addresses("known.test").await, Ok(vec![Ipv4Addr::new(10, 1, 1, 3).into()]));
    assert!(share.addresses("localhost").await.unwrap().iter().all(IpAddr::is_loopback));
}

#[tokio::test]
async fn the_name_that_answers_below_a_search_domain_is_judged() {
    let server = NameServer::start(0).await;
    server.write("resolv.conf", "nameserver 127.0.0.1\nsearch Corp.TEST\n");
    let rule = |text: &str| vec![text.parse().unwrap()];
    let rules = EgressRules { allow: rule("192.0.2.0/24"), deny: rule("admin.corp.test"), ..EgressRules::default() };
    let dialler = Dialler::new(Policy::new(vec![rules]), server.resolver(LIMITS).share(), MINUTE);
    for name in ["admin", "admin.corp.test"] {
        let asked = dialler.connect(&url::Host::Domain(name.to_owned()), 80).await;
        assert!(matches!(asked, Err(DialError::Refused(Refusal::Denied))), "{name}: {asked:?}");
    }
    assert_eq!(server.asked(), ["admin.corp.test", "admin.corp.test"]);
}

#[tokio::test]
async fn a_file_of_no_use_leaves_the_defaults() {
    let server = NameServer::start(0).await;
    server.write("resolv.conf", "");
    let found = server.resolver(LIMITS).share().addresses("a.test").await;
    assert_eq!(found, Ok(vec![ANSWER.into()]), "127.0.0.1 is asked, as resolv.conf(5) says");
}

#[tokio::test]
async fn a_name_with_thousands_of_addresses_has_the_first_few() {
    let server = NameServer::start(0).await;
    let all: Vec<IpAddr> = (0..4000_u32).map(|number| Ipv4Addr::from(0xc000_0000 + number).into()).collect();
    server.write("hosts", &all.iter().map(|address| format!("{address} many.test\n")).collect::<String>());
    let known = all.clone();
    let known = Resolver::with(LIMITS, move |_| Some(known.clone()));
    for resolver in [server.resolver(LIMITS), known] {
        assert_eq!(resolver.share().addresses("many.test").await.unwrap(), all[..MAX_ADDRESSES]);
    }
}
