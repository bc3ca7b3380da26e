//! The items of a fleet, read from the store in pages of so many bytes.

use std::vec::IntoIter;

use crate::Error;
use crate::task::record::Item;
use crate::task::tasks::Tasks;
use warmpool_core::error::ServiceFault as _;
use warmpool_core::ids::TaskId;

/// The most bytes that are held of a page, unless one item has more.
const PAGE: usize = 64 << 10;

/// Reads items in their order.
pub(super) struct ItemPages {
    tasks: Tasks,
    task: TaskId,
    after: Option<u32>,
    /// What is left of a page, as JSON text.
    page: IntoIter<Vec<u8>>,
}

impl ItemPages {
    /// The items from the one after `after` on.
    pub(super) fn new(tasks: &Tasks, task: TaskId, after: Option<u32>) -> Self {
        Self { tasks: tasks.clone(), task, after, page: Vec::new().into_iter() }
    }

    /// The next one.
    /// Fails when the store cannot be read.
    pub(super) async fn next(&mut self) -> Result<Option<Item>, Error> {
        if self.page.as_slice().is_empty() {
            let page = self.tasks.inner.storage.item_texts(self.task, self.after, PAGE).await?;
            self.page = page.into_iter();
        }
        let Some(text) = self.page.next() else { return Ok(None) };
        let item: Item = serde_json::from_slice(&text).map_err(Error::internal)?;
        self.after = Some(item.index);
        Ok(Some(item))
    }
}
