//! Pauses of event subscriptions, in words.

use serde_json::Value;

use crate::output::{self, text_at};

/// What `subscription pause` and `subscription resume` print.
pub fn describe(standing: &Value) -> String {
    let mut told = match standing["isPaused"] == Value::Bool(true) {
        true => vec![
            row("paused", told(standing)),
            row("until", text_at(standing, "/until").to_owned()),
            row("holds by", text_at(standing, "/holdsBy").to_owned()),
        ],
        false => vec![row("paused", "no".to_owned())],
    };
    if let Some(at) = standing["resumedTime"].as_str() {
        told.push(row("resumed", at.to_owned()));
        told.push(row("held deliveries", "come back, the first within a minute".to_owned()));
    }
    output::columns(&told)
}

fn row(name: &str, value: String) -> [String; 2] {
    [name.to_owned(), value]
}

/// Since when, by whom, and what becomes of time-to-live.
pub fn told(pause: &Value) -> String {
    let by = pause["by"].as_str().map(|by| format!(" by {by}")).unwrap_or_default();
    let life = match pause["timeToLiveRuns"] == Value::Bool(true) {
        true => "time-to-live runs",
        false => "time-to-live stands still",
    };
    format!("since {}{by}, {life}", text_at(pause, "/since"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_pause_is_told_with_who_and_what() {
        let pause = json!({
            "isPaused": true, "since": "S", "until": "U", "holdsBy": "H", "by": "arn:x",
            "timeToLiveRuns": false,
        });
        let lines = describe(&pause);
        assert!(lines.contains("since S by arn:x, time-to-live stands still"), "{lines}");
        assert!(lines.contains('U') && lines.contains('H'), "{lines}");
        let nameless = json!({"since": "S", "by": null, "timeToLiveRuns": true});
        assert_eq!(told(&nameless), "since S, time-to-live runs");
    }

    #[test]
    fn a_resumption_says_when_the_first_comes() {
        let lines = describe(&json!({"isPaused": false, "resumedTime": "R"}));
        assert!(lines.contains('R') && lines.contains("within a minute"), "{lines}");
        let never = describe(&json!({"isPaused": false}));
        assert!(!never.contains("minute"), "{never}");
    }
}
