//! Kills functions at random moments, makes services fail, stops and restarts the emulator, and
//! lets functions of two commits take turns.

use std::{fmt, time::Duration};

use gridpost_stack::emulator::Emulator;
use tokio::{
    sync::watch,
    time::{Instant, sleep},
};

use super::{
    deployment::{self, Deployment},
    proxy::{Proxy, Service},
    roll_out::{RollOut, Turns},
};
use crate::e2e::{fixture::Fixture, inside};

/// How long the mayhem goes on after the last publish was accepted, while retries and dead letters
/// are under way.
const AFTERMATH: Duration = Duration::from_secs(20);

/// Time until the first restart of the emulator.
const FIRST_RESTART: Duration = Duration::from_secs(12);

/// Longest pause between two actions.
const PAUSE_MAX: Duration = Duration::from_secs(3);

/// The damage done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Damage {
    /// Processes of functions that were killed by us.
    pub killed: usize,
    /// Outages of a service.
    pub outages: usize,
    /// Restarts of the emulator with its state; every function is killed by each.
    pub restarts: usize,
    /// Functions that were switched to the other commit.
    pub turns: usize,
}

impl fmt::Display for Damage {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { killed, outages, restarts, turns } = self;
        write!(
            formatter,
            "{killed} processes killed, {outages} outages, {restarts} restarts, {turns} turns of two commits"
        )
    }
}

/// One thing that is done.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Deed {
    Kill(&'static str),
    Outage(Service, Duration),
    Restart,
    Turn(&'static str),
}

/// In a roll-out, one in this many actions switches a function.
const TURN_EVERY: usize = 3;

/// The next action: first each service fails once, then the dice decide. They mostly kill dispatch,
/// which has most to lose.
fn deed(done: usize, is_roll_out: bool, dice: &mut fastrand::Rng) -> Deed {
    if let Some(service) = Service::ALL.get(done) {
        return Deed::Outage(*service, Duration::from_secs(3));
    }
    if is_roll_out && done.is_multiple_of(TURN_EVERY) {
        return Deed::Turn(deployment::FUNCTIONS[dice.usize(0..deployment::FUNCTIONS.len())]);
    }
    match dice.u32(0..100) {
        0..40 => Deed::Kill("dispatch"),
        40..50 => Deed::Kill("ingest"),
        50..54 => Deed::Kill("expand"),
        54..66 => Deed::Kill("dead-letter"),
        66..72 => Deed::Kill("wake"),
        72..78 => Deed::Kill("manage"),
        78..95 => {
            let service = Service::ALL[dice.usize(0..Service::ALL.len())];
            Deed::Outage(service, Duration::from_millis(dice.u64(1_000..6_000)))
        }
        _ => Deed::Restart,
    }
}

/// The mayhem of one run.
pub struct Mayhem<'a> {
    fixture: &'a Fixture,
    proxy: &'a Proxy,
    seed: u64,
    over: watch::Sender<Option<Instant>>,
    roll_out: Option<(&'a RollOut, &'a Deployment<'a>)>,
}

impl<'a> Mayhem<'a> {
    /// Mayhem with dice that start from `seed`.
    pub fn new(
        fixture: &'a Fixture,
        proxy: &'a Proxy,
        seed: u64,
        roll_out: Option<(&'a RollOut, &'a Deployment<'a>)>,
    ) -> Self {
        Self { fixture, proxy, seed, over: watch::Sender::new(None), roll_out }
    }

    /// Says that everything is published.
    pub fn published(&self) {
        self.over.send_replace(Some(Instant::now() + AFTERMATH));
    }

    /// Rages until some time after everything is published.
    pub async fn rage(&self) -> anyhow::Result<Damage> {
        let began = Instant::now();
        let mut dice = fastrand::Rng::with_seed(self.seed ^ 0x00c0_ffee);
        let mut damage = Damage::default();
        let mut done = 0;
        let mut turns = match self.roll_out {
            Some((roll_out, deployment)) => roll_out.begin(deployment).await?,
            None => Turns::default(),
        };
        loop {
            sleep(PAUSE_MAX.mul_f64(dice.f64())).await;
            let over = *self.over.borrow();
            let restarts_first = damage.restarts == 0 && began.elapsed() >= FIRST_RESTART;
            if !restarts_first && over.is_some_and(|over| Instant::now() >= over) {
                return Ok(damage);
            }
            let deed = if restarts_first {
                Deed::Restart
            } else {
                done += 1;
                deed(done - 1, self.roll_out.is_some(), &mut dice)
            };
            match deed {
                Deed::Kill(function) => {
                    let name = deployment::name(function);
                    damage.killed += inside::kill(self.fixture.ground.home(), &name);
                }
                Deed::Outage(service, lasts) => {
                    self.proxy.outage(service, lasts);
                    damage.outages += 1;
                }
                Deed::Restart => {
                    self.restart().await?;
                    damage.restarts += 1;
                }
                Deed::Turn(function) => {
                    if let Some((roll_out, deployment)) = self.roll_out {
                        roll_out.turn(function, &mut turns, deployment).await?;
                        damage.turns += 1;
                    }
                }
            }
        }
    }

    /// Stops the emulator between two calls, so that it can save its state, and starts it again.
    async fn restart(&self) -> anyhow::Result<()> {
        let _held = self.proxy.hold().await;
        let emulator = Emulator::of(self.fixture.ground.home());
        let url = &self.fixture.ground.connection.emulator_url;
        let port = url.rsplit(':').next().and_then(|port| port.trim_end_matches('/').parse().ok());
        let port = port.ok_or_else(|| anyhow::anyhow!("{url} has no port"))?;
        // A killed emulator loses the messages in its queues, so the run would show nothing.
        emulator.stop_saved().await?;
        emulator.start(self.fixture.ground.environment()?, port).await?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_dice_do_everything_in_time() {
        let mut dice = fastrand::Rng::with_seed(1);
        let deeds: Vec<_> = (0..300).map(|done| deed(done, false, &mut dice)).collect();
        for function in deployment::FUNCTIONS {
            assert!(deeds.contains(&Deed::Kill(function)), "{function} is never killed");
        }
        assert!(deeds.contains(&Deed::Restart));
        for service in Service::ALL {
            let is_out = |deed: &Deed| matches!(deed, Deed::Outage(out, _) if *out == service);
            assert!(deeds.iter().any(is_out), "{service:?} is never out");
        }
        assert!(!deeds.iter().any(|deed| matches!(deed, Deed::Turn(_))), "there is one commit");
    }

    #[test]
    fn in_a_roll_out_every_function_has_its_turns() {
        let mut dice = fastrand::Rng::with_seed(1);
        let deeds: Vec<_> = (0..100).map(|done| deed(done, true, &mut dice)).collect();
        for function in deployment::FUNCTIONS {
            assert!(deeds.contains(&Deed::Turn(function)), "{function} has no turn");
        }
    }
}
