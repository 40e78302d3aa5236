//! Counts since the process started, and gauges of now, in Prometheus' text format.
//!
//! The counters are the metrics that the functions have on AWS, by the same labels.

use std::{
    collections::BTreeMap,
    fmt::Write,
    fs,
    sync::{Arc, Mutex, PoisonError},
};

use gridpost_core::{delivery::queue::Queue, metric::NAMES, time::Timestamp};
use gridpost_embedded::Embedded;
use gridpost_ports::{PoisonQueue, PortError, QueueReceiver};

use crate::mapping::RETRY_QUEUES;

/// The most series with names of topics and event subscriptions; the rest are added up without names.
const SERIES_MAX: usize = 20_000;

/// The event subscriptions whose waiting events are told, the first by name.
const SUBSCRIPTIONS_MAX: usize = 1_000;

type Labels = Vec<(&'static str, String)>;

/// Counters. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Totals(Arc<Mutex<BTreeMap<(&'static str, Labels), u64>>>);

impl Totals {
    /// Adds to a metric.
    pub(crate) fn add(&self, metric: &'static str, labels: &[(&'static str, &str)], by: u64) {
        let all = labels.iter().filter(|(_, value)| !value.is_empty());
        let mut key: (_, Labels) =
            (metric, all.map(|(name, value)| (*name, (*value).to_owned())).collect());
        let mut counters = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if counters.len() >= SERIES_MAX && !counters.contains_key(&key) {
            key.1.retain(|(name, _)| !NAMES.contains(name));
        }
        *counters.entry(key).or_default() += by;
    }

    /// Writes all counters.
    fn write(&self, text: &mut String) {
        let counters = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut last = "";
        for ((metric, labels), value) in &*counters {
            let name = format!("gridpost_{}_total", snake(metric.trim_end_matches("Count")));
            if *metric != last {
                let _ = writeln!(text, "# TYPE {name} counter");
                last = metric;
            }
            series(text, &name, labels.iter().map(|(name, value)| (*name, value.as_str())), *value);
        }
    }
}

/// Writes the counters, and what is so now.
pub(crate) async fn exposition(
    totals: &Totals,
    store: &Embedded,
    now: Timestamp,
) -> Result<String, PortError> {
    let mut text = String::new();
    totals.write(&mut text);
    let mut gauge = |name: &str, values: &[(Vec<(&str, &str)>, u64)]| {
        let _ = writeln!(text, "# TYPE {name} gauge");
        for (labels, value) in values {
            series(&mut text, name, labels.iter().copied(), *value);
        }
    };
    gauge("gridpost_pending_writes", &[(Vec::new(), store.pending_writes() as u64)]);
    gauge("gridpost_ready_to_publish", &[(Vec::new(), store.may_publish().is_ok().into())]);
    if let Some((free, size)) = store.disk() {
        gauge("gridpost_disk_free_bytes", &[(Vec::new(), free)]);
        gauge("gridpost_disk_size_bytes", &[(Vec::new(), size)]);
    }
    if let Some([database, log]) = store.files() {
        let files = [(vec![("file", "database")], database), (vec![("file", "log")], log)];
        gauge("gridpost_database_bytes", &files);
    }
    if let Ok(open) = fs::read_dir("/proc/self/fd") {
        gauge("process_open_fds", &[(Vec::new(), open.count() as u64)]);
    }
    let own = [Queue::Dispatch, Queue::DeadLetter, Queue::FanOut, Queue::Redrive];
    let mut queues = Vec::new();
    for queue in own.into_iter().chain((0..RETRY_QUEUES).map(Queue::Retry)) {
        queues.push((queue.to_string(), store.queues().backlog(queue).await? as u64));
    }
    let poison = PoisonQueue::count(&*store.queues()).await?;
    queues.push((Queue::Poison.to_string(), poison as u64));
    let queues: Vec<_> =
        queues.iter().map(|(name, held)| (vec![("queue", name.as_str())], *held)).collect();
    gauge("gridpost_queue_messages", &queues);
    let keys = store.tables().subscription_keys(SUBSCRIPTIONS_MAX)?;
    let waiting = store.journal().waiting_of(keys.clone()).await?;
    let of = |index: usize| {
        let key = &keys[index];
        vec![("topic", key.topic.as_str()), ("event_subscription_name", key.name.as_str())]
    };
    let all = waiting.iter().enumerate();
    let events: Vec<_> = all.clone().map(|(index, (events, _))| (of(index), *events)).collect();
    let age = |oldest: Timestamp| now.since(oldest).as_secs();
    let ages: Vec<_> =
        all.filter_map(|(index, (_, oldest))| Some((of(index), age((*oldest)?)))).collect();
    gauge("gridpost_waiting_events", &events);
    // By hours: the oldest is as old as that at most.
    gauge("gridpost_oldest_waiting_event_seconds", &ages);
    Ok(text)
}

fn series<'a>(
    text: &mut String,
    name: &str,
    labels: impl Iterator<Item = (&'a str, &'a str)>,
    value: u64,
) {
    let labels: Vec<_> =
        labels.map(|(name, value)| format!("{}=\"{}\"", snake(name), escaped(value))).collect();
    let _ = match labels.is_empty() {
        true => writeln!(text, "{name} {value}"),
        false => writeln!(text, "{name}{{{}}} {value}", labels.join(",")),
    };
}

/// Writes `DeadLetterReason` as `dead_letter_reason`.
fn snake(name: &str) -> String {
    let mut snake = String::new();
    for (at, c) in name.char_indices() {
        if c.is_ascii_uppercase() && at > 0 {
            snake.push('_');
        }
        snake.push(c.to_ascii_lowercase());
    }
    snake
}

fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use gridpost_core::metric;

    use super::*;

    #[test]
    fn counters_are_written_as_prometheus_reads_them() {
        let totals = Totals::default();
        let of = [(metric::TOPIC, "orders"), (metric::EVENT_SUBSCRIPTION_NAME, "bil\"l\\ing\n")];
        totals.add(metric::DELIVERY_SUCCESS_COUNT, &of, 2);
        totals.add(metric::DELIVERY_SUCCESS_COUNT, &of, 3);
        totals.add(metric::DEAD_LETTERED_COUNT, &[(metric::DEAD_LETTER_REASON, "Busy")], 1);
        totals.add(metric::POISON_COUNT, &[("Queue", "")], 1);
        let mut text = String::new();
        totals.write(&mut text);
        let want = "# TYPE gridpost_dead_lettered_total counter\n\
            gridpost_dead_lettered_total{dead_letter_reason=\"Busy\"} 1\n\
            # TYPE gridpost_delivery_success_total counter\n\
            gridpost_delivery_success_total{topic=\"orders\",event_subscription_name=\"bil\\\"l\\\\ing\\n\"} 5\n\
            # TYPE gridpost_poison_total counter\n\
            gridpost_poison_total 1\n";
        assert_eq!(text, want);
    }

    #[test]
    fn beyond_a_limit_names_are_left_out_and_nothing_is_lost() {
        let totals = Totals::default();
        for number in 0..SERIES_MAX + 10 {
            totals.add(metric::PUBLISH_SUCCESS_COUNT, &[(metric::TOPIC, &number.to_string())], 1);
        }
        let counters = totals.0.lock().expect("no panic");
        assert_eq!(counters.len(), SERIES_MAX + 1);
        assert_eq!(counters.values().sum::<u64>(), SERIES_MAX as u64 + 10);
    }
}
