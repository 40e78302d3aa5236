//! How fast a function starts, how long its first call over TLS takes, and its zipped size.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use anyhow::{Context, ensure};
use bytes::Bytes;
use tokio::process::Command;

use super::{
    figures::Figures,
    limit::FLAG,
    mix::Mix,
    payload::Publishes,
    process::Usage,
    run::{Deployment, Options, sum},
    sandbox::{Program, Sandbox},
};

/// Starts both functions afresh with AWS and endpoints over TLS, and makes two publishes one after
/// the other: the first one opens all connections, the second one uses them.
pub async fn start(options: &Options) -> anyhow::Result<Figures> {
    let mix = Mix::named("https").context("there is a mix over TLS")?;
    let options = Options { sandboxes: 1, ..options.clone() };
    let deployment = Deployment::start(mix, &options, true).await?;
    let mut figures = Figures::default();
    for (name, function) in [("ingest", &deployment.ingest), ("dispatch", &deployment.dispatch)] {
        let slowest = function.started_in().max().unwrap_or_default();
        figures.insert(format!("{name} start ms"), slowest.as_secs_f64() * 1_000.0);
        figures.insert(format!("{name} start CPU ms"), function.usage()?.cpu_ms);
    }
    for turn in ["first", "second"] {
        deployment.book.count_from_here();
        deployment.publish(mix).await?;
        let hops = sum(&deployment, mix).hops;
        let mut set = |name: &str, values: &[f64]| {
            if let Some(value) = values.first() {
                figures.insert(format!("{name} {turn} ms"), *value);
            }
        };
        set("ingest", &hops.in_ingest);
        set("dispatch", &hops.in_dispatch);
    }
    Ok(figures)
}

/// The cost of invoking a function that does nothing: the runtime alone.
pub async fn empty_function(program: &Path, logs: &Path) -> anyhow::Result<f64> {
    const TIMES: u32 = 5_000;
    let program = Program {
        name: "empty",
        path: program.to_owned(),
        arguments: vec![FLAG.to_owned(), "lambda".to_owned()],
        environment: BTreeMap::new(),
        timeout: Duration::from_secs(9),
        memory_mb: 512,
    };
    let sandbox = Sandbox::start(&program, &logs.join("empty.log")).await?;
    let event = Publishes::new(1, 1, 1_024).make(0);
    let mut before = Usage::default();
    for number in 0..TIMES + TIMES / 10 {
        if number == TIMES / 10 {
            before = sandbox.usage()?;
        }
        sandbox.invoke(Bytes::clone(&event), || {}).await?;
    }
    Ok(sandbox.usage()?.since(&before).cpu_ms / f64::from(TIMES))
}

/// The size of a program zipped as Lambda takes it, in MB (1,000,000 bytes).
pub async fn zipped_mb(program: &Path, folder: &Path) -> anyhow::Result<f64> {
    let zip: PathBuf = folder.join("bootstrap.zip");
    let script = "import sys, zipfile\n\
        z = zipfile.ZipFile(sys.argv[2], 'w', zipfile.ZIP_DEFLATED)\n\
        z.write(sys.argv[1], 'bootstrap')\nz.close()";
    let mut python = Command::new("python3");
    python.args(["-c", script]).arg(program).arg(&zip).stdin(Stdio::null());
    let zipped = python.status().await.context("python3 can't be started")?;
    ensure!(zipped.success(), "zipping {} failed", program.display());
    Ok(fs::metadata(&zip)?.len() as f64 / 1_000_000.0)
}
