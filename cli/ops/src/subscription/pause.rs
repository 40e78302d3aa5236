//! Pauses of event subscriptions, in words.

use gridpost_api::subscription::{Pause, PauseStanding};

use crate::output::{self, or_dash};

/// Describes what `subscription pause` and `subscription resume` answer.
pub fn describe(standing: &PauseStanding) -> String {
    let PauseStanding { is_paused, since, until, by, time_to_live_runs, holds_by, resumed_time } =
        standing.clone();
    let mut rows = match is_paused {
        true => vec![
            row("paused", describe_pause(or_dash(since), by.as_deref(), time_to_live_runs)),
            row("until", or_dash(until)),
            row("holds by", or_dash(holds_by)),
        ],
        false => vec![row("paused", "no".to_owned())],
    };
    if let Some(at) = resumed_time {
        rows.push(row("resumed", at.to_string()));
        rows.push(row("held deliveries", "come back, the first within a minute".to_owned()));
    }
    output::columns(&rows)
}

fn row(name: &str, value: String) -> [String; 2] {
    [name.to_owned(), value]
}

/// Describes since when it is paused, by whom, and what becomes of time-to-live.
pub fn told(pause: &Pause) -> String {
    let Pause { since, by, time_to_live_runs, .. } = pause;
    describe_pause(since.to_string(), by.as_deref(), Some(*time_to_live_runs))
}

fn describe_pause(since: String, by: Option<&str>, time_to_live_runs: Option<bool>) -> String {
    let by = by.map(|by| format!(" by {by}")).unwrap_or_default();
    let life = match time_to_live_runs {
        Some(true) => "time-to-live runs",
        _ => "time-to-live stands still",
    };
    format!("since {since}{by}, {life}")
}

#[cfg(test)]
mod tests {
    use gridpost_api::schema::Time;
    use gridpost_core::time::Timestamp;

    use super::*;

    fn at(second: i64) -> Time {
        Timestamp::from_millis(1_767_225_600_000 + second * 1_000).into()
    }

    #[test]
    fn a_pause_is_told_with_who_and_what() {
        let standing = PauseStanding {
            is_paused: true,
            since: Some(at(1)),
            until: Some(at(2)),
            by: Some("arn:x".to_owned()),
            time_to_live_runs: Some(false),
            holds_by: Some(at(3)),
            resumed_time: None,
        };
        let lines = describe(&standing);
        let want = "since 2026-01-01T00:00:01.000Z by arn:x, time-to-live stands still";
        assert!(lines.contains(want), "{lines}");
        assert!(lines.contains("00:02.000Z") && lines.contains("00:03.000Z"), "{lines}");
        let nameless = Pause { since: at(1), until: at(2), by: None, time_to_live_runs: true };
        assert_eq!(told(&nameless), "since 2026-01-01T00:00:01.000Z, time-to-live runs");
    }

    #[test]
    fn a_resumption_says_when_the_first_comes() {
        let resumed = PauseStanding { resumed_time: Some(at(4)), ..PauseStanding::default() };
        let lines = describe(&resumed);
        assert!(lines.contains("00:04.000Z") && lines.contains("within a minute"), "{lines}");
        let never = describe(&PauseStanding::default());
        assert!(!never.contains("minute"), "{never}");
    }
}
