//! Pods that render scenes: as a worker's, and reached by TCP.
//!
//! What a Pod prints, its node keeps in a file, and what a renderer prints is pictures of patients' belongings. So the first process of
//! the Pod gives the program the daemon's connection as its input and output. Before that it leaves the Pod's network, as an
//! agent does, and ends where it cannot. The Pod's description has a hash of the secret alone, so that reading it opens nothing.

use std::io;
use std::net::SocketAddr;
use std::slice;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::{self, StreamExt as _};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::net::tcp::OwnedReadHalf;
use tokio::time::{sleep, timeout};

use super::Kubernetes;
use super::objects::Node;
use super::pod::{self, Owner};
use super::start::Start;
use super::{access, nodes};
use crate::container::hex_name;
use crate::{AgentAddress, ContainerRuntime as _, RendererId, RendererPipes, RuntimeError, WorkerLocation, labels};
use warmpool_config::PullPolicy;
use warmpool_core::ids::{WorkerId, random_bytes};
use warmpool_protocol::PORT;

/// The Pod's first process.
const PROGRAM: &str = include_str!("renderer.py");
/// How long that takes to listen.
const CONNECT: Duration = Duration::from_secs(15);
/// Between two tries to connect.
const AGAIN: Duration = Duration::from_millis(50);
/// How much of what a renderer says is read at once, in bytes.
const PART: usize = 64 << 10;

impl Kubernetes {
    /// Starts a renderer's Pod, and connects to it.
    pub(super) async fn connect_renderer(&self, renderer: &RendererId) -> Result<RendererPipes, RuntimeError> {
        let named = &self.config.world.image;
        let image = self.image_id(named).await?;
        let all = self.list_nodes().await?;
        // One that is not pulled runs where it is.
        let lacks_image = |node: &Node| !nodes::is_pullable(&image) && !nodes::is_there(slice::from_ref(node), named);
        let away = all.iter().filter(|node| self.kept_away(node).is_some() || lacks_image(node));
        let away: Vec<String> = away.map(|node| node.metadata.name.clone()).collect();
        let secret = hex::encode(random_bytes::<32>());
        let name = name(renderer);
        let owner = self.owner.lock().clone();
        self.create_pod(&self.renderer_pod(renderer, &image, &hash(&secret), &away, owner.as_ref())).await?;
        let address = match self.started(&name, &image).await? {
            Start::Running(WorkerLocation { address: AgentAddress::Tcp(address), .. }) => address,
            Start::Running(_) => return Err(RuntimeError::refused("start a renderer", "its Pod has no address")),
            Start::Refused { why, .. } if is_without_image(&why) => {
                tracing::warn!(image = named, why, "no node gets the image of the renderers");
                return Err(RuntimeError::NoImage(named.clone()));
            }
            Start::Refused { node, why } => {
                return Err(RuntimeError::refused("start a renderer", format!("node {node}: {why}")));
            }
        };
        let broken = |error: io::Error| RuntimeError::Unreachable(format!("a renderer at {address}: {error}"));
        let silent = |_| RuntimeError::Unreachable(format!("a renderer at {address} does not listen"));
        let mut stream = timeout(CONNECT, connect(address)).await.map_err(silent)?;
        timeout(CONNECT, stream.write_all(secret.as_bytes())).await.map_err(silent)?.map_err(broken)?;
        let (read, write) = stream.into_split();
        Ok(RendererPipes { input: Box::pin(write), output: parts(read).boxed() })
    }

    /// Removes a renderer's Pod.
    pub(super) async fn delete_renderer(&self, renderer: &RendererId) -> Result<(), RuntimeError> {
        self.delete_pod(&name(renderer)).await
    }

    /// The renderers that another process of this instance left.
    pub(super) async fn renderers_of_others(&self) -> Result<Vec<RendererId>, RuntimeError> {
        let labels = format!("{},{}", labels::owned_by(&self.instance), labels::RENDERER);
        let pods = self.api()?.list::<super::objects::Pod>(access::LIST_PODS, &labels).await?.items;
        let left = pods
            .into_iter()
            .filter(|pod| !pod.is_going())
            .filter(|pod| pod.metadata.labels.get(labels::RENDERER).is_some_and(|process| *process != *self.process));
        Ok(left.filter_map(|pod| Some(RendererId::from(pod.metadata.labels.get(labels::WORKER)?.as_str()))).collect())
    }

    /// Whether a renderer may start: a node has the image, or may pull it from the registry in its name.
    pub(super) async fn gets_renderer_image(&self) -> Result<bool, RuntimeError> {
        let name = &self.config.world.image;
        if nodes::names_registry(name) && self.config.kubernetes.pull_policy != PullPolicy::Never {
            return Ok(true);
        }
        Ok(nodes::is_there(&self.list_nodes().await?, name))
    }

    fn renderer_pod(
        &self,
        renderer: &RendererId,
        image: &str,
        expected: &str,
        left_out: &[String],
        owner: Option<&Owner>,
    ) -> Value {
        let (config, world) = (&self.config, &self.config.world);
        let labels = json!({
            labels::INSTANCE: &*self.instance,
            labels::WORKER: renderer.as_str(),
            labels::RENDERER: &*self.process,
            pod::LABEL_ROLE: pod::RENDERER,
        });
        let sizes = pod::Sizes { memory: world.memory.bytes(), tmp: world.tmp.bytes(), shm: SHM, cpus: world.cpus };
        let mut container = pod::container(config, image, &sizes, Some(RESERVED));
        let seconds = config.kubernetes.start_timeout.as_secs().max(60);
        container["command"] = json!(["python3", "-c", PROGRAM, PORT.to_string(), expected, seconds.to_string()]);
        let mut pod = pod::pod(config, &name(renderer), labels, owner, &sizes, container);
        pod["spec"]["hostname"] = json!("renderer");
        pod::leave_out(&mut pod, left_out);
        pod
    }
}

/// Shared memory of a renderer, which uses none.
const SHM: u64 = 16 << 20;
/// Cores that a renderer requests of its node: it takes what nobody else wants.
const RESERVED: f64 = 0.1;

fn name(renderer: &RendererId) -> String {
    hex_name(&WorkerId::from(renderer.as_str()))
}

fn hash(secret: &str) -> String {
    hex::encode(Sha256::digest(secret))
}

/// Whether these words of a kubelet mean that it has no image.
fn is_without_image(why: &str) -> bool {
    ["ErrImage", "ImagePull", "InvalidImageName", "ErrImageNeverPull"].iter().any(|reason| why.starts_with(reason))
}

/// Connects as soon as something listens.
async fn connect(address: SocketAddr) -> TcpStream {
    loop {
        if let Ok(stream) = TcpStream::connect(address).await {
            let _ = stream.set_nodelay(true);
            // A node that is lost says nothing: then the connection ends after a minute.
            let alive = TcpKeepalive::new()
                .with_time(Duration::from_secs(30))
                .with_interval(Duration::from_secs(10))
                .with_retries(3);
            let _ = SockRef::from(&stream).set_tcp_keepalive(&alive);
            return stream;
        }
        sleep(AGAIN).await;
    }
}

/// What comes from a renderer, until it ends.
fn parts(read: OwnedReadHalf) -> impl futures_util::Stream<Item = Result<Bytes, RuntimeError>> {
    stream::unfold(Some(read), |read| async {
        let mut read = read?;
        let mut part = vec![0; PART];
        match read.read(&mut part).await {
            Ok(0) => None,
            Ok(length) => {
                part.truncate(length);
                Some((Ok(Bytes::from(part)), Some(read)))
            }
            Err(error) => Some((Err(RuntimeError::Unreachable(format!("a renderer's connection: {error}"))), None)),
        }
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use warmpool_config::{Config, Flags, Host};

    fn cluster() -> Kubernetes {
        let flags = Flags::default().with("kubernetes.enabled", "true").with("world.memory", "2GiB");
        let host = Host { memory: 8 << 30, cores: 2, root: true, ..Host::default() };
        Kubernetes::new(Arc::new(Config::resolve(None, [], &flags, &host).unwrap()), "0a1b".to_owned())
    }

    #[test]
    fn a_renderer_is_as_walled_in_as_a_worker() {
        let renderer = RendererId::from("r1");
        let pod =
            cluster().renderer_pod(&renderer, "r.example/scene:1", &hash("open sesame"), &["n2".to_owned()], None);
        let (spec, container) = (&pod["spec"], &pod["spec"]["containers"][0]);
        assert_eq!(spec["securityContext"]["runAsUser"], 61_000);
        assert_eq!(spec["securityContext"]["seccompProfile"]["type"], "Localhost");
        assert_eq!(spec["automountServiceAccountToken"], false);
        assert_eq!(container["securityContext"]["capabilities"]["drop"], json!(["ALL"]));
        assert_eq!(container["securityContext"]["readOnlyRootFilesystem"], true);
        assert_eq!(container["resources"]["limits"]["memory"], (2_u64 << 30).to_string());
        assert_eq!(container["resources"]["limits"]["cpu"], "2000m");
        assert_eq!(container["resources"]["requests"]["cpu"], "100m");
        let size = |name: &str| {
            let volumes = spec["volumes"].as_array().unwrap();
            volumes.iter().find(|volume| volume["name"] == name).unwrap()["emptyDir"]["sizeLimit"].clone()
        };
        assert_eq!((size("shm"), size("tmp")), (json!(SHM.to_string()), json!((256_u64 << 20).to_string())));
        assert_eq!(pod["metadata"]["labels"]["warmpool.role"], "renderer");
        assert!(pod["spec"]["affinity"].to_string().contains("n2"), "{pod}");
        // Who reads the Pod does not learn what opens it.
        assert!(!pod.to_string().contains("open sesame") && pod.to_string().contains(&hash("open sesame")));
    }

    #[test]
    fn an_image_that_nobody_gets_is_no_reason_to_wait() {
        assert!(is_without_image("ErrImageNeverPull: no") && is_without_image("ImagePullBackOff: back-off"));
        assert!(!is_without_image("CreateContainerError: no"));
    }
}
