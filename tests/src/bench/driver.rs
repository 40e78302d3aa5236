//! The benchmark's command line, and the order in which things are measured.

use std::{
    collections::BTreeMap,
    env,
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

use anyhow::{Context, bail, ensure};
use clap::Parser;
use gridpost_stack::child;
use tokio::net::TcpListener;
use tokio::runtime;

use super::{
    aws::Cloud,
    book::Book,
    figures::{Figures, Spread, spreads},
    http::serve,
    limit::{self, Bare, Cost, Task},
    mix::{MIXES, Mix},
    process::Machine,
    report::Report,
    run::{Distance, Options, dev, run},
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
    /// Seconds for which publishes are made, in each run.
    #[arg(long, default_value_t = 5.0)]
    seconds: f64,
    /// Runs of each mix.
    #[arg(long, default_value_t = 5)]
    repeat: usize,
    /// Where to write all figures; plots are written beside it.
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
    /// Sandboxes of each function.
    #[arg(long, default_value_t = 2)]
    sandboxes: usize,
    /// Calls AWS over TLS, as in a deployment.
    #[arg(long)]
    aws_tls: bool,
    /// Milliseconds that AWS takes to answer a function's call.
    #[arg(long, default_value_t = 0)]
    aws_ms: u64,
    /// Milliseconds that an endpoint takes to answer.
    #[arg(long, default_value_t = 0)]
    endpoint_ms: u64,
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
    bare: Option<Bare>,
    #[arg(long, hide = true, default_value = "")]
    url: String,
    #[arg(long, hide = true, default_value_t = 1_024)]
    bytes: usize,
    #[arg(long, hide = true, default_value_t = 1)]
    concurrency: usize,
    #[arg(long, hide = true, default_value_t = 1)]
    times: usize,
}

/// Runs the benchmark. `folder` is where files may be left.
pub fn main(folder: &Path) -> ExitCode {
    let arguments = Arguments::parse();
    if let Some(bare) = arguments.bare {
        return ended(perform(&arguments, bare).map(|()| true));
    }
    if arguments.list {
        for mix in MIXES {
            println!("{:<18}{}", mix.name, mix.about);
        }
        return ExitCode::SUCCESS;
    }
    let runtime = runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let measured = runtime.map_err(anyhow::Error::from);
    ended(measured.and_then(|runtime| runtime.block_on(measure(&arguments, folder))))
}

fn ended(result: anyhow::Result<bool>) -> ExitCode {
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// One bare thing, in this process.
fn perform(arguments: &Arguments, bare: Bare) -> anyhow::Result<()> {
    let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
    if bare == Bare::Lambda {
        let ended = runtime.block_on(limit::empty_function());
        return ended.map_err(|error| anyhow::anyhow!("{error}"));
    }
    let Arguments { url, bytes, concurrency, times, .. } = arguments;
    let (url, bytes, concurrency, times) = (url.clone(), *bytes, *concurrency, *times);
    let cost = runtime.block_on(limit::perform(&Task { bare, url, bytes, concurrency, times }))?;
    println!("{}", serde_json::to_string(&cost)?);
    Ok(())
}

async fn measure(arguments: &Arguments, folder: &Path) -> anyhow::Result<bool> {
    let mixes = chosen(&arguments.mix)?;
    let machine = Machine::now()?;
    let programs = programs(arguments, &mixes, folder).await?;
    let logs = folder.join("bench");
    // The output of earlier runs is no longer needed.
    let _ = std::fs::remove_dir_all(&logs);
    std::fs::create_dir_all(&logs)?;
    let (seconds, repeats) =
        if arguments.quick { (0.3, 1) } else { (arguments.seconds, arguments.repeat.max(1)) };
    let options = Options {
        ingest: programs.functions.join("ingest"),
        dispatch: programs.functions.join("dispatch"),
        gridpost: programs.gridpost,
        gridpost_debug: programs.gridpost_debug,
        duration: Duration::from_secs_f64(seconds),
        publishes_max: usize::MAX,
        sandboxes: arguments.sandboxes.max(1),
        logs,
        distance: Distance {
            aws_tls: arguments.aws_tls,
            aws: Duration::from_millis(arguments.aws_ms),
            endpoint: Duration::from_millis(arguments.endpoint_ms),
        },
    };
    let mut problems = 0;
    let mut found: BTreeMap<&str, Vec<Figures>> = BTreeMap::new();
    // In turns, so that a slow minute of the machine does not hit a single mix.
    for turn in 1..=repeats {
        for mix in &mixes {
            eprintln!("run {turn} of {repeats}: {}, {}", mix.name, mix.about);
            let run = run(mix, &options).await.with_context(|| format!("mix {}", mix.name))?;
            run.problems.iter().take(5).for_each(|problem| eprintln!("  PROBLEM: {problem}"));
            problems += run.problems.len();
            found.entry(mix.name).or_default().push(run.figures);
        }
    }
    let found =
        mixes.iter().filter_map(|mix| Some((mix.name.to_owned(), spreads(found.get(mix.name)?))));
    let mut report = Report {
        machine,
        repeats,
        mixes: found.collect(),
        limits: BTreeMap::new(),
        start: BTreeMap::new(),
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

fn chosen(names: &[String]) -> anyhow::Result<Vec<&'static Mix>> {
    if names.is_empty() {
        return Ok(MIXES.iter().collect());
    }
    let named = |name: &String| {
        Mix::named(name).with_context(|| format!("there is no mix '{name}'; --list shows all"))
    };
    names.iter().map(named).collect()
}

/// What is measured: a folder with the functions, and the command line's programs.
struct Programs {
    functions: PathBuf,
    gridpost: PathBuf,
    gridpost_debug: PathBuf,
}

/// The programs that the mixes need, given or built.
async fn programs(
    arguments: &Arguments,
    mixes: &[&Mix],
    folder: &Path,
) -> anyhow::Result<Programs> {
    // `folder` is `<target>/tmp`.
    let target = folder.parent().context("the target folder")?;
    let needs = |wanted: fn(&Mix) -> bool| mixes.iter().any(|mix| wanted(mix));
    let has_functions = !arguments.mixes_only || needs(|mix| mix.dev.is_none());
    if has_functions && arguments.functions.is_none() {
        let packages =
            ["--release", "-p", "gridpost-programs", "--bin", "ingest", "--bin", "dispatch"];
        build(target, &packages).await?;
    }
    if needs(|mix| mix.dev.is_some_and(|host| !host.is_debug)) && arguments.gridpost.is_none() {
        build(target, &["--release", "-p", "gridpost-cli"]).await?;
    }
    if needs(|mix| mix.dev.is_some_and(|host| host.is_debug)) {
        build(target, &["-p", "gridpost-cli"]).await?;
    }
    Ok(Programs {
        functions: arguments.functions.clone().unwrap_or_else(|| target.join("release")),
        gridpost: arguments.gridpost.clone().unwrap_or_else(|| dev::program(target, false)),
        gridpost_debug: dev::program(target, true),
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
    let book = std::sync::Arc::new(Book::new(1, 1));
    let tls = certificate(&options.logs.join("trusted.pem"))?;
    let sinks = Sinks::start(&[], std::sync::Arc::clone(&book), tls, Duration::ZERO).await?;
    let queue = "gridpost-limit";
    let cloud = std::sync::Arc::new(Cloud::forgetful(queue));
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let queue_url = format!("http://{}/123456789012/{queue}", listener.local_addr()?);
    let served = tokio::spawn(serve(listener, None, cloud));
    let times = |times: usize| if quick { times / 50 } else { times };
    let sink = sinks.plain_url();
    let table = [
        ("reqwest at 1", Bare::Reqwest, sink.as_str(), 1, times(20_000)),
        ("reqwest at 10", Bare::Reqwest, &sink, 10, times(50_000)),
        ("reqwest at 64", Bare::Reqwest, &sink, 64, times(50_000)),
        ("hyper at 1", Bare::Hyper, &sink, 1, times(20_000)),
        ("hyper at 10", Bare::Hyper, &sink, 10, times(50_000)),
        ("hyper at 64", Bare::Hyper, &sink, 64, times(50_000)),
        ("send 10", Bare::Send, &queue_url, 1, times(5_000)),
        ("parse 100", Bare::Parse, "", 1, times(5_000)),
    ];
    let program = env::current_exe()?;
    let mut found = BTreeMap::new();
    for (name, bare, url, concurrency, times) in table {
        eprintln!("limit: {name}");
        let task = Task { bare, url: url.to_owned(), bytes: 1_024, concurrency, times };
        let mut costs = Vec::new();
        for _ in 0..repeats {
            costs.push(limit::measure(&program, &task).await?);
        }
        found.insert(name.to_owned(), median(&costs)?);
    }
    served.abort();
    eprintln!("limit: a function that does nothing");
    let cpu_ms = start::empty_function(&program, &options.logs).await?;
    found.insert("an empty function's invocation".to_owned(), Cost { cpu_ms, per_second: 0.0 });
    Ok(found)
}

fn median(costs: &[Cost]) -> anyhow::Result<Cost> {
    let of = |figure: fn(&Cost) -> f64| {
        Spread::of(&costs.iter().map(figure).collect::<Vec<_>>()).map(|spread| spread.median)
    };
    match (of(|cost| cost.cpu_ms), of(|cost| cost.per_second)) {
        (Some(cpu_ms), Some(per_second)) => Ok(Cost { cpu_ms, per_second }),
        _ => bail!("nothing was measured"),
    }
}

async fn starts(options: &Options, repeats: usize) -> anyhow::Result<BTreeMap<String, Spread>> {
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
