//! A delivery that carries the event. If its events went different ways, its state is that of the events that
//! were left; the journal's entries that name the event are about that event.

use gridpost_api::delivery::{
    DeliveryShown,
    DeliveryStatus::{self, Delivered, Ended, Ending, Waiting},
};
use gridpost_core::journal::EntryKind;
use serde::Serialize;

use crate::{attempt_lines::AttemptLine, delivery};

/// A delivery with the entries that name the event.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EventDelivery {
    pub id: String,
    #[serde(rename = "eventSubscription")]
    pub name: String,
    pub state: Option<DeliveryShown>,
    /// The lines that name the event, in the order of time.
    pub log: Vec<AttemptLine>,
    /// Whether some of its events were delivered or ended before others, as far as is known.
    pub is_divided: bool,
    /// The status of the event, as far as is known.
    pub event_standing: Option<DeliveryStatus>,
}

impl EventDelivery {
    pub(super) fn new(
        id: String,
        name: String,
        state: Option<DeliveryShown>,
        log: Vec<AttemptLine>,
    ) -> Self {
        let is_divided = state.as_ref().is_some_and(|state| is_divided(state, &log));
        let event_standing = match &state {
            Some(state) if !is_divided => Some(state.delivery.status),
            _ => logged_standing(state.as_ref(), &log),
        };
        Self { id, name, state, log, is_divided, event_standing }
    }

    pub(super) fn describe(&self) -> String {
        let Some(state) = &self.state else { return self.describe_log() };
        let described = delivery::describe(state);
        let described = described.trim_end();
        if self.is_divided {
            return self.describe_apart(described);
        }
        let is_shown =
            |line: &&AttemptLine| line.kind.is_end() || line.kind == EntryKind::LateSuccess;
        described.to_owned() + &describe_lines(self.log.iter().filter(is_shown))
    }

    /// Describes a delivery without a state.
    fn describe_log(&self) -> String {
        let mut text = format!("delivery {}{}", self.id, describe_lines(&self.log));
        if self.log.iter().all(|line| line.kind.is_end() && line.attempt == 0) {
            text.push_str(
                "\n  no attempt of it is known: it waited behind its endpoint until it ended",
            );
        }
        text
    }

    /// Describes what became of the event, and after that what is known of the others.
    fn describe_apart(&self, others: &str) -> String {
        let event = match self.event_standing {
            Some(Delivered) => "this event was delivered",
            Some(Ended | Ending) => "this event ended undelivered",
            Some(Waiting) => "this event waits",
            None => {
                "the journal does not say what became of this event at last (an entry names 100 events at \
                 most, and takes some seconds until it is found)"
            }
        };
        format!(
            "delivery {}, whose events went different ways: {event}{}\nwhat was left of that delivery, and its \
             attempts, some of which may have been of other events alone:\n{others}",
            self.id,
            describe_lines(&self.log),
        )
    }

    /// Says when a redrive sent it again; if its state does not say, whether the event had ended before in
    /// another delivery of the same event subscription.
    pub(super) fn describe_redrive(&self, before: Option<&Self>) -> Option<String> {
        if let Some(at) = self.state.as_ref().and_then(|state| state.delivery.redriven_time) {
            return Some(format!("sent again by a redrive at {at}: "));
        }
        let before = before.filter(|before| before.name == self.name)?;
        let had_ended = matches!(before.event_standing, Some(Ended | Ending));
        had_ended.then(|| "sent again after that end, by a redrive: ".to_owned())
    }

    /// Whether events of it ended undelivered, as far as is known.
    pub(super) fn has_ended(&self) -> bool {
        self.log.iter().any(|line| line.kind.is_end())
            || self.state.as_ref().is_some_and(|state| state.delivery.status == Ended)
    }
}

fn is_divided(state: &DeliveryShown, log: &[AttemptLine]) -> bool {
    let DeliveryShown { delivery, attempts, .. } = state;
    // An attempt says how many events it had where it, or one before, had a part of them. They may
    // all go on together afterwards, or be the single ones of deliveries that shared a request.
    let has_parts = attempts.iter().any(|attempt| attempt.events > Some(delivery.events));
    // The state counts no success: one that delivered all that was left comes after them.
    let made = delivery.delivery_attempts;
    let has_ended = matches!(delivery.status, Ended | Ending);
    let is_early = |line: &AttemptLine| match line.kind.is_end() {
        true => !has_ended || line.attempt != made,
        false => {
            let is_counted = line.number().is_some_and(|attempt| attempt <= made);
            line.is_success() && (delivery.status != Delivered || is_counted)
        }
    };
    has_parts || log.iter().any(|line| is_early(line) || line.events != delivery.events)
}

/// Returns the status of the event by its own lines.
fn logged_standing(state: Option<&DeliveryShown>, log: &[AttemptLine]) -> Option<DeliveryStatus> {
    if let Some(last) = log.iter().rfind(|line| line.kind.is_end() || line.is_success()) {
        return Some(if last.kind.is_end() { Ended } else { Delivered });
    }
    // Its events only become fewer: as many as in that line are the same ones.
    let attempt = log.last()?;
    let state = &state?.delivery;
    (attempt.events == state.events).then_some(state.status)
}

fn describe_lines<'a>(lines: impl IntoIterator<Item = &'a AttemptLine>) -> String {
    let describe = |line: &AttemptLine| format!("\n  {}  {}", line.time, line.describe());
    lines.into_iter().map(describe).collect()
}
