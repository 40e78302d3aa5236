//! The pace of copies: machines whose clocks differ, and that stall.

use std::{pin::pin, sync::Arc};

use gridpost_ports::Clock;
use gridpost_testkit::{dice::SeededDice, faults::Instance};
use tokio::time::sleep;

use super::Simulation;

/// Tells the dice of the copies' pace from the world's.
const PACE: u64 = 0x9ace;

const DIALS: u64 = 0xd1a1;

/// Returns the dice that choose the pace of copies in the world of that seed.
pub(super) fn dice(seed: u64) -> SeededDice {
    SeededDice::new(seed ^ PACE)
}

/// Returns the dice that choose how long it takes to connect there.
pub(super) fn dials(seed: u64) -> SeededDice {
    SeededDice::new(seed ^ DIALS)
}

impl Simulation {
    pub fn instance(&self, instance: Instance) -> Arc<Instance> {
        let most = i64::try_from(self.scenario.pace.skew_max.as_millis()).unwrap_or(0);
        let skew_ms = match most {
            0 => 0,
            _ => self.pace_dice.with(|rng| rng.i64(-most..=most)),
        };
        let instance = Arc::new(instance.with_skew(skew_ms));
        self.note_begun(&instance);
        instance
    }

    /// Whether machines stand still at times.
    pub fn stalls(&self) -> bool {
        self.scenario.pace.stalls > 0.0
    }

    /// Runs an invocation; its machine may stand still for a while, once.
    pub async fn at_its_pace<T>(&self, invocation: impl Future<Output = T>) -> T {
        let pace = self.scenario.pace;
        let mut invocation = pin!(invocation);
        if self.pace_dice.chance(pace.stalls) {
            // Most steps are within the first second.
            let most = self.pace_dice.choose(&[50, 1_000, 30_000]);
            let until_then = sleep(self.pace_dice.millis(0..most));
            tokio::select! { biased;
                over = &mut invocation => return over,
                () = until_then => {}
            }
            let lasts = u64::try_from(pace.stall_max.as_millis()).unwrap_or(u64::MAX);
            let lasts = self.pace_dice.millis(1..lasts + 1);
            let now = self.clock.now();
            self.history().trace(now, || format!("a machine stands still for {lasts:?}"));
            sleep(lasts).await;
        }
        invocation.await
    }
}
