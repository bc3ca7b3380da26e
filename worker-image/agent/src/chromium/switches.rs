//! Chromium's command line.

use crate::ports::LocalPort;
use warmpool_protocol::switches::{Switch, SwitchVerdict, WEBRTC_POLICY, judge, list};
use warmpool_protocol::{Claim, EGRESS_PORT, Size};

/// Loopback port of the DevTools protocol.
pub(super) const DEBUGGING_PORT: LocalPort = LocalPort::new(9222);

/// Quieting switches: no work in the background, no questions on the screen, nothing a page can
/// see. The last few keep tabs behind other tabs alive, as every automation client expects.
const QUIET: [&str; 30] = [
    "--no-first-run",
    "--no-default-browser-check",
    // Its driver gives it too: on a display, keys that a client sends to a page before its first paint would go nowhere.
    "--allow-pre-commit-input",
    // With it, going back in history leaves automation clients waiting for a load that never comes.
    "--disable-back-forward-cache",
    "--disable-background-networking",
    "--disable-breakpad",
    "--disable-client-side-phishing-detection",
    "--disable-component-extensions-with-background-pages",
    "--disable-component-update",
    // Nobody collects the dumps of crashes: two processes less. "disable-breakpad" does not do this any more.
    "--disable-crashpad-for-testing",
    "--disable-default-apps",
    "--disable-domain-reliability",
    "--disable-field-trial-config",
    "--disable-hang-monitor",
    // That of automation takes room from pages of WebDriver's sessions. Only headless browsers heed this.
    "--disable-infobars",
    "--disable-prompt-on-repost",
    "--disable-search-engine-choice-screen",
    "--disable-session-crashed-bubble",
    "--disable-sync",
    "--hide-crash-restore-bubble",
    "--metrics-recording-only",
    "--no-service-autorun",
    "--noerrdialogs",
    "--password-store=basic",
    "--disable-popup-blocking",
    "--disable-background-timer-throttling",
    "--disable-backgrounding-occluded-windows",
    "--disable-renderer-backgrounding",
    // Two of these are pages behind the address bar, which would keep a renderer of their own.
    "--disable-features=AutofillServerCommunication,CertificateTransparencyComponentUpdater,\
     DialMediaRouteProvider,InterestFeedContentSuggestions,MediaRouter,NetworkTimeServiceQuerying,OptimizationHints,\
     Translate,WebUIOmniboxAimPopup,WebUIOmniboxPopup",
    // On Linux the network service has no sandbox, so a process of its own would have the browser's own rights.
    "--enable-features=NetworkServiceInProcess2",
];

/// The way out: the daemon's proxy, for every address, without exception for loopback, and nothing that would try to go
/// around it.
const EGRESS: [&str; 2] = ["--proxy-bypass-list=<-loopback>", "--disable-quic"];

/// Lets the first window fill the display.
const MAXIMIZED: &str = "--start-maximized";
/// What a client says of its window instead.
const PLACES: [&str; 2] = ["window-size", "window-position"];
/// How a client has its window fill the screen.
const FILLS: [&str; 3] = ["start-maximized", "start-fullscreen", "kiosk"];

/// What pages learn of pointers from media queries: one that hovers, and one that is exact.
const MOUSE: &str =
    "--blink-settings=primaryHoverType=2,availableHoverTypes=2,primaryPointerType=4,availablePointerTypes=4";

/// Tabs and address bar, which a headless browser has as well, in pixels.
pub(super) const BARS: u32 = 87;
/// The bar about automated test software, below those.
pub(super) const AUTOMATION_BAR: u32 = 56;

/// The size of a window whose page is so large, and of the screen that it fills.
pub(super) const fn window(page: Size) -> Size {
    page.below(BARS)
}

/// The switches of every browser started here that a client could have chosen itself.
pub(super) fn base(claim: &Claim) -> Vec<String> {
    let mut switches: Vec<String> = QUIET.iter().chain(&EGRESS).map(|&switch| switch.to_owned()).collect();
    switches.push(format!("--force-webrtc-ip-handling-policy={WEBRTC_POLICY}"));
    switches.push(format!("--proxy-server=socks5://127.0.0.1:{EGRESS_PORT}"));
    // Neither without a display nor on ours does Chromium find a mouse, which every desktop has.
    switches.push(MOUSE.to_owned());
    if claim.headless {
        let window = window(claim.page);
        switches.push("--headless=new".to_owned());
        // A size would be that of every popup, too. The first window gets it later, and others are as large as that one.
        switches.push("--window-position=0,0".to_owned());
        switches.push(format!("--screen-info={{{}x{}}}", window.width, window.height));
    } else {
        // A size would count for more, and one that is the display's would be made a pixel smaller.
        switches.push(MAXIMIZED.to_owned());
        // The display has no GLX: without this the GPU process dies a few times at start, and WebGL stays off.
        switches.push("--use-angle=swiftshader-webgl".to_owned());
    }
    if !claim.sandbox {
        switches.push("--no-sandbox".to_owned());
    }
    switches
}

/// Whether a client says with one of these where its window is, or how large.
pub(super) fn places_window<'a>(clients: impl Iterator<Item = &'a str>) -> bool {
    let mut names = clients.filter_map(|switch| Switch::read(switch).ok()).map(|switch| switch.name);
    names.any(|name| PLACES.iter().chain(&FILLS).any(|place| *place == name))
}

/// Our switches with the client's over them: for the same switch the client's value counts, and lists are joined. Each of
/// the client's is judged once more, whatever the daemon has said of it; `allowed` has what the operator allows.
pub(super) fn merge(ours: &[String], clients: &[String], allowed: &[String]) -> Vec<String> {
    let clients: Vec<String> = clients
        .iter()
        .filter_map(|argument| match judge(argument, allowed) {
            SwitchVerdict::Taken(switch, _) => Some(switch),
            SwitchVerdict::Fulfilled
            | SwitchVerdict::LeftOut(_)
            | SwitchVerdict::Refused
            | SwitchVerdict::Misspelled(_) => None,
        })
        .collect();
    let is_placed = clients.iter().any(|switch| PLACES.contains(&name(switch)));
    let mut merged: Vec<String> = ours.iter().filter(|switch| !(is_placed && *switch == MAXIMIZED)).cloned().collect();
    for switch in clients {
        let twin = merged.iter_mut().find(|before| name(before) == name(&switch));
        match (twin, list(name(&switch)).filter(|list| list.adds_up())) {
            (Some(twin), Some(list)) => {
                twin.push_str(list.separator());
                twin.push_str(value(&switch));
            }
            (Some(twin), None) => *twin = switch,
            (None, _) => merged.push(switch),
        }
    }
    merged
}

/// The name of a switch with two dashes.
fn name(switch: &str) -> &str {
    let bare = switch.trim_start_matches('-');
    bare.split_once('=').map_or(bare, |(name, _)| name)
}

fn value(switch: &str) -> &str {
    switch.split_once('=').map_or("", |(_, value)| value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strings(list: &[&str]) -> Vec<String> {
        list.iter().map(|&s| s.to_owned()).collect()
    }

    #[test]
    fn the_clients_value_counts() {
        let ours = strings(&["--no-first-run", "--window-size=1280,800", "--start-maximized", "--headless=new"]);
        let merged = merge(&ours, &strings(&["window-size=400,300", "-lang=de", "--headless"]), &[]);
        assert_eq!(merged, strings(&["--no-first-run", "--window-size=400,300", "--headless=new", "--lang=de"]));
    }

    #[test]
    fn a_client_may_place_its_window() {
        for switch in ["--window-size=1,2", "window-position=0,0", "-start-maximized", "kiosk"] {
            assert!(places_window(["--lang=de", switch].into_iter()), "{switch}");
        }
        assert!(!places_window(["--lang=de", "--window-name=x"].into_iter()));
    }

    #[test]
    fn lists_are_joined() {
        let ours = strings(&["--disable-features=A,B", MOUSE]);
        let clients = strings(&[
            "--disable-features=Translate",
            "--enable-features=SharedArrayBuffer",
            "--enable-features=UserAgentClientHint",
            "--blink-settings=imagesEnabled=false",
            "--js-flags=--expose-gc",
            "--js-flags=--random-seed=1",
        ]);
        let wanted = [
            "--disable-features=A,B,Translate",
            &format!("{MOUSE},imagesEnabled=false"),
            "--enable-features=SharedArrayBuffer,UserAgentClientHint",
            "--js-flags=--expose-gc --random-seed=1",
        ];
        assert_eq!(merge(&ours, &clients, &[]), strings(&wanted));
    }

    #[test]
    fn the_sandbox_is_not_the_clients() {
        let ours = strings(&["--a"]);
        let clients = strings(&["no-sandbox", "--remote-debugging-port=1", "-user-data-dir=/tmp"]);
        assert_eq!(merge(&ours, &clients, &[]), ours);
    }

    #[test]
    fn nothing_from_the_client_changes_nothing() {
        let ours = strings(&["--a", "--b=1"]);
        assert_eq!(merge(&ours, &[], &[]), ours);
    }
}
