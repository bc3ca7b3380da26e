//! A daemon for tests: it answers as they say.

use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use crate::arguments::Service;
use crate::http::Caller;

/// A request that came.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    /// Its first line and its headers, whose names are in small letters.
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Asked {
    /// Reads the request of a connection.
    async fn read(stream: &mut TcpStream) -> Self {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.unwrap());
        }
        let mut asked = Self { head: String::from_utf8(head).unwrap(), body: String::new() };
        let mut body = vec![0; asked.header("content-length").map_or(0, |length| length.parse().unwrap())];
        stream.read_exact(&mut body).await.unwrap();
        asked.body = String::from_utf8(body).unwrap();
        asked
    }

    /// The value of a header.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }
}

/// A daemon that answers one request after the other, until it is dropped.
pub(crate) struct TestDaemon {
    url: String,
    asked: Arc<Mutex<Vec<Asked>>>,
    serving: JoinHandle<()>,
}

impl TestDaemon {
    pub(crate) async fn start(mut answer: impl FnMut(&Asked) -> String + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let asked = Arc::new(Mutex::new(Vec::new()));
        let all = Arc::clone(&asked);
        let serving = tokio::spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                let asked = Asked::read(&mut stream).await;
                let reply = answer(&asked);
                all.lock().push(asked);
                // The client may have gone already.
                let _ = stream.write_all(reply.as_bytes()).await;
            }
        });
        Self { url, asked, serving }
    }

    /// A daemon with these answers, the last of them for good.
    pub(crate) async fn with_answers(answers: Vec<String>) -> Self {
        let mut answers = answers.into_iter();
        let mut latest = String::new();
        Self::start(move |_| {
            if let Some(next) = answers.next() {
                latest = next;
            }
            latest.clone()
        })
        .await
    }

    /// Who asks it.
    pub(crate) fn caller(&self) -> Caller {
        Caller::of_anybody(&Service { url: self.url.clone(), key_file: None }).unwrap()
    }

    /// What was asked so far.
    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().clone()
    }
}

impl Drop for TestDaemon {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// An answer with this head and body.
pub(crate) fn answer(head: &str, body: &str) -> String {
    format!("HTTP/1.1 {head}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}", body.len())
}

/// A refusal that says nothing.
pub(crate) fn refusal(status: &str) -> String {
    answer(status, "")
}

/// A stream of one event, after which the daemon is gone.
pub(crate) fn stream(name: &str, data: &Value) -> String {
    format!("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nevent: {name}\ndata: {data}\n\n")
}

#[cfg(test)]
mod tests {
    use ::http::Method;
    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn it_answers_in_turn_and_notes_what_was_asked() {
        let daemon = TestDaemon::with_answers(vec![answer("200 OK", "1"), answer("200 OK", "2")]).await;
        let caller = daemon.caller();
        for wanted in [1, 2, 2] {
            let given: Value = caller.json(Method::POST, "/path", Some(&json!("wörd"))).await.unwrap();
            assert_eq!(given, wanted);
        }
        let asked = daemon.asked();
        assert_eq!(asked.len(), 3);
        assert!(
            asked.iter().all(|asked| asked.head.starts_with("POST /path ") && asked.body == "\"wörd\""),
            "{asked:?}"
        );
        assert_eq!(asked[0].header("content-length"), Some("7"));
    }
}
