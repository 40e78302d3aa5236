//! Measures the journal: events a second with and without it, its bytes, and the times of answers.
//!
//! Each event is sent by itself, received by tens, noted and deleted. The clock shows a day.
//!
//! `cargo run --profile fast -p gridpost-embedded --example journal -- \
//!  [events] [none|log|notes] [event subscriptions] [megabytes]`

use std::{
    env, fs,
    io::{BufWriter, Write},
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use gridpost_core::{
    delivery::queue::Queue,
    journal::{
        AttemptsQuestion, By, Count, Counted, Entry, EntryKind, LedgerQuestion, Owner, Question,
        SeriesQuestion, Step,
    },
    retry::outcome::Outcome,
    subscription::SubscriptionKey,
    time::Timestamp,
};
use gridpost_embedded::{Embedded, Options};
use gridpost_ports::{Clock, Journal, JournalReader, Outgoing, Progress, QueueSender};
use rusqlite::Connection;
use tokio::time::Instant;
use uuid::Uuid;

const BODY_BYTES: usize = 900;
const SENDERS: usize = 64;
const SUBSCRIPTIONS: usize = 20;

/// Event subscriptions of a topic.
const OF_TOPIC: usize = 100;

/// Every so many events, one is of a quiet event subscription, and one fails first.
const QUIET: usize = 100_000;
const FAILED: usize = 100;

/// The bytes of the log lines that the journal replaces.
const LOG_BYTES: usize = 950;
const BEGIN: Timestamp = Timestamp::from_millis(1_767_225_600_000);

/// Moves on by minutes, one day for all events.
struct Day {
    sent: Arc<AtomicUsize>,
    events: usize,
    subscriptions: usize,
}

impl Clock for Day {
    fn now(&self) -> Timestamp {
        let minute = self.sent.load(Ordering::Relaxed) * 24 * 60 / self.events;
        BEGIN + Duration::from_secs(60 * minute as u64)
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Mode {
    None,
    Log,
    Notes,
}

fn processor_time() -> Duration {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
    let ticks = fields.split_ascii_whitespace().skip(11).take(2);
    Duration::from_millis(ticks.filter_map(|one| one.parse::<u64>().ok()).sum::<u64>() * 10)
}

/// Scatters numbers like random ids.
fn id(number: usize, salt: u64) -> Uuid {
    let mix = |value: u64| (value ^ (value >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let (high, low) = (mix(mix(number as u64 + salt)), mix(mix(number as u64 ^ salt << 40)));
    Uuid::from_u64_pair(high, low)
}

fn key(number: usize, subscriptions: usize) -> SubscriptionKey {
    let own = number % subscriptions;
    let name = match number % QUIET {
        7 => "quiet".to_owned(),
        _ => format!("subscription-{own}"),
    };
    SubscriptionKey { topic: format!("topic-{}", own / OF_TOPIC), name }
}

fn entry(number: usize, now: Timestamp, subscriptions: usize) -> Entry {
    let is_failed = number.is_multiple_of(FAILED);
    let publish_time = now + Duration::from_millis(number as u64 % 1_000);
    Entry {
        kind: if is_failed { EntryKind::Failure } else { EntryKind::Success },
        at: publish_time + Duration::from_millis(10 + (id(number, 3).as_u128() % 100) as u64),
        delivery: id(number, 1),
        subscription: key(number, subscriptions),
        publish_time,
        attempt: 1,
        part: 0,
        outcome: Some(if is_failed { Outcome::Busy } else { Outcome::Delivered }),
        status: Some(if is_failed { 503 } else { 200 }),
        took: Some(Duration::from_millis(37)),
        due: None,
        because: None,
        reason: None,
        receives: Some(1),
        events: 1,
        event_ids: format!(r#"["{}"]"#, id(number, 2)),
        trace_parent: None,
        response: None,
    }
}

fn message(number: usize, clock: &Day, mode: Mode) -> Outgoing {
    let (key, publish_time) = (key(number, clock.subscriptions), clock.now());
    let counts = match mode {
        Mode::Notes => [
            (Owner::Topic(key.topic.clone()), Counted::Accepted),
            (Owner::Subscription(key), Counted::Matched),
        ]
        .map(|(owner, counted)| Count { owner, publish_time, counted, events: 1, once: None })
        .into(),
        _ => Vec::new(),
    };
    let body = format!("{number:0BODY_BYTES$}");
    Outgoing::new(body, "orders/s".to_owned(), 0).counting(counts)
}

#[tokio::main]
async fn main() {
    let arguments: Vec<_> = env::args().skip(1).collect();
    let number = |place: usize| arguments.get(place).map(|text| text.parse().expect("a number"));
    let events: usize = number(0).unwrap_or(1_000_000);
    let mode = match arguments.get(1).map(String::as_str) {
        Some("none") => Mode::None,
        Some("log") => Mode::Log,
        _ => Mode::Notes,
    };
    let folder = tempfile::tempdir().expect("a folder");
    let options = Options {
        folder: Some(folder.path().to_owned()),
        journal_bytes_max: number(3).map(|megabytes| megabytes as u64 * 1_000_000),
        ..Options::default()
    };
    let sent = Arc::new(AtomicUsize::new(0));
    let subscriptions = number(2).unwrap_or(SUBSCRIPTIONS);
    let clock = Arc::new(Day { sent: Arc::clone(&sent), events, subscriptions });
    let stores = Embedded::open(options.clone(), Arc::clone(&clock) as _).expect("it opens");
    let log = Arc::new(Mutex::new(BufWriter::new(
        fs::File::create(folder.path().join("log")).expect("a log"),
    )));
    let (began, before) = (Instant::now(), processor_time());
    for _ in 0..SENDERS {
        tokio::spawn(send(stores.clone(), Arc::clone(&clock), mode));
    }
    let (mut deleted, mut deletions) = (0, tokio::task::JoinSet::new());
    while deleted < events {
        let received = stores.receive(Queue::Dispatch, 10).await.expect("messages");
        if received.is_empty() {
            stores.arrived(Queue::Dispatch).await;
            continue;
        }
        deleted += received.len();
        let (stores, clock, log) = (stores.clone(), Arc::clone(&clock), Arc::clone(&log));
        deletions.spawn(async move {
            let mut receipts = Vec::new();
            for message in received {
                let number = message.body.trim_start_matches('0').parse().unwrap_or(0);
                match mode {
                    Mode::None => {}
                    Mode::Log => {
                        let line = format!("{number:0LOG_BYTES$}\n");
                        let written = log.lock().expect("a log").write_all(line.as_bytes());
                        written.expect("it is written");
                    }
                    Mode::Notes => {
                        let entry = entry(number, clock.now(), clock.subscriptions);
                        stores.journal().note(entry, Some(&message.receipt));
                    }
                }
                receipts.push(message.receipt);
            }
            stores.delete(Queue::Dispatch, receipts).await.expect("deleted");
        });
    }
    deletions.join_all().await;
    let commits = stores.commits();
    stores.close().await;
    let took = began.elapsed();
    let processor = (processor_time() - before) / u32::try_from(events).expect("few");
    let rate = events as f64 / took.as_secs_f64();
    println!("{events} events in {took:.1?}: {rate:.0} a second, {commits} commits");
    println!("{processor:.1?} of a processor for each");
    if mode == Mode::Notes {
        print_bytes(folder.path(), events);
        drop(stores);
        let stores = Embedded::open(options, clock).expect("it opens");
        print_answers(&stores, events).await;
    }
}

async fn send(stores: Embedded, clock: Arc<Day>, mode: Mode) {
    let queues = stores.queues();
    loop {
        let number = clock.sent.fetch_add(1, Ordering::Relaxed);
        if number >= clock.events {
            return;
        }
        let message = message(number, &clock, mode);
        let answers = queues.send(Queue::Dispatch, vec![message]).await;
        answers.into_iter().for_each(|answer| answer.expect("it is sent"));
    }
}

/// Prints the pages in use after all messages were deleted.
fn print_bytes(folder: &Path, events: usize) {
    let database = Connection::open(folder.join("gridpost.sqlite")).expect("a database");
    let pragma = |name| {
        database.pragma_query_value(None, name, |row| row.get::<_, i64>(0)).expect("a number")
    };
    let (pages, free, bytes) =
        (pragma("page_count"), pragma("freelist_count"), pragma("page_size"));
    let count = |table| {
        let count = format!("SELECT count(*) FROM {table}");
        database.query_row(&count, [], |row| row.get::<_, i64>(0)).expect("a number")
    };
    let used = (pages - free) * bytes;
    println!(
        "{:.1} bytes of the journal an event; {} MB file; {} entries, {} sums",
        used as f64 / events as f64,
        pages * bytes / 1_000_000,
        count("entries"),
        count("counts"),
    );
}

async fn print_answers(stores: &Embedded, events: usize) {
    let name = |text: &str| Some(text.to_owned());
    let attempts = AttemptsQuestion { to: Timestamp::MAX, most: 100, ..Default::default() };
    let explain = |number| {
        let event_id = Some(id(number, 2).to_string());
        Question::Attempts(AttemptsQuestion { event_id, ..attempts.clone() })
    };
    let of = |subscription, failed| {
        let subscription = name(subscription);
        Question::Attempts(AttemptsQuestion { subscription, failed, ..attempts.clone() })
    };
    let ledger = LedgerQuestion { from: BEGIN, to: Timestamp::MAX, ..Default::default() };
    let mut table = vec![
        ("explain: an unknown one".to_owned(), explain(events + 1)),
        ("explain: the oldest".to_owned(), explain(0)),
        ("explain: the newest".to_owned(), explain(events - 1)),
        ("100 attempts".to_owned(), Question::Attempts(attempts.clone())),
        ("100 attempts of one".to_owned(), of("subscription-3", false)),
        ("attempts of a quiet one".to_owned(), of("quiet", false)),
        ("failed attempts of a quiet one".to_owned(), of("quiet", true)),
        ("100 failed attempts of one".to_owned(), of("subscription-0", true)),
        ("the ledger of a day".to_owned(), Question::Ledger(ledger)),
    ];
    let day = |topic, subscription| SeriesQuestion {
        topic,
        subscription,
        from: BEGIN,
        to: BEGIN + Duration::from_secs(24 * 3_600),
        ..SeriesQuestion::default()
    };
    let whole = || day(None, None);
    let of_topic = || day(name("topic-0"), None);
    let one = || day(name("topic-0"), name("subscription-3"));
    for step in [Step::Minute, Step::FiveMinutes, Step::HalfHour, Step::Hour, Step::ThreeHours] {
        for (text, by, question) in [
            ("all together", By::All, whole()),
            ("topics", By::Topic, whole()),
            ("each", By::EventSubscription, whole()),
            ("a topic as one", By::Topic, of_topic()),
            ("a topic, each", By::EventSubscription, of_topic()),
            ("one", By::EventSubscription, one()),
        ] {
            for total in [false, true] {
                let kind = if total { "total by" } else { "by" };
                let question = SeriesQuestion { step, by, total, ..question.clone() };
                table.push((format!("{text}, {kind} {step}"), Question::Series(question)));
            }
        }
    }
    for hours in [6, 24, 7 * 24] {
        let to = BEGIN + Duration::from_secs(24 * 3_600);
        let from = Timestamp::from_millis(to.as_millis() - hours * 3_600_000);
        for (by, total, step) in [
            (By::All, false, Step::Minute),
            (By::All, false, Step::ThreeHours),
            (By::EventSubscription, true, Step::Minute),
            (By::EventSubscription, true, Step::Hour),
        ] {
            let question = SeriesQuestion { from, to, by, total, step, ..whole() };
            let text = format!("{hours} h by {by}, total {total}, {step}");
            table.push((text, Question::Series(question)));
        }
        // From a quarter past.
        let from = from + Duration::from_secs(900);
        let (by, total, step) = (By::EventSubscription, true, Step::Minute);
        let to = Timestamp::from_millis(to.as_millis() - 1_200_000);
        let question = SeriesQuestion { from, to, by, total, step, ..whole() };
        table.push((format!("{hours} h of each, total with edges"), Question::Series(question)));
    }
    for (text, question) in table {
        let (mut times, mut is_whole) = (Vec::new(), true);
        for _ in 0..7 {
            let began = Instant::now();
            let reply = stores.journal().ask(&question, None, None).await.expect("a reply");
            times.push(began.elapsed());
            let Progress::Answered(answer) = reply.progress else { panic!("no answer") };
            is_whole = answer.next.is_none();
        }
        let first = times[0];
        times.sort();
        let rest = if is_whole { "" } else { ", and further pages" };
        println!("{text}: {:.1?} (first {first:.1?}){rest}", times[3]);
    }
}
