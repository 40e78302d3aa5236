//! Everything around the functions fails.

use crate::{
    chaos::aws::{self, Plan},
    e2e::world::World,
};

/// A short run of the chaos suite: functions are killed, calls to AWS fail or get wrong answers,
/// the emulator is restarted; in the end every event is delivered or a dead letter.
pub async fn nothing_is_lost(world: &World) -> anyhow::Result<()> {
    let found = aws::run(world, Plan { seed: 1, deliveries: 600 }, None).await?;
    println!("chaos: {}; {}", found.tally, found.damage);
    Ok(())
}
