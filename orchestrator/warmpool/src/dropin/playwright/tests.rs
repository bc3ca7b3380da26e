use super::*;
use http::{HeaderName, HeaderValue};
use warmpool_core::error::Fault as _;

fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
    let pair =
        |(name, value): &(&'static str, &str)| (HeaderName::from_static(name), HeaderValue::from_str(value).unwrap());
    pairs.iter().map(pair).collect()
}

fn agent(text: &str) -> HeaderMap {
    headers(&[("user-agent", text)])
}

/// What options of a launch make, by a header.
fn launched(options: &Value) -> Result<PlaywrightRequest, Error> {
    read(Some("chromium"), "", &headers(&[(LAUNCH_OPTIONS, &options.to_string())]))
}

#[test]
fn a_client_gets_its_own_minor_version() {
    let versions = ["1.9", "1.64", "1.65", "1.10"].map(str::to_owned);
    let chosen = |text: &str| version(&agent(text), &versions);
    assert_eq!(chosen("Playwright/1.64.0 (x64; debian 12) node/20.20").unwrap(), "1.64");
    assert_eq!(chosen("Playwright/1.65.0-next (x64) python/3.11").unwrap(), "1.65");
    // Those that name none take the newest, by its numbers.
    assert_eq!(chosen("curl/8").unwrap(), "1.65");
    assert_eq!(version(&HeaderMap::new(), &versions).unwrap(), "1.65");
    let error = chosen("Playwright/1.60.2 (x64; debian 12) node/20.20").unwrap_err();
    assert_eq!((error.code().as_str(), error.code().status()), ("playwright_version", 428));
    let text = error.to_string();
    assert!(text.contains("v1.60") && text.contains("v1.9, v1.10, v1.64, v1.65"), "{text}");
    for wrong in ["Playwright/", "Playwright/latest", "Playwright/1", "Playwright/../1.65"] {
        assert_eq!(chosen(wrong).unwrap_err().field(), Some("User-Agent"), "{wrong}");
    }
    assert_eq!(version(&agent("Playwright/1.65.0"), &[]).unwrap_err().field(), Some("path"));
}

#[test]
fn five_options_of_a_launch_count() {
    let wanted = launched(&json!({
        "channel": "chrome", "headless": false, "slowMo": 12.4, "timeout": 30000,
        "proxy": {"server": "proxy.example:3128", "bypass": ".example.org, 10.0.0.1", "username": "u", "password": "p"},
        "handleSIGINT": false, "tracesDir": "/home/me/traces", "artifactsDir": "C:\\x", "downloadsPath": "/d",
        "args": [], "env": {}, "ignoreDefaultArgs": false, "executablePath": null, "chromiumSandbox": true,
    }))
    .unwrap();
    assert_eq!(wanted.create_body.fields["headless"], false);
    assert_eq!(wanted.slow_mo, Some(12));
    let proxy = wanted.proxy.unwrap();
    assert_eq!((proxy.server.as_str(), proxy.bypass.as_str()), ("http://proxy.example:3128", "*.example.org;10.0.0.1"));
    assert_eq!((proxy.username.as_deref(), proxy.password.as_deref()), (Some("u"), Some("p")));
    let plain = read(Some("chromium"), "token=k", &HeaderMap::new()).unwrap();
    assert_eq!((plain.token.as_deref(), plain.proxy), (Some("k"), None));
    assert_eq!(plain.create_body.fields["headless"], true);
    assert_eq!(launched(&json!({"proxy": {"server": "per-context"}})).unwrap().proxy, None);
}

#[test]
fn what_would_weaken_isolation_is_refused_by_name() {
    for (option, value) in [
        ("executablePath", json!("/bin/sh")),
        ("chromiumSandbox", json!(false)),
        ("ignoreDefaultArgs", json!(true)),
        ("ignoreDefaultArgs", json!(["--mute-audio"])),
        ("ignoreAllDefaultArgs", json!(true)),
        ("env", json!({"LD_PRELOAD": "/tmp/x.so"})),
        ("firefoxUserPrefs", json!({"a": 1})),
        ("userDataDir", json!("/home")),
        ("channel", json!("msedge")),
        ("channel", json!(1)),
        ("devtools", json!(true)),
        ("slowMo", json!(-1)),
        ("slowMo", json!("fast")),
        ("timeout", json!("soon")),
        ("headless", json!("false")),
    ] {
        let error = launched(&json!({option: value})).unwrap_err();
        assert_eq!(error.field(), Some(format!("{LAUNCH_OPTIONS}.{option}").as_str()), "{value}");
        assert_eq!(error.code().status(), 400, "{option}");
    }
    for switch in [
        "--disable-site-isolation-trials",
        "--remote-debugging-address=0.0.0.0",
        "--proxy-server=http://x",
        "--load-extension=/x",
        "--user-data-dir=shop",
    ] {
        let error = launched(&json!({"args": ["--mute-audio", switch]})).unwrap_err();
        assert_eq!(error.field(), Some(format!("{LAUNCH_OPTIONS}.args[1]").as_str()), "{switch}");
    }
    for (proxy, field) in [
        (json!({}), "server"),
        (json!({"server": "https://proxy.example"}), "server"),
        (json!({"server": "http://u:p@proxy.example"}), "server"),
        (json!({"server": "http://"}), "server"),
        (json!({"server": "proxy.example", "bypass": 1}), "bypass"),
        (json!({"server": "proxy.example", "pac": "x"}), "pac"),
    ] {
        let error = launched(&json!({"proxy": proxy})).unwrap_err();
        assert_eq!(error.field(), Some(format!("{LAUNCH_OPTIONS}.proxy.{field}").as_str()), "{proxy}");
    }
}

#[test]
fn query_and_headers_are_read() {
    let field = |path: Option<&str>, query: &str, pairs: &[(&'static str, &str)]| {
        read(path, query, &headers(pairs)).unwrap_err().field().unwrap_or_default().to_owned()
    };
    assert_eq!(field(None, "--user-data-dir=shop", &[]), "--user-data-dir");
    assert_eq!(field(None, r#"launch={"userDataDir":"shop"}"#, &[]), "launch.userDataDir");
    assert!(read(None, "browser=chromium&launch-options={}", &headers(&[(BROWSER, "chromium")])).is_ok());
    assert!(read(Some("chrome"), "proxy=", &headers(&[(EXPOSE, ""), (LAUNCH_OPTIONS, "")])).is_ok());
    assert!(read(Some("edge"), "", &headers(&[])).is_ok());
    for name in ["firefox", "webkit", "msedge", "netscape", ""] {
        assert_eq!(field(Some("chromium"), "", &[(BROWSER, "firefox")]), "browser");
        assert_eq!(field(Some(name), "", &[]), "browser", "{name}");
        assert_eq!(field(None, &format!("browser={name}"), &[]), "browser", "{name}");
    }
    assert_eq!(field(None, "proxy=*", &[]), "exposeNetwork");
    assert_eq!(field(None, "", &[(EXPOSE, "<loopback>")]), "exposeNetwork");
    assert_eq!(field(None, "launch-options=[]", &[]), "launch-options");
    assert_eq!(field(None, "launch-options={\"devtools\":true}", &[]), "launch-options.devtools");
    assert_eq!(field(None, "", &[(LAUNCH_OPTIONS, "{")]), LAUNCH_OPTIONS);
    assert_eq!(field(None, "slowMo=x", &[]), "slowMo");
    for name in SHARED {
        assert_eq!(field(None, &format!("{name}=a"), &[]), name);
    }
    assert_eq!(field(None, "colour=red", &[]), "colour");
    // The body of a create call stands beside options of the launch.
    let wanted =
        read(None, r#"options={"recording":true}"#, &headers(&[(LAUNCH_OPTIONS, r#"{"headless":false}"#)])).unwrap();
    assert_eq!(
        (&wanted.create_body.fields["recording"], &wanted.create_body.fields["headless"]),
        (&json!(true), &json!(false))
    );
    let twice = [(LAUNCH_OPTIONS, r#"{"headless":false}"#)];
    assert_eq!(field(None, r#"options={"headless":true}"#, &twice), "options.headless");
    assert_eq!(field(None, r#"options={"keep_alive":true}"#, &[]), "options.keep_alive");
    assert_eq!(field(None, r#"options={"profile":{"name":"shop"}}"#, &[]), "options.profile");
    // The query counts for more, as with Playwright's own server.
    let both = headers(&[(LAUNCH_OPTIONS, r#"{"headless":false}"#)]);
    let wanted = read(None, "launch-options={\"headless\":true}&timeout=60000", &both).unwrap();
    assert_eq!(
        (&wanted.create_body.fields["headless"], &wanted.create_body.fields["session_timeout"]),
        (&json!(true), &json!(60))
    );
}
