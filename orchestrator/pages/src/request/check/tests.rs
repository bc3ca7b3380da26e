use serde_json::json;

use super::*;
use crate::request::wire::ContentBody;
use warmpool_core::error::{Fault as _, read_json};

fn check(body: Value, engine: Engine) -> Result<PageRequest, Error> {
    let mut body = read_json::<ContentBody, _>(body).map_err(Error::from)?;
    PageRequest::new(body.take_fields(), engine)
}

#[test]
fn faults_name_their_field() {
    let url = "https://a.example/";
    for (body, field) in [
        (json!({}), "url"),
        (json!({"url": url, "html": "<p>"}), "html"),
        (json!({"url": "file:///etc/passwd"}), "url"),
        (json!({"url": "chrome://settings"}), "url"),
        (json!({"url": url, "colour": "red"}), "colour"),
        (json!({"url": url, "gotoOptions": {"waitUntil": "soon"}}), "gotoOptions.waitUntil"),
        (json!({"url": url, "gotoOptions": {"waitUntil": 1}}), "gotoOptions.waitUntil"),
        (json!({"url": url, "gotoOptions": {"timeout": -1}}), "gotoOptions.timeout"),
        (
            json!({"url": url, "waitForSelector": {"selector": "a", "visible": true, "hidden": true}}),
            "waitForSelector.hidden",
        ),
        (json!({"url": url, "waitForSelector": {}}), "waitForSelector"),
        (json!({"url": url, "waitForFunction": {"fn": "1", "polling": "often"}}), "waitForFunction.polling"),
        (json!({"url": url, "viewport": {"width": 0, "height": 1}}), "viewport.width"),
        (json!({"url": url, "viewport": {"width": 1, "height": 9000}}), "viewport.height"),
        (json!({"url": url, "emulateMediaType": "braille"}), "emulateMediaType"),
        (json!({"url": url, "setExtraHTTPHeaders": {"a b": "c"}}), "setExtraHTTPHeaders"),
        (json!({"url": url, "setExtraHTTPHeaders": {"a": "b\r\nc: d"}}), "setExtraHTTPHeaders.a"),
        (json!({"url": url, "addScriptTag": [{}]}), "addScriptTag[0]"),
        (json!({"url": url, "addScriptTag": [{"path": "/etc/passwd"}]}), "addScriptTag[0].path"),
        (json!({"url": url, "addStyleTag": [{"url": url, "content": "x"}]}), "addStyleTag[0]"),
        (json!({"url": url, "rejectResourceTypes": ["image", "pictures"]}), "rejectResourceTypes[1]"),
        (json!({"url": url, "rejectRequestPattern": ["("]}), "rejectRequestPattern[0]"),
        (json!({"url": url, "rejectRequestPattern": ["(?=a)"]}), "rejectRequestPattern[0]"),
        (json!({"url": url, "rejectRequestPattern": ["a", "a".repeat(10_001)]}), "rejectRequestPattern[1]"),
        (
            json!({"url": url, "requestInterceptors": [{"pattern": "a", "response": {"status": 9}}]}),
            "requestInterceptors[0].response.status",
        ),
        (json!({"html": "", "cookies": [{"name": "a", "value": "b"}]}), "cookies[0]"),
        (json!({"url": url, "cookies": [{"name": "a", "value": "b", "sameSite": "lax"}]}), "cookies[0].sameSite"),
    ] {
        let error = check(body.clone(), Engine::Chromium).unwrap_err();
        assert_eq!(error.field(), Some(field), "{body}: {error}");
        assert_eq!(error.code().status(), 400);
    }
}

#[test]
fn members_may_be_null_unless_they_are_required() {
    let viewport = json!({"width": 8, "height": 8, "deviceScaleFactor": null, "isMobile": null, "hasTouch": null,
        "isLandscape": null});
    let response = json!({"status": null, "headers": null, "contentType": null, "body": null});
    let body = json!({"url": "https://a.example/", "viewport": viewport,
        "waitForSelector": {"selector": "a", "visible": null, "hidden": null, "timeout": null},
        "requestInterceptors": [{"pattern": "a", "response": response}]});
    check(body, Engine::Chromium).unwrap();
}

#[test]
fn what_an_engine_cannot_do_is_refused_by_name() {
    for (more, field) in [
        (json!({"cookies": [{"name": "a", "value": "b"}]}), "cookies"),
        (json!({"authenticate": {"username": "a", "password": "b"}}), "authenticate"),
        (json!({"setJavaScriptEnabled": false}), "setJavaScriptEnabled"),
        (json!({"gotoOptions": {"waitUntil": ["load", "networkidle0"]}}), "gotoOptions.waitUntil"),
        (json!({"viewport": {"width": 10, "height": 10, "isMobile": true}}), "viewport.isMobile"),
    ] {
        let mut body = json!({"url": "https://a.example/"});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        assert!(check(body.clone(), Engine::Chromium).is_ok(), "{body}");
        for engine in [Engine::Firefox, Engine::Webkit] {
            let error = check(body.clone(), engine).unwrap_err();
            assert_eq!(error.field(), Some(field));
            assert!(error.to_string().contains("Chromium"), "{error}");
        }
    }
}

#[test]
fn a_cookie_without_a_place_is_the_pages_own() {
    let cookie = |body| check(body, Engine::Chromium).unwrap().cookies.remove(0);
    let plain = json!({"name": "a", "value": "b", "expires": -1});
    assert_eq!(cookie(json!({"url": "https://a.example/x", "cookies": [plain]}))["url"], "https://a.example/x");
    let with_domain = json!({"name": "a", "value": "b", "domain": "b.example"});
    assert_eq!(
        cookie(json!({"html": "", "cookies": [with_domain]})),
        json!({"name": "a", "value": "b", "domain": "b.example"})
    );
}

#[test]
fn a_password_is_in_no_log() {
    let body = json!({"html": "", "authenticate": {"username": "a", "password": "opensesame"}});
    assert!(!format!("{:?}", check(body, Engine::Chromium).unwrap()).contains("opensesame"));
}
