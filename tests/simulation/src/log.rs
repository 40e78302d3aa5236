//! Reads the handlers' log: a drop is counted and logged, and visible nowhere else.

use std::{
    collections::BTreeMap,
    fmt::{Debug, Write as _},
    sync::{Arc, Mutex},
};

use gridpost_ports::Clock;
use tracing::{
    Event, Level, Metadata, Subscriber,
    field::{Field, Visit},
    level_filters::LevelFilter,
    span,
};
use uuid::Uuid;

use gridpost_testkit::{
    clock::VirtualClock,
    history::{Drop, History},
};

/// The module that logs entries of the journal.
const JOURNAL: &str = "gridpost_ports::journal";

/// Takes warnings and errors of one world, and entries of its journal.
pub struct LogReader {
    pub clock: VirtualClock,
    pub history: Arc<Mutex<History>>,
    /// Why deliveries ended whose destination can't have their events.
    pub ended_by: Mutex<BTreeMap<Uuid, String>>,
    /// Writes the lines of entries, if the world keeps them.
    pub lines: Option<Box<dyn Subscriber + Send + Sync>>,
}

#[derive(Default)]
struct Line {
    message: String,
    delivery: Option<Uuid>,
    subscription: String,
    reason: String,
    ended_by: Option<String>,
    counted: Option<u64>,
    ids: Vec<String>,
    rest: String,
}

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let text = format!("{value:?}");
        match field.name() {
            "message" => self.message = text,
            "delivery.id" => self.delivery = text.parse().ok(),
            "ended_by" => self.ended_by = Some(text),
            "events" => self.counted = text.parse().ok(),
            "reason" => self.reason = text.trim_matches('"').to_owned(),
            "event_ids" => {
                // A text within a text, or the text itself.
                let ids = serde_json::from_str::<String>(&text).unwrap_or(text);
                self.ids = serde_json::from_str(&ids).unwrap_or_default();
            }
            name => {
                if name == "subscription" {
                    self.subscription.clone_from(&text);
                }
                let _ = write!(self.rest, " {name}={text}");
            }
        }
    }
}

impl Subscriber for LogReader {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::WARN || self.lines.is_some() && metadata.target() == JOURNAL
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(LevelFilter::INFO)
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &Event<'_>) {
        let metadata = event.metadata();
        if let Some(lines) = self.lines.as_ref().filter(|_| metadata.target() == JOURNAL) {
            lines.event(event);
        }
        if *metadata.level() > Level::WARN {
            return;
        }
        let mut line = Line::default();
        event.record(&mut line);
        let at = self.clock.now();
        let mut history = self.history.lock().expect("no panic while held");
        history.trace(at, || format!("log: {} {}{}", line.message, line.reason, line.rest));
        let mut ended_by = self.ended_by.lock().expect("no panic while held");
        if let (Some(delivery), Some(reason)) = (line.delivery, line.ended_by) {
            ended_by.insert(delivery, reason);
        }
        if line.message.starts_with("events dropped") {
            match line.delivery {
                // A message was purged that had no part of an event any more.
                Some(_) if line.counted == Some(0) => {}
                Some(delivery) => {
                    let ended_by = ended_by.remove(&delivery);
                    let Line { subscription, reason, ids, counted, .. } = line;
                    let delivery = history.delivery_in_log(delivery, &subscription, &ids);
                    let counted = counted.filter(|_| ids.is_empty());
                    let events = history.events_of(delivery, &ids);
                    let drop = Drop { delivery, reason, ended_by, ids, events, counted, at };
                    history.drops.push(drop);
                }
                None => history.violation(at, "a drop was logged without its delivery"),
            }
        } else if line.message.contains("panicked") {
            history.violation(at, format!("a handler panicked: {}", line.reason));
        }
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}
