//! Runs the chaos suite on a stack of its own: see `tests/src/chaos.rs`.
//!
//! `cargo run -p gridpost-tests --bin chaos -- --runs 20 --deliveries 5000`

use std::path::PathBuf;

use clap::Parser;
use gridpost_tests::{
    chaos::{self, Found, Plan, roll_out::RollOut},
    e2e::{ground::Ground, world::World},
};

/// Delivers events while everything around fails, and counts what is lost.
#[derive(Debug, Parser)]
struct Arguments {
    /// Runs, one after the other
    #[arg(long, default_value_t = 20)]
    runs: u64,

    /// Events delivered or dead-lettered in each run
    #[arg(long, default_value_t = 5_000)]
    deliveries: usize,

    /// Seed of the first run; each further run takes the next number
    #[arg(long, default_value_t = 1)]
    seed: u64,

    /// Folder of the stack
    #[arg(long, default_value = "target/chaos")]
    folder: PathBuf,

    /// A commit, such as the one last deployed: its functions and those of this tree take turns, as
    /// in a roll-out and its rollback
    #[arg(long, value_name = "COMMIT")]
    earlier: Option<String>,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let folder = std::path::absolute(&arguments.folder)?;
    let world = World::on(Ground::up(&folder).await?).await?;
    let roll_out = match &arguments.earlier {
        Some(commit) => Some(RollOut::of(commit, &folder.join("earlier"), &world.ground).await?),
        None => None,
    };
    let mut failed = None;
    println!(
        "| run | events | duplicates | dead letters twice | ends too many | processes killed | outages | restarts | turns | calls | disturbed | s |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|---|");
    for seed in arguments.seed..arguments.seed + arguments.runs {
        let plan = Plan { seed, deliveries: arguments.deliveries };
        match chaos::run(&world, plan, roll_out.as_ref()).await {
            Ok(found) => println!("{}", row(seed, &found)),
            Err(error) => {
                failed = Some(error.context(format!("run {seed}")));
                break;
            }
        }
    }
    world.ground.down().await?;
    failed.map_or(Ok(()), Err)
}

fn row(seed: u64, found: &Found) -> String {
    let Found { tally, damage, ends_too_many, requests: (calls, disturbed), took } = found;
    format!(
        "| {seed} | {} | {} | {} | {ends_too_many} | {} | {} | {} | {} | {calls} | {disturbed} | {:.0} |",
        tally.delivered + tally.dead_lettered,
        tally.duplicates,
        tally.duplicate_dead_letters,
        damage.killed,
        damage.outages,
        damage.restarts,
        damage.turns,
        took.as_secs_f64(),
    )
}
