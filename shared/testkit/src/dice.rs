//! Seeded randomness.

use std::{
    ops::Range,
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use gridpost_ports::Dice;
use uuid::Uuid;

/// Dice that roll the same for the same seed.
#[derive(Debug)]
pub struct SeededDice(Mutex<fastrand::Rng>);

impl SeededDice {
    pub fn new(seed: u64) -> Self {
        Self(Mutex::new(fastrand::Rng::with_seed(seed)))
    }

    /// New dice, seeded by a roll of these.
    #[must_use]
    pub fn fork(&self) -> Self {
        Self::new(self.with(|rng| rng.u64(..)))
    }

    pub fn with<T>(&self, throw: impl FnOnce(&mut fastrand::Rng) -> T) -> T {
        throw(&mut self.0.lock().expect("no panic while held"))
    }

    /// True at this rate: 0.0 never, 1.0 always.
    pub fn chance(&self, rate: f64) -> bool {
        rate > 0.0 && self.with(fastrand::Rng::f64) < rate
    }

    /// A whole number of that range.
    pub fn number(&self, range: Range<u64>) -> u64 {
        self.with(|rng| rng.u64(range))
    }

    /// A duration of that range of milliseconds.
    pub fn millis(&self, range: Range<u64>) -> Duration {
        Duration::from_millis(self.number(range))
    }

    pub fn choose<T: Copy>(&self, of: &[T]) -> T {
        of[self.with(|rng| rng.usize(..of.len()))]
    }
}

impl Dice for SeededDice {
    fn roll(&self) -> f64 {
        self.with(fastrand::Rng::f64)
    }

    fn id(&self) -> Uuid {
        Uuid::from_u128(self.with(|rng| rng.u128(..)))
    }

    fn key(&self) -> [u8; 32] {
        self.with(|rng| std::array::from_fn(|_| rng.u8(..)))
    }
}

/// Dice without jitter, for examples that need exact times: every roll is 0.
#[derive(Debug)]
pub struct StillDice(pub SeededDice);

impl Dice for StillDice {
    fn roll(&self) -> f64 {
        0.0
    }

    fn id(&self) -> Uuid {
        self.0.id()
    }

    fn key(&self) -> [u8; 32] {
        self.0.key()
    }
}

/// Dice that count: each id and each key is the next number, every roll is the same.
#[derive(Debug, Default)]
pub struct CountingDice {
    next: AtomicU64,
    roll: f64,
}

impl CountingDice {
    /// Dice whose every roll is this one.
    pub fn rolling(roll: f64) -> Self {
        Self { roll, ..Self::default() }
    }

    fn next(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }
}

impl Dice for CountingDice {
    fn roll(&self) -> f64 {
        self.roll
    }

    fn id(&self) -> Uuid {
        Uuid::from_u128(u128::from(self.next()))
    }

    fn key(&self) -> [u8; 32] {
        let mut key = [7; 32];
        key[..8].copy_from_slice(&self.next().to_be_bytes());
        key
    }
}
