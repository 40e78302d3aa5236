//! Many copies of dispatch and one shared health, which each knows as of its last read.

use super::*;

/// How long a read of the health is used.
const KEPT_FOR_MS: i64 = 1_250;

#[derive(Clone, Default)]
struct Copy {
    read_at: Option<i64>,
    health: Health,
    seen: SeenAttempts,
}

/// The stored health, its copies, and a generator of random numbers.
struct Fleet {
    stored: Health,
    copies: Vec<Copy>,
    number: u64,
    writes: u32,
}

impl Fleet {
    fn of(copies: usize) -> Self {
        let copies = vec![Copy::default(); copies];
        Self { stored: Health::default(), copies, number: 1, writes: 0 }
    }

    fn draw(&mut self) -> u64 {
        self.number = self.number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        self.number >> 33
    }

    /// Writes a change of what a copy knows, or of what is stored if that is newer.
    fn write(&mut self, copy: usize, change: impl Fn(&Health) -> Option<Health>) {
        if change(&self.copies[copy].health).is_none() {
            return;
        }
        if let Some(next) = change(&self.stored) {
            self.stored = Health { revision: self.stored.revision + 1, ..next };
            self.writes += 1;
        }
        self.copies[copy].health = self.stored.clone();
    }

    /// Returns the health that a copy uses. An old one is read again, and the copy shares
    /// what it has seen.
    fn look(&mut self, copy: usize, now_ms: i64) -> Health {
        if self.copies[copy].read_at.is_none_or(|at| now_ms >= at + KEPT_FOR_MS) {
            (self.copies[copy].read_at, self.copies[copy].health) =
                (Some(now_ms), self.stored.clone());
            let seen = self.copies[copy].seen;
            self.write(copy, |health| evidence(health, seen, Timestamp::from_millis(now_ms)));
        }
        self.copies[copy].health.clone()
    }

    /// Sends a delivery to a copy. Returns whether it was attempted.
    fn deliver(&mut self, delivery: u64, now_ms: i64, fails: bool) -> bool {
        let copy = self.draw() as usize % self.copies.len();
        let now = Timestamp::from_millis(now_ms);
        let health = self.look(copy, now_ms);
        let delivery = Uuid::from_u128(u128::from(delivery));
        let asking = AdmissionRequest { now, delivery, ..asking(0, 0) };
        if admission(&health, asking) != Admission::Attempt {
            return false;
        }
        if fails {
            self.copies[copy].seen.last_failure_at = Some(now);
            let last_success_at = self.copies[copy].seen.last_success_at;
            let (began_at, ended_at, answer) = (now, now, status(500));
            let failed = FailedAttempt { delivery, began_at, ended_at, answer, last_success_at };
            self.write(copy, |health| after_failure(health, &Durations::default(), failed));
        } else {
            self.copies[copy].seen.last_success_at = Some(now);
            let success = SuccessfulAttempt { began_at: now, ended_at: now, asked_for: false };
            self.write(copy, |health| after_success(health, success, Duration::ZERO));
        }
        true
    }
}

/// A fifth of the answers are failures, and each copy sees a few of them.
#[test]
fn failures_beside_successes_of_other_copies_do_not_delay_delivery() {
    for copies in [1, 10, 100, 1_000] {
        let mut fleet = Fleet::of(copies);
        let (mut waited_ms, mut last_wait) = (0, 0);
        for now_ms in 0..60_000 {
            let fails = fleet.draw().is_multiple_of(5);
            fleet.deliver(now_ms as u64, now_ms, fails);
            if fleet.stored.is_waiting() {
                (waited_ms, last_wait) = (waited_ms + 1, now_ms);
            }
        }
        assert!(waited_ms <= 2_000, "{copies} copies: it waited {waited_ms} ms");
        assert!(last_wait <= 4_000, "{copies} copies: it waited once more at {last_wait} ms");
        assert!(fleet.writes < 300, "{copies} copies: {} writes in a minute", fleet.writes);
    }
}

/// Without successes, ten failures delay delivery at once, however many copies see them.
#[test]
fn ten_failures_without_a_success_delay_delivery_at_once() {
    for copies in [1, 100] {
        let mut fleet = Fleet::of(copies);
        let attempted =
            (0..10).filter(|number| fleet.deliver(*number, *number as i64, true)).count();
        assert_eq!((attempted, fleet.stored.is_waiting()), (10, true), "{copies} copies");
    }
}

/// An endpoint that begins to fail is detected within two seconds.
#[test]
fn successes_of_before_do_not_keep_an_endpoint_healthy() {
    for copies in [1, 10, 100, 1_000] {
        let mut fleet = Fleet::of(copies);
        for now_ms in 0..30_000 {
            let fails = now_ms >= 10_000 || fleet.draw().is_multiple_of(5);
            fleet.deliver(now_ms as u64, now_ms, fails);
            if now_ms >= 12_000 {
                assert!(fleet.stored.is_waiting(), "{copies} copies, at {now_ms} ms");
            }
        }
    }
}
