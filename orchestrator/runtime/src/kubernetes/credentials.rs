//! Where the API server is, and as whom the daemon speaks to it: by the service account of its own Pod, or by a kubeconfig.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};
use yaml_rust2::{Yaml, YamlLoader};

use crate::RuntimeError;
use warmpool_config::Config;
use warmpool_core::secret::Secret;

/// What every Pod with a service account finds.
const ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// The API server, and how to speak to it.
pub(super) struct Credentials {
    /// As `https://host:port`.
    pub server: String,
    pub tls: ClientConfig,
    pub token: Token,
    /// The namespace that is used where the configuration names none.
    pub namespace: String,
}

/// What is said of the caller in each request.
pub(super) enum Token {
    /// Nothing: a client certificate does.
    None,
    Fixed(Secret),
    /// A file that is written anew before its content expires.
    File(PathBuf),
}

impl Credentials {
    /// Reads what `config` names.
    /// Errors: `Credentials`.
    pub(super) fn load(config: &Config) -> Result<Self, RuntimeError> {
        match &config.kubernetes.kubeconfig {
            Some(path) => Self::from_file(path, config.kubernetes.context.as_deref()),
            None => Self::of_this_pod(Path::new(ACCOUNT)),
        }
    }

    fn of_this_pod(account: &Path) -> Result<Self, RuntimeError> {
        let unusable = |why: String| RuntimeError::Credentials { path: account.display().to_string(), why };
        let host = env::var("KUBERNETES_SERVICE_HOST").ok().filter(|host| !host.is_empty());
        let port = env::var("KUBERNETES_SERVICE_PORT").unwrap_or_else(|_| "443".to_owned());
        let host = host.ok_or_else(|| {
            unusable("this process runs in no Pod of a cluster: name a file in kubernetes.kubeconfig".to_owned())
        })?;
        let host = if host.contains(':') { format!("[{host}]") } else { host };
        let read = |name: &str| {
            let path = account.join(name);
            fs::read_to_string(&path).map_err(|error| {
                unusable(format!("{}: {error}: give the daemon's Pod a service account and its token", path.display()))
            })
        };
        let authority = read("ca.crt")?;
        read("token")?;
        let namespace = read("namespace")?.trim().to_owned();
        let tls = tls(Some(authority.as_bytes()), None).map_err(unusable)?;
        Ok(Self { server: format!("https://{host}:{port}"), tls, token: Token::File(account.join("token")), namespace })
    }

    fn from_file(path: &Path, context: Option<&str>) -> Result<Self, RuntimeError> {
        let unusable = |why: String| RuntimeError::Credentials { path: path.display().to_string(), why };
        let text = fs::read_to_string(path).map_err(|error| unusable(error.to_string()))?;
        Self::from_text(&text, path.parent().unwrap_or(Path::new("")), context).map_err(unusable)
    }

    fn from_text(text: &str, folder: &Path, context: Option<&str>) -> Result<Self, String> {
        let documents = YamlLoader::load_from_str(text).map_err(|error| format!("it is not YAML: {error}"))?;
        let file = documents.first().ok_or("it is empty")?;
        let context = match context {
            Some(context) => context,
            None => {
                string(&file["current-context"]).ok_or("it has no current-context: name one in kubernetes.context")?
            }
        };
        let context = &named(file, "contexts", context, "context")?["context"];
        let part = |name: &str| string(&context[name]).ok_or(format!("its context names no {name}"));
        let cluster = &named(file, "clusters", part("cluster")?, "cluster")?["cluster"];
        let user = &named(file, "users", part("user")?, "user")?["user"];
        let server = string(&cluster["server"]).ok_or("its cluster has no server")?.trim_end_matches('/').to_owned();
        if cluster["insecure-skip-tls-verify"].as_bool() == Some(true) {
            return Err("insecure-skip-tls-verify would let anybody be the API server: name its \
                        certificate-authority instead"
                .to_owned());
        }
        for program in ["exec", "auth-provider", "username"] {
            if !user[program].is_badvalue() {
                return Err(format!(
                    "its user has `{program}`, which is not supported: make a service account, and write its token or \
                     tokenFile instead"
                ));
            }
        }
        // To leave one of these out would reach another server, or be another user, than the file says.
        for (entry, whose, name, remedy) in [
            (cluster, "cluster", "proxy-url", "let the daemon reach the API server itself"),
            (cluster, "cluster", "tls-server-name", "name the API server in `server` as its certificate does"),
            (user, "user", "as", "name the user itself"),
            (user, "user", "as-uid", "name the user itself"),
            (user, "user", "as-groups", "name a user of these groups"),
            (user, "user", "as-user-extra", "name the user itself"),
        ] {
            if !entry[name].is_badvalue() {
                return Err(format!("its {whose} has `{name}`, which is not supported: {remedy}"));
            }
        }
        let authority = bytes(cluster, "certificate-authority", folder)?;
        let certificate = bytes(user, "client-certificate", folder)?;
        let key = bytes(user, "client-key", folder)?;
        let token = match (string(&user["token"]), string(&user["tokenFile"])) {
            (_, Some(file)) => Token::File(folder.join(file)),
            (Some(token), None) => Token::Fixed(Secret::new(token.to_owned())),
            (None, None) => Token::None,
        };
        if matches!(token, Token::None) && certificate.is_none() && server.starts_with("https:") {
            return Err("its user has neither token, tokenFile nor client-certificate".to_owned());
        }
        let identity = certificate.as_deref().zip(key.as_deref());
        let tls = tls(authority.as_deref(), identity)?;
        let namespace = string(&context["namespace"]).unwrap_or("default").to_owned();
        Ok(Self { server, tls, token, namespace })
    }
}

fn string(value: &Yaml) -> Option<&str> {
    value.as_str().filter(|text| !text.is_empty())
}

/// The entry of a list that has this name.
fn named<'a>(file: &'a Yaml, list: &str, name: &str, what: &str) -> Result<&'a Yaml, String> {
    let entries = file[list].as_vec().map(Vec::as_slice).unwrap_or_default();
    let found = entries.iter().find(|entry| entry["name"].as_str() == Some(name));
    found.ok_or_else(|| {
        let known: Vec<&str> = entries.iter().filter_map(|entry| entry["name"].as_str()).collect();
        format!("it has no {what} `{name}`, of {}", if known.is_empty() { "none".to_owned() } else { known.join(", ") })
    })
}

/// What stands in the entry itself, in base64, or in the file that it names.
fn bytes(entry: &Yaml, name: &str, folder: &Path) -> Result<Option<Vec<u8>>, String> {
    let data = format!("{name}-data");
    if let Some(text) = string(&entry[data.as_str()]) {
        return STANDARD.decode(text.trim()).map(Some).map_err(|_| format!("its {data} is not base64"));
    }
    let Some(file) = string(&entry[name]) else { return Ok(None) };
    let path = folder.join(file);
    fs::read(&path).map(Some).map_err(|error| format!("its {name} {}: {error}", path.display()))
}

/// TLS that trusts this authority, or the system's, with this certificate and key of ours.
fn tls(authority: Option<&[u8]>, identity: Option<(&[u8], &[u8])>) -> Result<ClientConfig, String> {
    let mut roots = RootCertStore::empty();
    match authority {
        Some(pem) => {
            for certificate in CertificateDer::pem_slice_iter(pem) {
                let certificate = certificate.map_err(|error| format!("the cluster's authority: {error}"))?;
                roots.add(certificate).map_err(|error| format!("the cluster's authority: {error}"))?;
            }
        }
        None => {
            let _ = roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
    }
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots);
    let Some((certificate, key)) = identity else { return Ok(builder.with_no_client_auth()) };
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(certificate).collect();
    let chain = chain.map_err(|error| format!("its client-certificate: {error}"))?;
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| format!("its client-key: {error}"))?;
    builder.with_client_auth_cert(chain, key).map_err(|error| format!("its client-certificate and client-key: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = r#"
apiVersion: v1
kind: Config
current-context: near
clusters:
  - name: one
    cluster: { server: "https://10.0.0.1:6443/" }
contexts:
  - { name: near, context: { cluster: one, user: pool, namespace: browsers } }
  - { name: far, context: { cluster: two, user: pool } }
users:
  - name: pool
    user:
      token: abc
"#;

    fn load(text: &str, context: Option<&str>) -> Result<Credentials, String> {
        Credentials::from_text(text, Path::new("/nowhere"), context)
    }

    #[test]
    fn a_kubeconfig_names_server_namespace_and_token() {
        let found = load(FILE, None).unwrap_or_else(|why| panic!("{why}"));
        assert_eq!((found.server.as_str(), found.namespace.as_str()), ("https://10.0.0.1:6443", "browsers"));
        assert!(matches!(&found.token, Token::Fixed(token) if token.expose() == "abc"));
        let file = load(&FILE.replace("token: abc", "tokenFile: token"), None).unwrap_or_else(|why| panic!("{why}"));
        assert!(matches!(&file.token, Token::File(path) if path == Path::new("/nowhere/token")));
    }

    #[test]
    fn what_cannot_be_used_says_what_it_is() {
        for (from, to, context, said) in [
            ("", "", Some("away"), "no context `away`, of near, far"),
            ("", "", Some("far"), "no cluster `two`, of one"),
            ("token: abc", "exec: { command: gcloud }", None, "`exec`, which is not supported"),
            ("token: abc", "other: abc", None, "neither token"),
            ("token: abc", "client-certificate: c.pem", None, "c.pem"),
            ("token: abc", "client-certificate-data: '%'", None, "not base64"),
            ("server: ", "proxy-url: \"http://p:3128\", server: ", None, "its cluster has `proxy-url`"),
            ("server: ", "tls-server-name: api, server: ", None, "its cluster has `tls-server-name`"),
            ("token: abc", "as: admin\n      token: abc", None, "its user has `as`"),
            ("token: abc", "as-groups: [g]\n      token: abc", None, "its user has `as-groups`"),
            ("server: ", "insecure-skip-tls-verify: true, server: ", None, "let anybody be the API server"),
            ("current-context", "other", None, "no current-context"),
            ("apiVersion: v1", "a: [", None, "not YAML"),
        ] {
            let why = load(&FILE.replacen(from, to, 1), context).err().unwrap_or_default();
            assert!(why.contains(said), "{to}: {why}");
        }
    }
}
