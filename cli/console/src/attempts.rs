//! Lines of the journal as cells: what an attempt met, and what follows.

use std::time::Duration;

use gridpost_core::journal::EntryKind;
use gridpost_ops::attempt_lines::{AttemptLine, describe_reason};
use maud::{Markup, html};

use super::chart::{self, Kind};
use super::kit;
use super::sought::event_url;
use super::text::{self, visible};

/// Ids of a line's events that are shown.
const IDS_TOLD: usize = 3;

/// Shows what an attempt met, or how the delivery ended.
fn answer(line: &AttemptLine) -> Markup {
    match line.kind {
        EntryKind::Ending => kit::pill(Kind::Dead, "To dead letter"),
        EntryKind::DeadLettered => kit::pill(Kind::Dead, "Dead letter"),
        EntryKind::Dropped => kit::pill(Kind::Bad, "Lost"),
        _ => kit::answer(line.outcome.as_deref(), line.http_status_code),
    }
}

/// Shows how long an attempt took.
fn took(line: &AttemptLine) -> Markup {
    let took = line.duration_in_ms.map(Duration::from_millis);
    html! { @if let Some(took) = took { (chart::duration(took)) } }
}

/// Shows the events of a line, as far as the journal names them.
pub(super) fn events(line: &AttemptLine) -> Markup {
    let left = line.event_ids.len().saturating_sub(IDS_TOLD);
    html! {
        @for id in line.event_ids.iter().take(IDS_TOLD) {
            a.cut href=(event_url(&line.topic, id)) title=(visible(id)) { (visible(id)) }
        }
        @if left > 0 { span.m { (left) " more" } }
    }
}

/// The heads of a table of attempts; in the second column is what the page does not name.
pub(super) fn head(other: &str) -> [(&str, &str); 6] {
    [
        ("Time", "nw"),
        (other, ""),
        ("#", "n"),
        ("Answer", ""),
        ("Took", "n nw"),
        ("What follows", "gr"),
    ]
}

/// A row of such a table.
pub(super) fn row(line: &AttemptLine, other: Markup) -> Vec<Markup> {
    vec![text::clock(line.time), other, number(line), answer(line), took(line), follows(line)]
}

/// Shows which attempt it was, unless it was none.
fn number(line: &AttemptLine) -> Markup {
    html! { (line.label().trim_start_matches('#')) }
}

/// Shows what follows, with what the endpoint answered, in one line.
fn follows(line: &AttemptLine) -> Markup {
    let reason = line.reason.as_deref().unwrap_or_default();
    let words = text::reason(reason);
    let fate = line.describe_fate().map(|fate| fate.replace(reason, &words));
    let title = fate.as_ref().or(line.response.as_ref()).map(|text| visible(text));
    html! {
        @if fate.is_some() || line.due.is_some() || line.reason.is_some() || line.response.is_some() {
            span.cut title=[title] {
                @match (&fate, &line.due) {
                    (Some(fate), _) => { (visible(fate)) }
                    (None, Some(due)) => {
                        "then not before " (text::time(*due))
                        @if let Some(because) = line.wait_because { span.m { ", " (describe_reason(because.into())) } }
                    }
                    (None, None) => @if !words.is_empty() { "ends: " (visible(&words)) },
                }
                @if let Some(said) = &line.response { " " span.mono.m { (visible(said)) } }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use gridpost_ops::testkit::documents;
    use serde_json::{Value, json};

    use super::*;

    fn shown(patch: &Value) -> (String, String) {
        let entry = serde_json::from_value(documents::journal_entry(patch));
        let line = AttemptLine(entry.expect("an entry"));
        (answer(&line).into_string(), follows(&line).into_string())
    }

    #[test]
    fn a_loss_is_told_as_one() {
        for (kind, word, fate) in [
            ("Dropped", "pill bad", "LOST FOR GOOD, dropped for R (last attempt: Busy, 503)"),
            ("DeadLettered", "Dead letter", ""),
            ("Ending", "To dead letter", ""),
            ("LateSuccess", "503", ""),
        ] {
            let (ended, told) = shown(&json!({"kind": kind, "reason": "R"}));
            assert!(ended.contains(word) && told.contains(fate), "{ended} {told}");
        }
        let (answer, failed) = shown(&json!({"reason": "R", "response": "<b>"}));
        assert!(failed.contains("ends: R") && failed.contains("&lt;b&gt;"), "{failed}");
        assert!(answer.contains("title=\"Busy\"") && answer.contains("503"), "{answer}");
    }
}
