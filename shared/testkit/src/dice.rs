//! Seeded randomness.

use std::{ops::Range, sync::Mutex, time::Duration};

use gridpost_ports::Dice;
use uuid::Uuid;

/// Dice that fall the same way for the same seed.
#[derive(Debug)]
pub struct SeededDice(Mutex<fastrand::Rng>);

impl SeededDice {
    /// Dice of that seed.
    pub fn new(seed: u64) -> Self {
        Self(Mutex::new(fastrand::Rng::with_seed(seed)))
    }

    /// Further dice, made by a throw of these.
    #[must_use]
    pub fn fork(&self) -> Self {
        Self::new(self.with(|rng| rng.u64(..)))
    }

    /// A throw of another kind.
    pub fn with<T>(&self, throw: impl FnOnce(&mut fastrand::Rng) -> T) -> T {
        throw(&mut self.0.lock().expect("no panic while held"))
    }

    /// True so often: 0.0 never, 1.0 always.
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

    /// One of them.
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
