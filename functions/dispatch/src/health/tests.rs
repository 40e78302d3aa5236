use std::sync::atomic::{AtomicU64, Ordering};

use gridpost_core::retry::outcome::{Answer, Outcome};
use gridpost_testkit::{deployment::Deployment, dice::SeededDice, faults::Fault, fixtures};

use super::*;

const NOW: Timestamp = Timestamp::from_millis(1_000_000);

/// A table whose calls are numbered, and copies of dispatch that read it.
struct Fixture {
    deployment: Deployment,
    subscription: EventSubscription,
    deliveries: AtomicU64,
}

impl Fixture {
    fn new() -> Self {
        let deployment = Deployment::at(NOW);
        let subscription = fixtures::subscription("billing");
        Self { deployment, subscription, deliveries: AtomicU64::default() }
    }

    /// Its calls take up to 20 ms.
    fn with_latency() -> Self {
        let fixture = Self::new();
        fixture.deployment.injector.plan().latency_max = Duration::from_millis(20);
        fixture
    }

    fn copy(&self, number: u64) -> HealthCache {
        HealthCache::new(
            self.deployment.of(&self.deployment.tables) as _,
            Arc::new(SeededDice::new(number)) as _,
        )
    }

    fn calls(&self) -> u64 {
        self.deployment.injector.made()
    }

    async fn stored(&self) -> Health {
        let (key, uid) = (&self.subscription.key, self.subscription.endpoint_uid());
        EndpointHealths::load(&*self.deployment.tables, key, uid).await.expect("readable")
    }

    /// A failure of a new delivery each time.
    fn failed(&self, outcome: Outcome, ended_at: Timestamp) -> FailedAttempt {
        let number = self.deliveries.fetch_add(1, Ordering::Relaxed);
        FailedAttempt {
            delivery: Uuid::from_u128(u128::from(number)),
            began_at: NOW,
            ended_at,
            answer: Answer::without_status(outcome),
            last_success_at: None,
        }
    }

    async fn fail(&self, copy: &HealthCache, outcome: Outcome, at: Timestamp) {
        let (durations, failed) = (Durations::default(), self.failed(outcome, at));
        let noted = copy.of(&self.subscription).note_failure(&durations, failed).await;
        noted.expect("noted");
    }

    async fn succeed(&self, copy: &HealthCache, at: Timestamp) {
        let success = SuccessfulAttempt { began_at: at, ended_at: at, asked_for: false };
        let noted = copy.of(&self.subscription).note_success(success, Duration::ZERO).await;
        noted.expect("noted");
    }
}

fn after(millis: u64) -> Timestamp {
    NOW + Duration::from_millis(millis)
}

#[tokio::test(start_paused = true)]
async fn a_look_is_believed_for_about_a_second() {
    let fixture = Fixture::new();
    let copy = HealthCache::new(
        fixture.deployment.of(&fixture.deployment.tables) as _,
        Arc::clone(&fixture.deployment.dice) as _,
    );
    for (millis, reads) in [(0, 1), (1_249, 1), (1_250, 2), (2_400, 2)] {
        copy.of(&fixture.subscription).look(after(millis)).await.expect("readable");
        assert_eq!(fixture.calls(), reads, "at {millis} ms");
    }
    // Copies that read together do not stay in step.
    let mut again = Vec::new();
    for number in 0..20 {
        let copy = fixture.copy(number);
        copy.of(&fixture.subscription).look(NOW).await.expect("readable");
        let reads = fixture.calls();
        copy.of(&fixture.subscription).look(after(1_125)).await.expect("readable");
        again.push(fixture.calls() > reads);
    }
    assert!(again.contains(&true) && again.contains(&false), "{again:?}");
}

#[tokio::test(start_paused = true)]
async fn tasks_of_one_copy_share_a_look() {
    let fixture = Fixture::with_latency();
    let copy = fixture.copy(1);
    let endpoint = copy.of(&fixture.subscription);
    let looks = (0..50).map(|_| endpoint.look(NOW));
    let looked = futures::future::join_all(looks).await;
    assert!(looked.iter().all(|health| health.as_ref().is_ok_and(|it| *it == Health::default())));
    assert_eq!(fixture.calls(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_success_of_what_is_healthy_costs_no_call() {
    let fixture = Fixture::new();
    let copy = fixture.copy(1);
    copy.of(&fixture.subscription).look(NOW).await.expect("readable");
    fixture.succeed(&copy, after(900)).await;
    assert_eq!(fixture.calls(), 1);
    fixture.succeed(&copy, after(1_300)).await;
    assert_eq!((fixture.calls(), fixture.stored().await.revision), (2, 0), "read, not written");
}

#[tokio::test(start_paused = true)]
async fn a_look_tells_what_this_copy_has_seen() {
    let fixture = Fixture::new();
    let (seer, other) = (fixture.copy(1), fixture.copy(2));
    seer.of(&fixture.subscription).look(NOW).await.expect("readable");
    for millis in 0..10 {
        fixture.fail(&other, Outcome::ServerError, after(millis)).await;
    }
    // It believes that the endpoint is healthy, and makes an attempt.
    fixture.succeed(&seer, after(100)).await;
    assert!(fixture.stored().await.is_waiting());
    let health = seer.of(&fixture.subscription).look(after(1_300)).await.expect("readable");
    assert_eq!((health.is_waiting(), health.last_success_at), (false, Some(after(100))));
    assert_eq!(fixture.stored().await, health);
}

#[tokio::test(start_paused = true)]
async fn a_look_whose_word_is_lost_is_a_look() {
    for fault in [Fault::FailsBefore, Fault::FailsAfter] {
        let fixture = Fixture::new();
        let (seer, other) = (fixture.copy(1), fixture.copy(2));
        seer.of(&fixture.subscription).look(NOW).await.expect("readable");
        fixture.fail(&other, Outcome::ServerError, after(5)).await;
        fixture.succeed(&seer, after(100)).await;
        fixture.deployment.injector.plan().calls.insert(fixture.calls() + 2, fault);
        seer.of(&fixture.subscription).look(after(1_300)).await.expect("readable");
        let later = seer.of(&fixture.subscription).look(after(2_600)).await.expect("readable");
        assert_eq!((later.row.failures, fixture.stored().await), (0, later), "{fault:?}");
    }
}

/// A thousand requests to a hanging endpoint end together, in some number of copies.
#[tokio::test(start_paused = true)]
async fn a_thousand_timeouts_at_once_write_little() {
    for copies in [1, 10, 100, 1_000] {
        let fixture = Fixture::with_latency();
        let all: Vec<_> = (0..copies).map(|number| fixture.copy(number)).collect();
        let failures = (0..1_000).map(|number| {
            let copy = &all[number % all.len()];
            let failed = fixture.failed(Outcome::TimedOut, after(30_000));
            let fixture = &fixture;
            async move {
                let durations = Durations::default();
                copy.of(&fixture.subscription).note_failure(&durations, failed).await
            }
        });
        let noted = futures::future::join_all(failures).await;
        let health = fixture.stored().await;
        let delayed = health.delayed.map(|wait| (wait.step, wait.until));
        assert_eq!(delayed, Some((1, after(90_000))), "{copies} copies");
        let failed = noted.iter().filter(|noted| noted.is_err()).count();
        assert_eq!(failed, 0, "{copies} copies: lost against each other every time");
        assert!(health.revision <= 10, "{copies} copies: {} writes", health.revision);
        let calls = fixture.calls();
        assert!(calls <= 6 * copies.max(3), "{copies} copies: {calls} calls");
    }
}

#[tokio::test(start_paused = true)]
async fn failures_of_a_write_that_took_effect_count_once() {
    let fixture = Fixture::with_latency();
    let copy = fixture.copy(1);
    copy.of(&fixture.subscription).look(NOW).await.expect("readable");
    fixture.deployment.injector.plan().calls.insert(2, Fault::FailsAfter);
    let durations = Durations::default();
    // The first is written alone, the others share the next write.
    fixture.deployment.injector.plan().calls.insert(3, Fault::None);
    let endpoint = copy.of(&fixture.subscription);
    let noted = (0..4).map(|number| {
        let failed = fixture.failed(Outcome::ServerError, after(number));
        endpoint.note_failure(&durations, failed)
    });
    let failed =
        futures::future::join_all(noted).await.iter().filter(|noted| noted.is_err()).count();
    assert_eq!((failed, fixture.stored().await.row.failures), (1, 4));
}

#[tokio::test(start_paused = true)]
async fn failures_that_wait_for_their_turn_are_written_by_themselves_where_the_first_fails() {
    let fixture = Fixture::with_latency();
    let copy = fixture.copy(1);
    copy.of(&fixture.subscription).look(NOW).await.expect("readable");
    let durations = Durations::default();
    // Two are written together by the second task, whose write fails.
    fixture.deployment.injector.plan().calls.insert(3, Fault::FailsBefore);
    let endpoint = copy.of(&fixture.subscription);
    let noted = (0..3).map(|number| {
        let failed = fixture.failed(Outcome::ServerError, after(number));
        endpoint.note_failure(&durations, failed)
    });
    let noted = futures::future::join_all(noted).await;
    let failed: Vec<_> = noted.iter().map(Result::is_err).collect();
    assert_eq!((failed, fixture.stored().await.row.failures), (vec![false, true, false], 2));
}

#[tokio::test(start_paused = true)]
async fn votes_end_with_the_mark() {
    let fixture = Fixture::with_latency();
    let copies: Vec<_> = (0..100).map(|number| fixture.copy(number)).collect();
    let settings = SlowEndpointSettings::default();
    let endpoints: Vec<_> = copies.iter().map(|copy| copy.of(&fixture.subscription)).collect();
    let votes = endpoints.iter().map(|endpoint| endpoint.vote(NOW, &settings));
    let marked = futures::future::join_all(votes).await;
    let marked = marked.iter().filter(|voted| matches!(voted, Ok(true))).count();
    assert!(marked >= 99, "all but the first vote see the mark: {marked}");
    let health = fixture.stored().await;
    assert_eq!((health.slow.is_slow(NOW), health.revision), (true, 2));
    assert!(fixture.calls() <= 600, "{} calls", fixture.calls());
}

#[tokio::test(start_paused = true)]
async fn leases_of_many_copies_stay_within_the_bound() {
    let fixture = Fixture::with_latency();
    let settings = SlowEndpointSettings::default();
    let copies: Vec<_> = (0..12).map(|number| fixture.copy(number)).collect();
    let endpoints: Vec<_> = copies.iter().map(|copy| copy.of(&fixture.subscription)).collect();
    for _ in 0..2 {
        endpoints[0].vote(NOW, &settings).await.expect("marked");
    }
    let holders: Vec<_> = (1..=12).map(Uuid::from_u128).collect();
    let takes = endpoints
        .iter()
        .zip(&holders)
        .map(|(endpoint, holder)| endpoint.take(*holder, 7, after(1_300), &settings));
    let granted = futures::future::join_all(takes).await;
    let granted: u32 = granted.into_iter().map(|granted| granted.unwrap_or(0)).sum();
    assert_eq!((granted, fixture.stored().await.slow.under_way(after(1_300))), (50, 50));
    let answered = SlowEndpointReport { slow: 7, ..SlowEndpointReport::default() };
    let given = endpoints
        .iter()
        .zip(&holders)
        .map(|(endpoint, holder)| endpoint.give_back(*holder, answered, after(2_000), &settings));
    futures::future::join_all(given).await;
    let slow = fixture.stored().await.slow;
    assert!(slow.under_way(after(2_000)) < 50 && slow.bound(&settings) > 50, "{slow:?}");
}

#[tokio::test(start_paused = true)]
async fn another_destination_is_another_endpoint() {
    let fixture = Fixture::new();
    let copy = fixture.copy(1);
    fixture.fail(&copy, Outcome::NotFound, NOW).await;
    let endpoint_uid = Some(Uuid::from_u128(4_711));
    let moved = EventSubscription { endpoint_uid, ..fixture.subscription.clone() };
    assert!(copy.of(&fixture.subscription).look(NOW).await.expect("readable").is_waiting());
    assert_eq!(copy.of(&moved).look(NOW).await.expect("readable"), Health::default());
}

#[tokio::test(start_paused = true)]
async fn what_is_kept_in_memory_is_bounded() {
    let fixture = Fixture::new();
    let copy = fixture.copy(1);
    for number in 0..=KEPT_MAX as u128 {
        let uid = Uuid::from_u128(number);
        let subscription = EventSubscription { uid, ..fixture.subscription.clone() };
        let now = after(number as u64);
        copy.of(&subscription).look(now).await.expect("readable");
    }
    let kept = copy.entries.lock().expect("no panic while held").len();
    assert!((KEPT_MAX / 4..KEPT_MAX).contains(&kept), "{kept} are kept");
    let reads = fixture.calls();
    let uid = Uuid::from_u128(KEPT_MAX as u128 - 1);
    let newest = EventSubscription { uid, ..fixture.subscription.clone() };
    copy.of(&newest).look(after(KEPT_MAX as u64)).await.expect("readable");
    assert_eq!(fixture.calls(), reads, "the newest ones stay");
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_lost_is_looked_at_again() {
    let fixture = Fixture::new();
    let (one, other) = (fixture.copy(1), fixture.copy(2));
    let seen = one.of(&fixture.subscription).look(NOW).await.expect("readable");
    fixture.fail(&other, Outcome::Busy, after(1)).await;
    let claim = Health { last_success_at: Some(NOW), ..seen };
    assert!(!one.of(&fixture.subscription).write(after(2), &claim).await.expect("asked"));
    let health = one.of(&fixture.subscription).look(after(3)).await.expect("readable");
    assert!(health.is_waiting(), "it does not believe what it had read");
}
