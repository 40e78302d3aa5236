//! Event subscriptions and their secrets, which are read one after the other.

use std::{
    collections::{BTreeSet, VecDeque},
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use gridpost_core::{
    name,
    secret::Secret,
    subscription::{Endpoint, EventSubscription},
    time::Timestamp,
    topic::Topic,
};
use gridpost_ports::{
    Configuration, PortError, SubscriptionSecrets, WithSecrets, WrittenSecrets,
    configuration::{ConfigurationCache, Limits},
};
use gridpost_testkit::{deployment::Deployment, fixtures};
use tokio::time::sleep;
use uuid::Uuid;

type Written = Vec<(EventSubscription, u64)>;

/// What each read finds, one after the other; the last is found again.
struct Scripted {
    written: Mutex<VecDeque<Written>>,
    secrets: Mutex<VecDeque<Written>>,
    reads: Mutex<(usize, usize)>,
}

fn next(script: &Mutex<VecDeque<Written>>) -> Written {
    let mut script = script.lock().expect("no panic while held");
    if script.len() > 1 { script.pop_front() } else { script.front().cloned() }.unwrap_or_default()
}

#[async_trait]
impl Configuration for Scripted {
    async fn topic(&self, _: &str) -> Result<Option<Topic>, PortError> {
        Ok(Some(fixtures::topic()))
    }

    async fn written(&self, _: &str, _: Option<&BTreeSet<&str>>) -> Result<Written, PortError> {
        self.reads.lock().expect("no panic while held").0 += 1;
        let found = next(&self.written).into_iter();
        Ok(found.map(|(one, revision)| (one.split().0, revision)).collect())
    }
}

#[async_trait]
impl SubscriptionSecrets for Scripted {
    async fn secrets(
        &self,
        _: &str,
        _: Option<&BTreeSet<&str>>,
    ) -> Result<WrittenSecrets, PortError> {
        self.reads.lock().expect("no panic while held").1 += 1;
        let found = next(&self.secrets).into_iter();
        let of = |(one, revision): (EventSubscription, u64)| {
            Some((name::folded(&one.key.name), (one.split().1?, revision)))
        };
        Ok(found.filter_map(of).collect())
    }
}

/// The event subscription `S` with such an endpoint, as written at that revision.
fn of(url: &str, uid: u128, revision: u64) -> Written {
    let (uid, endpoint) = (Uuid::from_u128(uid), Endpoint::WebHook { url: Secret::new(url) });
    vec![(EventSubscription { uid, endpoint, ..fixtures::subscription("S") }, revision)]
}

async fn read(
    written: &[Written],
    secrets: &[Written],
) -> (Result<Written, PortError>, (usize, usize)) {
    let script = |of: &[Written]| Mutex::new(of.iter().cloned().collect());
    let (written, secrets) = (script(written), script(secrets));
    let scripted = Arc::new(Scripted { written, secrets, reads: Mutex::default() });
    let found = WithSecrets(Arc::clone(&scripted)).written("t", None).await;
    let reads = *scripted.reads.lock().expect("no panic while held");
    (found, reads)
}

/// Otherwise a new endpoint would get the secrets that were meant for the one before.
#[tokio::test]
async fn only_secrets_of_the_same_revision_are_put_back() {
    let plain = of("https://plain.example/", 5, 2);
    let old = of("https://old.example/?k=old", 5, 2);
    let new = of("https://new.example/?k=new", 5, 3);
    let again = of("https://again.example/?k=again", 9, 2);
    let none = Vec::new();
    // What is read of both; what is returned, and how often was read.
    type Row<'r> = (&'r str, &'r [&'r Written], &'r [&'r Written], &'r Written, (usize, usize));
    let table: [Row<'_>; 7] = [
        ("nothing changes", &[&old], &[&old], &old, (1, 1)),
        ("there are no secrets", &[&plain], &[], &plain, (1, 0)),
        ("written between the reads", &[&old, &new], &[&new], &new, (2, 2)),
        ("the secrets are visible last", &[&new], &[&old, &new], &new, (2, 2)),
        ("and were not there before", &[&new], &[&none, &new], &new, (2, 2)),
        ("deleted between the reads", &[&old, &none], &[&none], &none, (2, 1)),
        ("created again at the same revision", &[&again], &[&old, &again], &again, (2, 2)),
    ];
    for (row, written, secrets, want, want_reads) in table {
        let cloned = |all: &[&Written]| all.iter().map(|one| (*one).clone()).collect::<Vec<_>>();
        let (found, reads) = read(&cloned(written), &cloned(secrets)).await;
        assert_eq!((found.expect(row), reads), (want.clone(), want_reads), "{row}");
    }
}

#[tokio::test]
async fn missing_secrets_are_an_error_that_names_the_event_subscription() {
    let one = of("https://e.example/?k=hush", 5, 2);
    let (found, reads) = read(&[one], &[]).await;
    let error = format!("{:?}", found.expect_err("no event subscription without its secrets"));
    assert!(
        error.contains("those of s in topic t are missing") && error.contains("restore"),
        "{error}"
    );
    assert!(!error.contains("hush"), "{error}");
    assert_eq!(reads, (5, 5));
}

/// A delivery under configuration in memory reads nothing, and no refresh reads secrets unless an event
/// subscription with secrets has changed.
#[tokio::test(start_paused = true)]
async fn a_warm_copy_reads_no_secrets() {
    let here = Deployment::at(Timestamp::from_millis(1_700_000_000_000));
    let one = fixtures::subscription("s");
    let plain = Endpoint::WebHook { url: Secret::new("https://e.example/") };
    let other = EventSubscription { endpoint: plain, ..fixtures::subscription("other") };
    here.tables.configure(fixtures::topic(), vec![one.clone(), other.clone()]);
    let source = Arc::new(WithSecrets(here.of(&here.tables)));
    let (clock, dice) = (Arc::clone(&here.clock), Arc::clone(&here.dice));
    let cache = ConfigurationCache::new(source, clock, dice, Limits::default());
    let refresh = Duration::from_secs(2);
    let table = [
        ("cold: the topic, the event subscriptions, the secrets", None, refresh, 3),
        ("warm", None, Duration::from_millis(100), 0),
        ("a refresh", None, refresh, 1),
        ("one without secrets has changed", Some(&other), refresh, 2),
        ("one with secrets has changed", Some(&one), refresh, 3),
        ("warm", None, Duration::from_millis(100), 0),
    ];
    for (row, changed, after, want) in table {
        if let Some(changed) = changed {
            here.tables.write_subscription(changed);
        }
        sleep(after).await;
        let before = here.injector.made();
        let snapshot = cache.topic("t").await.expect("readable").expect("there");
        assert_eq!(here.injector.made() - before, want, "{row}");
        assert_eq!(snapshot.subscription("s").map(|one| &**one), Some(&one), "{row}");
    }
}
