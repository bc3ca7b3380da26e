//! Access: keys, tokens, pages of other origins, and other hosts' names.

use anyhow::{Context, Result, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::{
    ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_REQUEST_METHOD, AUTHORIZATION, CONTENT_TYPE, HOST, ORIGIN,
};
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use serde_json::json;
use warmpool_tests::api::KEY_HEADER;
use warmpool_tests::{Api, Daemon, Group, Reply, Session, Settings, Stage, group, webdriver, wire};

pub(crate) fn group() -> Group {
    group!(Some(Settings::new()),
        quick: [a_key_is_needed, a_wrong_token_opens_nothing, a_foreign_page_is_refused],
        full: [
            another_keys_session_is_404,
            a_key_may_come_as_bearer,
            an_ended_session_takes_no_socket,
            probes_take_the_key_as_their_clients_send_it,
            a_page_of_an_allowed_site_reads_its_faults,
        ],
    )
}

fn header(name: HeaderName, value: &str) -> Result<HeaderMap> {
    Ok(HeaderMap::from_iter([(name, HeaderValue::from_str(value)?)]))
}

async fn a_key_is_needed(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let none = daemon.api().without_key();
    let wrong = daemon.api().with_key("wp_0000000000000000000000000000000000000000000000000000000000000000");
    let almost = daemon.api().with_key(&daemon.key()[..daemon.key().len() - 1]);
    for api in [none, wrong, almost] {
        api.post("/sessions/create", &json!({})).await?.fault(401)?;
        api.post("/sessions/webdriver/create", &json!({})).await?.fault(401)?;
        api.get("/sessions").await?.fault(401)?;
        api.get("/sessions/ses_x").await?.fault(401)?;
        api.delete("/sessions/ses_x").await?.fault(401)?;
    }
    Ok(())
}

async fn a_key_may_come_as_bearer(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let api = daemon.api().without_key();
    let bearer = header(AUTHORIZATION, &format!("Bearer {}", daemon.key()))?;
    api.send(Method::GET, "/sessions", bearer, bytes::Bytes::new()).await?.ok()?;
    // In the URL it counts for websockets only, because URLs are logged.
    ensure!(api.get(&format!("/sessions?token={}", daemon.key())).await?.fault(400)?.field == "token");
    Ok(())
}

/// Where the operator wants a key for them.
async fn probes_take_the_key_as_their_clients_send_it(_: Stage) -> Result<()> {
    let daemon = Daemon::start_cold(Settings::on_demand().set("SERVER_STATUS_NEEDS_KEY", "true")).await?;
    let api = daemon.api().without_key();
    let basic = |user: &str| header(AUTHORIZATION, &format!("Basic {}", STANDARD.encode(user)));
    let own = header(HeaderName::from_static(KEY_HEADER), daemon.key())?;
    let right = [basic(&format!("{}:", daemon.key()))?, basic(&format!("any:{}", daemon.key()))?, own];
    for (method, path) in [
        (Method::GET, "/status"),
        (Method::GET, "/metrics"),
        (Method::GET, "/ping"),
        (Method::GET, "/pressure"),
        (Method::GET, "/wd/hub/status"),
        (Method::POST, "/graphql"),
    ] {
        let status = async |mut headers: HeaderMap| {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
            let body = bytes::Bytes::from(if method == Method::POST { "{}" } else { "" });
            anyhow::Ok(api.send(method.clone(), path, headers, body).await?.status)
        };
        for headers in &right {
            ensure!(status(headers.clone()).await? == 200, "{path} {headers:?}");
        }
        for headers in [HeaderMap::new(), basic("any:wp_0_x")?, basic(":")?] {
            ensure!(status(headers.clone()).await? == 401, "{path} {headers:?}");
        }
    }
    // Only the address that clients of browserless ask has the key in its query.
    ensure!(api.get(&format!("/pressure?token={}", daemon.key())).await?.status == 200);
    api.get("/pressure?token=wp_0_x").await?.fault(401)?;
    ensure!(api.get(&format!("/status?token={}", daemon.key())).await?.fault(400)?.field == "token");
    daemon.assert_idle().await
}

async fn a_wrong_token_opens_nothing(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let session = daemon.session(json!({})).await?;
    let (path, token) = session.websocket_url()?.split_once("token=").context("token")?;
    let turned: String = token.chars().rev().collect();
    for url in [format!("{path}token={turned}"), format!("{path}token="), path.trim_end_matches('?').to_owned()] {
        ensure!(wire::refusal(&url, &HeaderMap::new()).await? == 401, "{url}");
    }
    let plain = Api::new(session.websocket_url()?.replace("ws:", "http:"));
    plain.get("").await?.fault(426)?;
    session.delete().await?.ok()?;

    let session = daemon.webdriver(json!({})).await?;
    let (path, token) = session.connect_url()?.trim_end_matches('/').rsplit_once('/').context("token")?;
    let turned: String = token.chars().rev().collect();
    let reply = webdriver::new_session(&format!("{path}/{turned}"), json!({"alwaysMatch": {}})).await?;
    let (error, _) = webdriver::fault(&reply, 404)?;
    ensure!(error == "invalid session id", "{reply}");
    session.delete().await?.ok()?;
    Ok(())
}

async fn another_keys_session_is_404(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let other = daemon.api().with_key(crate::keys::create(daemon, "other").await?);
    let session = daemon.session(json!({"url": "about:blank"})).await?;
    other.get(&format!("/sessions/{}", session.id)).await?.fault(404)?;
    other.get(&format!("/sessions/{}/status", session.id)).await?.fault(404)?;
    other.get(&format!("/sessions/{}/files", session.id)).await?.fault(404)?;
    other.delete(&format!("/sessions/{}", session.id)).await?.fault(404)?;
    ensure!(other.get("/sessions").await?.ok()?["sessions"] == json!([]), "a list shows one's own sessions only");
    ensure!(session.status().await? == "running");
    session.delete().await?.ok()?;
    Ok(())
}

async fn an_ended_session_takes_no_socket(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let session = daemon.session(json!({})).await?;
    session.delete().await?.ok()?;
    ensure!(wire::refusal(session.websocket_url()?, &HeaderMap::new()).await? == 404);
    let session = daemon.webdriver(json!({})).await?;
    session.delete().await?.ok()?;
    let reply = webdriver::new_session(session.connect_url()?, json!({"alwaysMatch": {}})).await?;
    let (error, message) = webdriver::fault(&reply, 404)?;
    ensure!(error == "invalid session id" && message.contains("terminated"), "{reply}");
    Ok(())
}

async fn a_foreign_page_is_refused(stage: Stage) -> Result<()> {
    let daemon = stage.daemon()?;
    let api = daemon.api();
    let session: Session = daemon.session(json!({})).await?;
    let port = daemon.url().rsplit(':').next().unwrap_or_default();
    let strangers = [
        (header(ORIGIN, "https://evil.example")?, "origin"),
        (header(ORIGIN, "null")?, "origin"),
        (header(HOST, "evil.example")?, "host"),
        (header(HOST, &format!("127.0.0.1.evil.example:{port}"))?, "host"),
    ];
    for (headers, what) in strangers {
        for path in ["/sessions", "/status", "/healthz"] {
            let fault = api.send(Method::GET, path, headers.clone(), bytes::Bytes::new()).await?.fault(403)?;
            ensure!(fault.message.contains(what), "{headers:?}: {fault:?}");
        }
        ensure!(wire::refusal(session.websocket_url()?, &headers).await? == 403, "{headers:?}");
    }
    // A name of this machine is allowed.
    let mut headers = header(HOST, &format!("localhost:{port}"))?;
    headers.insert(HeaderName::from_static(KEY_HEADER), daemon.key().parse()?);
    api.send(Method::GET, "/sessions", headers, bytes::Bytes::new()).await?.ok()?;
    session.delete().await?.ok()?;
    Ok(())
}

/// Also those that no handler sees, since the daemon refuses such requests before.
async fn a_page_of_an_allowed_site_reads_its_faults(_: Stage) -> Result<()> {
    const SITE: &str = "https://app.example";
    let daemon = Daemon::start_cold(Settings::on_demand().set("SERVER_ALLOWED_ORIGINS", SITE)).await?;
    let api = daemon.api();
    let call = async |method: Method, path: &str, origin: &str, host: Option<&'static str>| {
        let mut headers = header(ORIGIN, origin)?;
        if let Some(host) = host {
            headers.insert(HOST, HeaderValue::from_static(host));
        }
        if method == Method::OPTIONS {
            headers.insert(ACCESS_CONTROL_REQUEST_METHOD, HeaderValue::from_static("GET"));
        }
        let reply = api.send(method, path, headers, bytes::Bytes::new()).await?;
        ensure!(reply.header("x-request-id").is_some(), "{reply}");
        anyhow::Ok(reply)
    };
    let readable_by = |reply: &Reply| reply.header(ACCESS_CONTROL_ALLOW_ORIGIN.as_str()).map(str::to_owned);
    let foreign_host = Some("evil.test");
    for (path, host, status, code) in [
        ("/sessions?no_such=1", None, 400, "unknown_field"),
        ("/sessions?limit=5&limit=6", None, 400, "invalid_field"),
        ("/sessions?limit=101", None, 400, "invalid_field"),
        ("/sessions/%ff", None, 400, "invalid_field"),
        ("/no/such/path", None, 404, "unknown_path"),
        ("/sessions", foreign_host, 403, "foreign_host"),
    ] {
        let reply = call(Method::GET, path, SITE, host).await?;
        ensure!(reply.fault(status)?.code == code, "{reply}");
        ensure!(readable_by(&reply).as_deref() == Some(SITE), "{reply}");
        let preflight = call(Method::OPTIONS, path, SITE, host).await?;
        ensure!(preflight.status == 200 && readable_by(&preflight).as_deref() == Some(SITE), "{preflight}");
    }
    for (path, host) in [("/sessions", None), ("/sessions?no_such=1", None), ("/sessions", foreign_host)] {
        for method in [Method::GET, Method::OPTIONS] {
            let reply = call(method, path, "https://evil.test", host).await?;
            reply.fault(403)?;
            ensure!(readable_by(&reply).is_none(), "{reply}");
        }
    }
    // One of the allowed site's, and two of the other's: each is counted once.
    let counted = daemon.metrics().await?.sum("warmpool_refusals_total", &[("code", "foreign_host")]);
    ensure!(counted == Some(3.0), "{counted:?}");
    daemon.assert_idle().await
}
