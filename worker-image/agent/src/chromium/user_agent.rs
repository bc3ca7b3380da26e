//! User-agent client hints that agree with a user-agent string.

use serde_json::{Value, json};

/// A brand whose only purpose is that nobody relies on the list's order or length.
const NOBODY: &str = "Not?A_Brand";
const NOBODY_VERSION: &str = "24";

/// What `navigator.userAgentData` and the `Sec-CH-UA` headers say for this user agent, in the form
/// of `Emulation.UserAgentMetadata`; `None` for browsers that have no such hints, which are all
/// that do not descend from Chromium.
pub(super) fn metadata(user_agent: &str) -> Option<Value> {
    let version = version_after(user_agent, "Chrome/")?;
    let (platform, platform_version) = platform(user_agent);
    if platform == "iOS" {
        return None;
    }
    let mut products = vec![(NOBODY, NOBODY_VERSION), ("Chromium", version)];
    products.push(match user_agent {
        ua if ua.contains("Edg/") => ("Microsoft Edge", version_after(ua, "Edg/").unwrap_or(version)),
        ua if ua.contains("OPR/") => ("Opera", version_after(ua, "OPR/").unwrap_or(version)),
        ua if ua.contains("HeadlessChrome/") => ("HeadlessChrome", version),
        _ => ("Google Chrome", version),
    });
    let list = |full: bool| -> Vec<Value> {
        let entry = |&(brand, version): &(&str, &str)| {
            let major = version.split('.').next().unwrap_or(version);
            json!({"brand": brand, "version": if full { version } else { major }})
        };
        products.iter().map(entry).collect()
    };
    let arm = ["aarch64", "arm64", "armv"].iter().any(|word| user_agent.contains(word));
    let mobile = user_agent.contains("Mobile");
    let android = platform == "Android";
    Some(json!({
        "brands": list(false),
        "fullVersionList": list(true),
        "fullVersion": version,
        "platform": platform,
        "platformVersion": platform_version,
        "architecture": if android { "" } else if arm { "arm" } else { "x86" },
        "bitness": if android { "" } else { "64" },
        "model": if android { model(user_agent) } else { "" },
        "mobile": mobile,
        "wow64": user_agent.contains("WOW64"),
    }))
}

/// The dotted number behind a product's name.
fn version_after<'a>(user_agent: &'a str, product: &str) -> Option<&'a str> {
    let (_, rest) = user_agent.split_once(product)?;
    let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
    Some(&rest[..end]).filter(|version| !version.is_empty())
}

/// The system as the hints name it, and its version where the string tells one.
fn platform(user_agent: &str) -> (&'static str, String) {
    let digits = |after: &str| version_after(&user_agent.replace('_', "."), after).map(str::to_owned);
    match user_agent {
        ua if ua.contains("Windows NT") => {
            // From Windows 10 on the string says 10.0, whatever the version.
            let version = digits("Windows NT ").filter(|v| v == "10.0").map(|_| "10.0.0".to_owned());
            ("Windows", version.unwrap_or_else(|| "0.3.0".to_owned()))
        }
        ua if ua.contains("iPhone") || ua.contains("iPad") => ("iOS", String::new()),
        ua if ua.contains("Mac OS X") => ("macOS", digits("Mac OS X ").unwrap_or_default()),
        ua if ua.contains("Android") => ("Android", digits("Android ").unwrap_or_default()),
        ua if ua.contains("CrOS") => ("Chrome OS", String::new()),
        _ => ("Linux", String::new()),
    }
}

/// The device between "Android 14; " and the closing bracket.
fn model(user_agent: &str) -> &str {
    let device = || {
        let (_, rest) = user_agent.split_once("Android ")?;
        let (_, rest) = rest.split_once("; ")?;
        Some(rest.split([')', ';']).next()?.split(" Build/").next()?.trim())
    };
    // "K" is what the string says where the device is kept from it.
    device().filter(|&name| name != "K").unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::metadata;

    const WINDOWS: &str = "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/130.0.6723.58 Safari/537.36";

    #[test]
    fn a_desktop_chrome() {
        let hints = metadata(WINDOWS).unwrap();
        assert_eq!(hints["platform"], "Windows");
        assert_eq!(hints["mobile"], false);
        assert_eq!(hints["brands"][2]["brand"], "Google Chrome");
        assert_eq!(hints["brands"][2]["version"], "130");
        assert_eq!(hints["fullVersionList"][1]["version"], "130.0.6723.58");
    }

    #[test]
    fn a_phone() {
        let ua = "Mozilla/5.0 (Linux; Android 14; Pixel 8 Build/UQ1A) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/120.0.0.0 Mobile Safari/537.36";
        let hints = metadata(ua).unwrap();
        assert_eq!(hints["platform"], "Android");
        assert_eq!(hints["platformVersion"], "14");
        assert_eq!(hints["model"], "Pixel 8");
        assert_eq!(hints["mobile"], true);
    }

    #[test]
    fn a_descendant_names_itself() {
        let hints = metadata(&format!("{WINDOWS} Edg/130.0.2849.46")).unwrap();
        assert_eq!(hints["fullVersionList"][2]["brand"], "Microsoft Edge");
        assert_eq!(hints["fullVersionList"][2]["version"], "130.0.2849.46");
        let mac = "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 Safari/537.36";
        assert_eq!(metadata(mac).unwrap()["platformVersion"], "10.15.7");
    }

    #[test]
    fn others_have_no_hints() {
        for ua in [
            "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0",
            "Mozilla/5.0 (iPhone; CPU iPhone OS 17_0 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.0 Mobile/15E148 Safari/604.1",
            "my bot",
            "Chrome/",
            "",
        ] {
            assert!(metadata(ua).is_none(), "{ua}");
        }
    }
}
