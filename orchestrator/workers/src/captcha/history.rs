//! What a session's record keeps about its challenges.

use warmpool_api::captcha::CaptchaRecord;

/// Challenges that a session's record lists.
const MAX_LISTED: usize = 32;

/// The challenges of a session that are over.
#[derive(Debug, Default)]
pub(super) struct History {
    records: Vec<CaptchaRecord>,
    /// How many there have been, including those of an earlier process. Of those beyond the limit only the first counts.
    count: usize,
}

impl History {
    /// Continues from the record of an earlier process, which has counted so many. Those of earlier releases count the listed ones alone.
    pub(super) fn new(records: Vec<CaptchaRecord>, counted: usize) -> Self {
        let count = counted.max(records.len());
        Self { records, count }
    }

    /// How many there have been.
    pub(super) const fn count(&self) -> usize {
        self.count
    }

    pub(super) fn add(&mut self, record: CaptchaRecord) {
        self.count += 1;
        if self.records.len() == MAX_LISTED {
            self.records.remove(0);
        }
        self.records.push(record);
    }

    pub(super) fn records(&self) -> Vec<CaptchaRecord> {
        self.records.clone()
    }
}

#[cfg(test)]
mod tests {
    use warmpool_api::captcha::{Outcome, SolvedBy};
    use warmpool_protocol::CaptchaKind;

    use super::*;

    #[test]
    fn the_list_is_bounded_and_the_count_is_not() {
        let record = |since| CaptchaRecord {
            kind: CaptchaKind::Image,
            url: "http://a.example/".to_owned(),
            since,
            ended_at: since + 1,
            by: SolvedBy::Solver,
            outcome: Outcome::Failed,
            error: Some("solver_key".to_owned()),
            cost: None,
        };
        let mut history = History::new(vec![record(0)], 0);
        (1..100).for_each(|since| history.add(record(since)));
        assert_eq!((history.count(), history.records().len()), (100, MAX_LISTED));
        let next = History::new(history.records(), history.count());
        assert_eq!(next.count(), 100, "another process goes on counting");
        assert_eq!(history.records().last().unwrap().since, 99);
        let json = serde_json::to_value(record(0)).unwrap();
        assert_eq!((&json["by"], &json["outcome"]), (&"solver".into(), &"failed".into()));
    }
}
