//! Request targets of WebDriver clients with a slash too many.

/// The path of a WebDriver request without the second slash that appending to a `connect_url` leaves; `None` when there
/// is nothing to mend.
pub(super) fn single_slash(path: &str) -> Option<String> {
    // A grid's address with a slash at its end, and a client that appends `/session` to it.
    for prefix in ["", "/wd/hub"] {
        let rest = path.strip_prefix(prefix).filter(|rest| rest.starts_with("//"));
        if let Some(rest) = rest.map(|rest| rest.trim_start_matches('/')).filter(|rest| is_grid(rest)) {
            return Some(format!("{prefix}/{rest}"));
        }
    }
    let (before, after) = path.split_once("/webdriver/")?;
    let (token, rest) = after.split_once("//")?;
    let mends = !token.is_empty() && !token.contains('/');
    mends.then(|| format!("{before}/webdriver/{token}/{}", rest.trim_start_matches('/')))
}

fn is_grid(path: &str) -> bool {
    matches!(path.split('/').next(), Some("session" | "status"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_slash_behind_the_token_is_mended() {
        let mended = single_slash("/sessions/s/webdriver/T//session/1/url");
        assert_eq!(mended.as_deref(), Some("/sessions/s/webdriver/T/session/1/url"));
        assert_eq!(single_slash("//session/1/url").as_deref(), Some("/session/1/url"));
        assert_eq!(single_slash("/wd/hub//session").as_deref(), Some("/wd/hub/session"));
        for path in [
            "//evil.example/x",
            "/session//x",
            "/sessions/s/webdriver/T/session/1//x",
            "/sessions//s/files",
            "/sessions/s/webdriver//session",
        ] {
            assert_eq!(single_slash(path), None, "{path}");
        }
    }
}
