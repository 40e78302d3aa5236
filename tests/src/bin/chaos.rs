//! Causes failures while events flow, and reports what is lost: see `tests/src/chaos.rs`.
//!
//! `cargo run -p gridpost-tests --bin chaos -- aws --runs 20 --deliveries 5000`

use std::{
    fs::{remove_dir_all, remove_file},
    path::{Path, PathBuf, absolute},
    process::ExitCode,
    time::Duration,
};

use clap::{Args, Parser, Subcommand};
use gridpost_tests::{
    chaos::{
        aws, dev,
        disk::{self, Disk},
        machine::Machine,
        roll_out::RollOut,
        schedules::{self, Pace, Played, Scenario},
    },
    e2e::{fixture::Fixture, ground::Ground},
    program,
};

/// How fast the clock runs for schedules of up to an hour, and by how many of its seconds attempts
/// may be off.
const SHORT: (u32, f64) = (60, 5.0);

/// Events and seconds of longer runs.
const LONG: (u32, f64) = (600, 60.0);

/// If a process is ended and restarted, this is between two attempts of most schedules.
const KILLED_AT: Duration = Duration::from_secs(150);

/// Delivers events during failures, and counts what is lost.
#[derive(Debug, Parser)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// The functions on an emulator of AWS: killed, their calls refused, the emulator restarted
    Aws(AwsArguments),
    /// `gridpost dev` under load, killed at random instants
    Dev(DevArguments),
    /// A disk in memory with slow syncs, to measure `gridpost dev` on: mounted until Ctrl-C
    Disk(DiskArguments),
    /// The schedules of the conformance tables on `gridpost dev` with a fast clock: by how much
    /// attempts were off
    Schedules(Gridpost),
}

#[derive(Debug, Args)]
struct AwsArguments {
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

#[derive(Debug, Args)]
struct DevArguments {
    /// Minutes of publishing and killing
    #[arg(long, default_value_t = 10.0)]
    minutes: f64,

    /// Events in a second
    #[arg(long, default_value_t = 200)]
    rate: u32,

    /// Seed of the dice
    #[arg(long, default_value_t = 1)]
    seed: u64,

    /// Minutes that everything may take to end afterwards
    #[arg(long, default_value_t = 15.0)]
    settle: f64,

    /// Where the process keeps its data; existing data is removed
    #[arg(long, default_value = "target/crash")]
    folder: PathBuf,

    /// Fill the disk of the folder again and again: it must be a small one, for nothing else
    #[arg(long, requires = "folder")]
    fill_disk: bool,

    /// File descriptors that the process may have
    #[arg(long)]
    open_files: Option<u32>,

    /// Move the process's clock by up to 20 minutes, again and again, by this library `libfaketime.so.1`
    #[arg(long, value_name = "LIBRARY")]
    faketime: Option<PathBuf>,

    /// Mount a disk in memory on the folder, and cut its power with each kill: what was not synced is lost, all of it or
    /// a random part
    #[arg(long)]
    power_loss: bool,

    /// Mount a disk in memory on the folder, whose syncs take that long, in milliseconds
    #[arg(long, value_name = "MS")]
    disk_sync_ms: Option<u64>,

    /// Mount a disk in memory on the folder, of that size, in MiB
    #[arg(long, value_name = "MIB")]
    disk_mib: Option<u64>,

    /// What an accepted event survives, as of `gridpost dev`: with `--power-loss`, `full` unless said otherwise
    #[arg(long)]
    sync: Option<String>,

    /// When failed deliveries are attempted again, in seconds from the first attempt, instead of Event Grid's hours
    #[arg(long, value_delimiter = ',')]
    schedule: Option<Vec<u32>>,

    #[command(flatten)]
    gridpost: Gridpost,
}

#[derive(Debug, Args)]
struct DiskArguments {
    /// The folder on which it is mounted
    #[arg(long)]
    at: PathBuf,

    /// How long a sync takes, in milliseconds
    #[arg(long, default_value_t = 0)]
    sync_ms: u64,

    /// Its size, in MiB
    #[arg(long, default_value_t = disk::BYTES >> 20)]
    mib: u64,
}

#[derive(Debug, Args)]
struct Gridpost {
    /// The program `gridpost`, instead of building it
    #[arg(long)]
    gridpost: Option<PathBuf>,
}

impl Gridpost {
    async fn path(self) -> anyhow::Result<PathBuf> {
        match self.gridpost {
            Some(gridpost) => Ok(gridpost),
            None => Ok(program::gridpost().await?.to_owned()),
        }
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<ExitCode> {
    let holds = match Arguments::parse().command {
        Command::Aws(arguments) => on_aws(arguments).await?,
        Command::Dev(arguments) => on_dev(arguments).await?,
        Command::Disk(arguments) => on_disk(arguments).await?,
        Command::Schedules(gridpost) => all_schedules(&gridpost.path().await?).await?,
    };
    Ok(if holds { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn on_aws(arguments: AwsArguments) -> anyhow::Result<bool> {
    let folder = absolute(&arguments.folder)?;
    let fixture = Fixture::on(Ground::up(&folder).await?).await?;
    let roll_out = match &arguments.earlier {
        Some(commit) => Some(RollOut::of(commit, &folder.join("earlier"), &fixture.ground).await?),
        None => None,
    };
    let mut failed = None;
    println!(
        "| run | events | duplicates | dead letters twice | ends too many | processes killed | outages | restarts | turns | calls | disturbed | s |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|---|");
    for seed in arguments.seed..arguments.seed + arguments.runs {
        let plan = aws::Plan { seed, deliveries: arguments.deliveries };
        match aws::run(&fixture, plan, roll_out.as_ref()).await {
            Ok(found) => println!("{}", row(seed, &found)),
            Err(error) => {
                failed = Some(error.context(format!("run {seed}")));
                break;
            }
        }
    }
    fixture.ground.down().await?;
    failed.map_or(Ok(true), Err)
}

fn row(seed: u64, found: &aws::Outcome) -> String {
    let aws::Outcome { tally, damage, ends_too_many, requests: (calls, disturbed), took } = found;
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

async fn on_dev(arguments: DevArguments) -> anyhow::Result<bool> {
    let folder = absolute(&arguments.folder)?;
    let wants_disk = arguments.power_loss || arguments.disk_sync_ms.is_some();
    let mut disk = match wants_disk || arguments.disk_mib.is_some() {
        true => {
            let bytes = arguments.disk_mib.map_or(disk::BYTES, |mib| mib << 20);
            let sync_takes = Duration::from_millis(arguments.disk_sync_ms.unwrap_or(0));
            Some(Disk::mount(&folder, bytes, sync_takes)?)
        }
        false => None,
    };
    let sync = arguments.sync.or_else(|| arguments.power_loss.then(|| "full".to_owned()));
    // The folder itself may be a mount.
    for entry in std::fs::read_dir(&folder).into_iter().flatten() {
        let path = entry?.path();
        let _ = if path.is_dir() { remove_dir_all(&path) } else { remove_file(&path) };
    }
    let plan = dev::Plan {
        seed: arguments.seed,
        per_second: arguments.rate.max(1),
        lasts: Duration::from_secs_f64(arguments.minutes * 60.0),
        lives: [Duration::from_millis(100), Duration::from_secs(12)],
        long_every: 8,
        long_life: Duration::from_secs(45),
        // Longer than an attempt waits.
        hangs_for: Duration::from_secs(45),
        schedule: arguments.schedule,
        settles: Duration::from_secs_f64(arguments.settle * 60.0),
        machine: Machine {
            fills_disk: arguments.fill_disk,
            open_files: arguments.open_files,
            faketime: arguments.faketime,
        },
        arguments: sync.into_iter().flat_map(|sync| ["--sync".to_owned(), sync]).collect(),
        loses_power: arguments.power_loss,
    };
    let gridpost = arguments.gridpost.path().await?;
    let found = dev::run(&gridpost, &folder, plan, disk.as_mut()).await?;
    println!("seed {}: {found}", arguments.seed);
    println!("{}", if found.holds() { "nothing is lost" } else { "IT DOES NOT HOLD" });
    Ok(found.holds())
}

async fn on_disk(arguments: DiskArguments) -> anyhow::Result<bool> {
    let sync_takes = Duration::from_millis(arguments.sync_ms);
    let disk = Disk::mount(&absolute(&arguments.at)?, arguments.mib << 20, sync_takes)?;
    println!("a disk at {}, until Ctrl-C", arguments.at.display());
    tokio::signal::ctrl_c().await?;
    println!("{} syncs", disk.syncs());
    Ok(true)
}

async fn all_schedules(gridpost: &Path) -> anyhow::Result<bool> {
    let all = schedules::scenarios()?;
    let (short, long): (Vec<_>, Vec<_>) = all.into_iter().partition(Scenario::is_short);
    let again = short.iter().filter(|scenario| !scenario.is_silent()).cloned().collect();
    let (short, again, long) = tokio::join!(
        held(gridpost, SHORT, None, short),
        held(gridpost, SHORT, Some(KILLED_AT), again),
        held(gridpost, LONG, None, long),
    );
    Ok(short? & again? & long?)
}

/// Plays scenarios at a speed; returns whether all of them hold.
async fn held(
    gridpost: &Path,
    (speed, tolerance_s): (u32, f64),
    killed_at: Option<Duration>,
    scenarios: Vec<Scenario>,
) -> anyhow::Result<bool> {
    let folder = tempfile::tempdir()?;
    let pace = Pace { speed, killed_at };
    let played = schedules::play(gridpost, folder.path(), pace, scenarios).await?;
    let killed = killed_at.map_or_else(String::new, |at| format!(", killed at {} s", at.as_secs()));
    let holds = |played: &Played| {
        let holds = played.holds(tolerance_s);
        println!("{} --speed {speed}{killed}: {played}", if holds { "✓" } else { "✗" });
        holds
    };
    Ok(played.iter().map(holds).fold(true, |all, one| all & one))
}
