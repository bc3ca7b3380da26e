//! Challenges by which pages want to tell people from programs: found by a script in each document, reported to the daemon,
//! and answered by it.
//!
//! Each engine brings its documents here as [`Document`]s. The script runs where pages cannot see it.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout_at};
use warmpool_protocol::{
    Captcha, CaptchaAction, CaptchaEnd, CaptchaKind, CaptchaSolver, MAX_CAPTCHA_IMAGE, MAX_CAPTCHA_URL,
    with_whole_characters,
};

use crate::status::Status;

/// What finds challenges in a document, and fills in answers. Its one argument says whether a person solves them.
pub(crate) const DOCUMENT_SCRIPT: &str = include_str!("captchas/document.js");
/// What tells the page's own scripts of an answer: a function of the kind, the answer and the site's key.
pub(crate) const PAGE_SCRIPT: &str = include_str!("captchas/page.js");

/// Challenges that wait at the same time; more are left alone.
const MAX_WAITING: usize = 16;
/// How long a document may take to do what it is told: less than the daemon waits for the answer. One that hangs would otherwise
/// keep its place for ever.
const ACTION_LIMIT: Duration = Duration::from_secs(8);
/// The longest key of a site, and name of an action, in bytes.
const MAX_NAME: usize = 256;

/// A document of a page.
pub(crate) trait Document: Send + Sync + 'static {
    /// The page that it is in, as lists of pages name it.
    fn page(&self) -> Option<String>;

    /// Calls a method of the script, and gives its answer as JSON; nothing once the document has gone.
    fn call(&self, method: &'static str, argument: Option<&str>) -> impl Future<Output = Option<String>> + Send;

    /// Calls [`PAGE_SCRIPT`] among the page's own scripts.
    fn tell_page(&self, arguments: [Value; 3]) -> impl Future<Output = ()> + Send;
}

/// What the script says of a challenge.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Found {
    kind: CaptchaKind,
    site_key: Option<String>,
    action: Option<String>,
    invisible: bool,
    image: Option<String>,
    url: String,
}

/// The challenges of one session.
pub(crate) struct Captchas {
    pub(crate) solver: CaptchaSolver,
    status: Arc<Status>,
    waiting: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    last: u64,
    rows: Vec<Waiting>,
}

struct Waiting {
    captcha: Box<Captcha>,
    /// Whether its document is doing what it was told.
    is_acted_on: bool,
    actions: mpsc::Sender<(CaptchaAction, oneshot::Sender<bool>)>,
}

impl Captchas {
    pub(crate) fn new(solver: CaptchaSolver, status: Arc<Status>) -> Self {
        Self { solver, status, waiting: Mutex::default() }
    }

    /// Carries out what the daemon wants of a challenge; `false` when it is over, or the page had no place for the answer.
    pub(crate) async fn act(&self, id: u64, action: CaptchaAction) -> bool {
        let actions = self.waiting.lock().rows.iter().find(|row| row.captcha.id == id).map(|row| row.actions.clone());
        let Some(actions) = actions else { return false };
        let (done, answer) = oneshot::channel();
        actions.send((action, done)).await.is_ok() && answer.await.unwrap_or(false)
    }

    /// Reports the challenges of a document, one after the other, until it has gone.
    pub(crate) async fn watch(self: Arc<Self>, document: impl Document) {
        while let Some(found) = document.call("next", None).await {
            let Ok(found) = serde_json::from_str::<Found>(&with_whole_characters(&found)) else {
                return tracing::debug!("a document told of a challenge that cannot be read");
            };
            let (kind, site_key) = (found.kind, found.site_key.clone());
            let Some((mut entry, mut actions)) = self.enter(found, document.page()) else {
                if document.call("leave", None).await.is_none() {
                    return;
                }
                continue;
            };
            entry.solved = {
                let ended = document.call("ended", None);
                tokio::pin!(ended);
                tokio::select! {
                    ended = &mut ended => ended.as_deref() == Some("true"),
                    Some((action, done)) = actions.recv() => {
                        entry.begin_action();
                        let carried_out = carry_out(&document, kind, site_key, &action).await;
                        let _ = done.send(carried_out);
                        carried_out && !matches!(action, CaptchaAction::Leave { solved: false })
                    }
                }
            };
        }
    }

    fn enter(self: &Arc<Self>, found: Found, page: Option<String>) -> Option<(Entry, Actions)> {
        let Found { kind, site_key, action, invisible, image, url } = found;
        let mut table = self.waiting.lock();
        if table.rows.len() >= MAX_WAITING {
            return None;
        }
        table.last += 1;
        let id = table.last;
        let short = |text: Option<String>| text.filter(|text| (1..=MAX_NAME).contains(&text.len()));
        let captcha = Box::new(Captcha {
            id,
            kind,
            url: url.chars().take(MAX_CAPTCHA_URL).collect(),
            since: now(),
            page,
            site_key: short(site_key),
            action: short(action),
            invisible,
            image: image.filter(|image| image.len() <= MAX_CAPTCHA_IMAGE),
        });
        let (sender, actions) = mpsc::channel(1);
        table.rows.push(Waiting { captcha, is_acted_on: false, actions: sender });
        self.report(&table, None);
        Some((Entry { captchas: Arc::clone(self), id, solved: false }, actions))
    }

    fn report(&self, table: &Table, end: Option<CaptchaEnd>) {
        let waiting = table.rows.iter().find(|row| !row.is_acted_on);
        self.status.report_captcha(waiting.map(|row| row.captcha.clone()), end);
    }
}

/// Has a document do what the daemon wants; `false` when it has gone or hangs, or had no place for the answer.
async fn carry_out(
    document: &impl Document,
    kind: CaptchaKind,
    site_key: Option<String>,
    action: &CaptchaAction,
) -> bool {
    let limit = Instant::now() + ACTION_LIMIT;
    match action {
        CaptchaAction::Answer { answer } => {
            let filled = timeout_at(limit, document.call("fill", Some(answer))).await;
            let is_filled = filled.ok().flatten().as_deref() == Some("true");
            if is_filled && kind != CaptchaKind::Image {
                let arguments = [kind.as_str().into(), answer.as_str().into(), site_key.into()];
                // What the page does with the answer is its own affair.
                let _ = timeout_at(limit, document.tell_page(arguments)).await;
            }
            is_filled
        }
        CaptchaAction::Leave { .. } => {
            timeout_at(limit, document.call("leave", None)).await.is_ok_and(|left| left.is_some())
        }
    }
}

type Actions = mpsc::Receiver<(CaptchaAction, oneshot::Sender<bool>)>;

/// A challenge in the table; taken out when dropped.
struct Entry {
    captchas: Arc<Captchas>,
    id: u64,
    solved: bool,
}

impl Entry {
    /// Its document does what it was told. Meanwhile the next challenge is reported: that may take a while.
    fn begin_action(&self) {
        let mut table = self.captchas.waiting.lock();
        if let Some(row) = table.rows.iter_mut().find(|row| row.captcha.id == self.id) {
            row.is_acted_on = true;
        }
        self.captchas.report(&table, None);
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        let mut table = self.captchas.waiting.lock();
        table.rows.retain(|row| row.captcha.id != self.id);
        self.captchas.report(&table, Some(CaptchaEnd { id: self.id, solved: self.solved }));
    }
}

fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use serde_json::json;

    use super::*;

    /// A document with this number of challenges, which takes each answer.
    struct Page {
        challenges: AtomicUsize,
        /// The method that it never answers.
        hangs_in: Option<&'static str>,
        filled: Arc<Mutex<Vec<String>>>,
    }

    impl Document for Page {
        fn page(&self) -> Option<String> {
            Some("p".to_owned())
        }

        async fn call(&self, method: &'static str, argument: Option<&str>) -> Option<String> {
            match method {
                "next" => {
                    let left = self.challenges.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1));
                    left.ok()?;
                    let found = json!({
                        "kind": "hcaptcha", "siteKey": "key", "action": null, "invisible": false, "image": null,
                        "url": format!("http://a.example/{}", "x".repeat(5000)),
                    });
                    Some(found.to_string())
                }
                "ended" => std::future::pending().await,
                _ if self.hangs_in == Some(method) => std::future::pending().await,
                _ => {
                    self.filled.lock().push(format!("{method} {}", argument.unwrap_or_default()));
                    Some("true".to_owned())
                }
            }
        }

        async fn tell_page(&self, arguments: [Value; 3]) {
            if self.hangs_in == Some("page") {
                std::future::pending::<()>().await;
            }
            self.filled.lock().push(Value::from(arguments.to_vec()).to_string());
        }
    }

    /// Waits until this challenge is the one that waits.
    async fn waiting(status: &Status, id: u64) -> Captcha {
        for _ in 0..10_000 {
            match status.snapshot().captcha {
                Some(captcha) if captcha.id == id => return *captcha,
                _ => tokio::task::yield_now().await,
            }
        }
        panic!("the challenge {id} does not wait");
    }

    #[tokio::test(start_paused = true)]
    async fn a_document_that_hangs_holds_up_no_other() {
        let answer = || CaptchaAction::Answer { answer: "token".to_owned() };
        for (hangs_in, action, carried_out) in [
            ("fill", answer(), false),
            ("page", answer(), true),
            ("leave", CaptchaAction::Leave { solved: false }, false),
        ] {
            let status = Arc::new(Status::new());
            let captchas = Arc::new(Captchas::new(CaptchaSolver::Service, Arc::clone(&status)));
            let page = |hangs_in| Page { challenges: AtomicUsize::new(1), hangs_in, filled: Arc::default() };
            let hanging = tokio::spawn(Arc::clone(&captchas).watch(page(Some(hangs_in))));
            waiting(&status, 1).await;
            let other = tokio::spawn(Arc::clone(&captchas).watch(page(None)));
            let acting = tokio::spawn({
                let captchas = Arc::clone(&captchas);
                async move { captchas.act(1, action).await }
            });
            waiting(&status, 2).await;
            assert!(captchas.act(2, answer()).await);
            assert_eq!(acting.await.unwrap(), carried_out, "{hangs_in}");
            hanging.await.unwrap();
            other.await.unwrap();
            assert_eq!(status.snapshot().captcha, None);
            assert!(captchas.waiting.lock().rows.is_empty());
        }
    }

    #[tokio::test]
    async fn a_challenge_is_reported_answered_and_ended() {
        let status = Arc::new(Status::new());
        let captchas = Arc::new(Captchas::new(CaptchaSolver::Service, Arc::clone(&status)));
        let filled = Arc::new(Mutex::new(Vec::new()));
        let page = Page { challenges: AtomicUsize::new(2), hangs_in: None, filled: Arc::clone(&filled) };
        let watch = tokio::spawn(Arc::clone(&captchas).watch(page));
        let first = waiting(&status, 1).await;
        assert_eq!(
            (first.kind, first.url.len(), first.site_key.as_deref()),
            (CaptchaKind::Hcaptcha, 2000, Some("key"))
        );
        assert!(captchas.act(1, CaptchaAction::Answer { answer: "token".to_owned() }).await);
        waiting(&status, 2).await;
        assert_eq!(status.snapshot().captcha_end, Some(CaptchaEnd { id: 1, solved: true }));
        assert!(!captchas.act(1, CaptchaAction::Leave { solved: false }).await, "it is over");
        assert!(captchas.act(2, CaptchaAction::Leave { solved: false }).await);
        watch.await.unwrap();
        let snapshot = status.snapshot();
        assert_eq!((snapshot.captcha, snapshot.captcha_end), (None, Some(CaptchaEnd { id: 2, solved: false })));
        assert_eq!(*filled.lock(), ["fill token", r#"["hcaptcha","token","key"]"#, "leave "]);
    }
}
