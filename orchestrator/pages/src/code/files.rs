//! What the browser downloads while a call's code runs.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::BoxStream;
use futures_util::{StreamExt as _, TryStreamExt as _};
use http_body_util::BodyDataStream;
use tokio::time::{Instant, sleep};

use crate::Error;
use crate::perform::left;
use warmpool_config::Config;
use warmpool_core::error::FieldFault as _;
use warmpool_protocol::{File, FileSource};
use warmpool_sessions::session::Session;
use warmpool_sessions::zipped_files;

/// Between two looks at the files.
const LOOK: Duration = Duration::from_millis(100);
/// The name of several files.
const ARCHIVE: &str = "downloads.zip";

/// What was downloaded: a file, or a zip of several.
pub(crate) struct Files {
    pub(crate) name: String,
    pub(crate) content: BoxStream<'static, Result<Bytes, io::Error>>,
}

impl Files {
    /// Waits until what is on its way is there, or something comes. The browser keeps the files.
    pub(super) async fn wait(session: &Arc<Session>, config: &Config, until: Instant) -> Result<Self, Error> {
        let begins_by = Instant::now() + config.pages.download_wait;
        let limit = config.worker.file_limit.bytes();
        let unread = |error| warmpool_sessions::Error::worker("the browser's downloads cannot be read", error);
        let mut before = Vec::new();
        let files = loop {
            let mut files = session.worker.agent.files().await.map_err(unread)?;
            files.retain(is_download);
            if let Some(file) = files.iter().find(|file| file.size > limit) {
                return Err(Error::FileTooLarge { name: file.name.clone(), limit });
            }
            // A browser begins the second of two downloads a moment after its page has asked for it.
            let names: Vec<String> = files.iter().map(|file| file.name.clone()).collect();
            if !files.is_empty() && files.iter().all(|file| file.complete) && names == before {
                break files;
            }
            before = names;
            if files.is_empty() && left(begins_by).is_zero() {
                let waited = config.pages.download_wait.as_millis();
                return Err(Error::invalid(
                    "code",
                    format!(
                        "has downloaded nothing, and nothing came within {waited} ms after it: have it wait for its download, or \
                         allow more by `pages.download_wait`"
                    ),
                ));
            }
            sleep(LOOK.min(left(until))).await;
        };
        match files.as_slice() {
            [file] => {
                let content = session.worker.agent.read_file(&file.name).await.map_err(unread)?;
                let content = BodyDataStream::new(content).map_err(io::Error::other);
                Ok(Self { name: file.name.clone(), content: content.boxed() })
            }
            _ => {
                let content = zipped_files(session, is_download).await?.map_err(io::Error::other);
                Ok(Self { name: ARCHIVE.to_owned(), content: content.boxed() })
            }
        }
    }
}

fn is_download(file: &File) -> bool {
    file.source == FileSource::Download
}
