//! Switches of Chromium for the fuzzer: what a browser gets is judged the same when it is judged again, and no wording gets
//! a switch through that the fence refuses.

use super::{Class, Switch, SwitchVerdict, judge};

/// Arguments as clients write them.
pub fn seeds() -> Vec<Vec<u8>> {
    [
        "--lang=de",
        "-disable-gpu",
        "enable-features=WebMCP,NetworkService",
        "--js-flags=--max_old_space_size=4096 --expose-gc",
        "--blink-settings=imagesEnabled=false",
        "--no-sandbox",
        "--remote-debugging-port=9222",
        "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
        "--USER-DATA-DIR=/tmp/x ",
        "--disable-features=Translate,site-per-process",
    ]
    .map(|text| text.as_bytes().to_vec())
    .into()
}

/// Panics when an argument gets to a browser that would be judged otherwise, or that is refused.
pub fn check(bytes: &[u8]) {
    let Ok(argument) = std::str::from_utf8(bytes) else { return };
    let allowed = ["some-switch".to_owned(), "enable-features=WebMCP".to_owned()];
    let SwitchVerdict::Taken(taken, _) = judge(argument, &allowed) else { return };
    assert_eq!(judge(&taken, &allowed), SwitchVerdict::Taken(taken.clone(), Vec::new()), "{taken:?} is judged again");
    // Chromium itself knows two dashes, the first equals sign, and lower case.
    let bare = taken.strip_prefix("--").unwrap_or_default();
    let (name, value) = bare.split_once('=').map_or((bare, None), |(name, value)| (name, Some(value)));
    assert!(!name.is_empty() && !name.starts_with('-'), "{taken:?} is no switch");
    assert!(!taken.chars().any(char::is_control), "{taken:?} has a control character");
    let read = Switch { name: name.to_owned(), value };
    assert!(!matches!(read.class(), Class::Refused | Class::Ours), "{taken:?} weakens the fence");
}
