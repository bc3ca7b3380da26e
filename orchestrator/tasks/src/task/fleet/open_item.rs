//! The items of a fleet that have no end yet.

use crate::task::record::{Item, Output};
use crate::task::spec::FleetRules;
use warmpool_api::task::Status;

/// An item that is still to be carried out. A fleet may have 100,000 of them, so that one that nobody has begun takes no memory
/// beside the order.
#[derive(Debug)]
pub(in crate::task) enum OpenItem {
    /// Nobody has begun it, and the order has its inputs.
    Fresh(u32),
    /// A runner has had it, in this process or in an earlier one.
    Known(Box<Item>),
}

impl OpenItem {
    /// The item itself, with its inputs.
    pub(in crate::task) fn into_item(self, rules: &FleetRules) -> Item {
        match self {
            Self::Known(item) => *item,
            Self::Fresh(index) => Item {
                index,
                status: Status::Queued,
                attempts: 0,
                execution_time: 0,
                inputs: rules.items.get(index as usize).cloned().unwrap_or_default(),
                session_id: None,
                error: None,
                output: Output::default(),
                artifacts: Vec::new(),
            },
        }
    }
}

impl From<Item> for OpenItem {
    fn from(item: Item) -> Self {
        Self::Known(Box::new(item))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_fresh_item_has_the_inputs_of_its_order() {
        let rules = json!({"items": [{"a": 1}, {"a": 2}], "concurrency": 1, "retries": 0, "backoff_ms": 0});
        let rules: FleetRules = serde_json::from_value(rules).unwrap();
        let fresh = OpenItem::Fresh(1).into_item(&rules);
        assert_eq!((fresh.index, fresh.status, fresh.attempts), (1, Status::Queued, 0));
        assert_eq!(fresh.inputs, rules.items[1]);
        let known = Item { attempts: 3, index: 0, ..fresh };
        assert_eq!(OpenItem::from(known.clone()).into_item(&rules), known, "it stays as it is");
    }
}
