//! How a session ended, in words for the people who watched it.

/// Who ended the session, and how long it lasted. The API's own `message` names settings, which a viewer does not know.
pub fn ending_sentence(reason: &str, message: &str, lasted_ms: u64) -> String {
    let who = match reason {
        "deleted" => "The session's owner ended it".to_owned(),
        "session_timeout" => "The session reached its time limit".to_owned(),
        "idle_timeout" => "The client left the session idle for too long".to_owned(),
        "attach_timeout" => "Nobody used the session".to_owned(),
        "out_of_memory" => "The session's browser ran out of memory".to_owned(),
        "task_succeeded" => "The session's task succeeded".to_owned(),
        "task_failed" => "The session's task failed".to_owned(),
        "key_revoked" => "The owner's key was revoked".to_owned(),
        _ => capitalised(message),
    };
    format!("{who}. It lasted {}.", duration(lasted_ms / 1000))
}

fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// The two largest units: "2 h 5 min", "3 min 12 s".
fn duration(seconds: u64) -> String {
    let (hours, minutes, rest) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    match (hours, minutes, rest) {
        (0, 0, 0) => "less than a second".to_owned(),
        (0, 0, rest) => format!("{rest} s"),
        (0, minutes, 0) => format!("{minutes} min"),
        (0, minutes, rest) => format!("{minutes} min {rest} s"),
        (hours, 0, _) => format!("{hours} h"),
        (hours, minutes, _) => format!("{hours} h {minutes} min"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::Ending;
    use warmpool_workers::worker::LossReason;

    #[test]
    fn no_sentence_names_a_setting() {
        let say = |reason: &str, message: &str| ending_sentence(reason, message, 192_000);
        assert_eq!(
            say("session_timeout", "session_timeout is over"),
            "The session reached its time limit. It lasted 3 min 12 s."
        );
        assert_eq!(
            say("browser_closed", "the client closed the browser"),
            "The client closed the browser. It lasted 3 min 12 s."
        );
        for reason in ["session_timeout", "idle_timeout", "attach_timeout", "out_of_memory", "deleted"] {
            assert!(!say(reason, "a_setting is over").contains('_'));
        }
        for ending in [
            Ending::BrowserClosed,
            Ending::ClientFinished,
            Ending::Disconnected,
            Ending::DriverQuit,
            Ending::DriverRefused,
            Ending::Deleted,
            Ending::TimedOut,
            Ending::Idle,
            Ending::NeverAttached,
            Ending::TaskSucceeded,
            Ending::TaskFailed,
            Ending::Drained,
            Ending::KeyRevoked,
            Ending::ClientGone,
            Ending::Interrupted,
            Ending::WorkerLost(LossReason::BrowserExited { code: None, signal: Some(9) }),
            Ending::WorkerLost(LossReason::OutOfMemory),
            Ending::WorkerLost(LossReason::Unresponsive),
        ] {
            let sentence = say(ending.code(), &ending.message());
            let is_setting = |word: &str| word.contains('_') || word.trim_end_matches('.').contains('.');
            assert!(!sentence.split(' ').any(is_setting), "{sentence}");
        }
    }

    #[test]
    fn a_duration_has_two_units_at_most() {
        let shown: Vec<_> = [0, 9, 60, 61, 3600, 7512].into_iter().map(duration).collect();
        assert_eq!(shown, ["less than a second", "9 s", "1 min", "1 min 1 s", "1 h", "2 h 5 min"]);
    }
}
