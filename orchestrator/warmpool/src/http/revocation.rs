//! What a request was admitted by, asked again for as long as its answer lasts.
//!
//! A stream of events, a download or a wait may outlast the key, the sign-in or the URL that opened it. Whoever admits a
//! request notes its right here; [`hold`] stands behind every route and asks again before each part of an answer that comes in
//! parts, and ends it as soon as the right is gone. Handlers that wait before they answer do so in [`while_held`].

use std::pin::Pin;
use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use futures_util::stream;
use http::header::CONTENT_TYPE;
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::{Body as _, Frame};
use tokio::sync::watch;
use tokio::time::sleep;

use super::App;
use super::credential::Credential;
use super::reply::REQUEST;
use crate::http::error::Error;
use warmpool_core::clock::Now;

/// Time between two questions about a right that ends by the clock, which nothing announces: a sign-in, or a secret that was replaced.
const ASK_EVERY: Duration = Duration::from_secs(1);

impl Credential {
    /// Notes what the request that this task answers was admitted by. The first one holds.
    pub(super) fn note(self) {
        let _ = REQUEST.try_with(|asked| asked.notes.credential.set(self));
    }

    /// What the request that this task answers was admitted by, if by anything.
    pub(super) fn noted() -> Option<Self> {
        REQUEST.try_with(|asked| asked.notes.credential.get().cloned()).ok().flatten()
    }

    /// Whether a request would be admitted by it now. To ask is no use of it: what is merely open uses no key, and a sign-in would last
    /// longer for it.
    async fn check(&self, app: &App) -> Result<(), Error> {
        match self {
            Self::Key { key, secret } => {
                if app.keys.holds(key, *secret, &Now::read()) {
                    Ok(())
                } else {
                    Err(warmpool_keys::Error::InvalidKey.into())
                }
            }
            Self::SignIn { key, is_operator, token } => {
                if app.sign_ins.lasts(*token) && (!is_operator || app.keys.is_operator(key)) {
                    Ok(())
                } else {
                    Err(warmpool_keys::Error::InvalidKey.into())
                }
            }
            Self::IntegrationKey(secret) => app.worlds.keys().verify(secret.expose()).map(drop).map_err(Into::into),
            Self::WorldViewer(token) => app.worlds.find_by_token(token.expose()).await.map(drop).map_err(Into::into),
            Self::LiveView { session, token } => {
                app.sessions.find_by_view_token(session, token.expose()).map(drop).map_err(Into::into)
            }
        }
    }

    /// Whether it may end by the clock.
    fn ends_by_clock(&self, app: &App) -> bool {
        match self {
            Self::Key { key, secret } => app.keys.is_replaced(key, *secret),
            Self::SignIn { .. } => true,
            Self::IntegrationKey(secret) => {
                let keys = app.worlds.keys();
                keys.verify_secret(secret.expose()).is_ok_and(|(key, secret)| keys.is_replaced(&key.id, secret))
            }
            // What closes a viewer is announced, and so is the end of the key whose session it is.
            Self::WorldViewer(_) | Self::LiveView { .. } => false,
        }
    }

    /// Waits until no request would be admitted by it any more. Returns why.
    pub(super) async fn lost(&self, app: &App) -> Error {
        // In this order, so that nothing falls between the two.
        let mut changes = Changes::of(app);
        loop {
            match self.check(app).await {
                Ok(()) => changes.next(self.ends_by_clock(app)).await,
                Err(error) => return error,
            }
        }
    }
}

/// What announces that a right may be gone.
struct Changes {
    keys: watch::Receiver<u64>,
    integration_keys: watch::Receiver<u64>,
    viewers: watch::Receiver<u64>,
}

impl Changes {
    fn of(app: &App) -> Self {
        let worlds = &app.worlds;
        Self { keys: app.keys.changes(), integration_keys: worlds.keys().changes(), viewers: worlds.viewer_changes() }
    }

    /// Waits until a right may be gone of which one was just told that it is not.
    async fn next(&mut self, ends_by_clock: bool) {
        tokio::select! {
            Ok(()) = self.keys.changed() => {}
            Ok(()) = self.integration_keys.changed() => {}
            Ok(()) = self.viewers.changed() => {}
            () = sleep(ASK_EVERY), if ends_by_clock => {}
            else => std::future::pending().await,
        }
    }
}

/// Waits for something for as long as the caller's right lasts.
/// Errors: what the caller would be refused with now.
pub(super) async fn while_held<T>(app: &App, work: impl Future<Output = T>) -> Result<T, Error> {
    let Some(credential) = Credential::noted() else { return Ok(work.await) };
    tokio::select! {
        biased;
        refused = credential.lost(app) => Err(refused),
        done = work => credential.check(app).await.map(|()| done),
    }
}

/// Lets an answer that comes in parts last no longer than the right by which its request was admitted.
pub(super) fn hold(app: &App, credential: Option<&Credential>, response: Response) -> Response {
    let Some(credential) = credential else { return response };
    // What is whole already has been given.
    if response.body().size_hint().exact().is_some() {
        return response;
    }
    let events =
        response.headers().get(CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"));
    let last = events.then_some(credential.last_event());
    let (lost, check) = ((app.clone(), credential.clone()), (app.clone(), credential.clone()));
    let lost = async move { drop(lost.1.lost(&lost.0).await) };
    let check = move || {
        let (app, credential) = check.clone();
        async move { credential.check(&app).await.is_ok() }
    };
    response.map(|body| held(body, lost, check, last))
}

/// A body that ends when `lost` returns, or when `holds` denies before a part: with these last bytes, or where there are none
/// with an error, so that nobody takes a part for the whole.
fn held<C: Future<Output = bool> + Send>(
    body: Body,
    lost: impl Future<Output = ()> + Send + 'static,
    holds: impl Fn() -> C + Send + Sync + 'static,
    last: Option<&'static [u8]>,
) -> Body {
    let lost: Pin<Box<dyn Future<Output = ()> + Send>> = Box::pin(lost);
    let frames = stream::unfold(Some((body, lost, holds)), move |state| async move {
        let (mut body, mut lost, holds) = state?;
        let frame = tokio::select! {
            biased;
            () = &mut lost => None,
            frame = body.frame() => Some(frame?),
        };
        match frame {
            Some(frame) if holds().await => Some((frame, Some((body, lost, holds)))),
            _ => {
                let end = last.map(|last| Frame::data(Bytes::from_static(last)));
                Some((end.ok_or_else(|| axum::Error::new(Ended)), None))
            }
        }
    });
    Body::new(StreamBody::new(frames))
}

/// The right to an answer was lost while it was sent.
#[derive(Debug, thiserror::Error)]
#[error("the right to this answer was lost while it was sent")]
struct Ended;

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use tokio::sync::{Notify, mpsc};
    use tokio::time::timeout;

    struct Trial {
        parts: mpsc::Sender<Result<Bytes, axum::Error>>,
        holds: Arc<AtomicBool>,
        lost: Arc<Notify>,
        body: Body,
    }

    fn trial(last: Option<&'static [u8]>) -> Trial {
        let (parts, mut receiver) = mpsc::channel(1);
        let (holds, lost) = (Arc::new(AtomicBool::new(true)), Arc::new(Notify::new()));
        let inner = Body::from_stream(stream::poll_fn(move |cx| receiver.poll_recv(cx)));
        let (announced, asked) = (Arc::clone(&lost), Arc::clone(&holds));
        let check = move || std::future::ready(asked.load(Ordering::Relaxed));
        let body = held(inner, async move { announced.notified().await }, check, last);
        Trial { parts, holds, lost, body }
    }

    impl Trial {
        async fn send(&self, text: &'static str) {
            self.parts.send(Ok(Bytes::from_static(text.as_bytes()))).await.unwrap();
        }

        async fn next(&mut self) -> Option<Result<Bytes, axum::Error>> {
            self.body.frame().await.map(|frame| frame.map(|frame| frame.into_data().unwrap()))
        }
    }

    #[tokio::test(start_paused = true)]
    async fn only_what_ends_by_the_clock_is_asked_about_by_the_clock() {
        let senders = [(); 3].map(|()| watch::Sender::new(0));
        let [keys, integration_keys, viewers] = senders.each_ref().map(watch::Sender::subscribe);
        let mut changes = Changes { keys, integration_keys, viewers };
        assert!(timeout(ASK_EVERY * 100, changes.next(false)).await.is_err(), "nothing has changed");
        assert!(timeout(ASK_EVERY * 2, changes.next(true)).await.is_ok());
        for sender in &senders {
            sender.send_modify(|count| *count += 1);
            assert!(timeout(ASK_EVERY, changes.next(false)).await.is_ok());
        }
        drop(senders);
        assert!(timeout(ASK_EVERY * 100, changes.next(false)).await.is_err(), "the daemon ends");
    }

    #[tokio::test]
    async fn no_part_is_sent_once_the_right_is_gone() {
        let mut trial = trial(Some(b"over"));
        trial.send("one").await;
        assert_eq!(trial.next().await.unwrap().unwrap(), "one");
        trial.holds.store(false, Ordering::Relaxed);
        trial.send("secret").await;
        assert_eq!(trial.next().await.unwrap().unwrap(), "over");
        assert!(trial.next().await.is_none());
    }

    #[tokio::test]
    async fn an_idle_stream_ends_as_soon_as_its_right_does() {
        let mut trial = trial(Some(b"over"));
        trial.lost.notify_one();
        assert_eq!(trial.next().await.unwrap().unwrap(), "over");
        assert!(trial.next().await.is_none());
    }

    #[tokio::test]
    async fn a_download_that_is_cut_short_ends_with_an_error() {
        let mut trial = trial(None);
        trial.send("one").await;
        assert_eq!(trial.next().await.unwrap().unwrap(), "one");
        trial.lost.notify_one();
        assert!(trial.next().await.unwrap().is_err());
        assert!(trial.next().await.is_none());
    }

    #[tokio::test]
    async fn what_ends_by_itself_ends_as_it_does() {
        let mut trial = trial(Some(b"over"));
        trial.send("one").await;
        trial.parts = mpsc::channel(1).0;
        assert_eq!(trial.next().await.unwrap().unwrap(), "one");
        assert!(trial.next().await.is_none());
    }
}
