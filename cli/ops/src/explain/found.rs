//! A delivery that carries the event. Where its events went different ways, its state tells of those that
//! were left, and the log lines that name the event tell of that one.

use serde_json::Value;

use crate::{attempt_lines::AttemptLine, delivery};

#[derive(Clone, Debug)]
pub(super) struct Found {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) state: Option<Value>,
    /// Those that name the event, in the order of time.
    pub(super) lines: Vec<AttemptLine>,
}

impl Found {
    pub(super) fn told(&self) -> String {
        match &self.state {
            Some(state) if self.is_divided() => self.told_apart(state),
            Some(state) => {
                let is_shown = |line: &&AttemptLine| line.is_end() || line.is_late_success();
                let lines = self.lines.iter().filter(is_shown);
                delivery::describe(state).trim_end().to_owned() + &told(lines)
            }
            None => {
                let mut text = format!("delivery {}{}", self.id, told(&self.lines));
                let attempts = |line: &AttemptLine| line.line["attempts"].as_u64().unwrap_or(0);
                if self.lines.iter().all(|line| line.is_end() && attempts(line) == 0) {
                    text.push_str(
                        "\n  no attempt of it is in the logs: it waited behind its endpoint until it ended",
                    );
                }
                text
            }
        }
    }

    /// What became of the event, and after that what is known of the others.
    fn told_apart(&self, state: &Value) -> String {
        let event = match self.event_standing() {
            Some("Delivered") => "this event was delivered",
            Some("Ended" | "Ending") => "this event ended undelivered",
            Some("Waiting") => "this event waits",
            _ => {
                "the log does not say what became of this event at last (a line names 100 events at most, and \
                 takes some seconds until it is found)"
            }
        };
        format!(
            "delivery {}, whose events went different ways: {event}{}\nwhat was left of that delivery, and its \
             attempts, some of which may have been of other events alone:\n{}",
            self.id,
            told(&self.lines),
            delivery::describe(state).trim_end(),
        )
    }

    /// Whether some of its events were delivered or ended before others, as far as is known.
    pub(super) fn is_divided(&self) -> bool {
        let Some(state) = &self.state else { return false };
        // An attempt says how many events it had where it, or one before, had a part of them. They may
        // all go on together afterwards, or be the single ones of deliveries that shared a request.
        let mut attempts = state["attempts"].as_array().into_iter().flatten();
        let left = state["events"].as_u64();
        let has_parts = attempts.any(|attempt| attempt["events"].as_u64() > left);
        let differs = |line: &AttemptLine, name: &str, of_state: &str| {
            line.line[name].is_u64() && line.line[name] != state[of_state]
        };
        let status = state["status"].as_str();
        let has_ended = matches!(status, Some("Ended" | "Ending"));
        // The state counts no success: one that delivered all that was left comes after them.
        let made = state["deliveryAttempts"].as_u64().unwrap_or(0);
        let is_early = |line: &AttemptLine| match line.is_end() {
            true => !has_ended || differs(line, "attempts", "deliveryAttempts"),
            false => {
                let attempt = line.line["attempt"].as_u64();
                let is_counted = attempt.is_some_and(|attempt| attempt <= made);
                line.is_success() && (status != Some("Delivered") || is_counted)
            }
        };
        let is_apart = |line: &AttemptLine| is_early(line) || differs(line, "events", "events");
        has_parts || self.lines.iter().any(is_apart)
    }

    /// Where the event stands, in a state's words, as far as is known.
    pub(super) fn event_standing(&self) -> Option<&str> {
        let state = self.state.as_ref();
        let of_state = state.and_then(|state| state["status"].as_str());
        if of_state.is_some() && !self.is_divided() {
            return of_state;
        }
        match self.lines.iter().rfind(|line| line.is_end() || line.is_success()) {
            Some(end) if end.is_end() => Some("Ended"),
            Some(_) => Some("Delivered"),
            None => {
                // Its events only become fewer: as many as in that line are the same ones.
                let then = &self.lines.iter().rfind(|line| line.is_attempt())?.line["events"];
                let is_left = then.is_u64() && *then == state?["events"];
                of_state.filter(|_| is_left)
            }
        }
    }

    /// When it was sent again by a redrive; where its state does not say, whether the event had
    /// ended before in another delivery of the same event subscription.
    pub(super) fn redriven(&self, before: Option<&Self>) -> Option<String> {
        let said = self.state.as_ref().and_then(|state| state["redrivenTime"].as_str());
        let had_ended = |it: &Self| {
            it.name == self.name && matches!(it.event_standing(), Some("Ended" | "Ending"))
        };
        match (said, before.is_some_and(had_ended)) {
            (Some(at), _) => Some(format!("sent again by a redrive at {at}: ")),
            (None, true) => Some("sent again after that end, by a redrive: ".to_owned()),
            (None, false) => None,
        }
    }

    /// Whether events of it ended undelivered, as far as is known.
    pub(super) fn has_ended(&self) -> bool {
        self.lines.iter().any(AttemptLine::is_end)
            || self.state.as_ref().is_some_and(|state| state["status"] == "Ended")
    }
}

fn told<'a>(lines: impl IntoIterator<Item = &'a AttemptLine>) -> String {
    let at = |line: &AttemptLine| line.text("timestamp").unwrap_or("-").to_owned();
    lines.into_iter().map(|line| format!("\n  {}  {}", at(line), line.told())).collect()
}
