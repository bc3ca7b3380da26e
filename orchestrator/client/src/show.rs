//! For people at a terminal: how a task goes, and lists of tasks. Elsewhere nothing is drawn.

use std::fmt::Write as _;
use std::io::IsTerminal as _;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use serde_json::Value;
use warmpool_api::list::PageMeta;
use warmpool_api::session::{SessionPage, SessionView};
use warmpool_api::task::{self, ItemCounts, ItemView, ProgressEvent, TaskPage};
use warmpool_core::browser::Mode;

use super::events::Event;
use super::table::{Column, table};

/// The line that shows how a task goes.
pub(super) struct Progress {
    bar: ProgressBar,
    /// Of a fleet.
    counts: Option<ItemCounts>,
}

impl Progress {
    pub(super) fn new() -> Self {
        if !std::io::stderr().is_terminal() {
            return Self { bar: ProgressBar::hidden(), counts: None };
        }
        // How much there is to do is known when it has begun.
        let bar = ProgressBar::no_length();
        style(&bar, "{spinner} {elapsed} {msg}");
        bar.enable_steady_tick(Duration::from_millis(120));
        Self { bar, counts: None }
    }

    /// Names what goes on at the daemon, also for whoever leaves before it has ended.
    pub(super) fn name(&self, what: &str, id: &str) {
        self.bar.println(format!("{what} {id}: Ctrl-C leaves it running"));
    }

    pub(super) fn event(&mut self, event: &Event) {
        use task::Progress::{Rows, StepFinished, StepStarted, Warning};

        match event {
            Event::Task(task) => {
                self.bar.set_message(task.status.as_str());
                if let Some(counts) = &task.items {
                    self.set_length(counts.total.into());
                    self.counts = Some(counts.clone());
                }
            }
            // One that is tried again is queued before, so every end counts.
            Event::Item(item) if item.status.is_end() => {
                if let Some(counts) = &mut self.counts {
                    *counts.of_status(item.status) += 1;
                }
            }
            // The steps of a fleet's items would take turns on the line.
            Event::Progress(ProgressEvent { item: None, progress }) => match progress {
                StepStarted { step, steps, kind } => {
                    self.set_length(*steps as u64);
                    self.bar.set_position(*step as u64);
                    self.bar.set_message(plain(kind));
                }
                StepFinished { step, .. } => self.bar.set_position(*step as u64 + 1),
                Rows { rows, .. } => self.bar.set_message(format!("{rows} rows")),
                Warning { message } => self.bar.println(format!("warning: {}", plain(message))),
            },
            Event::Item(_) | Event::Progress(_) | Event::End(..) => {}
        }
        if let Some(counts) = &self.counts {
            self.bar.set_position((counts.success + counts.failure + counts.cancelled).into());
            self.bar.set_message(outcome(counts));
        }
    }

    /// Shows how much of something is done, from 0 to 1.
    pub(super) fn of_whole(&self, part: f64, what: &'static str) {
        self.set_length(100);
        self.bar.set_position((part.clamp(0.0, 1.0) * 100.0) as u64);
        self.bar.set_message(what);
    }

    fn set_length(&self, length: u64) {
        if self.bar.length() != Some(length) {
            style(&self.bar, "{spinner} {bar:30} {pos}/{len} {elapsed} {msg}");
            self.bar.set_length(length);
        }
    }

    pub(super) fn end(&self) {
        self.bar.finish_and_clear();
    }
}

fn style(bar: &ProgressBar, template: &str) {
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
}

/// The line that a fleet ends with.
pub(super) fn outcome(counts: &ItemCounts) -> String {
    let mut text = format!("{} of {} succeeded", counts.success, counts.total);
    for (count, what) in [(counts.failure, "failed"), (counts.cancelled, "cancelled")] {
        if count > 0 {
            let _ = write!(text, ", {count} {what}");
        }
    }
    text
}

pub(super) fn moment(ms: u64) -> String {
    let time = i64::try_from(ms).ok().and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok());
    time.map(|time| time.strftime("%Y-%m-%d %H:%M:%S").to_string()).unwrap_or_default()
}

pub(super) fn seconds(ms: u64) -> String {
    format!("{:.2} s", Duration::from_millis(ms).as_secs_f64())
}

/// The line below a page of a list.
pub(super) fn place(meta: PageMeta, what: &str) -> String {
    let several = if meta.total_records == 1 { "" } else { "s" };
    format!("page {} of {}, {} {what}{several}", meta.current_page, meta.total_pages.max(1), meta.total_records)
}

/// A page of tasks, a line each: time, type and page, duration, and outcome.
pub(super) fn tasks(list: &TaskPage) -> String {
    let rows = list.tasks.iter().map(|task| {
        let what = task.name.as_ref().or(task.title.as_ref()).or(task.page.as_ref());
        [
            task.task_id.to_string(),
            moment(task.timestamp),
            task.execution_type.to_string(),
            task.status.to_string(),
            seconds(task.execution_time),
            task.browser_type.to_string(),
            task.key_id.to_string(),
            what.map(|what| plain(what)).unwrap_or_default(),
            task.error.as_ref().map(|error| plain(&error.code)).unwrap_or_default(),
        ]
    });
    let columns = [
        Column::new("TASK"),
        Column::new("ACCEPTED (UTC)").optional(3),
        Column::new("TYPE").optional(4),
        Column::new("STATUS"),
        Column::new("TOOK").right().optional(2),
        Column::new("BROWSER").optional(5),
        Column::new("KEY").optional(6),
        Column::new("WHAT").cut(),
        Column::new("ERROR").cut().optional(1),
    ];
    format!("{}\n{}", table(columns, rows), place(list.meta, "task"))
}

/// The items of a fleet, a line each.
pub(super) fn items(items: &[ItemView]) -> String {
    let rows = items.iter().map(|item| {
        [
            item.index.to_string(),
            item.status.to_string(),
            item.attempts.to_string(),
            seconds(item.execution_time),
            plain(&Value::Object(item.inputs.clone()).to_string()),
            item.error.as_ref().map(|error| plain(&error.code)).unwrap_or_default(),
        ]
    });
    let columns = [
        Column::new("ITEM").right(),
        Column::new("STATUS"),
        Column::new("TRIES").right().optional(3),
        Column::new("TOOK").right().optional(2),
        Column::new("INPUTS").cut(),
        Column::new("ERROR").cut().optional(1),
    ];
    table(columns, rows)
}

/// A page of sessions, a line each.
pub(super) fn sessions(list: &SessionPage) -> String {
    let rows = list.sessions.iter().map(|session| {
        [
            plain(session.session_id.as_str()),
            moment(session.timestamp),
            session.kind.as_str().to_owned(),
            session.status.as_str().to_owned(),
            seconds(session.execution_time),
            format!("{} {}", session.browser_type, Mode::from_headless(session.headless).as_str()),
            session.key_id.to_string(),
            session.url.as_deref().map(plain).unwrap_or_default(),
            session.reason.as_deref().map(plain).unwrap_or_default(),
        ]
    });
    let columns = [
        Column::new("SESSION"),
        Column::new("MADE (UTC)").optional(3),
        Column::new("KIND").optional(5),
        Column::new("STATUS"),
        Column::new("LASTED").right().optional(2),
        Column::new("BROWSER").optional(4),
        Column::new("KEY").optional(6),
        Column::new("PAGE").cut(),
        Column::new("REASON").cut().optional(1),
    ];
    format!("{}\n{}", table(columns, rows), place(list.meta, "session"))
}

/// A session that was made, by what opens it.
pub(super) fn created(made: &Value) -> String {
    let member = |name: &str| made[name].as_str();
    let lines = [
        ("session", member("session_id")),
        ("websocket", member("websocket_url")),
        ("webdriver", member("connect_url")),
        ("live view", member("livestream_url")),
    ];
    let mut text = String::new();
    for (name, value) in lines {
        if let Some(value) = value {
            let _ = writeln!(text, "{name:<9}  {}", control_free(value));
        }
    }
    let _ = write!(text, "end it     warmpool sessions end {}", member("session_id").map(plain).unwrap_or_default());
    text
}

/// A session that was ended.
pub(super) fn ended(session: &SessionView) -> String {
    let reason = session.reason.as_deref().map(|reason| format!(" ({})", plain(reason))).unwrap_or_default();
    let lasted = seconds(session.execution_time);
    format!("{} {}{reason} after {lasted}", session.session_id, session.status.as_str())
}

/// Text without control characters, which pages could use to move the terminal's cursor.
pub(super) fn control_free(text: &str) -> String {
    text.chars().filter(|char| !char.is_control()).collect()
}

/// The beginning of such a text.
pub(super) fn plain(text: &str) -> String {
    const LONGEST: usize = 200;
    text.chars().filter(|char| !char.is_control()).take(LONGEST).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_list_has_a_line_a_task_and_no_cursor_moves() {
        let task = |of_task: Value| {
            let mut task = json!({
                "taskId": "tsk_01KAJ6H2TT0000000000000000", "executionType": "fleet", "executionTime": 7, "inputs": {},
                "servicePasscode": null, "timestamp": 0, "status": "success", "browserType": "chromium", "headless": true,
                "keyId": "0123456789ab", "output": [],
            });
            if let (Some(task), Value::Object(of_task)) = (task.as_object_mut(), of_task) {
                task.extend(of_task);
            }
            task
        };
        let list = json!({
            "tasks": [
                task(json!({
                    "timestamp": 1_795_238_459_418_u64, "executionType": "run", "status": "failure", "executionTime": 5043,
                    "title": "Log in", "page": "https://shop.example/", "error": {"code": "no_match", "message": ""},
                })),
                task(json!({"title": "\u{1b}[2Jx", "member of a later release": 1})),
            ],
            "meta": {"currentPage": 1, "totalPages": 1, "totalRecords": 2},
        });
        let text = tasks(&serde_json::from_value(list).unwrap());
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 4, "{text}");
        let whole = "2026-11-21 05:20:59  run    failure  5.04 s  chromium  0123456789ab  Log in  no_match";
        assert!(lines[1].ends_with(whole), "{text}");
        assert_eq!(lines[0].find("ACCEPTED"), lines[1].find("2026"), "{text}");
        assert!(lines[2].contains("  0.01 s  ") && lines[2].ends_with("  [2Jx"), "{text}");
        assert_eq!(lines[3], "page 1 of 1, 2 tasks");
        assert!(!text.contains('\u{1b}'));
    }

    #[test]
    fn a_fleet_ends_with_its_counts() {
        let fleet = |success, failure, cancelled| {
            outcome(&ItemCounts { total: 20, success, failure, cancelled, ..ItemCounts::default() })
        };
        assert_eq!(fleet(20, 0, 0), "20 of 20 succeeded");
        assert_eq!(fleet(19, 1, 0), "19 of 20 succeeded, 1 failed");
        assert_eq!(fleet(2, 1, 17), "2 of 20 succeeded, 1 failed, 17 cancelled");
    }
}
