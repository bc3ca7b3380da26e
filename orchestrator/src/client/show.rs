//! How a task goes, drawn on a terminal. Elsewhere nothing is drawn.

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
        let bar = ProgressBar::new(0);
        if let Ok(style) = ProgressStyle::with_template("{spinner} {bar:30} {pos}/{len} {elapsed} {msg}") {
            bar.set_style(style);
        }
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
                    self.bar.set_length(number(&data["steps"]));
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
            self.bar.set_length(number(&items["total"]));
        }
        if name == "item" && ["success", "failure", "cancelled"].contains(&data["status"].as_str().unwrap_or_default())
        {
            self.bar.inc(1);
        }
    }

    pub(super) fn end(&self) {
        self.bar.finish_and_clear();
    }
}

/// Text without what would move a terminal's cursor: some of it comes from pages.
fn plain(value: &Value) -> String {
    value.as_str().unwrap_or_default().chars().filter(|char| !char.is_control()).take(120).collect()
}
