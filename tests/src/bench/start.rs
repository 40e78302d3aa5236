//! How fast a function starts, how long its first call over TLS takes, and its zipped size.

use std::{collections::BTreeMap, env, fs, path::Path, time::Duration};

use bytes::Bytes;
use gridpost_stack::child;
use tokio::time::Instant;

use super::{
    book::{IN_DISPATCH, IN_INGEST},
    figures::Figures,
    mix::Mix,
    payload::Publishes,
    process::{Measured, Usage},
    run::{Deployment, Options},
    sandbox::{Function, Program},
};

/// Starts both functions afresh with AWS and endpoints over TLS, and makes two publishes one after
/// the other: the first one opens all connections, the second one uses them.
pub async fn start(options: &Options) -> anyhow::Result<Figures> {
    let mix = Mix { https: true, ..Mix::default() };
    let options = Options { sandboxes: 1, aws_tls: true, ..options.clone() };
    let deployment = Deployment::start(&mix, &options).await?;
    let mut figures = Figures::default();
    for Measured { name, processes, ready_after } in &deployment.programs {
        figures.insert(format!("{name} start ms"), ready_after.as_secs_f64() * 1_000.0);
        figures.insert(format!("{name} start CPU ms"), Usage::of(processes[0])?.cpu_ms);
    }
    for turn in ["first", "second"] {
        deployment.book.count_from_here();
        deployment.publish(Instant::now(), true).await?;
        let hops = deployment.sum().hops;
        for (name, hop) in [("ingest", IN_INGEST), ("dispatch", IN_DISPATCH)] {
            if let Some(took) = hops.get(hop).and_then(|took| took.first()) {
                figures.insert(format!("{name} {turn} ms"), *took);
            }
        }
    }
    Ok(figures)
}

/// The CPU time, in milliseconds, of an invocation of a function that does nothing, which this
/// program is to Lambda.
pub async fn empty_function(logs: &Path) -> anyhow::Result<f64> {
    const TIMES: u32 = 5_000;
    let program = Program {
        name: "empty",
        path: env::current_exe()?,
        environment: BTreeMap::new(),
        timeout: Duration::from_secs(9),
        memory_mb: 512,
    };
    let function = Function::start(&program, 1, logs).await?;
    let event = Publishes::new(&Mix::default())?.make(0);
    let mut before = 0.0;
    for number in 0..TIMES + TIMES / 10 {
        if number == TIMES / 10 {
            before = Usage::of(function.measured.processes[0])?.cpu_ms;
        }
        function.invoke(Bytes::clone(&event), || {}).await?;
    }
    Ok((Usage::of(function.measured.processes[0])?.cpu_ms - before) / f64::from(TIMES))
}

/// The size of a program zipped as Lambda takes it, in MB (1,000,000 bytes).
pub async fn zipped_mb(program: &Path, folder: &Path) -> anyhow::Result<f64> {
    let zip = folder.join("bootstrap.zip");
    let mut python = child::command(Path::new("python3"));
    python.args(["-m", "zipfile", "-c"]).arg(&zip).arg(program);
    child::run("python3 -m zipfile", python, &folder.join("zip.log"), |_| ()).await?;
    Ok(fs::metadata(&zip)?.len() as f64 / 1_000_000.0)
}
