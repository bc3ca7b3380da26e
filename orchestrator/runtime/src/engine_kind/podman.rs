//! What Podman says of itself by its own interface, since by Docker's it tells of the host's limits, also where it may set none; and
//! its list of containers, in Docker's words.

use std::collections::HashMap;

use bollard::models::ContainerSummary;
use bytes::Bytes;
use http::{Method, StatusCode};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use serde_json::Value;

use crate::RuntimeError;
use crate::client::Client;
use warmpool_protocol::WORKER_USER;

/// The part of `/libpod/info` that matters here.
#[derive(Debug, Deserialize)]
struct Info {
    host: HostInfo,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct HostInfo {
    #[serde(default)]
    cgroup_controllers: Option<Vec<String>>,
    security: Security,
    #[serde(default)]
    id_mappings: Mappings,
}

#[derive(Debug, Deserialize)]
struct Security {
    rootless: bool,
}

#[derive(Debug, Default, Deserialize)]
struct Mappings {
    uidmap: Option<Vec<Mapping>>,
    gidmap: Option<Vec<Mapping>>,
}

#[derive(Debug, Deserialize)]
struct Mapping {
    container_id: u64,
    size: u64,
}

/// What Podman can do here.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct PodmanFacts {
    /// Whether it runs without root's rights.
    pub rootless: bool,
    /// Whether a container can have the worker's user.
    pub has_worker_user: bool,
    controllers: Vec<String>,
}

impl PodmanFacts {
    /// Asks for them.
    /// Errors: [`RuntimeError`].
    pub(crate) async fn ask(client: &Client) -> Result<Self, RuntimeError> {
        const ACTION: &str = "describe itself";
        let (status, body) = client.ask(client.request(Method::GET, "/libpod/info"), Bytes::new()).await?;
        if status != StatusCode::OK {
            return Err(RuntimeError::refused(ACTION, String::from_utf8_lossy(&body)));
        }
        Self::read(&body).map_err(|error| RuntimeError::refused(ACTION, format!("its answer: {error}")))
    }

    fn read(body: &[u8]) -> Result<Self, serde_json::Error> {
        let HostInfo { cgroup_controllers, security, id_mappings } = serde_json::from_slice::<Info>(body)?.host;
        let has_worker = |map: Option<Vec<Mapping>>| {
            // Without root's rights, ids are those that the user was given.
            let map = map.unwrap_or_default();
            !security.rootless
                || map.iter().any(|part| {
                    (part.container_id..part.container_id.saturating_add(part.size)).contains(&u64::from(WORKER_USER))
                })
        };
        Ok(Self {
            rootless: security.rootless,
            has_worker_user: has_worker(id_mappings.uidmap) && has_worker(id_mappings.gidmap),
            controllers: cgroup_controllers.unwrap_or_default(),
        })
    }

    /// Whether this Podman may use a controller of control groups, such as `memory`.
    pub(crate) fn controls(&self, controller: &str) -> bool {
        self.controllers.iter().any(|found| found == controller)
    }
}

/// Lists the containers that these filters let through, in whatever state.
/// Errors: [`RuntimeError`].
pub(crate) async fn list_containers(
    client: &Client,
    filters: &HashMap<String, Vec<String>>,
) -> Result<Vec<ContainerSummary>, RuntimeError> {
    const ACTION: &str = "list the containers";
    let filters = serde_json::to_string(filters).map_err(|error| RuntimeError::refused(ACTION, error.to_string()))?;
    let path = format!("/containers/json?all=true&filters={}", utf8_percent_encode(&filters, NON_ALPHANUMERIC));
    let (status, body) = client.ask(client.request(Method::GET, &path), Bytes::new()).await?;
    if status != StatusCode::OK {
        return Err(RuntimeError::refused(ACTION, String::from_utf8_lossy(&body)));
    }
    summaries(&body).map_err(|error| RuntimeError::refused(ACTION, format!("its answer: {error}")))
}

/// Docker knows no state `stopped`, in which Podman has a container that has ended until it has cleaned up behind it.
fn summaries(body: &[u8]) -> Result<Vec<ContainerSummary>, serde_json::Error> {
    let mut listed: Vec<Value> = serde_json::from_slice(body)?;
    for container in &mut listed {
        if container["State"] == "stopped" {
            container["State"] = "exited".into();
        }
    }
    listed.into_iter().map(serde_json::from_value).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_container_that_ends_spoils_no_list() {
        use bollard::models::ContainerSummaryStateEnum::{EXITED, RUNNING};
        let listed = summaries(br#"[{"Id":"a","State":"running"},{"Id":"b","State":"stopped"}]"#).unwrap();
        assert_eq!(listed.iter().filter_map(|container| container.state).collect::<Vec<_>>(), [RUNNING, EXITED]);
        assert!(summaries(b"[{").is_err());
    }

    #[test]
    fn limits_and_users_are_what_the_user_may_have() {
        let rootful = br#"{"host":{"cgroupControllers":["cpu","memory","pids"],"security":{"rootless":false},
            "idMappings":{"gidmap":null,"uidmap":null}},"version":{}}"#;
        let facts = PodmanFacts::read(rootful).unwrap();
        assert!(!facts.rootless && facts.has_worker_user && facts.controls("memory") && !facts.controls("io"));
        let rootless = |size: u64| {
            let map = format!(
                r#"[{{"container_id":0,"host_id":1001,"size":1}},{{"container_id":1,"host_id":100000,"size":{size}}}]"#
            );
            let text = format!(
                r#"{{"host":{{"cgroupControllers":[],"security":{{"rootless":true}},
                    "idMappings":{{"gidmap":{map},"uidmap":{map}}}}}}}"#
            );
            PodmanFacts::read(text.as_bytes()).unwrap()
        };
        let facts = rootless(65536);
        assert!(facts.rootless && facts.has_worker_user && !facts.controls("memory"));
        assert!(!rootless(60_999).has_worker_user && rootless(61_000).has_worker_user);
    }
}
