//! Measures messages through a queue in a second, and the processor time of each: sent one by one by many at
//! once, received by tens, and deleted.
//!
//! `cargo run --profile fast -p gridpost-embedded --example throughput -- [messages] [senders] [full]`

use std::{
    env, fs,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use gridpost_core::{delivery::queue::Queue, time::Timestamp};
use gridpost_embedded::{Embedded, Options, Sync};
use gridpost_ports::{Clock, Outgoing, QueueSender};
use tokio::time::Instant;

const BODY_BYTES: usize = 900;

struct Real;

impl Clock for Real {
    #[expect(clippy::disallowed_methods, reason = "the clock of an example")]
    fn now(&self) -> Timestamp {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        Timestamp::from_millis(i64::try_from(now.unwrap_or_default().as_millis()).unwrap_or(0))
    }
}

/// Returns the processor time so far, user and system, in ticks of 10 ms. On Linux only.
fn processor_time() -> Option<Duration> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace().skip(11);
    let mut ticks = || fields.next()?.parse::<u64>().ok();
    Some(Duration::from_millis((ticks()? + ticks()?) * 10))
}

#[tokio::main]
async fn main() {
    let mut arguments = env::args().skip(1);
    let mut number =
        |default: usize| arguments.next().map_or(default, |text| text.parse().expect("a number"));
    let (messages, senders) = (number(50_000), number(64));
    let is_full = arguments.next().is_some_and(|word| word == "full");
    let folder = tempfile::tempdir().expect("a folder");
    let options = Options {
        folder: Some(folder.path().to_owned()),
        sync: if is_full { Sync::Full } else { Sync::Normal },
        ..Options::default()
    };
    let stores = Embedded::open(options, Arc::new(Real)).expect("it opens");
    let (began, before) = (Instant::now(), processor_time());
    let sent = Arc::new(AtomicUsize::new(0));
    for _ in 0..senders {
        tokio::spawn(send(stores.clone(), Arc::clone(&sent), messages));
    }
    let mut deleted = 0;
    while deleted < messages {
        let received = stores.receive(Queue::Dispatch, 10).await.expect("messages");
        if received.is_empty() {
            stores.arrived(Queue::Dispatch).await;
            continue;
        }
        deleted += received.len();
        let receipts = received.into_iter().map(|message| message.receipt).collect();
        let stores = stores.clone();
        tokio::spawn(async move { stores.delete(Queue::Dispatch, receipts).await });
    }
    let commits = stores.commits();
    stores.close().await;
    let took = began.elapsed();
    let processor = before.and_then(|before| processor_time()?.checked_sub(before));
    let a_second = f64::from(u32::try_from(messages).expect("few")) / took.as_secs_f64();
    println!("{messages} messages in {took:.1?}: {a_second:.0} a second, {commits} commits");
    if let Some(processor) = processor {
        let each = processor / u32::try_from(messages).expect("few");
        println!("{each:.0?} of a processor for each");
    }
}

async fn send(stores: Embedded, sent: Arc<AtomicUsize>, messages: usize) {
    let queues = stores.queues();
    while sent.fetch_add(1, Ordering::Relaxed) < messages {
        let body = "x".repeat(BODY_BYTES);
        let message = Outgoing::new(body, "t/s".to_owned(), 0);
        let answers = queues.send(Queue::Dispatch, vec![message]).await;
        answers.into_iter().for_each(|answer| answer.expect("it is sent"));
    }
}
