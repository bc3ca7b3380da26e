//! One scene: from the attachments to the pictures, in a renderer of its own.

use std::sync::Arc;
use std::time::Duration;
use warmpool_core::cipher::Cipher;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures_util::StreamExt as _;
use tokio::io::AsyncWriteExt as _;
use tokio::time::{Instant, sleep, timeout};

use super::attachment::normalise;
use super::files::PICTURES;
use super::record::{Content, WorldRecord, picture_file, upload_file};
use super::render_clock::RenderClock;
use super::render_error::RenderError;
use super::scene::{Hotspots, Job, JobBelonging, JobPicture, JobQuality, SceneEvent, SceneEvents};
use super::{LiveWorld, Worlds};
use crate::Error;
use warmpool_api::world::{Direction, ItemKind, Placement};
use warmpool_core::blocking::blocking;
use warmpool_core::drain::Drain;
use warmpool_core::ids::WorldId;
use warmpool_keys::IntegrationKind;
use warmpool_runtime::{ContainerState, NodeLoss, RendererId, RendererPipes, Runtime, RuntimeError};

/// A renderer loads Blender in some seconds.
const START_TIMEOUT: Duration = Duration::from_secs(120);
/// How long the runtime may take to know why a renderer ended.
const END_KNOWN_WITHIN: Duration = Duration::from_secs(10);
/// Between two looks at a renderer that has ended.
const END_POLL: Duration = Duration::from_millis(200);
/// The longest pause between two tries to remove a container.
const REMOVE_BACKOFF_MAX: Duration = Duration::from_secs(10);

/// A renderer's container. Dropped, it is removed.
pub(super) struct Renderer {
    runtime: Runtime,
    drain: Drain,
    container: RendererId,
    pipes: RendererPipes,
    events: SceneEvents,
}

impl Drop for Renderer {
    fn drop(&mut self) {
        remove(self.runtime.clone(), &self.drain, self.container.clone());
    }
}

/// Removes a renderer's container, however long that takes.
pub(super) fn remove(runtime: Runtime, drain: &Drain, container: RendererId) {
    drain.spawn(async move {
        let mut pause = Duration::from_millis(250);
        while let Err(error) = runtime.remove_renderer(&container).await {
            tracing::warn!(worker = %container, %error, "a renderer could not be removed yet");
            sleep(pause).await;
            pause = (pause * 2).min(REMOVE_BACKOFF_MAX);
        }
    });
}

impl Renderer {
    /// Starts a renderer and waits until it can take a job.
    /// Errors: `Runtime`, `Crashed`.
    pub(super) async fn start(runtime: &Runtime, drain: &Drain) -> Result<Self, RenderError> {
        // In a task of its own: a caller who gives up must not leave a container behind that is just being made. What
        // nobody takes is dropped, and so removed.
        let starting = drain.spawn(Self::start_whole(runtime.clone(), drain.clone()));
        starting.await.map_err(|error| RenderError::Crashed(error.to_string()))?
    }

    async fn start_whole(runtime: Runtime, drain: Drain) -> Result<Self, RenderError> {
        let container = RendererId::random();
        let pipes = match runtime.start_renderer(&container).await {
            Ok(pipes) => pipes,
            Err(error) => {
                remove(runtime, &drain, container);
                return Err(error.into());
            }
        };
        let mut renderer = Self { runtime, drain, container, pipes, events: SceneEvents::default() };
        renderer.ready().await?;
        Ok(renderer)
    }

    /// Waits until it can take a job.
    /// Errors: `Crashed`.
    pub(super) async fn ready(&mut self) -> Result<(), RenderError> {
        let begun =
            timeout(START_TIMEOUT, self.next()).await.unwrap_or(Err(RenderError::Crashed("did not start".to_owned())));
        match begun? {
            SceneEvent::Ready => Ok(()),
            other => Err(RenderError::Crashed(format!("began with {other:?}"))),
        }
    }

    async fn send(&mut self, job: &Job<'_>) -> Result<(), RenderError> {
        let mut line = serde_json::to_vec(job).map_err(|error| RenderError::Crashed(error.to_string()))?;
        line.push(b'\n');
        let sent = async {
            self.pipes.input.write_all(&line).await?;
            self.pipes.input.flush().await
        };
        sent.await.map_err(|error| RenderError::Crashed(format!("took no job: {error}")))
    }

    async fn next(&mut self) -> Result<SceneEvent, RenderError> {
        let crashed = |error: &dyn std::fmt::Display| RenderError::Crashed(error.to_string());
        loop {
            if let Some(event) = self.events.next().map_err(|error| crashed(&error))? {
                return Ok(event);
            }
            match self.pipes.output.next().await {
                Some(Ok(bytes)) => self.events.add(&bytes).map_err(|error| crashed(&error))?,
                Some(Err(error)) => return Err(ended(&self.runtime, &self.container, Some(error)).await),
                None => return Err(ended(&self.runtime, &self.container, None).await),
            }
        }
    }
}

impl Worlds {
    /// Renders one world, in `renderer` where one waits. `content` holds what it shows of the patient.
    pub(super) async fn render(
        &self,
        live: &LiveWorld,
        cipher: &Cipher,
        content: &mut Content,
        renderer: Option<Renderer>,
    ) -> Result<(), RenderError> {
        let limit = self.shared.config.world.render_timeout;
        let clock = RenderClock::start(limit);
        tokio::select! {
            biased;
            rendered = self.try_render(live, cipher, content, renderer, &clock) => rendered,
            () = clock.run_out() => Err(RenderError::Slow(limit)),
        }
    }

    async fn try_render(
        &self,
        live: &LiveWorld,
        cipher: &Cipher,
        content: &mut Content,
        renderer: Option<Renderer>,
        clock: &RenderClock,
    ) -> Result<(), RenderError> {
        self.prepare(live, cipher, content, clock).await?;
        let record = live.record();
        let pictures = self.pictures(live, cipher, content).await?;
        // The patient's reference is a keyed hash already; another hash keeps it out of the container.
        let variation = hex::encode(self.shared.instance.fingerprint(&["variation", &content.variation]));
        let seed = hex::encode(self.shared.instance.fingerprint(&["seed", record.patient.as_str(), &variation]));
        let of = |kind: ItemKind| content.items.iter().zip(&pictures).filter(move |(item, _)| item.kind == kind);
        let coded = |picture: &Option<Bytes>| picture.as_ref().map(|bytes| STANDARD.encode(bytes));
        let pictures_of = |kind: ItemKind| {
            of(kind)
                .map(|(item, bytes)| JobPicture { label: &item.label, data: coded(bytes).unwrap_or_default() })
                .collect()
        };
        let samples = self.shared.config.world.samples;
        let job = Job {
            id: "scene",
            seed: &seed,
            environment: record.environment,
            variation: &variation,
            images: pictures_of(ItemKind::Image),
            videos: pictures_of(ItemKind::Video),
            belongings: of(ItemKind::Belonging)
                .map(|(item, picture)| JobBelonging { label: &item.label, data: coded(picture) })
                .collect(),
            preview: JobQuality { width: record.preview_width, samples: None },
            full: JobQuality { width: record.width, samples: (samples > 0).then_some(samples) },
            watermark: record.kind == IntegrationKind::Test,
        };
        let mut renderer = match renderer {
            Some(renderer) => renderer,
            None => Renderer::start(&self.shared.runtime, &self.shared.drain).await?,
        };
        renderer.send(&job).await?;
        let mut made = Vec::new();
        let mut hotspots = None;
        loop {
            match renderer.next().await? {
                SceneEvent::Ready => {}
                SceneEvent::Progress(fraction) => live.progress(fraction),
                SceneEvent::File { name, bytes } => {
                    let name = picture_name(&name, &bytes)?;
                    let put = || self.shared.files.put(cipher, &record.world_id, name, bytes.clone());
                    clock.stand_still(self.patiently(&record.world_id, put)).await?;
                    made.push(name);
                    if made.contains(&"preview.jpg") && made.contains(&"thumbnail.jpg") {
                        live.change(|record| record.preview = true);
                    }
                }
                SceneEvent::Hotspots(found) => {
                    place(content, &found);
                    // The viewer of the preview faces a familiar thing, and draws the pictures on their frames.
                    self.keep_patiently(live, content, clock).await?;
                    hotspots = Some(());
                }
                SceneEvent::Error(message) => return Err(RenderError::Refused(message)),
                SceneEvent::Done => break,
            }
        }
        let missing = PICTURES.iter().find(|(name, _)| !made.contains(name));
        match (missing, hotspots) {
            (None, Some(())) => Ok(()),
            (Some((name, _)), _) => Err(RenderError::Crashed(format!("made no {name}"))),
            (None, None) => Err(RenderError::Crashed("did not say where things are".to_owned())),
        }
    }

    /// Keeps the present content of a world, however long the store takes.
    async fn keep_patiently(&self, live: &LiveWorld, content: &Content, clock: &RenderClock) -> Result<(), Error> {
        let world = live.record().world_id;
        clock.stand_still(self.patiently(&world, || self.keep_content(live, content))).await
    }

    /// Fetches what is to be fetched, and writes every picture anew.
    async fn prepare(
        &self,
        live: &LiveWorld,
        cipher: &Cipher,
        content: &mut Content,
        clock: &RenderClock,
    ) -> Result<(), RenderError> {
        let WorldRecord { world_id: world, owner, .. } = live.record();
        let limits = self.picture_limits();
        for number in 0..content.items.len() {
            let Some(item) = content.items.get(number).cloned() else { break };
            let refused = |problem: String| RenderError::Attachment { field: item.field.clone(), problem };
            let name = picture_file(number);
            if item.file.as_deref() == Some(name.as_str()) {
                continue;
            }
            if !self.was_prepared(cipher, &world, item.file.as_deref(), &name).await? {
                let bytes = match (&item.file, &item.url) {
                    (Some(upload), _) => self.shared.files.get(cipher, &world, upload).await?,
                    (None, Some(url)) => {
                        let url = url.parse().map_err(|_| refused("has an address that cannot be read".to_owned()))?;
                        self.shared
                            .fetcher
                            .fetch(&url, &owner)
                            .await
                            .map_err(|error| refused(format!("cannot be fetched: {error}")))?
                    }
                    (None, None) => continue,
                };
                // One at a time, and none after another that nobody waits for any more: the place goes to the work.
                let alone = Arc::clone(&self.shared.decoding).lock_owned().await;
                let picture = blocking(move || {
                    let picture = normalise(&bytes, limits);
                    drop(alone);
                    Ok(picture)
                })
                .await?;
                let picture = picture.map_err(|error| refused(error.to_string()))?;
                let put = || self.shared.files.put(cipher, &world, &name, picture.clone());
                clock.stand_still(self.patiently(&world, put)).await?;
            }
            if let Some(item) = content.items.get_mut(number) {
                item.file = Some(name);
            }
            // Before what was sent goes: another try, or another process, looks for what the record names.
            self.keep_patiently(live, content, clock).await?;
            self.shared.files.remove(&world, &upload_file(number)).await?;
        }
        Ok(())
    }

    /// Whether an item's picture was written anew, although the record does not say so. A record that comes from a backup is older than
    /// the files: what was sent is gone since, and what was fetched may not be there to be fetched again.
    async fn was_prepared(
        &self,
        cipher: &Cipher,
        world: &WorldId,
        sent: Option<&str>,
        picture: &str,
    ) -> Result<bool, Error> {
        let has = async |name: &str| Ok::<_, Error>(self.shared.files.find(cipher, world, name).await?.is_some());
        Ok(has(picture).await?
            && match sent {
                Some(sent) => !has(sent).await?,
                None => true,
            })
    }

    async fn pictures(
        &self,
        live: &LiveWorld,
        cipher: &Cipher,
        content: &Content,
    ) -> Result<Vec<Option<Bytes>>, Error> {
        let world = live.record().world_id;
        let mut pictures = Vec::with_capacity(content.items.len());
        for item in &content.items {
            pictures.push(match &item.file {
                Some(file) => Some(self.shared.files.get(cipher, &world, file).await?),
                None => None,
            });
        }
        Ok(pictures)
    }

    /// Keeps a renderer ready, if that is wanted.
    pub(super) async fn spare(&self) -> Option<Renderer> {
        if !self.shared.config.world.warm {
            return None;
        }
        match Renderer::start(&self.shared.runtime, &self.shared.drain).await {
            Ok(renderer) => Some(renderer),
            Err(error) => {
                tracing::warn!(%error, "no renderer waits ready");
                None
            }
        }
    }
}

/// Why nothing comes from the renderer any more, as its container's end tells. `broken` is the connection's own word.
async fn ended(runtime: &Runtime, renderer: &RendererId, broken: Option<RuntimeError>) -> RenderError {
    let begun = Instant::now();
    while begun.elapsed() < END_KNOWN_WITHIN {
        let crashed = RenderError::Crashed;
        match runtime.renderer_state(renderer).await {
            Ok(ContainerState::Exited { oom: true, .. }) => return RenderError::OutOfMemory,
            Ok(ContainerState::Exited { code, .. }) => return crashed(format!("ended with code {code}")),
            Ok(ContainerState::Node(NodeLoss::Evicted { node, why })) => {
                return crashed(format!("was ended on node {node}: {why}"));
            }
            // That is no fault of the scene's.
            Ok(ContainerState::Node(NodeLoss::Drained { node } | NodeLoss::Lost { node })) => {
                return RenderError::Runtime(RuntimeError::Unreachable(format!("the renderer's node {node} is gone")));
            }
            Ok(ContainerState::Missing) => return crashed("was removed".to_owned()),
            // The end of the connection may come first.
            Ok(ContainerState::Running) | Err(_) => sleep(END_POLL).await,
        }
    }
    broken.map_or_else(|| RenderError::Crashed("ended".to_owned()), RenderError::Runtime)
}

/// The name under which a picture is kept. A renderer may name none but those that are known, and must keep to their
/// formats.
fn picture_name(name: &str, bytes: &[u8]) -> Result<&'static str, RenderError> {
    let found = match name {
        "scene.jpg" => Some("panorama.jpg"),
        "scene.png" => Some("panorama.png"),
        other => PICTURES.iter().map(|(name, _)| *name).find(|known| *known == other),
    };
    let is_format = |name: &&str| match name.rsplit_once('.') {
        Some((_, "jpg")) => bytes.starts_with(b"\xff\xd8\xff"),
        _ => bytes.starts_with(b"\x89PNG\r\n"),
    };
    found.filter(is_format).ok_or_else(|| RenderError::Crashed("sent a file that nobody asked for".to_owned()))
}

fn place(content: &mut Content, hotspots: &Hotspots) {
    let sane = |degrees: f64, limit: f64| if degrees.is_finite() { degrees.clamp(-limit, limit) } else { 0.0 };
    content.initial_yaw = sane(hotspots.initial_view.yaw, 180.0);
    for spot in &hotspots.items {
        let item = content.items.iter_mut().filter(|item| item.kind == spot.kind).nth(spot.index);
        if let Some(item) = item {
            let place = &spot.placement;
            item.placement = Some(Placement {
                yaw: sane(place.yaw, 180.0),
                pitch: sane(place.pitch, 90.0),
                width: sane(place.width, 180.0),
                height: sane(place.height, 180.0),
            });
            let corner = |[yaw, pitch]: [f64; 2]| Direction { yaw: sane(yaw, 180.0), pitch: sane(pitch, 90.0) };
            item.corners = spot.corners.map(|corners| corners.map(corner));
        }
    }
}

/// Removes the renderers that an earlier process left. Their input ended with it, so they end by themselves too.
pub(super) async fn remove_left(runtime: &Runtime, drain: &Drain) -> Result<(), RuntimeError> {
    for container in runtime.left_renderers().await? {
        remove(runtime.clone(), drain, container);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Renderer {
        /// What is spoken to by these pipes.
        pub(crate) fn behind(pipes: RendererPipes, worlds: &Worlds) -> Self {
            let (runtime, drain) = (worlds.shared.runtime.clone(), worlds.shared.drain.clone());
            Self { runtime, drain, container: RendererId::random(), pipes, events: SceneEvents::default() }
        }
    }

    #[test]
    fn a_renderer_cannot_name_files_of_its_own() {
        let (jpeg, png) = (b"\xff\xd8\xff\xe0".as_slice(), b"\x89PNG\r\n\x1a\n".as_slice());
        assert_eq!(picture_name("scene.jpg", jpeg).unwrap(), "panorama.jpg");
        assert_eq!(picture_name("depth.png", png).unwrap(), "depth.png");
        for (name, bytes) in
            [("../x.jpg", jpeg), ("picture-0.jpg", jpeg), ("preview.jpg", png), ("depth.png", b"".as_slice())]
        {
            assert!(picture_name(name, bytes).is_err(), "{name}");
        }
    }
}
