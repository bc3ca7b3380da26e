//! Containers that render scenes: hardened like a worker's, and without any network. The daemon speaks to the program
//! inside by its standard input and output.

use std::pin::Pin;

use bollard::container::LogOutput;
use bollard::models::{ContainerCreateBody, HostConfig, HostConfigLogConfig};
use bollard::query_parameters::AttachContainerOptionsBuilder;
use bytes::Bytes;
use futures_util::stream::{BoxStream, StreamExt as _};
use tokio::io::AsyncWrite;

use super::Docker;
use super::profile::{Limits, user};
use crate::client::CallError;
use crate::container::container_name;
use crate::labels::{self, labels};
use crate::{RendererId, RuntimeError};

/// The weight of a renderer on a busy processor, where every other container has 1024.
const CPU_SHARES: i64 = 64;
/// Shared memory of a renderer, which uses none.
const SHM: u64 = 16 << 20;

/// A renderer's standard input, and what comes from its standard output. The program ends when its input does.
pub struct RendererPipes {
    /// Where the program reads its jobs.
    pub input: Pin<Box<dyn AsyncWrite + Send>>,
    /// What the program prints; an error where the connection breaks.
    pub output: BoxStream<'static, Result<Bytes, RuntimeError>>,
}

impl Docker {
    /// Creates and starts a renderer's container, and attaches to its pipes.
    pub(super) async fn attach_renderer(&self, renderer: &RendererId) -> Result<RendererPipes, RuntimeError> {
        let settings = &self.config.world;
        let name = &container_name(renderer);
        let limits = Limits {
            memory: settings.memory.bytes(),
            swap: 0,
            shm: SHM,
            tmp: settings.tmp.bytes(),
            pids: settings.pids,
            cpus: settings.cpus,
        };
        let kind = self.client().await?.kind();
        let host = HostConfig {
            network_mode: Some("none".to_owned()),
            cpu_shares: Some(CPU_SHARES),
            // What it says is pictures of patients' belongings: nothing of it goes to the host's disk.
            log_config: Some(HostConfigLogConfig { typ: Some("none".to_owned()), config: None }),
            ..self.hardened(kind, &limits)?
        };
        let body = ContainerCreateBody {
            image: Some(settings.image.clone()),
            hostname: Some("renderer".to_owned()),
            user: Some(user()),
            labels: Some(labels([
                (labels::INSTANCE, &self.instance),
                (labels::WORKER, renderer.as_str()),
                (labels::RENDERER, &self.process),
            ])),
            attach_stdin: Some(true),
            attach_stdout: Some(true),
            attach_stderr: Some(true),
            open_stdin: Some(true),
            // Its input ends with our connection: a renderer outlives no daemon.
            stdin_once: Some(true),
            stop_timeout: kind.removal_wait(),
            // Docker would look after a network that has nobody on it.
            network_disabled: Some(true),
            host_config: Some(host),
            ..Default::default()
        };
        match self.create_container(name, body).await {
            Err(error) if error.status() == Some(404) => return Err(RuntimeError::NoImage(settings.image.clone())),
            made => made?,
        }
        // Before the start, so that nothing it says is lost.
        let options =
            AttachContainerOptionsBuilder::default().stdin(true).stdout(true).stderr(true).stream(true).build();
        let attach = async move |engine: bollard::Docker| engine.attach_container(name, Some(options)).await;
        let attached = self.work("attach to a container", attach).await?;
        self.start_container(name).await?;
        let output = attached.output.filter_map(|part| async {
            match part {
                Ok(LogOutput::StdOut { message }) => Some(Ok(message)),
                // What a renderer complains of may quote what it was given.
                Ok(_) => None,
                Err(source) => Some(Err(CallError::Engine { action: "read from a container", source }.into())),
            }
        });
        Ok(RendererPipes { input: attached.input, output: output.boxed() })
    }
}
