//! Lists of sessions: which of them match a query, in which order, and how each is shown.

use std::cmp::Ordering;

use super::record::{Ended, SortKey};
use super::table::SessionEntry;
use super::{Options, SessionQuery, SessionView, Sessions, Status};
use warmpool_api::session::Ads;
use warmpool_core::clock::unix_ms;
use warmpool_core::ids::SessionId;
use warmpool_keys::KeyId;

/// What queries look at. A view copies all that a record has, which is too much for the thousands that a page leaves out.
struct Listed<'a> {
    id: &'a SessionId,
    options: &'a Options,
    created_ms: u64,
    status: Status,
    execution_time: u64,
}

impl Sessions {
    /// One page of the sessions of a key, or of all keys, and how many match in all.
    pub fn list(&self, query: &SessionQuery, owner: Option<&KeyId>) -> (Vec<SessionView>, u64) {
        let now = unix_ms();
        let rows = self.lock();
        if query.takes_all_by_time() {
            let (page, total) = (rows.page(owner, query.sort_order, query.bounds()), rows.count(owner));
            drop(rows);
            return (page.iter().map(|entry| entry.listing(now)).collect(), total as u64);
        }
        let found: Vec<SessionEntry> = rows.by_time(owner).cloned().collect();
        drop(rows);
        let (page, total) = query.page_of(&found, now);
        (page.into_iter().map(|entry| entry.listing(now)).collect(), total)
    }
}

impl SessionEntry {
    pub(super) fn listing(&self, now_ms: u64) -> SessionView {
        match self {
            Self::Live(session) => {
                let mut record = session.record();
                // Its end may be decided and not yet written; the record is complete all the same.
                record.ended = session.ending().map(|ending| Ended::new(&ending, now_ms));
                let ads = session.worker.snapshot.borrow().ads_blocked.map(|blocked| Ads { blocked });
                SessionView { ads, captcha: session.captchas.waiting(), ..record.view(session.status(), now_ms) }
            }
            Self::Past(record) => record.view(record.past_status(), now_ms),
        }
    }

    fn listed(&self, now_ms: u64) -> Listed<'_> {
        let (id, options, created_ms, status, ended) = match self {
            Self::Live(session) => (&session.id, &session.options, session.created_ms, session.status(), None),
            Self::Past(record) => {
                let ended = record.ended.as_ref().map(|ended| ended.at_ms);
                (&record.session_id, &record.options, record.created_ms, record.past_status(), ended)
            }
        };
        let execution_time = ended.unwrap_or(now_ms).saturating_sub(created_ms);
        Listed { id, options, created_ms, status: options.shown_status(status), execution_time }
    }
}

/// A row that matches, and what queries look at in it.
type Found<'a> = (Listed<'a>, &'a SessionEntry);

impl SessionQuery {
    /// Whether it leaves nothing out, and asks for the order of time, which the table keeps.
    fn takes_all_by_time(&self) -> bool {
        let Self { key_id, page, limit, sort_order, .. } = self.clone();
        *self == Self { key_id, page, limit, sort_order, ..Self::default() }
    }

    /// How many rows come before its page, and how many the page has at most.
    fn bounds(&self) -> (usize, usize) {
        let skip = (self.page - 1).saturating_mul(self.limit);
        let [skip, limit] = [skip, self.limit].map(|count| usize::try_from(count).unwrap_or(usize::MAX));
        (skip, limit)
    }

    /// The page that is asked for of those that match, and how many match in all.
    fn page_of<'a>(&self, rows: &'a [SessionEntry], now_ms: u64) -> (Vec<&'a SessionEntry>, u64) {
        let listed = rows.iter().map(|entry| (entry.listed(now_ms), entry));
        let mut found: Vec<Found<'_>> = listed.filter(|(listed, _)| self.matches(listed)).collect();
        let total = found.len() as u64;
        let order = |a: &Found<'_>, b: &Found<'_>| self.compare(&a.0, &b.0);
        let (skip, limit) = self.bounds();
        let end = skip.saturating_add(limit);
        if end < found.len() {
            // What comes behind the page needs no order.
            found.select_nth_unstable_by(end, order);
            found.truncate(end);
        }
        found.sort_unstable_by(order);
        (found.into_iter().skip(skip).map(|(_, entry)| entry).collect(), total)
    }

    fn matches(&self, listed: &Listed<'_>) -> bool {
        let options = listed.options;
        self.start_time.is_none_or(|start| listed.created_ms > start)
            && self.end_time.is_none_or(|end| listed.created_ms < end)
            && self.session_id.as_ref().is_none_or(|id| listed.id.as_str() == id)
            && (self.statuses.is_empty() || self.statuses.contains(&listed.status))
            && (self.engines.is_empty() || self.engines.contains(&options.engine))
            && self.service_passcode.as_ref().is_none_or(|code| options.service_passcode.as_ref() == Some(code))
            && self.app_name.as_ref().is_none_or(|app| options.app_name.as_ref() == Some(app))
            && self.name.as_ref().is_none_or(|name| options.name.as_ref() == Some(name))
            && self.metadata.iter().all(|label| options.metadata.has(label))
    }

    /// A total order: what compares equal is ordered by time, then by id.
    fn compare(&self, a: &Listed<'_>, b: &Listed<'_>) -> Ordering {
        let by_key = match self.sort_by {
            SortKey::Timestamp => Ordering::Equal,
            SortKey::ExecutionTime => a.execution_time.cmp(&b.execution_time),
            SortKey::SessionId => a.id.cmp(b.id),
            SortKey::Status => a.status.as_str().cmp(b.status.as_str()),
        };
        let order = by_key.then(a.created_ms.cmp(&b.created_ms)).then_with(|| a.id.cmp(b.id));
        self.sort_order.apply(order)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;
    use serde_json::json;
    use warmpool_core::browser::Engine;
    use warmpool_core::sort::SortOrder;

    use super::super::Record;
    use super::super::rows::Rows;
    use super::*;

    fn past(id: &str, created_ms: u64, engine: &str, ended: Option<(&str, u64)>) -> SessionEntry {
        let ended = ended.map(|(status, at_ms)| json!({"status": status, "reason": "", "message": "", "at_ms": at_ms}));
        let record = json!({
            "session_id": id,
            "owner": "000000000000",
            "options": {
                "kind": "webdriver", "engine": engine, "mode": "headless", "launch": {"url": null},
                "session_timeout": 300, "idle_timeout": null,
            },
            "created_ms": created_ms,
            "worker": "a",
            "ended": ended,
        });
        SessionEntry::Past(Arc::new(serde_json::from_value(record).unwrap()))
    }

    #[test]
    fn a_page_has_what_its_views_show() {
        let rows = [
            past("ses_a", 10, "chromium", Some(("completed", 90))),
            past("ses_b", 20, "firefox", Some(("failure", 25))),
            past("ses_c", 30, "chromium", Some(("completed", 31))),
            past("ses_d", 30, "chromium", None),
        ];
        let listed = |query: SessionQuery| {
            let (page, total) = query.page_of(&rows, 100);
            let views: Vec<SessionView> = page.into_iter().map(|entry| entry.listing(100)).collect();
            for (view, row) in views.iter().flat_map(|view| rows.iter().map(move |row| (view, row.listed(100)))) {
                let is_same = view.session_id == *row.id;
                assert!(!is_same || (view.status, view.execution_time) == (row.status, row.execution_time), "{view:?}");
            }
            (views.iter().map(|view| view.session_id.as_str().replace("ses_", "")).collect::<String>(), total)
        };
        let sorted = |sort_by| SessionQuery { sort_by, sort_order: SortOrder::Ascend, ..SessionQuery::default() };
        let found = |text: &str, total| (text.to_owned(), total);
        assert_eq!(listed(sorted(SortKey::Timestamp)), found("abcd", 4));
        assert_eq!(listed(sorted(SortKey::ExecutionTime)), found("cbda", 4));
        assert_eq!(listed(SessionQuery { page: 2, limit: 3, ..sorted(SortKey::SessionId) }), found("d", 4));
        let engines = vec![Engine::Chromium];
        assert_eq!(listed(SessionQuery { engines, limit: 1, ..sorted(SortKey::Timestamp) }), found("a", 3));
        let statuses = vec![Status::Unknown];
        assert_eq!(listed(SessionQuery { statuses, ..sorted(SortKey::Timestamp) }), found("d", 1));
        assert_eq!(listed(SessionQuery { start_time: Some(10), end_time: Some(30), ..sorted(SortKey::Status) }).0, "b");
    }

    #[test]
    fn sessions_are_found_by_their_names() {
        let mut rows = Vec::new();
        for (id, app_name, name) in [("ses_a", "shop", "work"), ("ses_b", "shop", "play"), ("ses_c", "mail", "work")] {
            let SessionEntry::Past(record) = past(id, 1, "chromium", None) else { continue };
            let mut record = Record::clone(&record);
            record.options.app_name = Some(app_name.to_owned());
            record.options.name = Some(name.to_owned());
            rows.push(SessionEntry::Past(Arc::new(record)));
        }
        rows.push(past("ses_d", 1, "chromium", None));
        let text = |text: &str| Some(text.to_owned());
        for (app_name, name, ids) in [
            (text("shop"), None, vec!["ses_a", "ses_b"]),
            (None, text("work"), vec!["ses_a", "ses_c"]),
            (text("shop"), text("work"), vec!["ses_a"]),
            (text("work"), None, vec![]),
        ] {
            let query = SessionQuery { app_name, name, sort_order: SortOrder::Ascend, ..SessionQuery::default() };
            let found: Vec<&str> = query.page_of(&rows, 1).0.into_iter().map(|entry| entry.id().as_str()).collect();
            assert_eq!(found, ids, "{query:?}");
        }
        assert_eq!(rows[0].listing(1).name.as_deref(), Some("work"), "the view shows it");
    }

    #[test]
    fn only_a_list_of_all_by_time_is_read_from_the_table() {
        let every = SessionQuery::default;
        let key_id = Some("000000000001".parse().unwrap());
        let sort_order = SortOrder::Ascend;
        assert!(SessionQuery { key_id, page: 3, limit: 100, sort_order, ..every() }.takes_all_by_time());
        for other in [
            SessionQuery { start_time: Some(1), ..every() },
            SessionQuery { end_time: Some(1), ..every() },
            SessionQuery { session_id: Some("ses_a".to_owned()), ..every() },
            SessionQuery { service_passcode: Some("a".to_owned()), ..every() },
            SessionQuery { app_name: Some("a".to_owned()), ..every() },
            SessionQuery { name: Some("a".to_owned()), ..every() },
            SessionQuery { metadata: vec!["a=b".to_owned().try_into().unwrap()], ..every() },
            SessionQuery { statuses: vec![Status::Running], ..every() },
            SessionQuery { engines: vec![Engine::Chromium], ..every() },
            SessionQuery { sort_by: SortKey::SessionId, ..every() },
        ] {
            assert!(!other.takes_all_by_time(), "{other:?}");
        }
    }

    proptest! {
        /// From the table and from a walk.
        #[test]
        fn a_page_by_time_is_cut_from_all_in_their_order(
            made in prop::collection::vec((0..9_u64, 0..2_usize), 0..24),
            page in 1..5_u64,
            limit in 1..9_u64,
            sort_order in prop_oneof![Just(SortOrder::Ascend), Just(SortOrder::Descend)],
        ) {
            let owners: [KeyId; 2] = ["000000000001", "000000000002"].map(|id| id.parse().unwrap());
            let mut rows = Rows::default();
            let mut entries = Vec::new();
            for (number, (created_ms, owner)) in made.into_iter().enumerate() {
                let entry = past(&format!("ses_{number:02}"), created_ms, "chromium", None);
                let SessionEntry::Past(record) = entry else { continue };
                let record = Record { owner: owners[owner].clone(), ..Record::clone(&record) };
                entries.push(SessionEntry::Past(Arc::new(record)));
            }
            entries.iter().cloned().for_each(|entry| rows.put(entry));
            let query = SessionQuery { page, limit, sort_order, ..SessionQuery::default() };
            let (skip, count) = query.bounds();
            for owner in [None, Some(&owners[0]), Some(&owners[1])] {
                let is_own = |entry: &&SessionEntry| owner.is_none_or(|owner| entry.owner() == owner);
                let own: Vec<SessionEntry> = entries.iter().filter(is_own).cloned().collect();
                let mut sorted: Vec<&SessionEntry> = own.iter().collect();
                sorted.sort_by_key(|entry| (entry.created_ms(), entry.id().clone()));
                if sort_order == SortOrder::Descend {
                    sorted.reverse();
                }
                let wanted: Vec<&SessionId> =
                    sorted.into_iter().skip(skip).take(count).map(SessionEntry::id).collect();
                let read = rows.page(owner, sort_order, (skip, count));
                prop_assert_eq!(read.iter().map(SessionEntry::id).collect::<Vec<_>>(), wanted.clone());
                let (found, total) = query.page_of(&own, 100);
                prop_assert_eq!(found.into_iter().map(SessionEntry::id).collect::<Vec<_>>(), wanted);
                prop_assert_eq!((rows.count(owner), total), (own.len(), own.len() as u64));
            }
        }
    }
}
