//! Outputs as text, and the memory that they take.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::sleep;

use super::Memory;
use super::rows::Rows;
use crate::task::record::Output;
use crate::task::tasks::Tasks;
use warmpool_core::ids::TaskId;

/// How often an export asks again for memory that others hold.
const ASK_AGAIN: Duration = Duration::from_millis(100);
/// How many times its size an output takes while it is sent: its text, one value of it, and a line that is still growing.
const COPIES: u64 = 4;

/// Reads the outputs of a task and of its items.
pub(super) struct Outputs<M> {
    tasks: Tasks,
    task: TaskId,
    memory: M,
}

/// The text of an output.
pub(super) struct OutputText<P> {
    pub(super) rows: Rows,
    /// What it and what is made of it take; none where the output is small.
    memory: Option<Arc<P>>,
}

impl<M: Memory> Outputs<M> {
    pub(super) fn new(tasks: &Tasks, task: TaskId, memory: M) -> Self {
        Self { tasks: tasks.clone(), task, memory }
    }

    /// Reads an output, once there is memory for it.
    /// Errors: those of [`Memory::take`]; if it `waits`, only where there will never be enough.
    /// Fails when the output's file cannot be read.
    pub(super) async fn read(&self, output: &Output, waits: bool) -> Result<OutputText<M::Part>, M::Error> {
        let memory = match output {
            // It is no longer than a record.
            Output::Inline(_) => None,
            Output::File { bytes, .. } => Some(Arc::new(self.take(*bytes, waits).await?)),
        };
        let text = self.tasks.inner.storage.output_text(self.task, output).await?;
        Ok(OutputText { rows: Rows::new(text), memory })
    }

    /// Takes memory for an output of so many bytes. The export holds none meanwhile, so no two of them wait for each other.
    async fn take(&self, bytes: u64, waits: bool) -> Result<M::Part, M::Error> {
        let most = self.memory.most();
        let wanted = bytes.saturating_mul(COPIES).min(most).max(bytes);
        loop {
            match self.memory.take(wanted) {
                Err(_) if waits && wanted <= most => sleep(ASK_AGAIN).await,
                taken => return taken,
            }
        }
    }
}

impl<P: Send + Sync + 'static> OutputText<P> {
    /// Lines that were made of it, which hold its memory until they are sent.
    pub(super) fn counted(&self, lines: Vec<u8>) -> Bytes {
        match &self.memory {
            Some(memory) => Bytes::from_owner(Counted { lines, _memory: Arc::clone(memory) }),
            None => lines.into(),
        }
    }
}

/// Lines that count.
struct Counted<P> {
    lines: Vec<u8>,
    _memory: Arc<P>,
}

impl<P> AsRef<[u8]> for Counted<P> {
    fn as_ref(&self) -> &[u8] {
        &self.lines
    }
}
