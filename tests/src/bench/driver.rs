//! The benchmark's command line, and the order in which things are measured.

use std::{
    collections::BTreeMap,
    env,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
    time::Duration,
};

use anyhow::{Context, ensure};
use clap::Parser;
use gridpost_stack::child;
use tokio::{runtime, task::JoinSet};

use super::{
    aws::{Cloud, DISPATCH, queue_url},
    book::Book,
    figures::{Figures, spreads},
    limit::{self, Bare, Cost, Task},
    mix::Mix,
    process::Machine,
    report::{Report, Spreads},
    run::{Options, run},
    sink::{Sinks, certificate},
    start,
};

/// Measures the real programs of ingest and dispatch.
#[derive(Debug, Parser)]
#[command(name = "pipeline")]
struct Arguments {
    /// Only this mix; may be given several times.
    #[arg(long)]
    mix: Vec<String>,
    #[command(flatten)]
    options: Options,
    /// Runs of each mix.
    #[arg(long, default_value_t = 5)]
    repeat: usize,
    /// Where to write all figures.
    #[arg(long)]
    json: Option<PathBuf>,
    /// One short run of each mix: shows that everything works; don't quote its figures.
    #[arg(long)]
    quick: bool,
    /// A folder with the programs `ingest` and `dispatch`, instead of building them for release.
    #[arg(long)]
    functions: Option<PathBuf>,
    /// A program `gridpost` to measure, instead of building it for release.
    #[arg(long)]
    gridpost: Option<PathBuf>,
    /// Lists the mixes.
    #[arg(long)]
    list: bool,
    /// Leaves out the limits, starts and sizes.
    #[arg(long)]
    mixes_only: bool,
    /// What `cargo bench` adds.
    #[arg(long, hide = true)]
    bench: bool,
    /// Makes this a process that does one bare thing, and prints its cost.
    #[arg(long, hide = true)]
    bare: Option<String>,
}

/// Runs the benchmark. `folder` is where files may be left.
pub fn main(folder: &Path) -> ExitCode {
    match start(&Arguments::parse(), folder) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Runs the command that the arguments name. Returns whether all of it held.
fn start(arguments: &Arguments, folder: &Path) -> anyhow::Result<bool> {
    if let Some(task) = &arguments.bare {
        let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(limit::perform(serde_json::from_str(task)?))?;
        return Ok(true);
    }
    if arguments.list {
        for Mix { name, about, .. } in Mix::all()? {
            println!("{name:<18}{about}");
        }
        return Ok(true);
    }
    let runtime = runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(measure(arguments, folder))
}

async fn measure(arguments: &Arguments, folder: &Path) -> anyhow::Result<bool> {
    let mixes = match &*arguments.mix {
        [] => Mix::all()?,
        names => names.iter().map(|name| Mix::named(name)).collect::<Result<_, _>>()?,
    };
    let machine = Machine::now()?;
    let options = options(arguments, &mixes, folder).await?;
    let repeats = if arguments.quick { 1 } else { arguments.repeat.max(1) };
    let mut problems = 0;
    let mut found: BTreeMap<&str, Vec<Figures>> = BTreeMap::new();
    // In turns, so that a slow minute of the machine does not hit a single mix.
    for turn in 1..=repeats {
        for mix in &mixes {
            eprintln!("run {turn} of {repeats}: {}, {}", mix.name, mix.about);
            let run = run(mix, &options).await.with_context(|| format!("mix {}", mix.name))?;
            run.problems.iter().take(5).for_each(|problem| eprintln!("  PROBLEM: {problem}"));
            problems += run.problems.len();
            found.entry(&mix.name).or_default().push(run.figures);
        }
    }
    let of = |mix: &Mix| Some((mix.name.clone(), spreads(found.get(&*mix.name)?)));
    let mut report = Report {
        machine,
        repeats,
        mixes: mixes.iter().filter_map(of).collect(),
        limits: BTreeMap::new(),
        start: Spreads::new(),
    };
    if !arguments.mixes_only {
        report.limits = limits(&options, arguments.quick, repeats).await?;
        report.start = starts(&options, repeats).await?;
    }
    println!("{}", report.to_markdown());
    if let Some(json) = &arguments.json {
        report.write(json)?;
    }
    Ok(problems == 0)
}

/// How to run, with the programs that the mixes need, given or built.
async fn options(arguments: &Arguments, mixes: &[Mix], folder: &Path) -> anyhow::Result<Options> {
    let logs = folder.join("bench");
    // The output of earlier runs is no longer needed.
    let _ = std::fs::remove_dir_all(&logs);
    std::fs::create_dir_all(&logs)?;
    // `folder` is `<target>/tmp`.
    let target = folder.parent().context("the target folder")?;
    let any = |wanted: fn(&Mix) -> bool| mixes.iter().any(wanted);
    let functions =
        ["--release", "-p", "gridpost-programs", "--bin", "ingest", "--bin", "dispatch"];
    if arguments.functions.is_none() && (!arguments.mixes_only || any(|mix| mix.dev.is_none())) {
        build(target, &functions).await?;
    }
    if arguments.gridpost.is_none() && any(|mix| mix.dev.is_some()) {
        build(target, &["--release", "-p", "gridpost-cli"]).await?;
    }
    let release = target.join("release");
    let functions = arguments.functions.as_ref().unwrap_or(&release);
    let options = arguments.options.clone();
    Ok(Options {
        seconds: if arguments.quick { 0.3 } else { options.seconds },
        sandboxes: options.sandboxes.max(1),
        ingest: functions.join("ingest"),
        dispatch: functions.join("dispatch"),
        gridpost: arguments.gridpost.clone().unwrap_or_else(|| release.join("gridpost")),
        logs,
        ..options
    })
}

/// Builds packages into that folder.
async fn build(target: &Path, packages: &[&str]) -> anyhow::Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("the workspace")?;
    eprintln!("building {}", packages.join(" "));
    let cargo = env::var_os("CARGO").map_or_else(|| PathBuf::from("cargo"), PathBuf::from);
    let mut build = child::command(&cargo);
    build.arg("build").args(packages).arg("--target-dir").arg(target).current_dir(root);
    let built = build.status().await.context("cargo can't be started")?;
    ensure!(built.success(), "{} does not compile", packages.join(" "));
    Ok(())
}

/// The least that the same work takes; each is the median of as many runs as the mixes had.
async fn limits(
    options: &Options,
    quick: bool,
    repeats: usize,
) -> anyhow::Result<BTreeMap<String, Cost>> {
    let (mix, mut tasks) = (Mix::default(), JoinSet::new());
    let tls = certificate(&options.logs.join("trusted.pem"))?;
    let sinks = Sinks::start(&mix, Duration::ZERO, &Arc::new(Book::new(&mix)), tls).await?;
    let cloud = Arc::new(Cloud::new(Duration::ZERO, Box::new(|_| false)));
    let queue = queue_url(&cloud.serve(None, &mut tasks).await?, DISPATCH);
    let (reqwest, hyper) = (Bare::Reqwest(sinks.plain_url()), Bare::Hyper(sinks.plain_url()));
    let table = [
        ("reqwest at 1", Task(reqwest.clone(), 1, 20_000)),
        ("reqwest at 10", Task(reqwest.clone(), 10, 50_000)),
        ("reqwest at 64", Task(reqwest, 64, 50_000)),
        ("hyper at 1", Task(hyper.clone(), 1, 20_000)),
        ("hyper at 10", Task(hyper.clone(), 10, 50_000)),
        ("hyper at 64", Task(hyper, 64, 50_000)),
        ("send 10", Task(Bare::Send(queue), 1, 5_000)),
        ("parse 100", Task(Bare::Parse, 1, 5_000)),
    ];
    let program = env::current_exe()?;
    let mut found = BTreeMap::new();
    for (name, Task(bare, at_once, times)) in table {
        eprintln!("limit: {name}");
        let task = Task(bare, at_once, if quick { times / 50 } else { times });
        let mut costs = Vec::new();
        for _ in 0..repeats {
            costs.push(limit::measure(&program, &task).await?);
        }
        costs.sort_by(|one, other| one.cpu_ms.total_cmp(&other.cpu_ms));
        found.insert(name.to_owned(), costs[repeats / 2]);
    }
    eprintln!("limit: a function that does nothing");
    let cpu_ms = start::empty_function(&program, &options.logs).await?;
    found.insert("an empty function's invocation".to_owned(), Cost { cpu_ms, per_second: 0.0 });
    Ok(found)
}

async fn starts(options: &Options, repeats: usize) -> anyhow::Result<Spreads> {
    let mut runs = Vec::new();
    for _ in 0..repeats * 3 {
        runs.push(start::start(options).await.context("starting over TLS")?);
    }
    let mut sizes = Figures::default();
    for (name, program) in [("ingest", &options.ingest), ("dispatch", &options.dispatch)] {
        let zipped = start::zipped_mb(program, &options.logs).await?;
        sizes.insert(format!("{name} zipped MB"), zipped);
    }
    runs.push(sizes);
    Ok(spreads(&runs))
}
