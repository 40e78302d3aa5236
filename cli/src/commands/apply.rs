//! `gridpost apply`: creates or replaces what a file declares.

use std::path::PathBuf;

use clap::Args;

use crate::{commands::subscription::made::ConsentFlags, output::Output, target::Common};
use gridpost_ops::{
    declared::{Declared, Made, Prune, Pruned},
    failure::{Misuse, Unfinished},
    subscription::warnings,
};

/// What to apply. What the file does not name stays, unless it is to be pruned; repeating it changes
/// nothing.
#[derive(Args, Debug)]
pub struct ApplyArguments {
    /// Topics and event subscriptions as JSON or TOML, as `gridpost export` writes them. `${NAME}` in an
    /// endpoint's URL or in the value of a secret header is replaced by that environment variable
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Replace the file's dead-letter bucket FROM by TO; may be given several times
    #[arg(long = "bucket", value_name = "FROM=TO", value_parser = renamed)]
    buckets: Vec<(String, String)>,

    /// Show what would change, member by member, and change nothing. The deployment's own settings are not
    /// asked, and neither are endpoints: an apply may still be refused
    #[arg(long)]
    dry_run: bool,

    /// With --dry-run: exit with 3 if anything would change
    #[arg(long, requires = "dry_run")]
    exit_code: bool,

    /// Then delete the event subscriptions that the file's topics have and the file does not
    #[arg(long)]
    prune: bool,

    /// Then also delete the topics that the file does not have, with their event subscriptions: the file is of
    /// everything
    #[arg(long)]
    prune_topics: bool,

    /// Confirm that what --prune or --prune-topics deletes is given up
    #[arg(long)]
    yes: bool,

    #[command(flatten)]
    consent: ConsentFlags,
}

impl ApplyArguments {
    fn prune(&self) -> Option<Prune> {
        match (self.prune_topics, self.prune) {
            (true, _) => Some(Prune::Topics),
            (false, true) => Some(Prune::Subscriptions),
            (false, false) => None,
        }
    }
}

fn renamed(given: &str) -> Result<(String, String), &'static str> {
    let (from, to) = given.split_once('=').ok_or("write FROM=TO")?;
    Ok((from.to_owned(), to.to_owned()))
}

/// Fails with every problem of the file and everything that the server refuses, in one list behind what
/// was made all the same; nothing is deleted then. Fails with [`Misuse`] without consent to a deletion.
pub async fn run(arguments: &ApplyArguments, common: &Common) -> anyhow::Result<()> {
    let declared = Declared::read(&arguments.file)?.with_buckets(&arguments.buckets)?;
    let api = common.target.resolve()?.manage_api().await?;
    let pruned = match arguments.prune() {
        Some(prune) => declared.to_prune(&api, prune).await?,
        None => Pruned::default(),
    };
    if arguments.dry_run {
        let mut made = declared.plan(&api).await?;
        pruned.note(&mut made);
        return tell_plan(&made, arguments.exit_code, common.output);
    }
    if !pruned.is_empty() && !arguments.yes {
        return Err(Misuse(pruned.consent()).into());
    }
    let mut made = declared.make(&api).await?;
    warnings::print(made.warnings.clone());
    pruned.delete(&api, &mut made).await?;
    let text = || format!("applied {}{}", made.told(), made.lines());
    common.output.tell(&made.report(), |_| text());
    Ok(arguments.consent.check(made.awaited)?)
}

fn tell_plan(made: &Made, exit_code: bool, output: Output) -> anyhow::Result<()> {
    warnings::print(made.warnings.clone());
    let mut report = made.report();
    report.dry_run = true;
    output.tell(&report, |_| {
        format!("dry run, nothing was changed: {}{}", made.told(), made.lines())
    });
    if exit_code && made.changes_something() {
        return Err(Unfinished("the deployment is not as the file has it".to_owned()).into());
    }
    Ok(())
}
