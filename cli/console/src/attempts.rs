//! Lines of the journal as cells: what an attempt met, and what follows.

use std::cmp::Reverse;
use std::collections::HashSet;
use std::time::Duration;

use gridpost_api::{delivery::AttemptReason, journal::JournalQuery};
use gridpost_core::journal::EntryKind;
use gridpost_ops::attempt_lines::AttemptLine;
use maud::{Markup, html};
use uuid::Uuid;

use super::chart::{self, Kind};
use super::kit;
use super::sought::event_url;
use super::text::{self, visible};

/// Ids of a line's events that are shown, and characters of a response: the delivery's page has all of it.
const IDS_TOLD: usize = 3;
/// After so many bytes of ids comes no other.
const IDS_BYTES: usize = 300;
const RESPONSE_TOLD: usize = 160;

/// Returns the lines of an answer, each end once.
pub(super) fn lines(answer: &JournalQuery) -> Vec<AttemptLine> {
    let mut lines: Vec<_> = answer.attempts.iter().flatten().cloned().map(AttemptLine).collect();
    keep_each_end_once(&mut lines);
    // What was logged late stands at its time.
    lines.sort_by_key(|line| Reverse(line.time.0));
    lines
}

/// Leaves out ends that were under way where the lines say how they were carried out.
pub(super) fn keep_each_end_once(lines: &mut Vec<AttemptLine>) {
    let done: HashSet<_> = lines.iter().filter_map(done).collect();
    lines.retain(|line| line.kind != EntryKind::Ending || !done.contains(&end(line)));
}

/// The end that a line is about: events of a delivery end together.
type End = (Uuid, u32);

pub(super) fn end(line: &AttemptLine) -> End {
    (line.delivery_id, line.events)
}

/// Returns the end that was carried out, if a line is about one.
pub(super) fn done(line: &AttemptLine) -> Option<End> {
    (line.kind.is_end() && line.kind != EntryKind::Ending).then(|| end(line))
}

/// Shows what an attempt met, or how the delivery ended.
fn answer(line: &AttemptLine) -> Markup {
    match line.kind {
        EntryKind::Ending => kit::pill(Kind::Dead, "To dead letter"),
        EntryKind::DeadLettered => kit::pill(Kind::Dead, "Dead letter"),
        EntryKind::Dropped => kit::pill(Kind::Bad, "Lost"),
        _ => kit::answer(line.outcome.as_deref(), line.http_status_code),
    }
}

pub(super) fn events(line: &AttemptLine) -> Markup {
    some_events(line, IDS_TOLD)
}

/// Shows so many of a line's events, as far as the journal names them.
pub(super) fn some_events(line: &AttemptLine, most: usize) -> Markup {
    let mut bytes = 0;
    let fits = |id: &&String| {
        let fits = bytes < IDS_BYTES;
        bytes += id.len();
        fits
    };
    let ids: Vec<_> = line.event_ids.iter().take(most).take_while(fits).collect();
    let left = u64::from(line.events).saturating_sub(ids.len() as u64);
    html! {
        @for id in &ids {
            a.cut href=(event_url(&line.topic, id)) title=(text::short(id)) { (text::short(id)) }
        }
        @if ids.is_empty() { (text::counted(left, "event", "events")) }
        @else if left > 0 { span.m { (text::number(left)) " more" } }
    }
}

/// The heads of a table of attempts; in the second column is what the page does not name.
pub(super) fn head(other: &str) -> [(&str, &str); 6] {
    let [number, took] = [("#", "n"), ("Took", "n nw")];
    [("Time", "nw"), (other, ""), number, ("Answer", ""), took, ("What follows", "gr")]
}

/// A row of such a table.
pub(super) fn row(line: &AttemptLine, other: Markup) -> Vec<Markup> {
    let took = line.duration_in_ms.map(Duration::from_millis);
    vec![
        text::clock(line.time),
        other,
        html! { (line.label().trim_start_matches('#')) },
        answer(line),
        html! { @if let Some(took) = took { (chart::duration(took)) } },
        follows(line),
    ]
}

/// Says why an attempt is made when it is, after the time or the wait.
pub(super) fn because(reason: AttemptReason) -> &'static str {
    match reason {
        AttemptReason::Schedule => "by the retry schedule",
        AttemptReason::LeastWait => "by the least wait after such an answer",
        AttemptReason::RetryAfter => "by the answer's Retry-After",
        AttemptReason::EndpointWaits => {
            "for the end of the endpoint's probation or delayed delivery"
        }
        AttemptReason::Resend => "as an operator asked",
        AttemptReason::Pause => "for the end of the pause",
    }
}

/// Says how the delivery ended, or that a success came late.
pub(super) fn fate(line: &AttemptLine) -> Option<String> {
    let place = match line.kind {
        EntryKind::Ending => "to its dead-letter destination",
        EntryKind::DeadLettered => "in a dead letter",
        EntryKind::Dropped => "LOST FOR GOOD",
        _ => return line.describe_fate(),
    };
    let last = line.outcome.as_ref().map(|last| text::met(last, line.http_status_code));
    let last = last.map_or(String::new(), |last| format!("; last answer: {last}"));
    let reason = text::reason(line.reason.as_deref().unwrap_or("-"));
    Some(format!("{place}: {reason}{last}"))
}

/// Shows what follows, with what the endpoint answered, in one line.
fn follows(line: &AttemptLine) -> Markup {
    let fate = fate(line);
    let said = line.response.as_ref();
    let said = said.map(|said| said.chars().take(RESPONSE_TOLD).collect::<String>());
    let title = fate.as_ref().or(said.as_ref()).map(|text| visible(text));
    html! {
        @if fate.is_some() || line.due.is_some() || line.reason.is_some() || said.is_some() {
            span.cut title=[title] {
                @match (&fate, &line.due) {
                    (Some(fate), _) => { (visible(fate)) }
                    (None, Some(due)) => {
                        "then not before " (text::clock(*due))
                        @if let Some(why) = line.wait_because { span.m { ", " (because(why.into())) } }
                    }
                    (None, None) => @if let Some(reason) = &line.reason { "ends: " (visible(&text::reason(reason))) },
                }
                @if let Some(said) = &said { " " span.mono.m { (visible(said)) } }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use gridpost_ops::testkit::documents;
    use serde_json::json;

    use super::*;

    #[test]
    fn an_end_is_one_line_and_a_loss_is_told_as_one() {
        let of = |kind: &str, events: u32| {
            let entry = json!({"kind": kind, "events": events, "response": "<b>",
                "reason": "UndeliverableDueToHttpBadRequest"});
            AttemptLine(serde_json::from_value(documents::journal_entry(&entry)).expect("an entry"))
        };
        for (kinds, want) in [
            (vec![("Failure", 2), ("Ending", 2)], vec!["503", "To dead letter"]),
            (vec![("DeadLettered", 2), ("Ending", 2)], vec!["Dead letter"]),
            (vec![("Ending", 1), ("Dropped", 1)], vec!["Lost"]),
            (vec![("Ending", 1), ("Dropped", 2)], vec!["To dead letter", "Lost"]),
        ] {
            let mut lines: Vec<_> = kinds.iter().map(|(kind, events)| of(kind, *events)).collect();
            keep_each_end_once(&mut lines);
            let shown: Vec<_> = lines.iter().map(|line| answer(line).into_string()).collect();
            assert_eq!(shown.len(), want.len(), "{shown:?}");
            assert!(shown.iter().zip(&want).all(|(shown, want)| shown.contains(want)), "{shown:?}");
        }
        let mut long = of("Failure", 9);
        long.0.event_ids = vec!["x".repeat(400); 9];
        let shown = events(&long).into_string();
        assert!(shown.len() < 1_000 && shown.contains("8 more"), "{shown}");
        let told = follows(&of("Dropped", 1)).into_string();
        assert!(told.contains("LOST FOR GOOD: 400 Bad request; last answer: 503 <"), "{told}");
        assert!(told.contains("&lt;b&gt;"), "{told}");
    }
}
