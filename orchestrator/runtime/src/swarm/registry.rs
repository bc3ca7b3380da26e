//! A registry that asks for a password: the daemon hands it to Swarm with each service, and Swarm to the node that fetches the
//! image.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE;
use bollard::models::ServiceSpec;
use bytes::Bytes;
use http::{Method, StatusCode};
use serde_json::{Value, json};

use super::Swarm;
use crate::RuntimeError;
use warmpool_core::secret::Secret;

/// The header of a request to the engine. bollard would write it in the other of base64's alphabets, which engines do not read.
const HEADER: &str = "X-Registry-Auth";

impl Swarm {
    /// Returns the credentials for the registry of this image; none where no settings name it. It reads the password anew each
    /// time, so that it can be changed.
    /// Errors: `RegistryPassword`.
    pub(super) async fn credentials(&self, image: &str) -> Result<Option<Secret>, RuntimeError> {
        let settings = &self.config.swarm;
        let (Some(registry), Some(user), Some(file)) =
            (&settings.registry, &settings.registry_user, &settings.registry_password_file)
        else {
            return Ok(None);
        };
        if image.split_once('/').is_none_or(|(host, _)| host != registry) {
            return Ok(None);
        }
        let failed = |why: String| RuntimeError::RegistryPassword { path: file.display().to_string(), why };
        let text = tokio::fs::read_to_string(file).await.map_err(|error| failed(error.to_string()))?;
        match text.trim() {
            "" => Err(failed("it is empty".to_owned())),
            password => Ok(Some(encode(registry, user, password))),
        }
    }

    /// Creates a service whose node may fetch the image with these credentials. Returns whether its name was free.
    pub(super) async fn create_with(&self, service: &ServiceSpec, credentials: &Secret) -> Result<bool, RuntimeError> {
        let body = serde_json::to_vec(service).unwrap_or_default();
        let (status, answer) = self.ask(Method::POST, "/services/create", body.into(), credentials).await?;
        match status {
            StatusCode::CREATED => Ok(true),
            StatusCode::CONFLICT => Ok(false),
            _ => Err(RuntimeError::refused("make a service", message(&answer))),
        }
    }

    /// Returns why the registry refuses the credentials; none where it accepts them, or none are set. A node says only
    /// that it has no such image.
    pub(super) async fn refused_by_registry(&self, image: &str) -> Option<String> {
        let credentials = self.credentials(image).await.ok()??;
        let path = format!("/distribution/{image}/json");
        let (status, answer) = self.ask(Method::GET, &path, Bytes::new(), &credentials).await.ok()?;
        (status != StatusCode::OK).then(|| {
            format!(
                "the registry answers `{}`: check swarm.registry_user and swarm.registry_password_file",
                message(&answer)
            )
        })
    }

    async fn ask(
        &self,
        method: Method,
        path: &str,
        body: Bytes,
        credentials: &Secret,
    ) -> Result<(StatusCode, Bytes), RuntimeError> {
        let client = self.host.client().await?;
        let request = client.request(method, path).header("content-type", "application/json");
        client.ask(request.header(HEADER, credentials.expose()), body).await
    }
}

fn encode(registry: &str, user: &str, password: &str) -> Secret {
    let told = json!({ "username": user, "password": password, "serveraddress": registry });
    Secret::new(URL_SAFE.encode(told.to_string()))
}

/// The engine's own words.
fn message(answer: &[u8]) -> String {
    let read: Option<Value> = serde_json::from_slice(answer).ok();
    let words = read.as_ref().and_then(|answer| answer["message"].as_str());
    words.map_or_else(|| String::from_utf8_lossy(answer).into_owned(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_in_the_alphabet_of_engines() {
        let credentials = encode("registry.example:5000", "pool", "word~of?the>pool");
        assert!(!credentials.expose().contains(['+', '/']), "{}", credentials.expose());
        let read: Value = serde_json::from_slice(&URL_SAFE.decode(credentials.expose()).unwrap()).unwrap();
        assert_eq!(read["password"], "word~of?the>pool");
        assert_eq!(format!("{credentials:?}"), "[secret]");
    }

    #[test]
    fn the_engines_words_are_shown() {
        assert_eq!(message(br#"{"message":"unauthorized"}"#), "unauthorized");
        assert_eq!(message(b"no JSON"), "no JSON");
    }
}
