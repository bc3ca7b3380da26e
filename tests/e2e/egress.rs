//! What leaves a worker: which addresses its pages reach, and through which proxies.

use anyhow::{Context, Result, ensure};
use http::Method;
use serde_json::json;
use tokio::net::TcpListener;
use warmpool_tests::programs::{Program, clients};
use warmpool_tests::upstream::{Scheme, Upstream};
use warmpool_tests::{Daemon, Driver, Group, Session, Settings, Stage, eventually, group, host_address};

pub(crate) fn group() -> Group {
    group!(None,
        quick: [no_page_of_chromium_reaches_what_is_not_public, an_upstream_carries_a_session],
        full: [
            no_page_of_firefox_reaches_what_is_not_public,
            no_page_of_webkit_reaches_what_is_not_public,
            a_worker_has_no_way_around_the_proxy,
            pages_load_again_after_a_restart,
            every_kind_of_upstream_carries_every_engine,
            another_upstream_takes_over,
            an_upstream_may_go_while_a_caller_waits,
            keys_and_presets_have_rules_of_their_own,
            a_webdriver_client_names_its_proxy,
            a_clients_proxy_outlives_the_daemon,
            contexts_have_proxies_of_their_own,
            a_page_has_its_share_of_connections,
            a_site_may_answer_before_it_has_read_everything,
        ],
    )
}

/// Addresses whose refusal every engine shows.
const MUST_SAY_SO: [&str; 3] = ["169.254.169.254", "10.0.0.1", "192.168.0.1"];

/// Opens addresses in every notation, and reads what the page shows.
async fn refuses(engine: &str) -> Result<()> {
    let daemon = Daemon::start(Settings::on_demand()).await?;
    let session = daemon.webdriver(json!({"browser_type": engine})).await?;
    let driver = Driver::start(session.connect_url()?, json!({})).await?;
    let port = daemon.url().rsplit_once(':').context("a port")?.1;
    let own =
        ["127.0.0.1", "2130706433", "0x7f.1", "0177.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]", "0.0.0.0"];
    let own = own.map(|host| format!("{host}:{port}"));
    let others =
        ["169.254.169.254", "10.0.0.1", "192.168.0.1", "100.64.0.1", "[fd00:ec2::254]", "[64:ff9b::a9fe:a9fe]"];
    for host in own.iter().map(String::as_str).chain(others) {
        // Some engines refuse some of these by themselves.
        let opened = driver.command(Method::POST, "/url", &json!({"url": format!("http://{host}/")})).await?;
        let shown = driver.execute("return document.documentElement.innerText").await?.to_string();
        let refused = shown.contains("Refused by Warmpool") && shown.contains("egress.allow");
        ensure!(refused || opened.status != 200 || shown == "\"\"", "{engine} {host}: {opened} {shown}");
        ensure!(refused || !MUST_SAY_SO.contains(&host), "{engine} {host}: {shown}");
    }
    // For scripts, the connection fails.
    let script = format!(
        "const [done] = arguments; fetch('http://127.0.0.1:{port}/status', {{mode: 'no-cors'}}).then(() => done('answered'), () => done('failed'))"
    );
    let body = json!({"script": script, "args": []});
    let heard = driver.command(Method::POST, "/execute/async", &body).await?.ok()?;
    ensure!(heard["value"] == "failed", "{engine}: {heard}");
    let record = session.record().await?;
    let refused = record["egress"]["refused"].as_array().context("refused")?;
    let listed = |host: &str| refused.iter().any(|row| row["host"] == host && row["reason"] == "not_public");
    ensure!(listed("127.0.0.1") && listed("169.254.169.254") && listed("localhost"), "{record}");
    let counted = daemon.metrics().await?.sum("warmpool_egress_refused_total", &[("reason", "not_public")]);
    ensure!(counted.is_some_and(|counted| counted >= 5.0), "{counted:?}");
    session.delete().await?.ok()?;
    ensure!(
        session.record().await?["egress"]["refused_count"].as_u64() >= Some(5),
        "an ended session keeps its counts"
    );
    daemon.assert_idle().await
}

async fn no_page_of_chromium_reaches_what_is_not_public(_: Stage) -> Result<()> {
    refuses("chromium").await
}

async fn no_page_of_firefox_reaches_what_is_not_public(_: Stage) -> Result<()> {
    refuses("firefox").await
}

async fn no_page_of_webkit_reaches_what_is_not_public(_: Stage) -> Result<()> {
    refuses("webkit").await
}

/// A program in the worker that does not ask the proxy, as after a break-out.
async fn a_worker_has_no_way_around_the_proxy(stage: Stage) -> Result<()> {
    let daemon = Daemon::start(Settings::on_demand().set("SERVER_LISTEN", "0.0.0.0:0")).await?;
    let session = daemon.session(json!({})).await?;
    let container = daemon.only_container().await?;
    let site = stage.site_for(&daemon).await?;
    let site = site.trim_start_matches("http://").replace(':', "/");
    let port = daemon.url().rsplit_once(':').context("a port")?.1;
    let gateway = "$(set -- $(sed -n 's/^eth0\\t00000000\\t\\(..\\)\\(..\\)\\(..\\)\\(..\\)\\t.*/0x\\4 0x\\3 0x\\2 0x\\1/p' /proc/net/route); \
                   printf '%d.%d.%d.%d' ${1:-0} ${2:-0} ${3:-0} ${4:-0})";
    let host = host_address();
    let connects = |target: &str| format!("timeout 5 bash -c \"exec 3<>/dev/tcp/{target}\" && echo connected; true");
    let resolves = |name: &str| format!("timeout 5 getent hosts {name} && echo resolved; true");
    // Where nothing is in the way, the same commands say so.
    let client = daemon.docker().run_client("sleep 300").await?;
    let here = async {
        let connected = daemon.docker().inspect(&client, &["bash", "-c", &connects(&site)]).await?;
        anyhow::Ok(connected + &daemon.docker().inspect(&client, &["bash", "-c", &resolves("localhost")]).await?)
    };
    let said = here.await;
    daemon.docker().run(&["rm", "--force", &client]).await?;
    let said = said?;
    ensure!(said.contains("connected") && said.contains("resolved"), "a client on the bridge: {said}");
    for target in [
        site,
        format!("{host}/{port}"),
        format!("{gateway}/{port}"),
        format!("{gateway}/2375"),
        "169.254.169.254/80".to_owned(),
        "1.1.1.1/443".to_owned(),
    ] {
        let said = daemon.docker().inspect(&container, &["bash", "-c", &connects(&target)]).await?;
        ensure!(!said.contains("connected"), "a worker reached {target}");
    }
    let said = daemon.docker().inspect(&container, &["bash", "-c", &resolves("example.com")]).await?;
    ensure!(!said.contains("resolved"), "a worker resolves names: {said}");
    session.delete().await?.ok()?;
    daemon.assert_idle().await
}

async fn pages_load_again_after_a_restart(stage: Stage) -> Result<()> {
    let mut daemon = Daemon::start(Settings::on_demand()).await?;
    let site = stage.site_for(&daemon).await?;
    let session = daemon.webdriver(json!({})).await?;
    let driver = Driver::start(session.connect_url()?, json!({})).await?;
    driver.goto(&format!("{site}/tab/1")).await?;
    daemon.kill9().await?;
    daemon.restart().await?;
    daemon.ready().await?;
    driver.goto(&format!("{site}/tab/2")).await?;
    ensure!(driver.execute("return document.title").await? == "Tab 2");
    session.delete().await?.ok()?;
    daemon.assert_idle().await
}

async fn an_upstream_carries_a_session(stage: Stage) -> Result<()> {
    let (right, wrong) = (Upstream::start(Scheme::Http, "word").await?, Upstream::start(Scheme::Http, "other").await?);
    let table = |name: &str, upstream: &Upstream, country: &str| {
        format!(
            "{{ name = \"{name}\", url = \"http://{}\", username = \"u-{{country}}-{{session}}\", password = \"word\", country = \"{country}\" }}",
            upstream.address()
        )
    };
    let gone = TcpListener::bind((host_address(), 0)).await?.local_addr()?;
    let gone = format!("{{ name = \"sweden\", url = \"http://{gone}\", country = \"se\" }}");
    let tables = format!("[{}, {}, {gone}]", table("germany", &right, "de"), table("france", &wrong, "fr"));
    let daemon = Daemon::start(Settings::on_demand().set("EGRESS_UPSTREAMS", tables)).await?;
    let site = stage.site_for(&daemon).await?;
    let api = daemon.api();

    let body =
        json!({"headless": true, "url": format!("{site}/tab/egress-41"), "advanced": {"proxy": {"country": "de"}}});
    let reply = api.post("/sessions/create", &body).await?.ok()?;
    ensure!(reply["proxy"] == json!({"upstream": "germany", "country": "de"}), "{reply}");
    // Other groups open pages of the site, too, so what the upstream was asked counts.
    let is_ours = |line: &String| line.starts_with(site.trim_start_matches("http://")) && line.contains("u-de-");
    eventually!("the upstream is asked for the page", 20, right.asked().iter().any(is_ours))?;
    let id = reply["session_id"].as_str().context("session_id")?;
    api.delete(&format!("/sessions/{id}")).await?.ok()?;

    // Wrong credentials: no page, a reason, and nothing direct.
    let body =
        json!({"headless": true, "url": format!("{site}/tab/egress-42"), "advanced": {"proxy": {"country": "fr"}}});
    let reply = api.post("/sessions/create", &body).await?.ok()?;
    let id = reply["session_id"].as_str().context("session_id")?;
    eventually!("the credentials are refused", 30, {
        let record = api.get(&format!("/sessions/{id}")).await?.ok()?;
        let rows = record["egress"]["refused"].as_array().cloned().unwrap_or_default();
        rows.iter().any(|row| row["reason"] == "proxy_credentials")
    })?;
    ensure!(stage.site().hits("/tab/egress-42").is_empty(), "never a direct connection");
    api.delete(&format!("/sessions/{id}")).await?.ok()?;

    for body in [json!({"country": "jp"}), json!({"country": "DE"}), json!({"zip": "1"}), json!({"planet": "mars"})] {
        let reply = api.post("/sessions/create", &json!({"advanced": {"proxy": body}})).await?;
        ensure!(reply.fault(400)?.field.starts_with("advanced.proxy"), "{reply}");
    }
    eventually!("the upstream that is gone is noticed", 30, {
        let body = json!({"headless": true, "advanced": {"proxy": {"country": "se"}}});
        let reply = api.post("/sessions/create", &body).await?;
        reply.status == 503 && reply.fault(503)?.code == "proxy_unavailable"
    })?;
    daemon.end_all().await?;
    daemon.assert_idle().await
}

async fn a_webdriver_client_names_its_proxy(stage: Stage) -> Result<()> {
    let upstream = Upstream::start(Scheme::Http, "word").await?;
    let daemon = Daemon::start(Settings::on_demand()).await?;
    let site = stage.site_for(&daemon).await?;
    for engine in ["chromium", "firefox", "webkit"] {
        let session = daemon.webdriver(json!({"browser_type": engine})).await?;
        let named = format!("http://{engine}:word@{}", upstream.address());
        let proxy = json!({"proxyType": "manual", "httpProxy": named, "sslProxy": named});
        let driver = Driver::start(session.connect_url()?, json!({"proxy": proxy})).await?;
        driver.goto(&format!("{site}/tab/3")).await?;
        ensure!(driver.execute("return document.title").await? == "Tab 3", "{engine}");
        let asked = upstream.asked();
        ensure!(asked.iter().any(|line| line.ends_with(&format!("{engine}:word"))), "{engine}: {asked:?}");
        session.delete().await?.ok()?;
    }
    daemon.assert_idle().await
}

async fn a_clients_proxy_outlives_the_daemon(stage: Stage) -> Result<()> {
    let upstream = Upstream::start(Scheme::Http, "pass-word").await?;
    let mut daemon = Daemon::start(Settings::on_demand()).await?;
    let site = stage.site_for(&daemon).await?;
    let mut drivers = Vec::new();
    for engine in ["chromium", "firefox", "webkit"] {
        let session = daemon.webdriver(json!({"browser_type": engine})).await?;
        let named = format!("http://{engine}:pass-word@{}", upstream.address());
        let proxy = json!({"proxyType": "manual", "httpProxy": named, "sslProxy": named});
        let driver = Driver::start(session.connect_url()?, json!({"proxy": proxy})).await?;
        driver.goto(&format!("{site}/tab/3")).await?;
        drivers.push((engine, session, driver));
    }
    daemon.kill9().await?;
    daemon.restart().await?;
    daemon.keeps_secret(&["pass-word"]).await?;
    for (engine, session, driver) in drivers {
        let of_engine =
            || upstream.asked().iter().filter(|line| line.ends_with(&format!("{engine}:pass-word"))).count();
        let before = of_engine();
        driver.goto(&format!("{site}/tab/4")).await?;
        ensure!(driver.execute("return document.title").await? == "Tab 4", "{engine}");
        ensure!(of_engine() > before, "{engine} went around its proxy: {:?}", upstream.asked());
        session.delete().await?.ok()?;
    }
    daemon.assert_idle().await
}

/// Browser and proxy speak with each other: pages in the clear by their whole address, and credentials as a client gives them.
async fn contexts_have_proxies_of_their_own(stage: Stage) -> Result<()> {
    let (http, socks) = (Upstream::start(Scheme::Http, "word").await?, Upstream::start(Scheme::Socks5, "").await?);
    let daemon = Daemon::start(Settings::on_demand()).await?;
    let site = stage.site_for(&daemon).await?;
    let session = daemon.session(json!({"headless": true, "url": "about:blank"})).await?;
    let client = Program::node(&clients(), "context_proxies.mjs").await?;
    let client = client.env("SESSION_WS", session.websocket_url()?).env("SITE_URL", &site);
    client.env("HTTP_PROXY_URL", http.url()).env("SOCKS_PROXY_URL", socks.url()).run().await?;
    let (http, socks) = (http.asked(), socks.asked());
    let has = |asked: &[String], wanted: &str| asked.iter().any(|line| line == wanted);
    for (path, user) in [("/tab/1", "playwright"), ("/tab/7", "puppeteer"), ("/tab/10", "puppeteer")] {
        ensure!(has(&http, &format!("{site}{path} {user}:word")), "{path}: {http:?}");
    }
    ensure!(http.iter().any(|line| line.starts_with("http://127.0.0.1:1080/ ")), "loopback: {http:?}");
    ensure!(has(&socks, &format!("{} :", site.trim_start_matches("http://"))), "{socks:?}");
    ensure!(!http.iter().any(|line| line.contains("/tab/3")), "a context without a proxy: {http:?}");
    ensure!(!http.iter().any(|line| line.contains("/tab/9")), "a host of the bypass list: {http:?}");
    daemon.assert_idle().await
}

async fn a_page_has_its_share_of_connections(stage: Stage) -> Result<()> {
    let daemon = Daemon::start(Settings::on_demand().set("EGRESS_MAX_CONNECTIONS", "8")).await?;
    let site = stage.site_for(&daemon).await?;
    let (greedy, other) = (daemon.webdriver(json!({})).await?, daemon.webdriver(json!({})).await?);
    let driver = Driver::start(greedy.connect_url()?, json!({})).await?;
    driver.goto(&format!("{site}/tab/4")).await?;
    // Servers that take connections and never answer. A browser opens six to each.
    let mut silent = Vec::new();
    for _ in 0..3 {
        silent.push(TcpListener::bind((host_address(), 0)).await?);
    }
    for listener in &silent {
        let url = format!("http://{}/", listener.local_addr()?);
        let script = format!("for (let i = 0; i < 300; i++) fetch('{url}' + i, {{mode: 'no-cors'}}).catch(() => {{}})");
        driver.execute(&script).await?;
    }
    eventually!("connections are refused", 30, {
        let record = greedy.record().await?;
        let rows = record["egress"]["refused"].as_array().cloned().unwrap_or_default();
        rows.iter().any(|row| row["reason"] == "too_many_connections")
    })?;
    let driver = Driver::start(other.connect_url()?, json!({})).await?;
    driver.goto(&format!("{site}/tab/5")).await?;
    ensure!(driver.execute("return document.title").await? == "Tab 5", "other sessions are untouched");
    greedy.delete().await?.ok()?;
    other.delete().await?.ok()?;
    daemon.assert_idle().await
}

async fn a_site_may_answer_before_it_has_read_everything(stage: Stage) -> Result<()> {
    let daemon = Daemon::start(Settings::on_demand()).await?;
    let session = daemon.session(json!({"headless": true})).await?;
    let mut cdp = session.cdp().await?;
    let page = cdp.open(&format!("{}/upload", stage.site_for(&daemon).await?)).await?;
    eventually!("the page is there", 10, {
        (cdp.evaluate(&page, "location.pathname").await? == "/upload").then_some(())
    })?;
    // The site takes no body that long: it answers and closes while the browser still sends.
    let post = "fetch('/form', {method: 'POST', body: 'x'.repeat(1 << 25)}).then(r => r.status, String)";
    let status = cdp.evaluate(&page, post).await?;
    ensure!(status.is_number(), "the answer was lost: {status}");
    session.delete().await?.ok()?;
    daemon.assert_idle().await
}

/// Pages by http and by https go through proxies that speak TLS and SOCKS, and none of them directly.
async fn every_kind_of_upstream_carries_every_engine(stage: Stage) -> Result<()> {
    let (https, socks) =
        (Upstream::start(Scheme::Https, "word").await?, Upstream::start(Scheme::Socks5, "word").await?);
    let table = |name: &str, upstream: &Upstream, country: &str| {
        format!(
            "{{ name = \"{name}\", url = \"{}\", username = \"u-{{session}}\", password = \"word\", country = \"{country}\" }}",
            upstream.url()
        )
    };
    let tables = format!("[{}, {}]", table("by-tls", &https, "de"), table("by-socks", &socks, "fr"));
    let certificate = https.certificate().context("a certificate")?;
    let settings =
        Settings::on_demand().set("EGRESS_UPSTREAMS", tables).environment("SSL_CERT_FILE", certificate.display());
    let daemon = Daemon::start(settings).await?;
    let site = stage.site_for(&daemon).await?;
    let host = site.trim_start_matches("http://");
    for engine in ["chromium", "firefox", "webkit"] {
        for (country, name, upstream) in [("de", "by-tls", &https), ("fr", "by-socks", &socks)] {
            let page = format!("/captchas/{engine}-{name}");
            let body = json!({
                "browser_type": engine, "headless": true, "url": format!("{site}{page}?kind=none"),
                "advanced": {"proxy": {"country": country}},
            });
            let before = upstream.asked().len();
            let session = daemon.session(body).await?;
            ensure!(session.body["proxy"]["upstream"] == name, "{}", session.body);
            let carried =
                || upstream.asked()[before..].iter().any(|line| line.starts_with(host) && line.contains(" u-"));
            let opened = || !stage.site().hits(&page).is_empty();
            eventually!(format!("{engine} opens a page by {name}"), 30, opened() && carried())
                .with_context(|| format!("{:?}", upstream.asked()))?;
            session.delete().await?.ok()?;
        }
    }
    ensure!(!daemon.log_text().contains("word"), "a password is in the log");
    daemon.assert_idle().await
}

/// The upstream of a session goes away under it: the next nearest carries what comes then.
async fn another_upstream_takes_over(stage: Stage) -> Result<()> {
    let (first, second) =
        (Upstream::start(Scheme::Http, "word").await?, Upstream::start(Scheme::Socks5, "word").await?);
    let tables = format!(
        "[{{ name = \"near\", url = \"{}\", username = \"u\", password = \"word\", country = \"de\", city = \"berlin\" }}, \
          {{ name = \"far\", url = \"{}\", username = \"u\", password = \"word\", country = \"de\" }}]",
        first.url(),
        second.url()
    );
    let daemon = Daemon::start(Settings::on_demand().set("EGRESS_UPSTREAMS", tables)).await?;
    let site = stage.site_for(&daemon).await?;
    let body = json!({"headless": true, "advanced": {"proxy": {"country": "de", "city": "berlin"}}});
    let session = daemon.session(body).await?;
    ensure!(session.body["proxy"]["upstream"] == "near", "{}", session.body);
    let mut cdp = session.cdp().await?;
    let page = cdp.open(&format!("{site}/tab/1")).await?;
    eventually!("the page is there", 20, cdp.evaluate(&page, "document.title").await? == "Tab 1")?;
    ensure!(!first.asked().is_empty() && second.asked().is_empty());
    drop(first);
    cdp.call_in(&page, "Page.navigate", json!({"url": format!("{site}/tab/2")})).await?;
    eventually!("the next page is there", 20, cdp.evaluate(&page, "document.title").await? == "Tab 2")?;
    ensure!(!second.asked().is_empty(), "the other one carries it");
    let again = daemon.session(json!({"headless": true, "advanced": {"proxy": {"city": "berlin"}}})).await;
    ensure!(again.is_err(), "nobody else is in that city");
    session.delete().await?.ok()?;
    daemon.end_all().await?;
    daemon.assert_idle().await
}

/// The key's rules come first, then the preset's, then the daemon's.
async fn an_upstream_may_go_while_a_caller_waits(_: Stage) -> Result<()> {
    let upstream = Upstream::start(Scheme::Http, "word").await?;
    let tables =
        format!("[{{ name = \"only\", url = \"{}\", username = \"u\", password = \"word\" }}]", upstream.url());
    let settings = Settings::on_demand()
        .set("EGRESS_UPSTREAMS", tables)
        .set("EGRESS_HEALTH_INTERVAL", "1s")
        .set("SESSION_MAX_SESSIONS", "1");
    let daemon = Daemon::start(settings).await?;
    let held = daemon.session(json!({})).await?;
    let (api, body) = (daemon.api(), json!({"headless": true, "advanced": {"proxy": {}}}));
    let asked = tokio::spawn(async move { api.post("/sessions/create", &body).await });
    crate::queue::waiting(&daemon, 1).await?;
    drop(upstream);
    eventually!("its end is noticed", 30, {
        daemon.metrics().await?.sum("warmpool_egress_upstream_up", &[]) == Some(0.0)
    })?;
    held.delete().await?.ok()?;
    let refused = asked.await??;
    ensure!(refused.fault(503)?.code == "proxy_unavailable", "{refused}");
    daemon.assert_idle().await
}

async fn keys_and_presets_have_rules_of_their_own(stage: Stage) -> Result<()> {
    let preset = format!(
        "[{{ name = \"closed\", engine = \"chromium\", mode = \"headless\", count = 0, locales = [\"de-DE\"], egress = {{ deny = [\"{}\"] }} }}]",
        host_address()
    );
    let daemon = Daemon::start(Settings::on_demand().set("POOL_PRESETS", preset)).await?;
    let site = stage.site_for(&daemon).await?;
    let more = daemon.cli_ok(&["key", "create", "more", "--egress-allow", host_address()]).await?;
    let less = daemon.cli_ok(&["key", "create", "less", "--egress-allow", "127.0.0.9", "--egress-deny", "*"]).await?;
    let german = json!({"headless": true, "settings": {"locales": ["de-DE"]}});
    let plain = json!({"headless": true});
    for (key, body, reaches) in [
        (daemon.key(), &plain, true),
        (daemon.key(), &german, false),
        (more.trim(), &german, true),
        (less.trim(), &plain, false),
    ] {
        let session = Session::create(&daemon.api().with_key(key), body).await?;
        let mut cdp = session.cdp().await?;
        let page = cdp.open(&format!("{site}/tab/7")).await?;
        let title = if reaches { "Tab 7" } else { "Refused by Warmpool" };
        eventually!(format!("{body} shows {title}"), 20, cdp.evaluate(&page, "document.title").await? == title)?;
        let refused = session.record().await?["egress"]["refused"].as_array().cloned().unwrap_or_default();
        ensure!(reaches || refused.iter().any(|row| row["reason"] == "denied"), "{refused:?}");
        session.delete().await?.ok()?;
    }
    daemon.cli_ok(&["key", "egress", "less", "--egress-allow", host_address()]).await?;
    let session = Session::create(&daemon.api().with_key(less.trim()), &plain).await?;
    let mut cdp = session.cdp().await?;
    let page = cdp.open(&format!("{site}/tab/8")).await?;
    eventually!("new rules hold", 20, cdp.evaluate(&page, "document.title").await? == "Tab 8")?;
    session.delete().await?.ok()?;
    let listed: serde_json::Value = serde_json::from_str(&daemon.cli_ok(&["key", "list", "--json"]).await?)?;
    ensure!(
        listed.as_array().is_some_and(|keys| keys
            .iter()
            .any(|key| key["egress"]["allow"][0].as_str().is_some_and(|rule| rule.starts_with(host_address())))),
        "{listed}"
    );
    let wrong = daemon.cli(&["key", "create", "wrong", "--egress-allow", "a b"]).await?;
    ensure!(wrong.status.code() == Some(64), "{wrong:?}");
    daemon.assert_idle().await
}
