//! Everything around the functions fails.

use crate::{
    chaos::aws::{self, Plan},
    e2e::fixture::Fixture,
};

/// A short run of the chaos suite: functions are killed, calls to AWS fail or get wrong answers,
/// the emulator is restarted; in the end every event is delivered or a dead letter.
pub async fn nothing_is_lost(fixture: &Fixture) -> anyhow::Result<()> {
    let found = aws::run(fixture, Plan { seed: 1, deliveries: 600 }, None).await?;
    println!("chaos: {}; {}", found.tally, found.damage);
    Ok(())
}
