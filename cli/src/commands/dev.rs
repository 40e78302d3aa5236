//! `gridpost dev`: the whole of Gridpost in this process, for one machine.

use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::{env, fs};

use anyhow::Context;
use clap::{Args, ValueEnum};
use gridpost_dev::clock::Speed;
use gridpost_dev::log::Log;
use gridpost_dev::{DEAD_LETTER_BUCKET, Dev, Options, StartError, Sync};
use gridpost_runtime::config;
use rustix::fs::Mode;
use rustix::process::umask;
use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};

use crate::commands::up::invocation;
use crate::failure::{self, Misuse};
use crate::local::connection::Connection;
use crate::local::declared::Declared;
use crate::local::demonstration::{self, Letters, Publisher, Show, Shown};
use crate::local::home::{self, FOLDER, Home};
use crate::local::in_process::{self, Written};
use crate::manage_api::ManageApi;
use crate::output::{self, Output};
use crate::progress::Progress;
use crate::target::TargetArguments;

/// The port, unless another one is named.
const PORT: u16 = 7070;

/// How the process runs.
#[derive(Args, Debug)]
pub struct DevArguments {
    /// Port on 127.0.0.1 of both APIs; 0 takes a free one
    #[arg(long, default_value_t = PORT)]
    port: u16,

    /// Folder that keeps everything [default: .gridpost/dev]
    #[arg(long, value_name = "DIR", conflicts_with = "memory")]
    data: Option<PathBuf>,

    /// Keep everything in memory; it is gone when the process ends
    #[arg(long)]
    memory: bool,

    /// What an accepted event survives: the end of the process (normal), or the loss of power (full)
    #[arg(long, value_enum, default_value_t = SyncArgument::Normal, value_name = "HOW")]
    sync: SyncArgument,

    /// Let the clock run so many times as fast, 1 to 600: every wait follows it, endpoints still have
    /// their 30 s
    #[arg(long, default_value = "1", value_name = "TIMES")]
    speed: Speed,

    /// Topics and event subscriptions to begin with, as JSON or TOML
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Leave the demonstration out
    #[arg(long)]
    quiet: bool,

    /// Print what the functions log, instead of keeping it for `tail`, `explain` and `audit`
    #[arg(long)]
    logs: bool,
}

/// When a publish counts as stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum SyncArgument {
    Normal,
    Full,
}

/// Runs `gridpost dev`, until it is interrupted.
///
/// # Errors
///
/// The port is taken, the folder can't be used, or what `--config` declares is refused.
pub async fn run(
    arguments: DevArguments,
    target: &TargetArguments,
    output: Output,
) -> anyhow::Result<()> {
    // Before anything is started: an interruption always ends it cleanly.
    let mut terminated = signal(SignalKind::terminate())?;
    let declared = arguments.config.as_deref().map(Declared::read).transpose()?;
    let home = home_of(target)?;
    in_process::forget_killed(&home).await?;
    // Keys and events will be in files of this process.
    umask(Mode::from_raw_mode(0o077));
    let data = data_of(&arguments, &home)?;
    let log = log_of(&arguments, data.as_deref(), &home)?;
    let dev = Dev::start(options(&arguments, data.clone(), log.clone())).await;
    let dev = dev.map_err(|error| explained(error, arguments.port))?;
    let filter = config::parsed_or("GRIDPOST_LOG", Default::default())?;
    let filter = env::var_os("GRIDPOST_LOG").is_some().then_some(filter);
    log.start(filter, dev.clock().clone())?;
    let served = serve(&arguments, &dev, (&home, data.as_deref()), declared, output);
    let ended = tokio::select! {
        ended = served => ended,
        interrupted = tokio::signal::ctrl_c() => interrupted.map_err(Into::into),
        _ = terminated.recv() => Ok(()),
    };
    dev.stop().await;
    ended
}

/// Makes what there is to begin with, shows that it works, and then serves for ever.
async fn serve(
    arguments: &DevArguments,
    dev: &Dev,
    (home, data): (&Home, Option<&Path>),
    declared: Option<Declared>,
    output: Output,
) -> anyhow::Result<()> {
    let api = ManageApi::connect(&dev.url()).await?;
    match &declared {
        Some(declared) => declared.make(&api).await?,
        None => in_process::make_topics(&api).await?,
    }
    let connection = in_process::connection(&api, &dev.url()).await?;
    // Taken back when this ends, in whatever way: other commands then find nothing rather than a port
    // that is closed.
    let _written = Written::write(&connection, home)?;
    let progress = Progress::on_stderr();
    progress.line(&format!("✓ Gridpost listens on {}", dev.url()));
    let is_shown = !arguments.quiet && declared.is_none();
    let shown = match is_shown {
        true => show(&connection, data, dev.clock().speed(), &progress).await,
        false => Vec::new(),
    };
    let mut document = serde_json::to_value(&connection)?;
    document["data"] = json!(data);
    document["demonstration"] =
        shown.iter().map(|case| json!({"title": case.title, "lines": case.lines})).collect();
    output.print(&document, |_| summary(&connection, data, &shown, &invocation()));
    std::future::pending().await
}

/// Shows the cases. One that does not show what it should is told, and the process stays up.
async fn show(
    connection: &Connection,
    data: Option<&Path>,
    speed: Speed,
    progress: &Progress,
) -> Vec<Shown> {
    let letters = data.map(|data| data.join("dead-letters"));
    let letters = Letters::Folder(letters.as_deref());
    let (publisher, speed) = (Publisher::Own, speed.times());
    let show = Show { connection, publisher, letters, speed };
    demonstration::run(show, progress).await.unwrap_or_else(|error| {
        progress.line(&format!("! {}", failure::chain(&error)));
        Vec::new()
    })
}

fn options(arguments: &DevArguments, data: Option<PathBuf>, log: Log) -> Options {
    let sync = match arguments.sync {
        SyncArgument::Normal => Sync::Normal,
        SyncArgument::Full => Sync::Full,
    };
    Options { port: arguments.port, data, sync, speed: arguments.speed, log, ..Options::default() }
}

/// A failed start, with what to do about it.
fn explained(error: StartError, port: u16) -> anyhow::Error {
    let hint = match &error {
        StartError::Port { .. } if port != 0 => {
            "; choose another one by --port, or --port 0 for a free one"
        }
        StartError::Data(_) => "; --data DIR names another folder, --memory uses none",
        _ => "",
    };
    Misuse(format!("{}{hint}", failure::chain(&error.into()))).into()
}

/// The folder that other commands find: the one that is named, the nearest one, or a new one here.
fn home_of(target: &TargetArguments) -> anyhow::Result<Home> {
    let here = env::current_dir().context("the current folder cannot be read")?;
    let home = match &target.home {
        Some(named) => Home::at(&std::path::absolute(named)?),
        None => home::find_upwards(&here).unwrap_or_else(|| Home::at(&here.join(FOLDER))),
    };
    home.create_root()?;
    Ok(home)
}

fn data_of(arguments: &DevArguments, home: &Home) -> anyhow::Result<Option<PathBuf>> {
    Ok(match (&arguments.data, arguments.memory) {
        (_, true) => None,
        (Some(named), false) => Some(std::path::absolute(named)?),
        (None, false) => Some(home.dev()),
    })
}

/// Beside the data; what is kept in memory has a log of its own for each run.
fn log_of(arguments: &DevArguments, data: Option<&Path>, home: &Home) -> anyhow::Result<Log> {
    if arguments.logs {
        return Ok(Log::stdout());
    }
    let path = match data {
        Some(data) => data.join("gridpost.log"),
        None => {
            let path = home.logs().join("dev.log");
            home::remove_file(&path)?;
            path
        }
    };
    if let Some(folder) = path.parent() {
        // Keys and events will be in it.
        let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
        made.with_context(|| format!("{} cannot be made", folder.display()))?;
    }
    Log::file(&path).with_context(|| format!("{} cannot be written", path.display()))
}

fn summary(
    connection: &Connection,
    data: Option<&Path>,
    shown: &[Shown],
    gridpost: &str,
) -> String {
    let mut lines = Vec::new();
    if !shown.is_empty() {
        lines.extend([String::new(), "What you saw:".to_owned()]);
    }
    for case in shown {
        lines.push(format!("  ✓ {}", case.title));
        lines.extend(case.lines.iter().map(|line| format!("      {line}")));
    }
    lines.extend([String::new(), "Gridpost runs in this process; Ctrl-C ends it:".to_owned()]);
    let (name, topic) = match connection.topics.first_key_value() {
        Some((name, topic)) => (name.as_str(), Some(topic)),
        None => ("NAME", None),
    };
    let row = |name: &str, value: &str| [format!("  {name}"), value.to_owned()];
    let kept = data.map_or_else(|| "memory".to_owned(), |data| data.display().to_string());
    let letters = data.map_or_else(
        || "memory".to_owned(),
        |data| data.join("dead-letters").join(DEAD_LETTER_BUCKET).display().to_string(),
    );
    lines.push(output::columns(&[
        row("publish to", topic.map_or("-", |topic| topic.endpoint.as_str())),
        row("with aeg-sas-key", topic.and_then(|it| it.keys.first()).map_or("-", String::as_str)),
        row("manage API", &connection.manage_url),
        row("data", &kept),
        row("dead letters", &letters),
    ]));
    lines.extend([String::new(), "Try next, each in a terminal of its own:".to_owned()]);
    for command in [
        "listen --port 9000 --answer 500,200".to_owned(),
        format!(
            "subscription create --topic {name} --name first --endpoint http://127.0.0.1:9000/hook"
        ),
        format!("publish --topic {name} --type Sample.Greeting --data '{{\"hello\":\"world\"}}'"),
        format!("wait --topic {name} --subscription first --delivered 1"),
        "tail --since 10m".to_owned(),
    ] {
        lines.push(format!("  {gridpost} {command}"));
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::local::connection::TopicConnection;

    #[test]
    fn the_summary_can_be_pasted_from() {
        let endpoint = "http://127.0.0.1:7070/topics/demo/api/events".to_owned();
        let topic = TopicConnection { endpoint, keys: vec!["k1".into(), "k2".into()] };
        let connection = Connection {
            publish_url: "http://127.0.0.1:7070".into(),
            manage_url: "http://127.0.0.1:7070".into(),
            emulator_url: "http://127.0.0.1:7070".into(),
            dead_letter_bucket: "b".into(),
            topics: BTreeMap::from([("demo".to_owned(), topic)]),
        };
        let shown = [Shown { title: "It works", lines: vec!["attempt 1".into()] }];
        let text = summary(&connection, Some(Path::new("/d")), &shown, "gridpost");
        for part in [
            "✓ It works",
            "http://127.0.0.1:7070/topics/demo/api/events",
            "k1",
            "/d/dead-letters/gridpost",
            "gridpost publish --topic demo",
        ] {
            assert!(text.contains(part), "{part} in\n{text}");
        }
        assert!(summary(&connection, None, &[], "gridpost").contains("memory"));
    }
}
