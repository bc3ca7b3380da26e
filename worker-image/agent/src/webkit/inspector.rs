//! The agent's connection to the browser's remote inspector: the list of pages, and a channel to each.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::io::{AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::net::unix::OwnedReadHalf;
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::ports::LocalPort;

use super::wire::{self, Incoming, Target};

/// Where the browser serves its remote inspector.
pub(super) const INSPECTOR: LocalPort = LocalPort::new(9400);

/// What a page is called among the targets.
const PAGE: &str = "WebPage";
/// Messages that may wait in each direction. A reader that does not keep up stops the browser.
const MESSAGES: usize = 64;
/// How long the list of pages may take to come.
const PAGE_TIMEOUT: Duration = Duration::from_secs(10);

/// Which page: the number of its process, and its own within it.
pub(super) type PageId = (u64, u64);

/// A page that can be inspected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Page {
    pub(super) id: PageId,
    pub(super) title: String,
    /// Its address.
    pub(super) url: String,
}

struct Inner {
    targets: BTreeMap<u64, Vec<Target>>,
    /// Who inspects which page.
    attached: HashMap<PageId, Reader>,
    attachments: u64,
    /// The browser has ended.
    lost: bool,
    /// Whether a log is kept of the pages.
    has_log: bool,
}

/// Who inspects a page.
#[derive(Clone)]
struct Reader {
    /// Distinguishes it from a successor.
    number: u64,
    messages: mpsc::Sender<String>,
    /// Cancelled once there is a successor. A reader that does not read any more would hold that up, and everybody else.
    replaced: CancellationToken,
}

/// A connection that lives as long as the browser. Clones share it.
#[derive(Clone)]
pub(super) struct Inspector {
    outgoing: mpsc::Sender<Vec<u8>>,
    inner: Arc<Mutex<Inner>>,
    /// Counts changes of the pages, and of who inspects them.
    changes: Arc<watch::Sender<u64>>,
}

/// One page being inspected.
pub(super) struct Attachment {
    inspector: Inspector,
    id: PageId,
    number: u64,
    /// The page's messages. They end with the page, or when somebody else takes over.
    pub(super) incoming: mpsc::Receiver<String>,
    /// Cancelled when somebody else takes over.
    pub(super) replaced: CancellationToken,
}

impl Inspector {
    /// Introduces itself on a new connection, and waits until the first page is listed.
    pub(super) async fn start(stream: UnixStream) -> io::Result<Self> {
        let (reader, mut writer) = stream.into_split();
        let (outgoing, mut queue) = mpsc::channel::<Vec<u8>>(MESSAGES);
        tokio::spawn(async move {
            while let Some(message) = queue.recv().await {
                if writer.write_all(&message).await.is_err() {
                    return;
                }
            }
        });
        let inner =
            Inner { targets: BTreeMap::new(), attached: HashMap::new(), attachments: 0, lost: false, has_log: false };
        let changes = Arc::new(watch::Sender::new(0));
        let inspector = Self { outgoing, inner: Arc::new(Mutex::new(inner)), changes };
        inspector.send(wire::introduction()).await;
        let (listed, mut has_page) = watch::channel(false);
        tokio::spawn(inspector.clone().listen(reader, listed));
        let page = timeout(PAGE_TIMEOUT, has_page.wait_for(|has| *has)).await;
        match page {
            Ok(Ok(_)) => Ok(inspector),
            _ => Err(io::Error::other("the inspector lists no page")),
        }
    }

    async fn listen(self, reader: OwnedReadHalf, listed: watch::Sender<bool>) {
        let mut reader = BufReader::with_capacity(64 << 10, reader);
        loop {
            match wire::read(&mut reader).await {
                Ok(Incoming::Targets { connection, targets }) => {
                    self.update(connection, targets);
                    listed.send_replace(self.first_page().is_some());
                }
                Ok(Incoming::Message { connection, target, message }) => {
                    let reader = self.lock().attached.get(&(connection, target)).cloned();
                    if let Some(reader) = reader {
                        let send = reader.messages.send(message);
                        let _ = reader.replaced.run_until_cancelled(send).await;
                    }
                }
                Ok(Incoming::Other) => {}
                Err(error) => {
                    tracing::info!(%error, "the inspector's connection has ended");
                    let mut inner = self.lock();
                    inner.lost = true;
                    inner.targets.clear();
                    inner.attached.clear();
                    drop(inner);
                    return self.changed();
                }
            }
        }
    }

    fn update(&self, connection: u64, targets: Vec<Target>) {
        let mut inner = self.lock();
        inner.attached.retain(|(process, id), _| *process != connection || targets.iter().any(|t| t.id == *id));
        inner.targets.insert(connection, targets);
        drop(inner);
        self.changed();
    }

    fn changed(&self) {
        self.changes.send_modify(|count| *count += 1);
    }

    /// Changes at each change of the pages, and of who inspects them.
    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Notes that a log is kept of the pages; `false` when there is one already.
    pub(super) fn begin_log(&self) -> bool {
        !std::mem::replace(&mut self.lock().has_log, true)
    }

    /// Whether the browser has ended.
    pub(super) fn is_lost(&self) -> bool {
        self.lock().lost
    }

    /// Every page there is, the oldest first.
    pub(super) fn pages(&self) -> Vec<Page> {
        let inner = self.lock();
        let mut pages = Vec::new();
        for (&connection, targets) in &inner.targets {
            pages.extend(targets.iter().filter(|target| target.kind == PAGE).map(|target| Page {
                id: (connection, target.id),
                title: target.name.clone(),
                url: target.url.clone(),
            }));
        }
        pages.sort_by_key(|page| page.id);
        pages
    }

    /// The oldest page.
    pub(super) fn first_page(&self) -> Option<PageId> {
        self.pages().first().map(|page| page.id)
    }

    /// Begins to inspect a page and replaces its earlier inspector: a page has one at a time, and a client that reconnects
    /// may do so before the end of its old socket is known. `None` when there is no such page.
    pub(super) async fn attach(&self, id: PageId) -> Option<Attachment> {
        self.attach_as(id, true).await
    }

    /// Begins to inspect a page, unless somebody does already.
    pub(super) async fn attach_if_free(&self, id: PageId) -> Option<Attachment> {
        self.attach_as(id, false).await
    }

    async fn attach_as(&self, id: PageId, takes_over: bool) -> Option<Attachment> {
        if !self.pages().iter().any(|page| page.id == id) {
            return None;
        }
        let (messages, incoming) = mpsc::channel(MESSAGES);
        let replaced = CancellationToken::new();
        let (number, before) = {
            let mut inner = self.lock();
            if !takes_over && inner.attached.contains_key(&id) {
                return None;
            }
            inner.attachments += 1;
            let number = inner.attachments;
            let reader = Reader { number, messages, replaced: replaced.clone() };
            (number, inner.attached.insert(id, reader))
        };
        if before.map(|reader| reader.replaced.cancel()).is_some() {
            self.send(wire::detach(id.0, id.1)).await;
        }
        self.send(wire::attach(id.0, id.1)).await;
        Some(Attachment { inspector: self.clone(), id, number, incoming, replaced })
    }

    async fn send(&self, message: Vec<u8>) {
        // Without the browser this goes nowhere; others report its end.
        let _ = self.outgoing.send(message).await;
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock()
    }
}

impl Attachment {
    /// Sends a message to the page.
    pub(super) async fn send(&self, message: &str) {
        self.inspector.send(wire::to_target(self.id.0, self.id.1, message)).await;
    }

    /// Whether the whole browser has ended, and not this page alone.
    pub(super) fn is_lost(&self) -> bool {
        self.inspector.lock().lost
    }

    /// Lets go of the page, unless somebody else has it by now.
    pub(super) async fn detach(self) {
        let is_ours = {
            let mut inner = self.inspector.lock();
            let is_ours = inner.attached.get(&self.id).is_some_and(|reader| reader.number == self.number);
            if is_ours {
                inner.attached.remove(&self.id);
            }
            is_ours
        };
        if is_ours {
            self.inspector.send(wire::detach(self.id.0, self.id.1)).await;
            self.inspector.changed();
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use tokio::io::AsyncReadExt;

    const LIST: &[u8] = b"SetTargetList\0\x01\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0WebPage\0\0about:blank\0\0\x1d\x11\x10!";
    const NO_LIST: &[u8] = b"SetTargetList\0\x01\0\0\0\0\0\0\0";

    /// Says something as the browser.
    pub(in super::super) async fn say(stream: &mut UnixStream, body: &[u8]) {
        stream.write_u32(u32::try_from(body.len()).unwrap()).await.unwrap();
        stream.write_u8(1).await.unwrap();
        stream.write_all(body).await.unwrap();
    }

    async fn hear(stream: &mut UnixStream) -> String {
        let length = stream.read_u32().await.unwrap();
        let mut body = vec![0; length as usize + 1];
        stream.read_exact(&mut body).await.unwrap();
        body[1..].split(|byte| *byte == 0).next().map(|name| String::from_utf8(name.to_vec()).unwrap()).unwrap()
    }

    /// An inspector, and the browser's end of its connection.
    pub(in super::super) async fn pair() -> (Inspector, UnixStream) {
        let (ours, mut browser) = UnixStream::pair().unwrap();
        let (inspector, browser) = tokio::join!(Inspector::start(ours), async {
            assert_eq!(hear(&mut browser).await, "SetupInspectorClient");
            say(&mut browser, LIST).await;
            browser
        });
        (inspector.unwrap(), browser)
    }

    #[tokio::test]
    async fn a_successor_takes_the_page_over() {
        let (inspector, mut browser) = pair().await;
        assert_eq!(inspector.pages()[0].url, "about:blank");
        let mut first = inspector.attach((1, 1)).await.unwrap();
        let mut second = inspector.attach((1, 1)).await.unwrap();
        assert_eq!(first.incoming.recv().await, None);
        first.detach().await;
        second.send("{}").await;
        for name in ["Setup", "FrontendDidClose", "Setup", "SendMessageToBackend"] {
            assert_eq!(hear(&mut browser).await, name);
        }
        say(&mut browser, b"SendMessageToFrontend\0\x01\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0{\"id\":1}\0").await;
        assert_eq!(second.incoming.recv().await.as_deref(), Some("{\"id\":1}"));
        second.detach().await;
        assert_eq!(hear(&mut browser).await, "FrontendDidClose");
        assert!(inspector.attach((1, 2)).await.is_none());
    }

    #[tokio::test]
    async fn a_reader_that_has_stopped_holds_no_successor_up() {
        let (inspector, mut browser) = pair().await;
        let stopped = inspector.attach((1, 1)).await.unwrap();
        let said = |id: usize| {
            format!("SendMessageToFrontend\0\x01\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0{{\"id\":{id}}}\0").into_bytes()
        };
        for id in 0..=MESSAGES {
            say(&mut browser, &said(id)).await;
        }
        // Until the last one has no room.
        while stopped.incoming.len() < MESSAGES {
            tokio::task::yield_now().await;
        }
        let mut next = inspector.attach((1, 1)).await.unwrap();
        assert!(stopped.replaced.is_cancelled() && !next.replaced.is_cancelled());
        // Which of the last two the reader was given before it was replaced depends on who came first.
        say(&mut browser, &said(MESSAGES + 1)).await;
        let last = format!("{{\"id\":{}}}", MESSAGES + 1);
        while next.incoming.recv().await.unwrap() != last {}
    }

    #[tokio::test]
    async fn the_end_of_a_page_or_of_the_browser_ends_the_attachment() {
        let (inspector, mut browser) = pair().await;
        let mut page = inspector.attach((1, 1)).await.unwrap();
        say(&mut browser, NO_LIST).await;
        assert_eq!(page.incoming.recv().await, None);
        assert_eq!(inspector.first_page(), None);
        say(&mut browser, LIST).await;
        while inspector.first_page().is_none() {
            tokio::task::yield_now().await;
        }
        let mut page = inspector.attach((1, 1)).await.unwrap();
        assert!(!page.is_lost());
        drop(browser);
        assert_eq!(page.incoming.recv().await, None);
        assert!(page.is_lost());
    }
}
