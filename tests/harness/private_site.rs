//! A site whose certificate comes from an authority of its own, as sites inside companies have them.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Error, Result};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair};
use tempfile::TempDir;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;

use crate::host_address;

const PAGE: &str = "<!doctype html><title>Private</title><h1>Private</h1>";

/// How many authorities there are beside the site's.
const OTHER_AUTHORITIES: usize = 40;

fn issuer(name: &str) -> Result<CertifiedIssuer<'static, KeyPair>> {
    let mut params = CertificateParams::new(Vec::new())?;
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(DnType::CommonName, name);
    Ok(CertifiedIssuer::self_signed(params, KeyPair::generate()?)?)
}

/// A running site; it stops when this is dropped.
pub struct PrivateSite {
    url: String,
    folder: TempDir,
    asked: Arc<AtomicUsize>,
    server: tokio::task::JoinHandle<()>,
}

impl PrivateSite {
    /// Serves one page on a free port of the address that browsers know, with a certificate of an authority that nobody knows.
    pub async fn start(authority: &str) -> Result<Self> {
        let issuer = issuer(authority)?;
        let mut params = CertificateParams::new([host_address().to_owned()])?;
        params.distinguished_name.push(DnType::CommonName, "a private site");
        params.extended_key_usages.push(ExtendedKeyUsagePurpose::ServerAuth);
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &issuer)?;
        let key = PrivateKeyDer::try_from(key.serialize_der()).map_err(Error::msg)?;
        let config =
            ServerConfig::builder().with_no_client_auth().with_single_cert(vec![certificate.der().clone()], key)?;
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let folder = tempfile::tempdir()?;
        // Among others, as in the bundle of a company.
        let mut bundle = issuer.pem();
        for number in 0..OTHER_AUTHORITIES {
            bundle.push_str(&self::issuer(&format!("{authority} {number}"))?.pem());
        }
        std::fs::write(folder.path().join("ca.pem"), bundle)?;
        let listener = TcpListener::bind((host_address(), 0)).await?;
        let url = format!("https://{}/", listener.local_addr()?);
        let asked = Arc::new(AtomicUsize::new(0));
        let counts = Arc::clone(&asked);
        let server = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, asked) = (acceptor.clone(), Arc::clone(&counts));
                tokio::spawn(async move {
                    // A browser that does not believe the certificate hangs up.
                    if let Ok(stream) = acceptor.accept(stream).await {
                        let _ = answer(stream, &asked).await;
                    }
                });
            }
        });
        Ok(Self { url, folder, asked, server })
    }

    /// Its address.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// How many times it was asked for what browsers keep.
    #[must_use]
    pub fn asked(&self) -> usize {
        self.asked.load(Ordering::Relaxed)
    }

    /// The file with its authority's certificate, and those of others.
    #[must_use]
    pub fn authority(&self) -> PathBuf {
        Path::new(self.folder.path()).join("ca.pem")
    }
}

impl Drop for PrivateSite {
    fn drop(&mut self) {
        self.server.abort();
    }
}

const SCRIPT: &str = "self.addEventListener('fetch', () => {})";

/// Answers one request: what ends in `.js` is a service worker, and all else is the page, which browsers keep as `/cached`.
async fn answer(mut stream: impl AsyncRead + AsyncWrite + Unpin, asked: &AtomicUsize) -> Result<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await?);
    }
    let target = String::from_utf8_lossy(&head).split(' ').nth(1).unwrap_or_default().to_owned();
    let (kind, body) = if target.ends_with(".js") { ("javascript", SCRIPT) } else { ("html", PAGE) };
    let is_kept = target == "/cached";
    let keep = if is_kept { "max-age=3600" } else { "no-store" };
    if is_kept {
        asked.fetch_add(1, Ordering::Relaxed);
    }
    let answer = format!(
        "HTTP/1.1 200 OK\r\nCache-Control: {keep}\r\nContent-Type: text/{kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(answer.as_bytes()).await?;
    Ok(stream.shutdown().await?)
}
