//! `gridpost dev`: the whole of Gridpost in this process, for one machine.

mod in_process;
pub(super) mod resources;

use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{env, fs};

use anyhow::Context;
use aws_credential_types::provider::SharedCredentialsProvider;
use clap::Args;
use gridpost_core::endpoint::identities::Identities;
use gridpost_runtime::config;
use gridpost_server::clock::Speed;
use gridpost_server::log::Log;
use gridpost_server::{
    Connections, DEAD_LETTER_BUCKET, Identity, Options, Server, StartError, Sync, dead_letter_path,
};
use rustix::fs::Mode;
use rustix::process::umask;
use serde_json::json;
use tokio::time::timeout;

use crate::{
    commands::{
        one_of,
        process::{Signals, allow_open_files, check_log_filter, end},
        up::{invocation, seen},
    },
    output::{self, Output},
    target::{Common, TargetArguments},
};
use gridpost_ops::{
    declared::Declared,
    failure::{self, Misuse},
    given::{TimeSpan, count_in},
    home::{self, FOLDER, Home, connection::Connection},
    identity as aws_identity,
    manage_api::ManageApi,
    progress::Progress,
    subscription::warnings,
};
use gridpost_stack::demonstration::{self, Publisher, Show, Shown, own};
use in_process::{Alone, Written};

const PORT: u16 = 7070;

/// How long an end may take that a demonstration has to be cleared away for.
const FORGET_MAX: Duration = Duration::from_secs(2);

const TRUST: [(&str, &str); 3] = [
    ("SSL_CERT_FILE", "OpenSSL, Go, .NET, curl, gridpost"),
    ("REQUESTS_CA_BUNDLE", "Python"),
    ("NODE_EXTRA_CA_CERTS", "Node.js"),
];

/// How the process runs.
#[derive(Args, Debug)]
pub struct DevArguments {
    /// Port on 127.0.0.1 of both APIs; 0 takes a free one
    #[arg(long, default_value_t = PORT)]
    port: u16,

    /// Folder for all data [default: .gridpost/dev]
    #[arg(long, value_name = "DIR", conflicts_with = "memory")]
    data: Option<PathBuf>,

    /// Keep everything in memory; it is gone when the process ends
    #[arg(long)]
    memory: bool,

    /// What an accepted event survives: the end of the process (normal), or also a power failure (full)
    #[arg(long, default_value = "normal", value_name = "HOW", value_parser = one_of(SYNCS.to_vec()))]
    sync: Sync,

    /// Run the clock this many times as fast, 1 to 600: every wait follows it, but endpoints still have their
    /// 30 s
    #[arg(long, default_value = "1", value_name = "TIMES")]
    speed: Speed,

    /// Topics and event subscriptions to start with, as JSON or TOML
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Serve both APIs over https, with a local CA that clients must trust
    #[arg(long)]
    tls: bool,

    /// Also deliver to AWS resources, with the AWS credentials of this machine or at AWS_ENDPOINT_URL; needs
    /// a program built with --features aws
    #[arg(long)]
    allow_aws: bool,

    /// Skip the demonstration
    #[arg(long, visible_alias = "quiet")]
    no_demo: bool,

    /// Print what the functions log, and attempts and ends, instead of writing a file
    #[arg(long)]
    logs: bool,

    /// How many bytes the journal of attempts, ends and counts may have, about: 500M, 2G [default: a tenth of
    /// the disk]
    #[arg(long, value_name = "BYTES", value_parser = count_in::<u64>(JOURNAL_LEAST..))]
    journal_max: Option<u64>,

    /// How many bytes of the disk must be free for publishes to be taken: 500M, 2G. Below, they are refused with
    /// 503, and what is under way uses the rest [default: 32 MB, or a 40th of a small disk]
    #[arg(long, value_name = "BYTES", value_parser = count_in::<u64>(..))]
    disk_floor: Option<u64>,

    /// How long dead letters are kept, at least 1h: 30d, 12h [default: until you delete them]
    #[arg(long, value_name = "TIME", value_parser = retention)]
    dead_letter_retention: Option<TimeSpan>,

    /// How long an end waits for requests under way: an endpoint has 30 s to answer, and gets nothing twice that
    /// it has answered. A second Ctrl-C ends at once
    #[arg(long, default_value = "35s", value_name = "TIME")]
    drain: TimeSpan,
}

/// The shortest time that dead letters are kept.
const RETENTION_LEAST: Duration = Duration::from_secs(60 * 60);

/// The smallest journal, in bytes.
pub(super) const JOURNAL_LEAST: u64 = 1_000_000;

/// Reads a retention: dead letters are looked through once an hour.
pub(super) fn retention(given: &str) -> Result<TimeSpan, String> {
    let span: TimeSpan = given.parse()?;
    match span.0 < RETENTION_LEAST {
        true => Err("must be at least 1h".to_owned()),
        false => Ok(span),
    }
}

/// When a publish counts as stored.
pub(super) const SYNCS: [(&str, Sync); 2] = [("normal", Sync::Normal), ("full", Sync::Full)];

/// The identity of AWS that requests to endpoints may prove: that of this machine, but only where the
/// environment names hosts for it, by the setting that the functions have.
pub(super) async fn identity() -> anyhow::Result<Option<Identity>> {
    let named = config::endpoint_identities()?;
    if named == Identities::default() {
        return Ok(None);
    }
    let region = aws_identity::region(None).await?;
    let region = region.context(
        "GRIDPOST_ENDPOINT_IDENTITIES is set, but no AWS region: set AWS_REGION, or AWS_PROFILE to a \
         profile with one",
    )?;
    let at = ["AWS_ENDPOINT_URL_STS", "AWS_ENDPOINT_URL"];
    let endpoint_url = at.into_iter().find_map(aws_identity::variable);
    let own = aws_identity::Identity::new(None, &region);
    let credentials = SharedCredentialsProvider::new(own);
    Ok(Some(Identity { named, credentials, region, endpoint_url }))
}

/// Runs `gridpost dev`, until it is interrupted.
pub async fn run(arguments: DevArguments, common: &Common) -> anyhow::Result<()> {
    let open_files = allow_open_files();
    // Before anything is started: an interruption always ends it cleanly.
    let mut signals = Signals::new()?;
    check_log_filter(&env::var("GRIDPOST_LOG").unwrap_or_default())?;
    let declared = arguments.config.as_deref().map(Declared::read).transpose()?;
    let resources = match arguments.allow_aws {
        true => Some(resources::clients().await?),
        false => None,
    };
    let home = home_of(&common.target)?;
    let _alone = Alone::hold(&home)?;
    // Keys and events will be in files of this process.
    umask(Mode::from_raw_mode(0o077));
    let data = data_of(&arguments, &home)?;
    let log = log_of(&arguments, data.as_deref(), &home)?;
    let mut options = options(&arguments, data.clone(), &home, log.clone());
    options.connections = Connections::of(open_files);
    options.resources = resources;
    options.identity = identity().await?;
    // The functions of a deployment read it by the same name.
    options.latency_metrics = config::latency_metrics()?;
    let dev = Server::start(options).await;
    let dev = dev.map_err(|error| explained(error, arguments.port))?;
    let filter = config::log(Default::default())?;
    let filter = env::var_os("GRIDPOST_LOG").is_some().then_some(filter);
    log.start(filter, dev.clock().clone())?;
    let gridpost = invocation(&common.target, &home);
    let served =
        serve(&arguments, &dev, (&home, data.as_deref()), declared, (&gridpost, common.output));
    let ended = tokio::select! {
        ended = served => ended,
        ended = signals.any() => ended,
        part = dev.broken() => Err(part.into()),
    };
    if !arguments.no_demo {
        forget_demonstration(&dev).await;
    }
    match ended {
        Ok(()) => end(dev, signals, arguments.drain.0).await,
        Err(_) => dev.stop().await,
    }
    ended
}

/// Removes what a demonstration that was just broken off has left; the next start does it where there is
/// no time for it.
async fn forget_demonstration(dev: &Server) {
    let forgotten = async {
        let api = ManageApi::connect_as(&dev.url(), None, dev.ca_file()).await?;
        own::forget(&api).await
    };
    let _ = timeout(FORGET_MAX, forgotten).await;
}

/// Makes what there is to begin with, shows that it works, and then serves for ever.
async fn serve(
    arguments: &DevArguments,
    dev: &Server,
    (home, data): (&Home, Option<&Path>),
    declared: Option<Declared>,
    (gridpost, output): (&str, Output),
) -> anyhow::Result<()> {
    let api = ManageApi::connect_as(&dev.url(), None, dev.ca_file()).await?;
    match &declared {
        Some(declared) => {
            let made = declared.make(&api).await?;
            warnings::print(made.awaited.into_iter().chain(made.warnings));
        }
        None => in_process::make_topics(&api).await?,
    }
    // A process that was killed has not removed them.
    own::forget(&api).await.context("what a demonstration has left cannot be removed")?;
    let connection = in_process::connection(&api, &dev.url(), dev.ca_file()).await?;
    // Taken back when this ends, in whatever way: other commands then find nothing rather than a port
    // that is closed.
    let _written = Written::write(&connection, home)?;
    let progress = Progress::on_stderr();
    progress.line(&format!("✓ Gridpost listens on {}", dev.url()));
    if let Err(no_room) = dev.may_publish() {
        progress.line(&format!("! {no_room}"));
    }
    let is_asked_for = !arguments.no_demo && declared.is_none();
    let in_use = if is_asked_for { own::other(&api).await? } else { None };
    if let Some(whose) = &in_use {
        progress.line(&left_out(whose));
    }
    let shown = match is_asked_for && in_use.is_none() {
        true => show(&connection, data, dev.clock().speed(), &progress).await,
        false => Vec::new(),
    };
    let mut document = serde_json::to_value(&connection)?;
    // A path need not be a text that JSON can hold.
    document["data"] = json!(data.map(|data| data.display().to_string()));
    document["demonstration"] =
        shown.iter().map(|case| json!({"title": case.title, "lines": case.lines})).collect();
    output.print(&document, |_| summary(&connection, data, &shown, gridpost));
    std::future::pending().await
}

/// Says why nothing is shown where topics are in use.
fn left_out(whose: &str) -> String {
    format!(
        "· No demonstration: the event subscription {whose} is here, and might get its events (--no-demo is \
         not needed)"
    )
}

/// Shows the cases. One that does not show what it should is told, and the process stays up.
async fn show(
    connection: &Connection,
    data: Option<&Path>,
    speed: Speed,
    progress: &Progress,
) -> Vec<Shown> {
    let buckets = data.map(|data| data.join("dead-letters").display().to_string());
    let (publisher, speed) = (Publisher::Own, speed.times());
    let path_of = |name: &str| dead_letter_path(name).display().to_string();
    let show = Show { connection, publisher, buckets: buckets.as_deref(), path_of, speed };
    demonstration::run(show, progress).await.unwrap_or_else(|error| {
        progress.line(&format!("! {}", failure::chain(&error)));
        Vec::new()
    })
}

fn options(arguments: &DevArguments, data: Option<PathBuf>, home: &Home, log: Log) -> Options {
    let DevArguments { port, speed, sync, journal_max, disk_floor, .. } = *arguments;
    let dead_letter_retention = arguments.dead_letter_retention.map(|TimeSpan(kept)| kept);
    // A CA that clients were told to trust is worth keeping, with --memory too.
    let tls = arguments.tls.then(|| data.as_deref().unwrap_or(home.root()).join("tls"));
    Options {
        port,
        data,
        sync,
        speed,
        tls,
        log,
        journal_max,
        disk_floor,
        dead_letter_retention,
        ..Options::default()
    }
}

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
        (Some(named), false) => {
            let folder = std::path::absolute(named)?;
            home::create_ignored(&folder)?;
            Some(folder)
        }
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
    let mut lines = seen(shown);
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
    let mut rows = vec![
        row("publish to", topic.map_or("-", |topic| topic.endpoint.as_str())),
        row("with aeg-sas-key", topic.and_then(|it| it.keys.first()).map_or("-", String::as_str)),
        row("manage API", &connection.manage_url),
        row("data", &kept),
        row("dead letters", &letters),
    ];
    rows.extend(connection.ca_file.as_deref().map(|file| row("CA", &file.display().to_string())));
    lines.push(output::columns(&rows));
    if let Some(file) = &connection.ca_file {
        let file = file.display();
        lines.extend([String::new(), "Programs trust the CA by their environment:".to_owned()]);
        for (variable, of) in TRUST {
            lines.push(format!("  export {variable}={file}  # {of}"));
        }
    }
    lines.extend([String::new(), "Try next, each in a terminal of its own:".to_owned()]);
    for command in [
        "listen --port 9000 --answer 500,200".to_owned(),
        format!(
            "subscription create --topic {name} --subscription first --endpoint http://127.0.0.1:9000/hook"
        ),
        format!("publish --topic {name} --type Sample.Greeting --data '{{\"hello\":\"world\"}}'"),
        format!("wait --topic {name} --subscription first --delivered 1"),
        "tail --since 10m".to_owned(),
        "console".to_owned(),
    ] {
        lines.push(format!("  {gridpost} {command}"));
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use gridpost_ops::home::connection::TopicConnection;

    #[test]
    fn the_summary_can_be_pasted_from() {
        let endpoint = "http://127.0.0.1:7070/topics/demo/api/events".to_owned();
        let topic = TopicConnection { endpoint, keys: vec!["k1".into(), "k2".into()] };
        let connection = Connection {
            publish_url: "http://127.0.0.1:7070".into(),
            manage_url: "http://127.0.0.1:7070".into(),
            emulator_url: "http://127.0.0.1:7070".into(),
            dead_letter_bucket: "b".into(),
            ca_file: None,
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
        let plain = summary(&connection, None, &[], "gridpost");
        assert!(plain.contains("memory") && !plain.contains("SSL_CERT_FILE"), "{plain}");
        let by_https = Connection { ca_file: Some("/d/tls/ca.pem".into()), ..connection };
        let text = summary(&by_https, None, &[], "gridpost");
        assert!(text.contains("export NODE_EXTRA_CA_CERTS=/d/tls/ca.pem"), "{text}");
    }
}
