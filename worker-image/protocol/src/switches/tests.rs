use proptest::prelude::*;

use super::*;

#[test]
fn a_switch_has_one_class_however_it_is_written() {
    for (switch, wanted) in [
        ("--no-sandbox", Class::Ours),
        ("NO-SANDBOX", Class::Ours),
        ("-headless=new", Class::Fulfilled),
        ("--mute-audio", Class::Harmless),
        ("password-store=basic", Class::Harmless),
        ("--Remote-Debugging-Port=1", Class::Refused),
        ("user-data-dir=/x", Class::Refused),
        ("--lang=de", Class::Free),
        ("--unheard-of", Class::Unknown),
        ("about:blank", Class::Unknown),
    ] {
        assert_eq!(Switch::read(switch).unwrap().class(), wanted, "{switch}");
    }
    for class in [Class::Harmless, Class::Fulfilled, Class::Ours, Class::Refused, Class::Free, Class::Unknown] {
        let wanted = matches!(class, Class::Harmless | Class::Fulfilled | Class::Ours);
        assert_eq!(class.is_harmless(), wanted, "{class:?}");
    }
}

/// Each of these ran Chromium without its sandbox, drove it around the proxy, or ran a program.
const WEAKENING: &[&str] = &[
    "allow-sandbox-debugging",
    "browser-subprocess-path=/bin/sh",
    "crash-dumps-dir=/x",
    "disable-extensions-except=/x",
    "disable-gpu-sandbox",
    "disable-namespace-sandbox",
    "disable-seccomp-filter-sandbox",
    "disk-cache-dir=/x",
    "enable-blink-features=MojoJS",
    "enable-blink-features=DisableAhemAntialias,MojoJSTest",
    "enable-features=MojoJS",
    "enable-mojojs",
    "explicitly-allowed-ports=6669",
    "force-webrtc-ip-handling-policy=default",
    "gpu-launcher=/bin/sh",
    "host-resolver-rules=MAP * 127.0.0.1",
    "host-rules=MAP * 127.0.0.1",
    "in-process-gpu",
    "load-extension=/x",
    "log-file=/x",
    "log-net-log=/x",
    "no-proxy-server",
    "no-zygote-sandbox",
    "ppapi-plugin-launcher=/bin/sh",
    "profile-directory=x",
    "proxy-auto-detect",
    "proxy-bypass-list=*",
    "proxy-pac-url=http://x",
    "proxy-server=direct://",
    "remote-allow-origins=*",
    "remote-debugging-address=0.0.0.0",
    "remote-debugging-pipe",
    "remote-debugging-port=1",
    "renderer-cmd-prefix=/bin/sh",
    "ssl-key-log-file=/x",
    "user-data-dir=/x",
    "utility-cmd-prefix=/bin/sh",
    "zygote-cmd-prefix=/bin/sh",
];

#[test]
fn what_weakens_the_fence_is_refused_by_name_and_stays_refused() {
    for switch in WEAKENING {
        let (name, _) = switch.split_once('=').unwrap_or((switch, ""));
        let allowed = [name.to_owned(), switch.replace(',', "=")];
        for written in [format!("--{switch}"), format!("-{switch}"), (*switch).to_owned(), switch.to_uppercase()] {
            // The items of a list are compared as they are written.
            if written == switch.to_uppercase() && switch.contains("features=") {
                continue;
            }
            assert_eq!(judge(&written, &allowed), SwitchVerdict::Refused, "{written}");
        }
        assert!(check_allowed(switch).is_err(), "{switch}");
    }
    for ours in ["no-sandbox", "disable-setuid-sandbox", "no-zygote", "single-process"] {
        assert!(check_allowed(ours).is_err() && judge(ours, &[ours.to_owned()]) == SwitchVerdict::Fulfilled, "{ours}");
    }
}

#[test]
fn no_name_is_in_two_tables_and_each_form_has_a_name() {
    let tables = [names::HARMLESS, names::FULFILLED, names::OURS, names::FREE, names::REFUSED];
    let mut all = tables.concat();
    let count = all.len();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), count);
    let takes = [names::HARMLESS, names::FREE].concat();
    for (name, _) in names::FORMS {
        assert!(takes.contains(name), "{name}");
    }
    for name in takes {
        assert!(check_allowed(name).is_ok(), "{name} belongs to a family that is refused");
    }
}

fn taken(switch: &str) -> String {
    match judge(switch, &[]) {
        SwitchVerdict::Taken(written, left_out) if left_out.is_empty() => written,
        other => panic!("{switch}: {other:?}"),
    }
}

#[test]
fn a_browser_gets_what_was_judged_and_nothing_else() {
    for (switch, wanted) in [
        ("lang=de", "--lang=de"),
        ("-LANG=de  ", "--lang=de"),
        ("--user-agent=Mozilla/5.0 (X11; Linux) = x", "--user-agent=Mozilla/5.0 (X11; Linux) = x"),
        ("--disable-gpu=/bin/sh", "--disable-gpu"),
        ("--disable-features=IsolateOrigins, site-per-process,", "--disable-features=IsolateOrigins,site-per-process"),
        ("--js-flags=--expose_gc --max_old_space_size=512", "--js-flags=--expose-gc --max-old-space-size=512"),
        ("--js-flags=--random-seed=1157259159", "--js-flags=--random-seed=1157259159"),
        ("--blink-settings=imagesEnabled=false", "--blink-settings=imagesEnabled=false"),
        ("--password-store=basic", "--password-store=basic"),
    ] {
        assert_eq!(taken(switch), wanted, "{switch}");
    }
    for fulfilled in [
        "--headless=new",
        "no-sandbox",
        "--disable-features=",
        "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
    ] {
        assert_eq!(judge(fulfilled, &[]), SwitchVerdict::Fulfilled, "{fulfilled}");
    }
}

#[test]
fn a_list_is_standing_where_each_of_its_items_is() {
    for (list, is_standing) in [
        ("--disable-blink-features=AutomationControlled", true),
        ("--disable-features=Translate, BackForwardCache,", true),
        ("--enable-features=NetworkService,NetworkServiceInProcess", true),
        ("--disable-features=", true),
        ("--disable-features=Translate,PaintHolding", false),
        ("--disable-blink-features=PrettyPrintJSONDocument", false),
        ("--lang=de", false),
    ] {
        assert_eq!(Switch::read(list).unwrap().is_standing(), is_standing, "{list}");
    }
    // A browser that is started may be given each, or has it in any case.
    for (name, _) in names::STANDING {
        assert!(list(name).is_some(), "{name}");
    }
}

#[test]
fn what_nobody_has_judged_is_left_out_until_the_operator_allows_it() {
    let left_out = |switch: &str| match judge(switch, &[]) {
        SwitchVerdict::LeftOut(left_out) => left_out.join(" "),
        SwitchVerdict::Taken(_, left_out) => left_out.join(" "),
        other => panic!("{switch}: {other:?}"),
    };
    for (switch, wanted) in [
        ("--unheard-of=1", "unheard-of"),
        ("data:,", "data:,"),
        ("--enable-features=WebMCP", "enable-features=WebMCP"),
        ("--disable-features=Translate,Unheard", "disable-features=Unheard"),
        ("--js-flags=--allow-natives-syntax,--expose-gc", "js-flags=allow-natives-syntax"),
        ("--js-flags=--expose-gc=/bin/sh", "js-flags=expose-gc"),
        ("--password-store=gnome", "password-store=gnome"),
        ("--enable-features=A<T:b/c", "enable-features=A<T:b/c"),
    ] {
        assert_eq!(left_out(switch), wanted, "{switch}");
    }
    let allowed = ["unheard-of", "enable-features=WebMCP", "enable-blink-features"].map(str::to_owned);
    for (switch, wanted) in [
        ("--unheard-of=1 2", "--unheard-of=1 2"),
        ("enable-features=WebMCP", "--enable-features=WebMCP"),
        ("enable-blink-features=A,B", "--enable-blink-features=A,B"),
    ] {
        assert_eq!(judge(switch, &allowed), SwitchVerdict::Taken(wanted.to_owned(), Vec::new()), "{switch}");
    }
    assert_eq!(judge("enable-blink-features=A,MojoJS", &allowed), SwitchVerdict::Refused);
    for entry in ["unheard-of", "enable-features=WebMCP", "enable-features", "lang"] {
        assert!(check_allowed(entry).is_ok(), "{entry}");
    }
    for entry in [
        "",
        "--lang",
        "a b",
        "a=b",
        "Lang",
        "enable-features=A,B",
        "enable-features=MojoJS",
        "lang=de",
        "user-data-dir",
    ] {
        assert!(check_allowed(entry).is_err(), "{entry}");
    }
}

#[test]
fn misspelled_names_are_refused() {
    for (text, wanted) in [
        ("", Misspelling::Empty),
        ("--", Misspelling::Empty),
        ("--=x", Misspelling::Empty),
        ("--no-sandbox ", Misspelling::Name),
        ("--single-process\t", Misspelling::Name),
        (" --no-sandbox", Misspelling::Name),
        ("---no-sandbox", Misspelling::Name),
        ("----no-sandbox", Misspelling::Name),
        ("\u{2013}no-sandbox", Misspelling::Name),
        ("--no\u{2011}sandbox", Misspelling::Name),
        ("--no-sandbox\0", Misspelling::Name),
        ("--no-sandbox\u{a0}=1", Misspelling::Name),
        ("--lang=de\0--no-sandbox", Misspelling::Value),
        ("--lang=de\n", Misspelling::Value),
    ] {
        assert_eq!(judge(text, &[]), SwitchVerdict::Misspelled(wanted), "{text:?}");
    }
}

/// What Chromium reads in one argument: it takes blanks from both ends, then two dashes or one. No switch follows `--`.
fn as_chromium_reads(argument: &str) -> Option<(String, String)> {
    let argument = argument.trim_matches(|c| ('\t'..='\r').contains(&c) || c == ' ');
    let bare = argument.strip_prefix("--").or_else(|| argument.strip_prefix('-')).filter(|bare| !bare.is_empty())?;
    let (name, value) = bare.split_once('=').unwrap_or((bare, ""));
    Some((name.to_owned(), value.to_owned()))
}

fn spelling() -> impl Strategy<Value = String> {
    let blank = || {
        prop::sample::select(vec!["", "", " ", "\t", "\n", "\0", "\u{a0}", "\u{200b}", "\u{7f}", "=", "\"", "-", "--"])
    };
    let dashes =
        prop::sample::select(vec!["", "-", "--", "---", "----", "\u{2013}", "\u{2014}", "\u{2212}", " --", "/", "-- "]);
    let name = prop::sample::select(
        WEAKENING
            .iter()
            .map(|switch| (*switch).to_owned())
            .chain(
                [
                    "no-sandbox",
                    "disable-setuid-sandbox",
                    "no-zygote",
                    "single-process",
                    "unheard-of=1",
                    "enable-features=Unheard",
                    "lang=de",
                    "disable-gpu",
                ]
                .map(str::to_owned),
            )
            .collect::<Vec<_>>(),
    );
    let dash_in_name = prop::sample::select(vec!["-", "-", "-", "--", "_", "\u{2011}", " -"]);
    (blank(), dashes, name, any::<u64>(), dash_in_name, blank(), blank()).prop_map(
        |(before, dashes, name, cases, dash, middle, after)| {
            let spelled: String = name
                .chars()
                .enumerate()
                .map(|(at, c)| if cases >> (at % 64) & 1 == 1 && cases % 3 == 0 { c.to_ascii_uppercase() } else { c })
                .collect();
            let spelled = spelled.replacen('-', dash, 1);
            let (start, end) = spelled.split_at(spelled.len().min(spelled.find('=').unwrap_or(spelled.len())));
            format!("{before}{dashes}{start}{middle}{end}{after}")
        },
    )
}

proptest! {
    #[test]
    fn no_spelling_brings_a_refused_or_unknown_switch_to_a_browser(written in prop_oneof![spelling(), ".{0,40}"]) {
        if let SwitchVerdict::Taken(argument, _) = judge(&written, &[]) {
            let (name, value) = as_chromium_reads(&argument).expect("a switch");
            prop_assert!(matches!(class_of(&name), Class::Harmless | Class::Free), "{written:?} became {argument:?}");
            prop_assert!(!argument.chars().any(char::is_control) && argument.starts_with("--"));
            if let Some(list) = list(&name) {
                prop_assert!(!value.split([',', ' ']).any(|item| list.refuses(item)));
                prop_assert!(list.judge_items(&name, &value, &[]).left_out.is_empty(), "{argument:?}");
            }
        }
    }
}
