//! What the console's routes share.

use std::sync::Arc;
use std::time::Instant;

use serde_json::Value;
use tokio::sync::Mutex;

use super::places::Places;
use super::request_entry::RequestEntry;
use super::samples::Samples;
use crate::telemetry::{self, Recent};
use warmpool_config::Config;
use warmpool_core::clock::unix_ms;

/// What an examination of the host found, and when.
pub(super) type LastFindings = Mutex<Option<(Instant, Value)>>;

/// The console's own state. Clones share it.
#[derive(Clone)]
pub(crate) struct Console {
    inner: Arc<Inner>,
}

struct Inner {
    requests: Recent<RequestEntry>,
    samples: Samples,
    findings: LastFindings,
    places: Places,
    started_ms: u64,
}

impl Console {
    /// Nothing has happened yet.
    pub(crate) fn new(config: &Config) -> Self {
        let console = &config.console;
        telemetry::lines().resize(console.log_entries);
        let inner = Inner {
            requests: Recent::new(console.log_entries),
            samples: Samples::default(),
            findings: LastFindings::default(),
            places: Places::new(config),
            started_ms: unix_ms(),
        };
        Self { inner: Arc::new(inner) }
    }

    /// The last requests.
    pub(super) fn requests(&self) -> &Recent<RequestEntry> {
        &self.inner.requests
    }

    pub(super) fn samples(&self) -> &Samples {
        &self.inner.samples
    }

    pub(super) fn count_refusal(&self) {
        self.inner.samples.count_refusal();
    }

    pub(super) fn findings(&self) -> &LastFindings {
        &self.inner.findings
    }

    /// The places of event streams.
    pub(super) fn places(&self) -> &Places {
        &self.inner.places
    }

    /// When this process began, in Unix milliseconds; it identifies the process.
    pub(crate) fn started_ms(&self) -> u64 {
        self.inner.started_ms
    }
}
