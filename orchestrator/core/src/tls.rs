//! TLS from a certificate and a key file, read again when they change.
//!
//! A bad new file never takes the daemon off the air: the certificate in use stays until a good one is there.

use std::{
    fs,
    hash::{DefaultHasher, Hash, Hasher},
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use parking_lot::{Mutex, RwLock};
use tokio::{
    signal::unix::{SignalKind, signal},
    time::{MissedTickBehavior, interval},
};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        self, ClientConfig, RootCertStore, ServerConfig,
        crypto::{self, ring},
        pki_types::{
            CertificateDer, PrivateKeyDer,
            pem::{self, PemObject},
        },
    },
};
use tokio_util::sync::CancellationToken;

/// How often [`Tls::watch`] looks at the files.
pub const RELOAD_INTERVAL: Duration = Duration::from_secs(10);

/// Why certificate and key cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The certificate file is not PEM, or has no certificate in it.
    #[error("{path} holds no certificate in PEM form: {source}")]
    Certificate {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: pem::Error,
    },
    /// The key file is not PEM, or has no private key in it.
    #[error("{path} holds no private key in PEM form (PKCS#8, PKCS#1 or SEC1, without a password): {source}")]
    Key {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: pem::Error,
    },
    /// The two do not go together, or are of a kind that is not supported.
    #[error("certificate and key cannot be used: {0}")]
    Rejected(#[from] rustls::Error),
}

/// The daemon's certificate and key, as they were last found good.
#[derive(Debug)]
pub struct Tls {
    cert: PathBuf,
    key: PathBuf,
    current: RwLock<Arc<ServerConfig>>,
    /// Tells the files' content as last seen, good or bad, from a new one, so that a bad file is logged once.
    seen: Mutex<u64>,
}

impl Tls {
    /// Reads the certificate chain and the private key from PEM files.
    pub fn load(cert: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Result<Self, TlsError> {
        let (cert, key) = (cert.into(), key.into());
        let pair = Pair::read(&cert, &key);
        let seen = Mutex::new(Pair::fingerprint(&pair));
        let current = RwLock::new(Arc::new(pair?.server(&cert, &key)?));
        Ok(Self { cert, key, current, seen })
    }

    /// What accepts the next connection, with the certificate in use now.
    pub fn acceptor(&self) -> TlsAcceptor {
        let current = self.current.read();
        TlsAcceptor::from(Arc::clone(&current))
    }

    /// Reads the files again. `Ok(true)` if a new certificate is in use from now on, `Ok(false)` if the files hold
    /// what was seen last, `Err` if their new content is bad; then the certificate in use stays. Blocks on the disk.
    pub fn reload(&self) -> Result<bool, TlsError> {
        // Held throughout, so that of two reloads at once the later reading wins.
        let mut seen = self.seen.lock();
        let pair = Pair::read(&self.cert, &self.key);
        let found = Pair::fingerprint(&pair);
        if *seen == found {
            return Ok(false);
        }
        *seen = found;
        let server = Arc::new(pair?.server(&self.cert, &self.key)?);
        *self.current.write() = server;
        Ok(true)
    }

    /// Reloads every `period` and on SIGHUP, and logs what came of it, until `stop`.
    pub async fn watch(self: Arc<Self>, period: Duration, stop: CancellationToken) {
        let mut ticks = interval(period);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut hangups = match signal(SignalKind::hangup()) {
            Ok(hangups) => Some(hangups),
            Err(error) => {
                tracing::warn!(%error, "SIGHUP will not reload the certificate");
                None
            }
        };
        loop {
            let hangup = async {
                match &mut hangups {
                    Some(hangups) => hangups.recv().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = stop.cancelled() => return,
                _ = ticks.tick() => {}
                _ = hangup => {}
            }
            let tls = Arc::clone(&self);
            match tokio::task::spawn_blocking(move || tls.reload()).await {
                Ok(Ok(true)) => tracing::info!(cert = %self.cert.display(), "certificate reloaded"),
                Ok(Ok(false)) => {}
                Ok(Err(error)) => {
                    tracing::error!(%error, "new certificate not usable, the old one stays")
                }
                Err(error) => {
                    tracing::error!(%error, "certificate reload failed, the old one stays")
                }
            }
        }
    }
}

/// The content of both files.
struct Pair {
    cert: Vec<u8>,
    key: Vec<u8>,
}

impl Pair {
    fn read(cert: &Path, key: &Path) -> Result<Self, TlsError> {
        let read = |path: &Path| fs::read(path).map_err(|source| TlsError::Read { path: path.to_owned(), source });
        Ok(Self { cert: read(cert)?, key: read(key)? })
    }

    fn fingerprint(read: &Result<Self, TlsError>) -> u64 {
        let mut hasher = DefaultHasher::new();
        match read {
            Ok(pair) => (&pair.cert, &pair.key).hash(&mut hasher),
            Err(error) => error.to_string().hash(&mut hasher),
        }
        hasher.finish()
    }

    fn server(&self, cert: &Path, key: &Path) -> Result<ServerConfig, TlsError> {
        let chain: Vec<_> = CertificateDer::pem_slice_iter(&self.cert)
            .collect::<Result<_, _>>()
            .and_then(|chain: Vec<_>| if chain.is_empty() { Err(pem::Error::NoItemsFound) } else { Ok(chain) })
            .map_err(|source| TlsError::Certificate { path: cert.to_owned(), source })?;
        let key = PrivateKeyDer::from_pem_slice(&self.key)
            .map_err(|source| TlsError::Key { path: key.to_owned(), source })?;
        let mut server = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(chain, key)?;
        // Websocket upgrades need HTTP/1.1, and a client must not be offered anything else.
        server.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(server)
    }
}

/// What a client of other people's servers believes: the certificates that the system has, or those of the file that
/// `SSL_CERT_FILE` names.
/// Fails when the library has no protocol version in common with itself, which does not happen.
pub fn client_config() -> io::Result<Arc<ClientConfig>> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    let config = ClientConfig::builder_with_provider(Arc::new(crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(Arc::new(config))
}

/// Why a text names no authorities.
#[derive(Debug, thiserror::Error)]
pub enum CaError {
    /// It has no certificate in it.
    #[error("there is no certificate in PEM form")]
    None,
    /// It is not PEM.
    #[error("this is not PEM: {0}")]
    Pem(#[from] pem::Error),
    /// One of the certificates cannot be an authority's.
    #[error("certificate {number} cannot be used: {source}")]
    Rejected {
        /// Which, from 1.
        number: usize,
        /// Why not.
        source: rustls::Error,
    },
}

/// The certificates of authorities in a text in PEM form, each in DER.
/// Errors: [`CaError`].
pub fn ca_certificates(text: &[u8]) -> Result<Vec<Vec<u8>>, CaError> {
    let mut found = Vec::new();
    for certificate in CertificateDer::pem_slice_iter(text) {
        let certificate = certificate?;
        let number = found.len() + 1;
        RootCertStore::empty().add(certificate.clone()).map_err(|source| CaError::Rejected { number, source })?;
        found.push(certificate.to_vec());
    }
    if found.is_empty() { Err(CaError::None) } else { Ok(found) }
}

#[cfg(test)]
mod tests {
    use tokio_rustls::{
        TlsConnector,
        rustls::{ClientConfig, RootCertStore, pki_types::ServerName},
    };

    use super::*;

    /// A directory with a certificate and its key.
    struct Files {
        dir: tempfile::TempDir,
    }

    impl Files {
        fn new() -> (Self, CertificateDer<'static>) {
            let files = Self { dir: tempfile::tempdir().unwrap() };
            let cert = files.renew();
            (files, cert)
        }

        fn cert(&self) -> PathBuf {
            self.dir.path().join("cert.pem")
        }

        fn key(&self) -> PathBuf {
            self.dir.path().join("key.pem")
        }

        fn renew(&self) -> CertificateDer<'static> {
            let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
            fs::write(self.cert(), made.cert.pem()).unwrap();
            fs::write(self.key(), made.signing_key.serialize_pem()).unwrap();
            made.cert.der().clone()
        }
    }

    /// Whether a client that trusts only `cert` can connect; panics if anything but trust fails.
    async fn serves(tls: &Tls, cert: &CertificateDer<'static>) -> bool {
        let mut roots = RootCertStore::empty();
        roots.add(cert.clone()).unwrap();
        let mut client = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        client.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let (near, far) = tokio::io::duplex(16 << 10);
        let name = ServerName::try_from("localhost").unwrap();
        let connector = TlsConnector::from(Arc::new(client));
        let (near, far) = tokio::join!(connector.connect(name, near), tls.acceptor().accept(far));
        let Ok(near) = near else { return false };
        assert_eq!(near.get_ref().1.alpn_protocol(), Some(&b"http/1.1"[..]));
        far.unwrap();
        true
    }

    #[tokio::test]
    async fn new_files_are_taken_up_and_bad_ones_are_not() {
        let (files, first) = Files::new();
        let tls = Tls::load(files.cert(), files.key()).unwrap();
        assert!(serves(&tls, &first).await);
        assert!(!tls.reload().unwrap(), "nothing changed");

        let second = files.renew();
        assert!(serves(&tls, &first).await, "not yet reloaded");
        assert!(tls.reload().unwrap());
        assert!(serves(&tls, &second).await && !serves(&tls, &first).await);

        let good = fs::read(files.key()).unwrap();
        for bad in ["", "-----BEGIN PRIVATE KEY-----\n!\n-----END PRIVATE KEY-----\n"] {
            fs::write(files.key(), bad).unwrap();
            assert!(matches!(tls.reload(), Err(TlsError::Key { .. })));
            assert!(!tls.reload().unwrap(), "a bad file is reported once");
            assert!(serves(&tls, &second).await);
        }
        fs::remove_file(files.cert()).unwrap();
        assert!(matches!(tls.reload(), Err(TlsError::Read { .. })));
        assert!(serves(&tls, &second).await);

        let third = files.renew();
        fs::write(files.key(), good).unwrap();
        assert!(matches!(tls.reload(), Err(TlsError::Rejected(_))), "new certificate, old key");
        assert!(!serves(&tls, &third).await);
        let fourth = files.renew();
        assert!(tls.reload().unwrap());
        assert!(serves(&tls, &fourth).await);
    }

    #[tokio::test]
    async fn the_watch_takes_up_new_files_and_stops() {
        let (files, _) = Files::new();
        let tls = Arc::new(Tls::load(files.cert(), files.key()).unwrap());
        let stop = CancellationToken::new();
        let watch = tokio::spawn(Arc::clone(&tls).watch(Duration::from_millis(5), stop.clone()));
        let renewed = files.renew();
        let taken = async {
            while !serves(&tls, &renewed).await {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(30), taken).await.unwrap();
        stop.cancel();
        watch.await.unwrap();
    }

    #[test]
    fn unusable_files_are_named() {
        let (files, _) = Files::new();
        let swapped = Tls::load(files.key(), files.cert()).unwrap_err().to_string();
        assert!(swapped.contains("key.pem holds no certificate"), "{swapped}");
        let twice = Tls::load(files.cert(), files.cert()).unwrap_err().to_string();
        assert!(twice.contains("cert.pem holds no private key"), "{twice}");
        let missing = Tls::load("/nowhere/cert.pem", files.key()).unwrap_err().to_string();
        assert!(missing.contains("cannot read /nowhere/cert.pem"), "{missing}");
    }
}
