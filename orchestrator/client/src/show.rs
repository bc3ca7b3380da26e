//! For people at a terminal: how a task goes, and lists of tasks. Elsewhere nothing is drawn.

use std::fmt::Write as _;
use std::io::IsTerminal as _;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use serde_json::Value;

/// The line that shows how a task goes.
pub(super) struct Progress {
    bar: ProgressBar,
    /// Of a fleet.
    counts: Option<Counts>,
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

    pub(super) fn event(&mut self, name: &str, data: &Value) {
        let number = |value: &Value| value.as_u64().unwrap_or_default();
        match name {
            "task" => self.bar.set_message(plain(&data["status"])),
            // The steps of a fleet's items would take turns on the line.
            "progress" if data["item"].is_null() => match data["type"].as_str() {
                Some("step_started") => {
                    self.set_length(number(&data["steps"]));
                    self.bar.set_position(number(&data["step"]));
                    self.bar.set_message(plain(&data["kind"]));
                }
                Some("step_finished") => self.bar.set_position(number(&data["step"]) + 1),
                Some("rows") => self.bar.set_message(format!("{} rows", data["rows"])),
                Some("warning") => self.bar.println(format!("warning: {}", plain(&data["message"]))),
                _ => {}
            },
            _ => {}
        }
        if let Some(counts) = Counts::of(data) {
            self.set_length(counts.total);
            self.counts = Some(counts);
        }
        if let Some(counts) = &mut self.counts {
            if name == "item" {
                counts.note(data["status"].as_str().unwrap_or_default());
            }
            self.bar.set_position(counts.ended());
            self.bar.set_message(counts.outcome());
        }
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

/// How many items of a fleet are in which state.
struct Counts {
    total: u64,
    success: u64,
    failure: u64,
    cancelled: u64,
}

impl Counts {
    fn of(task: &Value) -> Option<Self> {
        let items = task["items"].as_object()?;
        let number = |name: &str| items.get(name).and_then(Value::as_u64).unwrap_or_default();
        let (success, failure) = (number("success"), number("failure"));
        Some(Self { total: number("total"), success, failure, cancelled: number("cancelled") })
    }

    /// An item has this status now. One that is tried again is queued before, so every end counts.
    fn note(&mut self, status: &str) {
        match status {
            "success" => self.success += 1,
            "failure" => self.failure += 1,
            "cancelled" => self.cancelled += 1,
            _ => {}
        }
    }

    const fn ended(&self) -> u64 {
        self.success + self.failure + self.cancelled
    }

    fn outcome(&self) -> String {
        let mut text = format!("{} of {} succeeded", self.success, self.total);
        for (count, what) in [(self.failure, "failed"), (self.cancelled, "cancelled")] {
            if count > 0 {
                let _ = write!(text, ", {count} {what}");
            }
        }
        text
    }
}

/// The line that a fleet ends with.
pub(super) fn fleet_outcome(task: &Value) -> Option<String> {
    Counts::of(task).map(|counts| counts.outcome())
}

/// Rows as lines whose columns are as wide as their widest cell.
#[must_use]
pub fn columns(rows: &[Vec<String>]) -> String {
    let count = rows.iter().map(Vec::len).max().unwrap_or_default();
    let cell = |row: &Vec<String>, column: usize| row.get(column).map_or(0, |cell| cell.chars().count());
    let widths: Vec<usize> =
        (0..count).map(|column| rows.iter().map(|row| cell(row, column)).max().unwrap_or_default()).collect();
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect::<Vec<_>>().join("\n")
}

fn head(names: &[&str]) -> Vec<Vec<String>> {
    vec![names.iter().map(|name| (*name).to_owned()).collect()]
}

fn moment(ms: &Value) -> String {
    let time = ms.as_i64().and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok());
    time.map(|time| time.strftime("%Y-%m-%d %H:%M:%S").to_string()).unwrap_or_default()
}

fn seconds(ms: &Value) -> String {
    format!("{:.2} s", Duration::from_millis(ms.as_u64().unwrap_or_default()).as_secs_f64())
}

/// A page of a list, below its table.
fn paged(rows: &[Vec<String>], list: &Value, what: &str) -> String {
    let meta = &list["meta"];
    let pages = meta["totalPages"].as_u64().unwrap_or_default().max(1);
    format!("{}\npage {} of {pages}, {} {what}", columns(rows), meta["currentPage"], meta["totalRecords"])
}

/// A page of tasks, a line each: time, type and page, duration, and outcome.
pub(super) fn tasks(list: &Value) -> String {
    let mut rows = head(&["TASK", "BEGUN (UTC)", "TYPE", "STATUS", "TOOK", "BROWSER", "KEY", "WHAT", "ERROR"]);
    for task in list["tasks"].as_array().into_iter().flatten() {
        let what = ["name", "title", "page"].iter().map(|part| &task[part]).find(|part| part.is_string());
        rows.push(vec![
            plain(&task["taskId"]),
            moment(&task["timestamp"]),
            plain(&task["executionType"]),
            plain(&task["status"]),
            seconds(&task["executionTime"]),
            plain(&task["browserType"]),
            plain(&task["keyId"]),
            what.map(|what| short(plain(what))).unwrap_or_default(),
            plain(&task["error"]["code"]),
        ]);
    }
    paged(&rows, list, "tasks")
}

/// The items of a fleet, a line each.
pub(super) fn items(items: &[Value]) -> String {
    let mut rows = head(&["ITEM", "STATUS", "TRIES", "TOOK", "INPUTS", "ERROR"]);
    for item in items {
        rows.push(vec![
            item["index"].to_string(),
            plain(&item["status"]),
            item["attempts"].to_string(),
            seconds(&item["executionTime"]),
            short(plain(&Value::from(item["inputs"].to_string()))),
            plain(&item["error"]["code"]),
        ]);
    }
    columns(&rows)
}

/// A page of sessions, a line each.
pub(super) fn sessions(list: &Value) -> String {
    let mut rows = head(&["SESSION", "MADE (UTC)", "KIND", "STATUS", "LASTED", "BROWSER", "KEY", "PAGE", "REASON"]);
    for session in list["sessions"].as_array().into_iter().flatten() {
        let mode = if session["headless"] == true { "headless" } else { "headed" };
        rows.push(vec![
            plain(&session["session_id"]),
            moment(&session["timestamp"]),
            plain(&session["kind"]),
            plain(&session["status"]),
            seconds(&session["execution_time"]),
            format!("{} {mode}", plain(&session["browser_type"])),
            plain(&session["key_id"]),
            short(plain(&session["url"])),
            plain(&session["reason"]),
        ]);
    }
    paged(&rows, list, "sessions")
}

fn short(text: String) -> String {
    const LONGEST: usize = 48;
    if text.chars().count() <= LONGEST { text } else { text.chars().take(LONGEST - 1).chain(['…']).collect() }
}

/// Text without control characters, which pages could use to move the terminal's cursor.
fn plain(value: &Value) -> String {
    value.as_str().unwrap_or_default().chars().filter(|char| !char.is_control()).take(120).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_list_has_a_line_a_task_and_no_cursor_moves() {
        let list = json!({
            "tasks": [
                {"taskId": "tsk_1", "timestamp": 1_795_238_459_418_u64, "executionType": "run", "status": "failure",
                 "executionTime": 5043, "browserType": "chromium", "keyId": "0123456789ab", "title": "Log in",
                 "page": "https://shop.example/", "error": {"code": "no_match"}},
                {"taskId": "tsk_\u{1b}[2J2", "timestamp": 0, "executionType": "fleet", "status": "success", "executionTime": 7},
            ],
            "meta": {"currentPage": 1, "totalPages": 1, "totalRecords": 2},
        });
        let text = tasks(&list);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 4, "{text}");
        let whole = "2026-11-21 05:20:59  run    failure  5.04 s  chromium  0123456789ab  Log in  no_match";
        assert!(lines[1].ends_with(whole), "{text}");
        assert_eq!(lines[0].find("BEGUN"), lines[1].find("2026"), "{text}");
        assert!(lines[2].starts_with("tsk_[2J2") && lines[2].ends_with("0.01 s"), "{text}");
        assert_eq!(lines[3], "page 1 of 1, 2 tasks");
        assert!(!text.contains('\u{1b}'));
    }

    #[test]
    fn a_fleet_ends_with_its_counts() {
        let task = |success, failure, cancelled| json!({"items": {"total": 20, "success": success, "failure": failure, "cancelled": cancelled}});
        assert_eq!(fleet_outcome(&task(20, 0, 0)).as_deref(), Some("20 of 20 succeeded"));
        assert_eq!(fleet_outcome(&task(19, 1, 0)).as_deref(), Some("19 of 20 succeeded, 1 failed"));
        assert_eq!(fleet_outcome(&task(2, 1, 17)).as_deref(), Some("2 of 20 succeeded, 1 failed, 17 cancelled"));
        assert_eq!(fleet_outcome(&json!({"status": "success"})), None);
    }
}
