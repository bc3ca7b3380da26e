//! What a site lets programs read, as its `robots.txt` says (RFC 9309).

use texting_robots::Robot;

/// Longer files are read up to here, as the standard has it.
const LONGEST: usize = 500 << 10;

/// Whether a site lets `agent` read the page at `url`. `status` and `text` are those of its `robots.txt`; where the status is not
/// known, it is 0.
#[must_use]
pub fn allows(status: u16, text: &str, agent: &str, url: &str) -> bool {
    match status {
        // Who has no such file forbids nothing.
        400..500 => true,
        500.. => false,
        _ => {
            let bytes = text.as_bytes();
            let robot = Robot::new(agent, &bytes[..bytes.len().min(LONGEST)]);
            robot.is_ok_and(|robot| robot.allowed(url))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_site_says_who_may_read_what() {
        let text = "User-agent: *\nDisallow: /private\n\nUser-agent: TeaBot\nAllow: /private/tea\nDisallow: /\n";
        let allowed = |agent, path: &str| allows(200, text, agent, &format!("https://tea.example{path}"));
        assert!(allowed("Warmpool", "/") && !allowed("Warmpool", "/private/tea"));
        assert!(!allowed("TeaBot", "/") && allowed("TeaBot", "/private/tea"));
    }

    #[test]
    fn a_site_without_the_file_allows_all_and_one_that_fails_nothing() {
        let all = "User-agent: *\nDisallow: /";
        assert!(allows(404, all, "Warmpool", "https://tea.example/"));
        assert!(!allows(503, "", "Warmpool", "https://tea.example/"));
        assert!(!allows(0, all, "Warmpool", "https://tea.example/"));
        assert!(allows(200, "<html><p>Nothing here", "Warmpool", "https://tea.example/"));
        assert!(allows(200, "", "Warmpool", "https://tea.example/"));
    }
}
