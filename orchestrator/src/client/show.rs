//! For people at a terminal: how a task goes, and lists of tasks. Elsewhere nothing is drawn.

use std::fmt::Write as _;
use std::io::IsTerminal as _;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use serde_json::Value;

/// The line that shows how a task goes.
pub(super) struct Shown {
    bar: ProgressBar,
}

impl Shown {
    pub(super) fn new() -> Self {
        if !std::io::stderr().is_terminal() {
            return Self { bar: ProgressBar::hidden() };
        }
        // How much there is to do is known when it has begun.
        let bar = ProgressBar::no_length();
        style(&bar, "{spinner} {elapsed} {msg}");
        bar.enable_steady_tick(Duration::from_millis(120));
        Self { bar }
    }

    pub(super) fn event(&mut self, name: &str, data: &Value) {
        let number = |value: &Value| value.as_u64().unwrap_or_default();
        match name {
            "task" => self.bar.set_message(plain(&data["status"])),
            "item" => self.bar.set_message(format!("item {} {}", data["index"], plain(&data["status"]))),
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
        let items = &data["items"];
        if items.is_object() {
            self.set_length(number(&items["total"]));
        }
        if name == "item" && ["success", "failure", "cancelled"].contains(&data["status"].as_str().unwrap_or_default())
        {
            self.bar.inc(1);
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

/// A page of the list, a line each: when, how long, what, how it went.
pub(super) fn table(list: &Value) -> String {
    let mut text =
        format!("{:<30}  {:<19}  {:<7}  {:<9}  {:>10}  ERROR\n", "TASK", "BEGUN (UTC)", "TYPE", "STATUS", "TOOK");
    for task in list["tasks"].as_array().into_iter().flatten() {
        let begun = task["timestamp"].as_i64().and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok());
        let begun = begun.map(|time| time.strftime("%Y-%m-%d %H:%M:%S").to_string()).unwrap_or_default();
        let took = Duration::from_millis(task["executionTime"].as_u64().unwrap_or_default());
        let _ = writeln!(
            text,
            "{:<30}  {begun:<19}  {:<7}  {:<9}  {:>8.2} s  {}",
            plain(&task["taskId"]),
            plain(&task["executionType"]),
            plain(&task["status"]),
            took.as_secs_f64(),
            plain(&task["error"]["code"]),
        );
    }
    let meta = &list["meta"];
    let _ = write!(text, "page {} of {}, {} tasks", meta["currentPage"], meta["totalPages"], meta["totalRecords"]);
    text
}

/// Text without what would move a terminal's cursor: some of it comes from pages.
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
                 "executionTime": 5043, "error": {"code": "no_match"}},
                {"taskId": "tsk_\u{1b}[2J2", "timestamp": 0, "executionType": "fleet", "status": "success", "executionTime": 7},
            ],
            "meta": {"currentPage": 1, "totalPages": 1, "totalRecords": 2},
        });
        let text = table(&list);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 4, "{text}");
        assert!(lines[1].contains("2026-11-21 05:20:59  run      failure        5.04 s  no_match"), "{text}");
        assert!(lines[2].starts_with("tsk_[2J2") && lines[2].contains("0.01 s"), "{text}");
        assert_eq!(lines[3], "page 1 of 1, 2 tasks");
        assert!(!text.contains('\u{1b}'));
    }
}
