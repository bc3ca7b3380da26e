//! Requests to a daemon: one connection each, with TLS where its address says https.

use std::io::Write;

use bytes::Bytes;
use futures_util::TryStreamExt as _;
use futures_util::stream::MapOk;
use http::header::{CONTENT_TYPE, HOST, LOCATION};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Either, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper_util::rt::TokioIo;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_util::io::ReaderStream;
use url::Url;
use warmpool_api::error::ErrorBody;
use warmpool_core::error::Code;

use super::arguments::Service;
use super::error::ClientError;
use super::show::control_free;

const SECRET_KEY: HeaderName = HeaderName::from_static("service-secret-key");
const API_KEY: HeaderName = HeaderName::from_static("x-api-key");

/// Who asks whom.
pub(super) struct Caller {
    base: Url,
    /// What opens the daemon, and the header that carries it; none where it may do without.
    credential: Option<(HeaderName, HeaderValue)>,
}

/// What a request carries.
type RequestBody = Either<Full<Bytes>, StreamBody<MapOk<ReaderStream<tokio::fs::File>, fn(Bytes) -> Frame<Bytes>>>>;

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

impl Caller {
    /// A caller with the service's key.
    pub(super) fn new(service: &Service) -> Result<Self, ClientError> {
        Self::with(service, Some((SECRET_KEY, secret_key(service)?)))
    }

    /// A caller with a service key if there is one, for what the daemon may tell anybody.
    pub(super) fn of_anybody(service: &Service) -> Result<Self, ClientError> {
        let key = if service.key_file.is_some() { Some(secret_key(service)?) } else { secret_key(service).ok() };
        Self::with(service, key.map(|key| (SECRET_KEY, key)))
    }

    /// A caller with an integration key.
    pub(super) fn of_integration(service: &Service, key: &str) -> Result<Self, ClientError> {
        Self::with(service, Some((API_KEY, header(key)?)))
    }

    fn with(service: &Service, credential: Option<(HeaderName, HeaderValue)>) -> Result<Self, ClientError> {
        let wrong = |why: &str| ClientError::Usage(format!("{}: {why}", service.url));
        let base = Url::parse(&service.url).map_err(|error| wrong(&error.to_string()))?;
        if !matches!(base.scheme(), "http" | "https") || base.host_str().is_none() {
            return Err(wrong("write the daemon's address as http://HOST:PORT or https://HOST"));
        }
        Ok(Self { base, credential })
    }

    /// The address of a page of the daemon.
    pub(super) fn address(&self, path: &str) -> String {
        format!("{}{path}", self.base.as_str().trim_end_matches('/'))
    }

    /// Sends a request; an answer that is an error becomes one.
    pub(super) async fn send(
        &self,
        method: Method,
        path: &str,
        mut headers: HeaderMap,
        body: Option<&Value>,
    ) -> Result<Response<Incoming>, ClientError> {
        let bytes = body.map(|body| Bytes::from(body.to_string()));
        if bytes.is_some() {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        self.exchange(method, path, headers, Either::Left(Full::new(bytes.unwrap_or_default()))).await
    }

    /// Sends a file.
    pub(super) async fn upload(
        &self,
        method: Method,
        path: &str,
        file: tokio::fs::File,
    ) -> Result<Response<Incoming>, ClientError> {
        let headers = HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"))]);
        let frames = ReaderStream::new(file).map_ok(Frame::data as fn(Bytes) -> Frame<Bytes>);
        self.exchange(method, path, headers, Either::Right(StreamBody::new(frames))).await
    }

    async fn exchange(
        &self,
        method: Method,
        path: &str,
        mut headers: HeaderMap,
        body: RequestBody,
    ) -> Result<Response<Incoming>, ClientError> {
        let unreachable = |why: &dyn std::fmt::Display| {
            ClientError::Unreachable(format!("the daemon at {} cannot be reached: {why}", self.base))
        };
        headers.extend(self.credential.clone());
        let host = self.base.host_str().unwrap_or_default();
        let host = self.base.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"));
        headers.insert(HOST, HeaderValue::from_str(&host).map_err(|error| unreachable(&error))?);
        let path = format!("{}{path}", self.base.path().trim_end_matches('/'));
        let mut request = Request::new(body);
        *request.method_mut() = method;
        *request.uri_mut() = path.parse().map_err(|error| unreachable(&error))?;
        *request.headers_mut() = headers;
        let stream = self.connect().await.map_err(|error| unreachable(&error))?;
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(|error| unreachable(&error))?;
        tokio::spawn(connection.with_upgrades());
        let response = sender.send_request(request).await.map_err(|error| unreachable(&error))?;
        if response.status().is_success() || response.status() == StatusCode::SWITCHING_PROTOCOLS {
            return Ok(response);
        }
        let status = response.status();
        if status.is_redirection() {
            let to = response.headers().get(LOCATION).and_then(|to| to.to_str().ok()).unwrap_or("another address");
            let problem = format!("{} leads on to {to}: name the daemon's address by --service", self.base);
            return Err(ClientError::Unreachable(problem));
        }
        let (message, field) = match read_json::<ErrorBody>(response).await {
            Ok(ErrorBody { error }) if error.code == Code::InvalidKey.as_str() => {
                return Err(ClientError::Key(format!("the daemon at {} does not know this key", self.base)));
            }
            Ok(ErrorBody { error }) => (control_free(&error.message), error.field.as_deref().map(control_free)),
            Err(_) => (format!("the daemon answered {status}"), None),
        };
        Err(ClientError::Refused { status, message, field })
    }

    pub(super) async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, ClientError> {
        self.json(Method::GET, path, None).await
    }

    /// Sends a request whose answer is JSON.
    pub(super) async fn json<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<T, ClientError> {
        read_json(self.send(method, path, HeaderMap::new(), body).await?).await
    }

    /// Asks for what is no JSON object.
    pub(super) async fn open(&self, path: &str) -> Result<Response<Incoming>, ClientError> {
        self.send(Method::GET, path, HeaderMap::new(), None).await
    }

    async fn connect(&self) -> std::io::Result<Box<dyn Stream>> {
        let host = self.base.host_str().unwrap_or_default().trim_matches(['[', ']']).to_owned();
        let port = self.base.port_or_known_default().unwrap_or(80);
        let stream = TcpStream::connect((host.as_str(), port)).await?;
        stream.set_nodelay(true)?;
        if self.base.scheme() == "http" {
            return Ok(Box::new(stream));
        }
        let config = warmpool_core::tls::client_config()?;
        let name = ServerName::try_from(host).map_err(std::io::Error::other)?;
        Ok(Box::new(TlsConnector::from(config).connect(name, stream).await?))
    }
}

fn secret_key(service: &Service) -> Result<HeaderValue, ClientError> {
    let key = match &service.key_file {
        Some(path) => std::fs::read_to_string(path).map_err(|error| ClientError::unread(path, &error))?,
        None => std::env::var("WARMPOOL_SECRET_KEY").unwrap_or_default(),
    };
    if key.trim().is_empty() {
        let empty = service.key_file.as_ref().map(|path| format!("no key, since {} is empty", path.display()));
        return Err(ClientError::Key(empty.unwrap_or_else(|| "no key".to_owned())));
    }
    header(&key)
}

/// A key as the value of a header.
fn header(key: &str) -> Result<HeaderValue, ClientError> {
    let mut key = HeaderValue::from_str(key.trim())
        .map_err(|_| ClientError::Usage("the key holds characters that no key has".to_owned()))?;
    key.set_sensitive(true);
    Ok(key)
}

/// The error of an answer that cannot be read to its end.
pub(super) fn broken(error: &dyn std::fmt::Display) -> ClientError {
    ClientError::Unreachable(control_free(&format!("the answer broke off: {error}")))
}

async fn read(response: Response<Incoming>) -> Result<Bytes, ClientError> {
    Ok(response.into_body().collect().await.map_err(|error| broken(&error))?.to_bytes())
}

/// Reads an answer that is JSON.
pub(super) async fn read_json<T: DeserializeOwned>(response: Response<Incoming>) -> Result<T, ClientError> {
    let answer = read(response).await?;
    serde_json::from_slice(&answer).map_err(|error| {
        if error.is_syntax() {
            let problem = "no Warmpool answers there, since the answer is not JSON: name its address by --service";
            ClientError::Unreachable(problem.to_owned())
        } else {
            broken(&error)
        }
    })
}

/// Reads an answer that has a JSON object a line, and passes over what is none.
pub(super) async fn read_lines<T: DeserializeOwned>(response: Response<Incoming>) -> Result<Vec<T>, ClientError> {
    let lines = read(response).await?;
    Ok(lines.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok()).collect())
}

/// Writes an answer as it comes.
pub(super) async fn save(response: Response<Incoming>, to: &mut impl Write) -> Result<(), ClientError> {
    let unwritten = |error| ClientError::Usage(format!("cannot write: {error}"));
    let mut body = response.into_body();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| broken(&error))?;
        match frame.data_ref().map_or(Ok(()), |data| to.write_all(data)) {
            // The reader has closed the pipe.
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => return Ok(()),
            written => written.map_err(unwritten)?,
        }
    }
    to.flush().map_err(unwritten)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_daemon::{TestDaemon, answer};

    async fn got(answer: &str) -> Result<Value, ClientError> {
        let daemon = TestDaemon::with_answers(vec![answer.to_owned()]).await;
        daemon.caller().get("/status").await
    }

    #[tokio::test]
    async fn what_is_no_warmpool_is_called_so() {
        let page = answer("200 OK", "<!doctype html><title>Sign in</title>");
        let told = got(&page).await.unwrap_err();
        assert!(matches!(&told, ClientError::Unreachable(why) if why.starts_with("no Warmpool")), "{told}");
        // What is cut off was an answer.
        for cut in
            [answer("200 OK", "{\"a\":"), answer("200 OK", ""), page.replace("Content-Length: ", "Content-Length: 1")]
        {
            let told = got(&cut).await.unwrap_err().to_string();
            assert!(told.starts_with("the answer broke off: "), "{cut}: {told}");
        }
        assert_eq!(got(&answer("200 OK", "{}")).await.unwrap(), serde_json::json!({}));
    }

    #[tokio::test]
    async fn a_redirection_names_where_it_leads() {
        let daemon =
            TestDaemon::with_answers(vec![answer("301 Moved\r\nLocation: https://pool.example/status", "")]).await;
        let told = daemon.caller().get::<Value>("/status").await.unwrap_err();
        assert!(matches!(told, ClientError::Unreachable(_)), "{told}");
        let told = told.to_string();
        assert!(told.contains("leads on to https://pool.example/status") && told.contains("--service"), "{told}");
        assert_eq!(daemon.asked().len(), 1, "a key goes nowhere else");
    }
}
