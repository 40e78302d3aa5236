//! Answered writes survive the end of the process at any instant.
//!
//! This program starts itself as a child that writes in a loop and reports answers, kills it with SIGKILL,
//! and checks the child's folder. It has no test harness, so that the child is not a test.

use std::{
    collections::BTreeSet,
    env,
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::Arc,
};

use gridpost_core::{
    delivery::{dead_letter::Labels, queue::Queue},
    journal::{Count, Counted, Entry, EntryKind, LedgerQuestion, Owner},
    time::Timestamp,
};
use gridpost_embedded::{Embedded, Options, Sync};
use gridpost_ports::{
    Bucket, Clock, DeadLetters, DeliveryStates, Journal, Outgoing, Payloads, QueueReceiver,
    QueueSender, Saved,
};
use gridpost_testkit::contract::{self, journal};
use uuid::Uuid;

/// Makes this program a child, with that folder.
const CHILD: &str = "GRIDPOST_CRASH_FOLDER";

const ROUND: &str = "GRIDPOST_CRASH_ROUND";

const ROUNDS: usize = 6;

const WRITERS: usize = 6;

const RETRY: Queue = Queue::Retry(0);

struct Still;

impl Clock for Still {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(60_000)
    }
}

fn open(folder: &Path, round: usize) -> Embedded {
    let sync = if round.is_multiple_of(2) { Sync::Normal } else { Sync::Full };
    let folder = Some(folder.to_owned());
    let options = Options { folder, sync, makes_buckets: true, ..Options::default() };
    Embedded::open(options, Arc::new(Still)).expect("it opens")
}

fn main() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    match env::var_os(CHILD) {
        Some(folder) => runtime.block_on(child(&PathBuf::from(folder))),
        None => runtime.block_on(what_was_answered_is_there()),
    }
}

fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    out.write_all(format!("{line}\n").as_bytes()).expect("the parent listens");
    out.flush().expect("the parent listens");
}

async fn child(folder: &Path) {
    let round: usize = env::var(ROUND).expect("a round").parse().expect("a number");
    let stores = open(folder, round);
    let writers = (0..WRITERS).map(|writer| tokio::spawn(write(stores.clone(), round, writer)));
    for writer in writers.collect::<Vec<_>>() {
        writer.await.expect("no panic");
    }
}

async fn write(stores: Embedded, round: usize, writer: usize) {
    let (queues, tables) = (stores.queues(), stores.tables());
    for number in 0_u128.. {
        let name = format!("{round}.{writer}.{number}");
        let message = Outgoing::new(name.clone(), "t/s".to_owned(), 0).counting(vec![matched()]);
        let answers = queues.send(RETRY, vec![message]).await;
        if answers[0].is_ok() {
            say(&format!("sent {name}"));
        }
        match number % 4 {
            0 => {
                for received in stores.receive(RETRY, 1).await.expect("messages") {
                    say(&format!("deleting {}", received.body));
                    stores.journal().note(delivered(&received.body), Some(&received.receipt));
                    queues.delete(RETRY, vec![received.receipt]).await.expect("deleted");
                    say(&format!("deleted {}", received.body));
                }
            }
            1 => {
                let id = (round * WRITERS + writer) as u128 * 1_000_000 + number;
                let saved = DeliveryStates::save(&*tables, &contract::state(id)).await;
                assert_eq!(saved.expect("written"), Saved::Written);
                say(&format!("state {id}"));
            }
            2 => {
                let object = name.clone().into_bytes();
                stores.payloads().put(&name, object).await.expect("written");
                say(&format!("payload {name}"));
            }
            _ => {
                let (labels, body) = (Labels::default(), name.clone().into_bytes());
                let letters = stores.letters();
                letters.put(contract::BUCKET, &name, &labels, body).await.expect("written");
                say(&format!("letter {name}"));
            }
        }
    }
}

fn matched() -> Count {
    let owner = Owner::Subscription(contract::key());
    let publish_time = Timestamp::from_millis(0);
    Count { owner, publish_time, counted: Counted::Matched, events: 1, once: None }
}

/// The entry about a message that is deleted.
fn delivered(name: &str) -> Entry {
    let numbers = name.split('.').map(|number| number.parse::<u64>().expect("a number"));
    let delivery = Uuid::from_u64_pair(numbers.fold(0, |all, one| all * 100_000 + one), 0);
    let event_ids = format!(r#"["{name}"]"#);
    Entry { delivery, event_ids, ..journal::entry(0, EntryKind::Success) }
}

#[derive(Default)]
struct Said {
    sent: BTreeSet<String>,
    deleting: BTreeSet<String>,
    deleted: BTreeSet<String>,
    states: Vec<u128>,
    payloads: Vec<String>,
    letters: Vec<String>,
}

impl Said {
    fn note(&mut self, line: &str) {
        let (what, name) = line.split_once(' ').expect("a word and a name");
        let name = name.to_owned();
        match what {
            "sent" => drop(self.sent.insert(name)),
            "deleting" => drop(self.deleting.insert(name)),
            "deleted" => drop(self.deleted.insert(name)),
            "state" => self.states.push(name.parse().expect("a number")),
            "payload" => self.payloads.push(name),
            "letter" => self.letters.push(name),
            _ => panic!("{line}"),
        }
    }
}

/// Runs a child until it has reported `lines` lines, kills it, and records the reports.
fn run_and_kill(folder: &Path, round: usize, lines: usize, said: &mut Said) {
    let program = env::current_exe().expect("this program");
    let mut child = Command::new(program)
        .env(CHILD, folder)
        .env(ROUND, round.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .expect("a child");
    let mut out = BufReader::new(child.stdout.take().expect("its output"));
    let mut heard = 0;
    loop {
        let mut line = String::new();
        out.read_line(&mut line).expect("readable");
        let Some(line) = line.strip_suffix('\n') else { break };
        said.note(line);
        heard += 1;
        if heard == lines {
            child.kill().expect("it is killed");
        }
    }
    assert!(heard >= lines, "it has ended by itself after {heard} lines");
    child.wait().expect("it has ended");
}

async fn what_was_answered_is_there() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut said = Said::default();
    for round in 0..ROUNDS {
        run_and_kill(folder.path(), round, 200 + 173 * round, &mut said);
        check(&open(folder.path(), round), &said).await;
    }
    let Said { sent, deleted, states, payloads, letters, .. } = said;
    let counts = [sent.len(), deleted.len(), states.len(), payloads.len(), letters.len()];
    assert!(counts.iter().all(|count| *count > 0), "{counts:?}");
    println!("killed {ROUNDS} times: sent, deleted, states, payloads, letters {counts:?}: ok");
}

async fn check(stores: &Embedded, said: &Said) {
    let mut there = BTreeSet::new();
    loop {
        let received = stores.receive(RETRY, 100).await.expect("messages");
        if received.is_empty() {
            break;
        }
        there.extend(received.into_iter().map(|message| message.body));
    }
    let kept = said.sent.iter().filter(|name| !said.deleting.contains(*name));
    let lost: Vec<_> = kept.filter(|name| !there.contains(*name)).collect();
    assert!(lost.is_empty(), "lost: {lost:?}");
    let back: Vec<_> = said.deleted.intersection(&there).collect();
    assert!(back.is_empty(), "deleted, and there again: {back:?}");
    check_journal(stores, said, &there).await;
    for number in &said.states {
        let found = DeliveryStates::load(&*stores.tables(), Uuid::from_u128(*number)).await;
        assert!(found.expect("readable").is_some(), "state {number}");
    }
    for name in &said.payloads {
        let found = stores.payloads().get(name).await.expect("readable");
        assert_eq!(found.as_deref(), Some(name.as_bytes()));
    }
    for name in &said.letters {
        let found = stores.letters().get(contract::BUCKET, name).await.expect("readable");
        assert_eq!(found.expect("a letter").0, name.as_bytes());
    }
    stores.close().await;
}

/// Each message that was ever stored is counted once, and is either there or has one entry.
async fn check_journal(stores: &Embedded, said: &Said, there: &BTreeSet<String>) {
    let reader = stores.journal();
    let entries = journal::attempts(&*reader, journal::all_attempts()).await;
    let id = |entry: &Entry| entry.event_ids.trim_matches(['[', ']', '"']).to_owned();
    let ids: BTreeSet<_> = entries.iter().map(id).collect();
    assert_eq!(ids.len(), entries.len(), "one entry each");
    assert!(ids.is_disjoint(there), "noted, and there again");
    let unknown: Vec<_> = said.deleted.difference(&ids).collect();
    assert!(unknown.is_empty(), "deleted without an entry: {unknown:?}");
    let question = LedgerQuestion { to: Timestamp::MAX, ..LedgerQuestion::default() };
    let accounts = journal::ledger(&*reader, question).await.accounts;
    let matched: u64 = accounts.values().map(|account| account.matched).sum();
    let delivered: u64 = accounts.values().map(|account| account.delivered).sum();
    assert_eq!(delivered, ids.len() as u64);
    assert_eq!(matched, (ids.len() + there.len()) as u64);
}
