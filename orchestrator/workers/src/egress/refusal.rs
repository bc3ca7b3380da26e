//! The page that replaces one whose address was refused.

use std::time::Duration;

use tokio::io::AsyncWriteExt as _;
use tokio::time::timeout;
use warmpool_dial::Refusal;

use super::head::read_head;
use crate::worker::AgentStream;

/// The most bytes of a request to read, and the time for it; its head suffices.
const MAX_HEAD: usize = 16 << 10;
const HEAD_TIMEOUT: Duration = Duration::from_secs(5);

/// Answers a request for a page with a page that says why it was refused, and carries the mark that `mark` makes. Anything else is
/// only closed: to scripts, images and other protocols, nobody listens at the address.
pub(super) async fn show(
    tunnel: &mut AgentStream,
    host: &str,
    port: u16,
    refusal: Refusal,
    mark: impl FnOnce() -> String,
) {
    let head = timeout(HEAD_TIMEOUT, read_head(tunnel, MAX_HEAD, is_http)).await;
    if matches!(head, Ok(Ok(head)) if wants_page(&head)) {
        let _ = tunnel.write_all(response(host, port, refusal, &mark()).as_bytes()).await;
        let _ = tunnel.shutdown().await;
    }
}

fn is_http(head: &[u8]) -> bool {
    head.iter().take(3).all(u8::is_ascii_uppercase)
}

/// Whether a browser sends this request to open a page.
fn wants_page(head: &[u8]) -> bool {
    let head = String::from_utf8_lossy(head).to_ascii_lowercase();
    let page =
        |line: &str| line.strip_prefix("accept:").is_some_and(|types| types.trim_start().starts_with("text/html"));
    head.lines().any(page)
}

fn response(host: &str, port: u16, refusal: Refusal, mark: &str) -> String {
    let escaped = host.replace('&', "&amp;").replace('<', "&lt;").replace('"', "&quot;");
    let problem = refusal.problem();
    let words = match refusal {
        // What `egress.allow` has would change nothing: it comes after the rule, or gives way to it.
        Refusal::Denied => format!(
            "<p><b>{escaped}:{port}</b> {problem}.</p>\
             <p>The rule is in <code>egress.deny</code> of warmpool.toml, or one of the session's key or preset. To allow the \
             address, change that rule. A key's own rules, which <code>warmpool key egress</code> sets, come before all others.</p>"
        ),
        Refusal::NotPublic(_) | Refusal::Own => format!(
            "<p><b>{escaped}:{port}</b> {problem}, and sessions may reach public addresses only.</p>\
             <p>To allow it, add it to <code>egress.allow</code> in warmpool.toml and restart the daemon:</p>\
             <pre>[egress]\nallow = [\"{escaped}:{port}\"]</pre>"
        ),
    };
    let body = format!(
        "<!doctype html><html lang=en><meta charset=utf-8>\
         <meta name=warmpool-refusal content=\"{mark}\"><title>Refused by Warmpool</title>\
         <body style=\"font:16px/1.5 sans-serif;max-width:40em;margin:4em auto;padding:0 1em\">\
         <h1>Refused by Warmpool</h1>{words}</body></html>\n"
    );
    format!(
        "HTTP/1.1 403 Refused by Warmpool\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: {}\r\n\
         Content-Security-Policy: default-src 'none'; style-src 'unsafe-inline'\r\nCache-Control: no-store\r\n\
         Proxy-Status: Warmpool; error=destination_ip_prohibited\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_pages_get_a_page() {
        assert!(wants_page(b"GET / HTTP/1.1\r\nHost: a\r\nAccept: text/html,*/*\r\n\r\n"));
        assert!(!wants_page(b"GET / HTTP/1.1\r\nHost: a\r\nAccept: */*\r\n\r\n"));
        assert!(!wants_page(b"GET / HTTP/1.1\r\n\r\n"));
        assert!(is_http(b"GE") && is_http(b"POST / HTTP/1.1") && !is_http(b"\x16\x03\x01") && !is_http(b"ssh"));
    }

    #[test]
    fn a_host_brings_no_markup() {
        for refusal in [Refusal::NotPublic("is a private address"), Refusal::Denied] {
            let page = response("<b>\"&", 80, refusal, "m");
            assert!(page.contains("&lt;b>&quot;&amp;:80") && !page.contains("<b>\"&"), "{page}");
        }
    }

    #[test]
    fn the_remedy_is_one_that_helps() {
        for refusal in [Refusal::NotPublic("is a private address"), Refusal::Own] {
            let page = response("10.0.0.1", 80, refusal, "m");
            assert!(page.contains("public addresses only") && page.contains("allow = [\"10.0.0.1:80\"]"), "{page}");
        }
        let page = response("example.com", 80, Refusal::Denied, "m");
        assert!(page.contains("<b>example.com:80</b> is denied by an egress rule.</p>"), "{page}");
        assert!(page.contains("egress.deny") && page.contains("warmpool key egress"), "{page}");
        assert!(!page.contains("public addresses only") && !page.contains("egress.allow"), "{page}");
    }
}
