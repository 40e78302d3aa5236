//! Everything around fails.

use crate::{
    chaos::{self, Plan},
    e2e::world::World,
};

/// A short run of the chaos suite: functions are killed, calls of AWS fail or are belied, the emulator
/// is restarted; every event is delivered or a dead letter in the end.
///
/// # Errors
///
/// When one is lost.
pub async fn nothing_is_lost(world: &World) -> anyhow::Result<()> {
    let found = chaos::run(world, Plan { seed: 1, deliveries: 600 }, None).await?;
    println!("chaos: {}; {}", found.tally, found.damage);
    Ok(())
}
