//! What a task came to, in a few lines for people, and where the full result is.

use std::path::Path;

use serde_json::Value;
use warmpool_api::task::TaskView;

use super::show::{outcome, plain, seconds};

/// A task that has ended. `file` holds the full result, where one was asked for; `console` is the task's page.
pub(super) fn summary(task: &TaskView, file: Option<&Path>, console: &str) -> String {
    let name = task.name.as_ref().or(task.title.as_ref()).or(task.page.as_ref());
    let name = name.map(|name| format!(" {}", plain(name))).unwrap_or_default();
    let mut lines = vec![format!("{}: {}{name} in {}", task.status, task.execution_type, seconds(task.execution_time))];
    let mut line = |name: &str, text: String| lines.push(format!("{name:<8}  {text}"));
    if let Some(error) = &task.error {
        line("error", format!("{}: {}", plain(&error.code), plain(&error.message)));
    }
    if let Some(counts) = &task.items {
        line("items", outcome(counts));
    }
    if !task.step_times.is_empty() {
        line("steps", task.step_times.len().to_string());
    }
    match (task.output.output_bytes, task.output.output.as_slice()) {
        (Some(bytes), _) => line("results", format!("{bytes} bytes")),
        (None, []) => {}
        (None, [only]) => line("result", cell(only)),
        (None, [first, rest @ ..]) => line("results", format!("{}, and {} more", cell(first), rest.len())),
    }
    let id = &task.task_id;
    let files = task.artifacts.len();
    if files > 0 {
        line("files", format!("{files}: warmpool tasks artifacts {id} --save DIRECTORY"));
    }
    match file {
        Some(file) => line("in full", file.display().to_string()),
        None => line("in full", format!("warmpool tasks show {id}\n{:<8}  {console}", "")),
    }
    lines.join("\n")
}

/// A result as a line may show it.
fn cell(value: &Value) -> String {
    const LONGEST: usize = 100;
    let text = plain(&value.to_string());
    if text.chars().count() <= LONGEST { text } else { text.chars().take(LONGEST - 1).chain(['…']).collect() }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn task(of_task: Value) -> TaskView {
        let mut task = json!({
            "taskId": "tsk_01KAJ6H2TT0000000000000000", "executionType": "extract", "executionTime": 1240, "inputs": {},
            "servicePasscode": null, "timestamp": 0, "status": "success", "browserType": "chromium", "headless": true,
            "keyId": "0123456789ab", "output": [],
        });
        if let (Some(task), Value::Object(of_task)) = (task.as_object_mut(), of_task) {
            task.extend(of_task);
        }
        serde_json::from_value(task).unwrap()
    }

    #[test]
    fn a_summary_says_what_came_of_a_task_and_where_it_is() {
        let read = task(json!({"name": "teas", "output": [{"title": "Sencha\u{1b}[2J"}, {}, {}], "stepTimes": [7]}));
        let text = summary(&read, None, "http://h/console/#/tasks/t");
        assert_eq!(
            text,
            "success: extract teas in 1.24 s\n\
             steps     1\n\
             results   {\"title\":\"Sencha\\u001b[2J\"}, and 2 more\n\
             in full   warmpool tasks show tsk_01KAJ6H2TT0000000000000000\n          http://h/console/#/tasks/t"
        );
        let failed = task(json!({
            "status": "failure", "executionType": "run", "title": "Log in",
            "error": {"code": "no_match", "message": "nothing matches #name", "step": 2},
            "artifacts": [{"name": "failure.png", "mediaType": "image/png", "bytes": 1, "sha256": "", "url": ""}],
        }));
        let text = summary(&failed, Some(Path::new("full.json")), "");
        assert!(
            text.starts_with("failure: run Log in in 1.24 s\nerror     no_match: nothing matches #name\n"),
            "{text}"
        );
        assert!(text.contains("files     1: warmpool tasks artifacts tsk_01"), "{text}");
        assert!(text.ends_with("in full   full.json"), "{text}");
    }
}
