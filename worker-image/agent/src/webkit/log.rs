//! What happens in WebKit's pages, by its inspector, beside a driver.
//!
//! A page has one inspector. A client that inspects a page takes it over, and the log goes on once that client has left.

mod reader;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::timeout;

use crate::log::Log;

use super::inspector::{Attachment, Inspector};
use reader::PageReader;

/// How long the first page may take until it tells what happens in it.
const PATIENCE: Duration = Duration::from_secs(5);

/// Writes down what happens in every page from now on, until the browser ends. Returns once the first page tells.
pub(super) async fn keep(inspector: Inspector, log: Arc<Log>) {
    if !inspector.begin_log() {
        return;
    }
    let (telling, mut tells) = watch::channel(false);
    tokio::spawn(follow_pages(inspector, log, Arc::new(telling)));
    if timeout(PATIENCE, tells.wait_for(|tells| *tells)).await.is_err() {
        tracing::warn!("the log begins late: the first page told nothing in time");
    }
}

/// Inspects each page that nobody inspects.
async fn follow_pages(inspector: Inspector, log: Arc<Log>, telling: Arc<watch::Sender<bool>>) {
    let mut changes = inspector.changes();
    loop {
        changes.borrow_and_update();
        for page in inspector.pages() {
            if let Some(attachment) = inspector.attach_if_free(page.id).await {
                tokio::spawn(follow(attachment, Arc::clone(&log), Arc::clone(&telling)));
            }
        }
        if inspector.is_lost() || changes.changed().await.is_err() {
            return;
        }
    }
}

/// Reads what one page tells, until it has gone or somebody else inspects it.
async fn follow(mut page: Attachment, log: Arc<Log>, telling: Arc<watch::Sender<bool>>) {
    let mut reader = PageReader::default();
    page.send(&reader.begin()).await;
    while let Some(message) = page.incoming.recv().await {
        for line in reader.hear(&message) {
            log.write(&line);
        }
        for answer in reader.take_answers() {
            page.send(&answer).await;
        }
        if reader.tells() {
            telling.send_replace(true);
        }
    }
    page.detach().await;
}
