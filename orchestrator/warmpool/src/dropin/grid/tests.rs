use warmpool_config::{Flags, Host};

use super::*;

fn ask(caps: Value) -> Result<NewSession, Error> {
    read(&json!({"capabilities": {"alwaysMatch": caps}}), |_| Some("156.0.7".to_owned()))
}

fn refusal(caps: Value) -> String {
    match ask(caps.clone()) {
        Err(Error::Capability { capability, .. }) => capability,
        other => panic!("{caps}: {other:?}"),
    }
}

#[test]
fn names_of_browsers_pick_the_engine() {
    for (name, engine) in [
        ("chrome", Engine::Chromium),
        ("Chromium", Engine::Chromium),
        ("firefox", Engine::Firefox),
        ("MiniBrowser", Engine::Webkit),
        ("safari", Engine::Webkit),
        ("", Engine::Chromium),
    ] {
        assert_eq!(ask(json!({"browserName": name})).unwrap().engine, engine, "{name}");
    }
    assert_eq!(ask(json!({})).unwrap().engine, Engine::Chromium);
    assert_eq!(ask(json!({"moz:firefoxOptions": {"args": []}})).unwrap().engine, Engine::Firefox);
    assert_eq!(refusal(json!({"browserName": "MicrosoftEdge"})), "browserName");
}

#[test]
fn the_first_alternative_that_fits_is_taken() {
    let body = json!({"capabilities": {
        "alwaysMatch": {"platformName": "LINUX"},
        "firstMatch": [{"browserName": "opera"}, {"browserName": "chrome", "browserVersion": "12"}, {"browserName": "firefox"}],
    }});
    let known = |engine| (engine == Engine::Chromium).then(|| "156.0.7".to_owned());
    let session = read(&body, known).unwrap();
    assert_eq!(session.engine, Engine::Firefox);
    assert_eq!(session.body, json!({"capabilities": {"alwaysMatch": {"browserName": "firefox"}}}));
}

#[test]
fn versions_and_platforms_match_as_on_a_grid() {
    for version in ["", "stable", "156", "156.0", "156.0.7"] {
        assert!(ask(json!({"browserName": "chrome", "browserVersion": version})).is_ok(), "{version}");
    }
    for version in ["15", "155", "156.0.70"] {
        assert_eq!(refusal(json!({"browserVersion": version})), "browserVersion");
    }
    assert!(ask(json!({"platformName": "any"})).is_ok());
    assert_eq!(refusal(json!({"platformName": "windows"})), "platformName");
    for platform in ["LINUX", "Linux", "ANY", ""] {
        assert!(ask(json!({"platformName": platform})).is_ok(), "{platform}");
    }
    assert!(matches!(ask(json!({"platformName": 1})), Err(Error::Field(_))));
}

#[test]
fn what_matches_to_the_letter_goes_before_what_only_resembles() {
    let body = json!({"capabilities": {"firstMatch": [
        {"platformName": "LINUX", "pageLoadStrategy": "none"},
        {"platformName": "linux", "pageLoadStrategy": "eager"},
    ]}});
    let session = read(&body, |_| None).unwrap();
    assert_eq!(session.body["capabilities"]["alwaysMatch"], json!({"pageLoadStrategy": "eager"}));
    let body = json!({"capabilities": {"firstMatch": [{"browserName": "Firefox"}, {"browserName": "opera"}]}});
    let session = read(&body, |_| None).unwrap();
    assert_eq!(session.body["capabilities"]["alwaysMatch"], json!({"browserName": "firefox"}));
    let body = json!({"capabilities": {"firstMatch": [
        {"browserName": "firefox", "goog:chromeOptions": {"args": []}}, {"browserName": "chrome"},
    ]}});
    assert_eq!(read(&body, |_| None).unwrap().engine, Engine::Chromium);
}

#[test]
fn a_version_is_asked_once_however_many_alternatives_there_are() {
    let asked = std::cell::Cell::new(0);
    let body = json!({"capabilities": {"firstMatch": vec![json!({"browserVersion": "1"}); 32]}});
    let known = |_| {
        asked.set(asked.get() + 1);
        Some("156.0.7".to_owned())
    };
    assert!(matches!(read(&body, known), Err(Error::Capability { .. })));
    assert_eq!(asked.get(), 1);
}

#[test]
fn other_vendors_capabilities_are_left_to_who_knows_the_drivers() {
    let caps = json!({"cloud:options": {"a": 1}, "wdio:x": true, "test:extension": []});
    assert_eq!(ask(caps.clone()).unwrap().body["capabilities"]["alwaysMatch"], caps);
}

#[test]
fn options_of_the_service_become_fields_and_are_taken_out() {
    let session = ask(json!({
        "browserName": "chrome",
        "se:downloadsEnabled": true,
        "se:buildNumber": "77",
        "selenoid:options": {
            "enableVNC": true, "enableVideo": true, "name": "shop", "screenResolution": "1920x1080x24",
            "sessionTimeout": "1m30s", "timeZone": "Europe/Berlin", "labels": {"a": "b"}, "env": [],
        },
        "goog:chromeOptions": {"args": ["--headless=new", "--mute-audio", "--remote-debugging-port=0"]},
        "warmpool:options": {"session_timeout": 900},
    }))
    .unwrap();
    assert!(session.downloads);
    let fields = Value::Object(session.create_body.fields.clone());
    let wanted = json!({
        "app_name": "shop", "idle_timeout": 90, "session_timeout": 900, "headless": true, "browser_type": "chromium",
        "url": "about:blank", "recording": true, "settings": {"timezone": "Europe/Berlin"},
    });
    assert_eq!(session.screen, Some(Size { width: 1920, height: 1080 }));
    assert_eq!(fields, wanted);
    assert_eq!(session.create_body.warnings, [""; 0]);
    let left = json!({"browserName": "chrome", "goog:chromeOptions": {"args": ["--mute-audio"]}});
    assert_eq!(session.body["capabilities"]["alwaysMatch"], left);
}

#[test]
fn a_new_session_waits_for_a_worker_as_on_a_grid() {
    let host = Host { memory: 8 << 30, cores: 2, root: true, ..Host::default() };
    let config = Config::resolve(None, Vec::new(), &Flags::default(), &host).unwrap();
    let session = ask(json!({"browserName": "chrome", "se:name": "shop"})).unwrap();
    let options = session.options(&config).unwrap();
    assert_eq!(options.queue_wait, Some(config.webdriver.grid_queue_wait));
    assert!(config.webdriver.grid_queue_wait > config.session.queue_wait);
    assert_eq!(options.app_name.as_deref(), Some("shop"), "the name by which its record is found");
}

#[test]
fn options_without_a_prefix_and_old_bodies_are_understood() {
    let body = json!({"desiredCapabilities": {
        "browserName": "chrome", "version": "", "platform": "ANY", "javascriptEnabled": true,
        "enableVNC": false, "screenResolution": "800x600", "sessionTimeout": "2m",
    }});
    let session = read(&body, |_| None).unwrap();
    assert_eq!(session.create_body.fields["idle_timeout"], 120);
    assert_eq!(session.body["capabilities"]["alwaysMatch"], json!({"browserName": "chrome"}));
}

#[test]
fn old_options_beside_the_standards_count_as_well() {
    let both = |desired: Value, caps: Value| {
        read(&json!({"desiredCapabilities": desired, "capabilities": {"firstMatch": [caps]}}), |_| None)
    };
    let desired = json!({
        "browserName": "firefox", "version": "12", "platform": "WINDOWS", "colour": "red", "javascriptEnabled": true,
        "name": "shop", "enableVideo": true, "enableLog": null, "screenResolution": "800x600x24", "sessionTimeout": "2m",
        "moon:options": {"timeZone": "Europe/Berlin"}, "selenoid:options": null,
    });
    let caps = json!({
        "browserName": "chrome", "selenoid:options": {"sessionTimeout": "3m"},
        "warmpool:options": {"settings": {"locales": ["de"]}},
    });
    let session = both(desired, caps).unwrap();
    let fields = json!({
        "app_name": "shop", "recording": true, "idle_timeout": 180, "browser_type": "chromium", "url": "about:blank",
        "settings": {"timezone": "Europe/Berlin", "locales": ["de"]},
    });
    assert_eq!(Value::Object(session.create_body.fields.clone()), fields);
    assert_eq!(session.screen, Some(Size { width: 800, height: 600 }));
    assert_eq!(session.body, json!({"capabilities": {"alwaysMatch": {"browserName": "chrome"}}}));
    for (desired, name) in [
        (json!({"env": ["A=b"]}), "env"),
        (json!({"sessionTimeout": "soon"}), "sessionTimeout"),
        (json!({"selenoid:options": {"colour": 1}}), "selenoid:options.colour"),
        (json!({"moon:options": []}), "moon:options"),
    ] {
        match both(desired, json!({})) {
            Err(Error::Capability { capability, .. }) => assert_eq!(capability, name),
            other => panic!("{name}: {other:?}"),
        }
    }
    assert!(both(json!("chrome"), json!({})).is_ok());
}

#[test]
fn null_leaves_an_option_out() {
    let session = ask(json!({
        "browserName": "firefox",
        "selenoid:options": {"timeZone": "Europe/Berlin"},
        "moz:firefoxOptions": {"args": ["-headless"]},
        "warmpool:options": {
            "browser_type": null, "headless": null, "url": null, "session_timeout": null, "idle_timeout": null, "settings": null,
        },
    }));
    let fields = json!({
        "browser_type": "firefox", "headless": true, "url": "about:blank", "settings": {"timezone": "Europe/Berlin"},
    });
    assert_eq!(Value::Object(session.unwrap().create_body.fields.clone()), fields);
}

#[test]
fn a_grids_own_flags_may_be_words() {
    for (value, wanted) in [
        (json!(true), true),
        (json!("true"), true),
        (json!("True"), true),
        (json!(false), false),
        (json!("FALSE"), false),
    ] {
        let session = ask(json!({"se:recordVideo": value, "se:downloadsEnabled": value})).unwrap();
        assert_eq!((&session.create_body.fields["recording"], session.downloads), (&json!(wanted), wanted), "{value}");
    }
    for value in [json!("yes"), json!(""), json!(1), json!([])] {
        assert_eq!(refusal(json!({"se:recordVideo": value})), "se:recordVideo");
    }
}

#[test]
fn what_cannot_be_had_is_refused_by_name() {
    for (caps, name) in [
        (json!({"selenoid:options": {"env": ["LANG=de"]}}), "selenoid:options.env"),
        (json!({"selenoid:options": {"hostsEntries": ["a:1.2.3.4"]}}), "selenoid:options.hostsEntries"),
        (json!({"moon:options": {"dnsServers": ["1.1.1.1"]}}), "moon:options.dnsServers"),
        (json!({"selenoid:options": {"volumes": ["/:/host"]}}), "selenoid:options.volumes"),
        (json!({"selenoid:options": {"enableVnc": true}}), "selenoid:options.enableVnc"),
        (json!({"selenoid:options": {"sessionTimeout": "soon"}}), "selenoid:options.sessionTimeout"),
        (json!({"selenoid:options": {"sessionTimeout": 60}}), "selenoid:options.sessionTimeout"),
        (json!({"selenoid:options": {"screenResolution": "wide"}}), "selenoid:options.screenResolution"),
        (json!({"selenoid:options": {"screenResolution": "0x0x24"}}), "selenoid:options.screenResolution"),
        (json!({"selenoid:options": {"screenResolution": "1x2x3x4"}}), "selenoid:options.screenResolution"),
        (json!({"selenoid:options": []}), "selenoid:options"),
        (json!({"se:downloadsEnabled": "yes"}), "se:downloadsEnabled"),
        (
            json!({"browserName": "chrome", "warmpool:options": {"browser_type": "firefox"}}),
            "warmpool:options.browser_type",
        ),
        (json!({"warmpool:options": 1}), "warmpool:options"),
    ] {
        assert_eq!(refusal(caps.clone()), name, "{caps}");
    }
    for (desired, name) in [(json!({"env": ["A=b"]}), "env"), (json!({"colour": "red"}), "colour")] {
        match read(&json!({"desiredCapabilities": desired}), |_| None) {
            Err(Error::Capability { capability, .. }) => assert_eq!(capability, name),
            other => panic!("{desired}: {other:?}"),
        }
        assert!(matches!(ask(desired), Err(Error::Field(_))));
    }
}
