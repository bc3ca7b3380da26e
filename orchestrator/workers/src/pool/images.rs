//! Which engines can be served at all: those whose image is on this host.

use futures_util::future::join_all;

use super::Pool;
use super::state::PoolState;
use crate::Error;
use warmpool_core::browser::{Engine, PoolKey};

impl Pool {
    /// Asks the runtime for every engine's image.
    pub(super) async fn look_for_images(&self) {
        join_all(Engine::ALL.map(|engine| self.look_for_image(engine))).await;
    }

    /// Asks the runtime for the image of `engine`, and remembers whether it is there. When the runtime cannot be asked
    /// what was known stays.
    pub(super) async fn look_for_image(&self, engine: Engine) {
        let name = self.parts.config.image(engine);
        let found = self.parts.runtime.image_id(name).await;
        let there = match &found {
            Ok(_) => true,
            Err(error) if error.is_no_image() => false,
            Err(error) => return tracing::debug!(%engine, %error, "its image cannot be looked up"),
        };
        let news = {
            let mut state = self.lock();
            // A cluster answers with the name itself while its nodes have different images of that name.
            if let Ok(id) = &found
                && id != name
            {
                state.images.record(engine, id.clone());
            }
            let news = if there { state.absent.remove(&engine) } else { state.absent.insert(engine) };
            if news && there {
                state.forget_failures_of(engine);
            }
            news
        };
        match (news, found) {
            (true, Ok(_)) => tracing::info!(%engine, image = name, "the engine's image is here now"),
            (true, Err(error)) if self.parts.config.needs_engine(engine) => {
                tracing::error!(%engine, %error, "the engine's image is missing");
            }
            (true, Err(error)) => {
                tracing::info!(%engine, %error, "without this image the engine's sessions are refused");
            }
            (false, _) => {}
        }
        if !there {
            self.dismiss(|key| key.engine == engine, || self.no_engine(engine));
        }
        if news {
            self.parts.changed.notify_one();
        }
    }

    /// Records how far the build of an engine's image is; none once it has ended, and the image is looked for at once.
    pub async fn report_image_build(&self, engine: Engine, progress: Option<String>) {
        let ended = progress.is_none();
        self.lock().builds.record(engine, progress, tokio::time::Instant::now());
        if ended {
            self.look_for_image(engine).await;
        }
    }

    /// Fails where a worker would have to be made and the engine's image is not on this host. Looks for it again first,
    /// since it may have been made just now.
    pub(super) async fn check_image(&self, key: PoolKey) -> Result<(), Error> {
        let stuck = || {
            let state = self.lock();
            state.runtime_up && state.absent.contains(&key.engine) && !state.serves_now(key)
        };
        if !stuck() {
            return Ok(());
        }
        self.look_for_image(key.engine).await;
        if stuck() { Err(self.no_engine(key.engine)) } else { Ok(()) }
    }

    /// Fails the callers that wait for a worker of this kind once waiting is pointless.
    pub(super) fn fail_waiters(&self, key: PoolKey) {
        let reason = self.lock().start_error(key, tokio::time::Instant::now());
        if let Some(reason) = reason {
            self.dismiss(|waited| waited == key, || Error::NoStart { kind: key.to_string(), reason: reason.clone() });
        }
    }

    fn no_engine(&self, engine: Engine) -> Error {
        let image = self.parts.config.image(engine).to_owned();
        let build = image_build(&self.lock(), engine, tokio::time::Instant::now());
        Error::NoEngine { engine, image, build }
    }

    fn dismiss(&self, of: impl Fn(PoolKey) -> bool, error: impl Fn() -> Error) {
        let waiters = self.lock().dismiss(of);
        for waiter in waiters {
            let _ = waiter.sender.send(Err(error()));
        }
    }
}

/// What the build of a missing image does.
pub(super) fn image_build(state: &PoolState, engine: Engine, now: tokio::time::Instant) -> Option<String> {
    let progress = state.builds.progress(engine, now).filter(|_| state.absent.contains(&engine));
    progress.map(str::to_owned)
}
