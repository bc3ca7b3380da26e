//! Containers that render scenes: the same fence as a worker's and no network at all. The daemon speaks to the program
//! inside by its standard input and output.

use std::collections::HashMap;
use std::pin::Pin;

use bollard::container::LogOutput;
use bollard::models::{ContainerCreateBody, HostConfig, HostConfigLogConfig};
use bollard::query_parameters::{
    AttachContainerOptionsBuilder, CreateContainerOptionsBuilder, ListContainersOptionsBuilder, StartContainerOptions,
};
use bytes::Bytes;
use futures_util::stream::{BoxStream, StreamExt as _};
use tokio::io::AsyncWrite;

use super::profile::Limits;
use super::{Docker, container_name};
use crate::client::{CallError, refused, status};
use crate::{LABEL_INSTANCE, LABEL_RENDERER, LABEL_WORKER, RuntimeError};
use warmpool_core::ids::WorkerId;

/// Beside other containers, a renderer gets this much of a busy processor; 1024 is what each of them gets.
const CPU_SHARES: i64 = 64;
/// Shared memory of a renderer, which uses none.
const SHM: u64 = 16 << 20;

/// A renderer's standard input, and what comes from its standard output. The program ends when its input does.
pub struct RendererPipes {
    pub input: Pin<Box<dyn AsyncWrite + Send>>,
    pub output: BoxStream<'static, Result<Bytes, RuntimeError>>,
}

impl Docker {
    /// Makes and starts a renderer's container. It ends with the connection that the pipes are; who reads from them limits
    /// the wait.
    /// Errors: [`RuntimeError`]; the caller removes what may have been made.
    pub async fn start_renderer(&self, worker: &WorkerId) -> Result<RendererPipes, RuntimeError> {
        let settings = &self.inner.config.world;
        let client = self.client().await?;
        let name = &container_name(worker);
        let limits = Limits {
            memory: settings.memory.bytes(),
            shm: SHM,
            tmp: settings.tmp.bytes(),
            pids: settings.pids,
            cpus: settings.cpus,
        };
        let host = HostConfig {
            network_mode: Some("none".to_owned()),
            cpu_shares: Some(CPU_SHARES),
            // What it says is pictures of patients' belongings: nothing of it goes to the host's disk.
            log_config: Some(HostConfigLogConfig { typ: Some("none".to_owned()), config: None }),
            ..self.hardened(&limits)
        };
        let body = ContainerCreateBody {
            image: Some(settings.image.clone()),
            hostname: Some("renderer".to_owned()),
            user: Some("1000:1000".to_owned()),
            labels: Some(HashMap::from([
                (LABEL_INSTANCE.to_owned(), self.inner.instance.clone()),
                (LABEL_WORKER.to_owned(), worker.to_string()),
                (LABEL_RENDERER.to_owned(), self.inner.process.clone()),
            ])),
            attach_stdin: Some(true),
            attach_stdout: Some(true),
            attach_stderr: Some(true),
            open_stdin: Some(true),
            // Its input ends with our connection: a renderer outlives no daemon.
            stdin_once: Some(true),
            host_config: Some(host),
            ..Default::default()
        };
        let options = CreateContainerOptionsBuilder::default().name(name).build();
        match client.work(|engine| async move { engine.create_container(Some(options), body).await }).await {
            Ok(_) => {}
            Err(error) if status(&error) == Some(404) => return Err(RuntimeError::NoImage(settings.image.clone())),
            Err(error) => return Err(refused("create a container", error)),
        }
        // Before the start, so that nothing it says is lost.
        let options =
            AttachContainerOptionsBuilder::default().stdin(true).stdout(true).stderr(true).stream(true).build();
        let attached = client
            .work(|engine| async move { engine.attach_container(name, Some(options)).await })
            .await
            .map_err(|error| refused("attach to a container", error))?;
        client
            .work(|engine| async move { engine.start_container(name, None::<StartContainerOptions>).await })
            .await
            .map_err(|error| refused("start a container", error))?;
        let output = attached.output.filter_map(|part| async {
            match part {
                Ok(LogOutput::StdOut { message }) => Some(Ok(message)),
                // What a renderer complains of may quote what it was given.
                Ok(_) => None,
                Err(error) => Some(Err(refused("read from a container", CallError::from(error)))),
            }
        });
        Ok(RendererPipes { input: attached.input, output: output.boxed() })
    }

    /// The renderers of this instance that an earlier process has left, running or not.
    /// Errors: [`RuntimeError`] when the engine cannot be asked.
    pub async fn left_renderers(&self) -> Result<Vec<WorkerId>, RuntimeError> {
        let client = self.client().await?;
        let labels = vec![format!("{LABEL_INSTANCE}={}", self.inner.instance), LABEL_RENDERER.to_owned()];
        let filters = HashMap::from([("label".to_owned(), labels)]);
        let options = ListContainersOptionsBuilder::default().all(true).filters(&filters).build();
        let found = client.look(|engine| async move { engine.list_containers(Some(options)).await }).await;
        let found = found.map_err(|error| refused("list the containers", error))?;
        let is_left =
            |labels: &HashMap<String, String>| labels.get(LABEL_RENDERER).is_some_and(|by| *by != self.inner.process);
        let left = found.into_iter().filter_map(|container| container.labels.filter(is_left));
        Ok(left.filter_map(|labels| Some(WorkerId::from(labels.get(LABEL_WORKER)?.as_str()))).collect())
    }
}
