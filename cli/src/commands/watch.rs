//! `gridpost watch`: the functions from source beside the local stack, built again when a file changes.

use anyhow::{Context, ensure};
use clap::Args;
use tokio::signal;

use crate::{output, target::TargetArguments};
use gridpost_ops::progress::Progress;
use gridpost_stack::{
    build::Profile,
    stack::{self, Settings},
    watched::{self, Relay},
};

/// How the functions are watched.
#[derive(Args, Debug)]
pub struct WatchArguments {
    /// Port on 127.0.0.1 of `cargo lambda watch`
    #[arg(long, default_value_t = watched::PORT)]
    port: u16,
}

/// Brings the stack up and watches the functions until it is interrupted. The stack stays up.
pub async fn run(arguments: WatchArguments, target: &TargetArguments) -> anyhow::Result<()> {
    let workspace = stack::workspace()?;
    let settings = Settings::of_workspace(target.home.as_deref(), Profile::default())?;
    let port = arguments.port;
    let stack = stack::up(&settings, &Progress::on_stderr()).await?;
    let of_stack =
        TargetArguments { home: Some(settings.home.root().to_owned()), ..Default::default() };
    let relay = Relay::open(&of_stack.resolve()?, port).await?;
    let mut watch = watched::cargo_lambda(&workspace, &stack.environment, ("watch", port))?;
    watch.arg("--env-file").arg(settings.home.environment_file());
    // With the stack goes its lock, which other commands want.
    drop(stack);
    output::note(&format!(
        "publish to http://127.0.0.1:{port}/lambda-url/ingest/topics/sample/api/events; Ctrl-C ends it"
    ));
    let mut watch = watch.spawn().context("cargo-lambda can't be started")?;
    tokio::select! {
        ended = watch.wait() => {
            let status = ended?;
            ensure!(status.success(), "cargo lambda watch ended ({status})");
        }
        () = relay.run() => {}
        // cargo-lambda has been interrupted as well, and ends what it has started.
        _ = signal::ctrl_c() => drop(watch.wait().await?),
    }
    Ok(())
}
