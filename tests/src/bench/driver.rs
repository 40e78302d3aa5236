//! The benchmark's command line, and the order in which things are measured.

use std::{
    collections::BTreeMap,
    env,
    fs::File,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
    time::Duration,
};

use anyhow::Context;
use clap::Parser;
use tokio::{runtime, task::spawn_blocking};

use super::{
    aws::Cloud,
    book::Book,
    figures::{Figures, spreads},
    limit::{self, Cost},
    mix::Mix,
    process::Machine,
    report::{Report, Spreads},
    run::{Options, run},
    sink::{Sinks, certificate},
    start,
};
use crate::program::cargo_build;

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
    /// Passed by `cargo bench`
    #[arg(long, hide = true)]
    bench: bool,
}

/// Runs the benchmark; `folder` is where files may be left. Started by Lambda, this program is a
/// function that does nothing.
pub fn main(folder: &Path) -> anyhow::Result<ExitCode> {
    if env::var_os("AWS_LAMBDA_RUNTIME_API").is_some() {
        let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(limit::empty_function()).map_err(anyhow::Error::from_boxed)?;
        return Ok(ExitCode::SUCCESS);
    }
    let runtime = runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let holds = runtime.block_on(measure(&Arguments::parse(), folder))?;
    Ok(if holds { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Runs the command that the arguments name. Returns whether all of it held.
async fn measure(arguments: &Arguments, folder: &Path) -> anyhow::Result<bool> {
    if arguments.list {
        for Mix { name, about, .. } in Mix::all()? {
            println!("{name:<18}{about}");
        }
        return Ok(true);
    }
    let mixes = match &*arguments.mix {
        [] => Mix::all()?,
        names => names.iter().map(|name| Mix::named(name)).collect::<Result<_, _>>()?,
    };
    arguments.json.as_deref().map(check_writable).transpose()?;
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
    println!("{}", report.to_markdown()?);
    if let Some(json) = &arguments.json {
        report.write(json)?;
    }
    Ok(problems == 0)
}

/// Checks that a file can be written, before minutes go by. What it has stays.
fn check_writable(file: &Path) -> anyhow::Result<()> {
    let opened = File::options().append(true).create(true).open(file);
    opened.with_context(|| format!("--json: {} cannot be written", file.display()))?;
    Ok(())
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
        cargo_build(target, &functions).await?;
    }
    if arguments.gridpost.is_none() && any(|mix| mix.dev.is_some()) {
        cargo_build(target, &["--release", "-p", "gridpost-cli"]).await?;
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

/// The least that the same work takes; each is the median of as many runs as the mixes had.
async fn limits(
    options: &Options,
    quick: bool,
    repeats: usize,
) -> anyhow::Result<BTreeMap<String, Cost>> {
    let mix = Mix::default();
    let tls = certificate(&options.trusted())?;
    let sinks = Sinks::start(&mix, Duration::ZERO, &Arc::new(Book::new(&mix)), tls).await?;
    let cloud = Arc::new(Cloud::new(Duration::ZERO, Box::new(|_| false)));
    let (_serving, aws) = cloud.serve(None).await?;
    let sink = sinks.root.clone();
    let measured = spawn_blocking(move || limit::all(&sink, &aws, quick, repeats));
    let mut found = measured.await??;
    eprintln!("limit: a function that does nothing");
    let cpu_ms = start::empty_function(&options.logs).await?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_file_that_can_not_be_written_is_refused_at_once() {
        let folder = tempfile::tempdir().expect("a folder");
        let there = folder.path().join("bench.json");
        std::fs::write(&there, "earlier figures").expect("written");
        check_writable(&there).expect("it is there");
        assert_eq!(std::fs::read_to_string(&there).expect("read"), "earlier figures");
        check_writable(&folder.path().join("new.json")).expect("it can be made");
        for file in ["missing/bench.json", "bench.json/x", "."] {
            let file = folder.path().join(file);
            let line = [Path::new("pipeline"), Path::new("--json"), &file];
            let arguments = Arguments::try_parse_from(line).expect("a line");
            // Nothing is built, measured or left.
            let refused = measure(&arguments, folder.path()).await.expect_err("no such file");
            let told = format!("{refused:#}");
            assert!(told.contains("--json") && told.contains("cannot be written"), "{told}");
            assert!(!folder.path().join("bench").exists());
        }
    }
}
