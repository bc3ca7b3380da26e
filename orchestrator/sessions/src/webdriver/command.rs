//! A command's own part of a path: what stands behind the driver session's id.
//!
//! It goes to the driver as the client wrote it, because decoding it and encoding it again could change what the driver
//! sees. So it is checked instead: however often somebody on the way decodes it, it stays below its driver session.

use http::Method;
use percent_encoding::percent_decode;

use warmpool_core::browser::Engine;
use warmpool_protocol::passes_agent;

use crate::Error;

/// A command of one driver session, such as `element/E1/click`. It can name nothing outside that session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    path: String,
}

impl Command {
    /// Reads the command from a request's path, of which the first `before` segments name the driver session. Commands have no
    /// query: what a client writes there is for the daemon, such as its key.
    /// Errors: `UnknownCommand` when nothing follows these segments, or when an empty or a dot segment does.
    pub fn read(method: &Method, path: &str, before: usize) -> Result<Self, Error> {
        let command = behind(path, before);
        if stays_below(command) {
            return Ok(Self { path: command.to_owned() });
        }
        let shown = format!("/{}", command.chars().take(100).collect::<String>());
        Err(Error::UnknownCommand { method: method.to_string(), path: shown })
    }

    /// A command of the daemon's own.
    pub(super) fn own(path: &'static str) -> Self {
        Self { path: path.to_owned() }
    }

    /// Whether it is this command, however it was encoded.
    pub(super) fn is(&self, path: &str) -> bool {
        decoded(self.path.as_bytes()) == path.as_bytes()
    }

    /// Whether the agent of this engine has to see it before the driver does.
    pub(super) fn passes_agent(&self, engine: Engine) -> bool {
        let decoded = decoded(self.path.as_bytes());
        passes_agent(engine.as_str(), &String::from_utf8_lossy(&decoded))
    }

    /// The driver's path for it, in the driver session `id`.
    pub(super) fn path_in(&self, id: &str) -> String {
        format!("/session/{id}/{}", self.path)
    }
}

/// What follows the first `segments` of a path that begins with a slash. They are counted as the router counts them: as
/// they were sent, since a coded slash divides nothing.
fn behind(path: &str, segments: usize) -> &str {
    path.splitn(segments + 2, '/').nth(segments + 1).unwrap_or_default()
}

/// The most decodings of a path that say something new. Clients encode what they send once, and proxies between once more.
const MAX_DECODINGS: usize = 8;

/// Whether the path leads nowhere but downwards, also after any number of decodings. A path that takes more of them than
/// anybody encodes is none of those: each takes time with the path's length.
fn stays_below(path: &str) -> bool {
    if path.split('/').any(str::is_empty) {
        return false;
    }
    let mut bytes = path.as_bytes().to_vec();
    for _ in 0..MAX_DECODINGS {
        let is_dots = |part: &[u8]| part == b"." || part == b"..";
        // Some programs take a backslash for a slash.
        let mut parts = bytes.split(|byte| matches!(byte, b'/' | b'\\'));
        let is_nothing = parts.clone().all(<[u8]>::is_empty);
        if is_nothing || parts.any(is_dots) || bytes.iter().any(u8::is_ascii_control) {
            return false;
        }
        let next = decoded(&bytes);
        if next.len() == bytes.len() {
            return true;
        }
        bytes = next;
    }
    false
}

/// Percent-decodes once; what is no code stays as it is.
fn decoded(bytes: &[u8]) -> Vec<u8> {
    percent_decode(bytes).collect()
}

#[cfg(test)]
mod tests {
    use axum::Router;
    use axum::extract::{Path, Request};
    use axum::routing::any;
    use proptest::prelude::*;
    use tower::ServiceExt as _;

    use super::*;

    const ID: &str = "d0c5-DRV";

    fn sent(command: &str) -> Option<String> {
        let path = format!("/session/{ID}/{command}");
        Command::read(&Method::POST, &path, 2).ok().map(|command| command.path_in(ID))
    }

    /// What a program does that decodes, takes backslashes for slashes, and resolves dots, in the way of RFC 3986.
    fn resolved(path: &[u8]) -> Vec<Vec<u8>> {
        let mut parts: Vec<Vec<u8>> = Vec::new();
        for part in path.split(|byte| matches!(byte, b'/' | b'\\')) {
            match part {
                b"" | b"." => {}
                b".." => drop(parts.pop()),
                part => parts.push(part.to_vec()),
            }
        }
        parts
    }

    fn pieces() -> impl Strategy<Value = String> {
        let piece = prop_oneof![
            prop::sample::select(vec![
                "session", "SESSION", "/", "//", "/..", "..", ".", "%2e", "%2E", "%2f", "%2F", "%5c", "\\", "%252e",
                "%25", "%32%65", "%00", "%0d%0a", "%", "%zz", "url", "window", ";", "?", "#", ":", "@", "..;",
                "\u{e9}", "%c3%a9",
            ])
            .prop_map(str::to_owned),
            "[a-zA-Z0-9.%/]{0,6}",
        ];
        prop::collection::vec(piece, 0..9).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4096))]

        #[test]
        fn a_command_never_leaves_its_driver_session(command in pieces()) {
            if let Some(path) = sent(&command) {
                let mut path = path.into_bytes();
                for _ in 0..5 {
                    let parts = resolved(&path);
                    prop_assert!(parts.len() > 2, "{command}");
                    prop_assert_eq!(parts[0].as_slice(), b"session", "{}", command);
                    prop_assert_eq!(parts[1].as_slice(), ID.as_bytes(), "{}", command);
                    path = decoded(&path);
                }
            }
        }

        /// The parts that the router matched and the part that goes to the driver belong together, whatever is coded.
        #[test]
        fn the_router_and_the_forwarder_read_one_path(token in "(%54|T|%2F|/){1,3}", command in pieces()) {
            let Ok(uri) = format!("/sessions/s/webdriver/{token}/session/{ID}/{command}").parse::<http::Uri>() else {
                return Ok(());
            };
            let answer = |Path((_, _, _, matched)): Path<(String, String, String, String)>, request: Request| async move {
                let read = Command::read(request.method(), request.uri().path(), 6);
                let Ok(read) = read else { return "refused".to_owned() };
                let same = decoded(read.path.as_bytes()) == matched.as_bytes();
                (if same { "same" } else { "another" }).to_owned()
            };
            let router = Router::new()
                .route("/sessions/{id}/webdriver/{token}/session/{driver}/{*command}", any(answer));
            let request = Request::builder().uri(uri).body(axum::body::Body::empty()).unwrap();
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            let body = runtime.block_on(async {
                let response = router.oneshot(request).await.unwrap();
                axum::body::to_bytes(response.into_body(), 1 << 16).await.unwrap()
            });
            prop_assert_ne!(&body[..], b"another");
        }
    }

    #[test]
    fn what_a_client_may_write_goes_on_as_it_is() {
        for command in
            ["url", "cookie/a%2Fb%20c", "element/f.1.d/attribute/a%20b", "css/%25", "goog/cdp/execute", "a/%zz"]
        {
            assert_eq!(sent(command).as_deref(), Some(format!("/session/{ID}/{command}").as_str()));
        }
        assert!(Command::read(&Method::POST, "/session/D/%77indow/maximize", 2).unwrap().is("window/maximize"));
    }

    #[test]
    fn what_climbs_is_no_command() {
        for command in [
            "",
            "/",
            "%2f",
            "%255c",
            "url/",
            "a//b",
            "..",
            "../D2/url",
            "%2e%2e/x",
            ".%2E",
            "a%2f..%2f..%2fx",
            "a/..%5cx",
            "%252e%252e/x",
            "%25252e./x",
            "x/./y",
            "a%00",
            "a%0d%0aX: 1",
        ] {
            assert_eq!(sent(command), None, "{command}");
        }
    }

    #[test]
    fn what_is_encoded_without_end_is_no_command() {
        let encoded = |times: usize| format!("url%{}", "25".repeat(times));
        assert!(sent(&encoded(MAX_DECODINGS - 1)).is_some());
        // Decoding it to the end would take seconds.
        assert_eq!(sent(&encoded(30_000)), None);
    }
}
