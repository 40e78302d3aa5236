//! Gridpost's command line: arguments, and commands that are thin over what they call.
//!
//! [`arguments`] is the whole surface, and each command a file under [`commands`]. What they do lies in
//! crates of its own: `gridpost-ops` finds a deployment and works on it, `gridpost-console` is the web
//! console, `gridpost-stack` the stack on this machine, and `gridpost-server` all of Gridpost in one
//! process.

// `println!` and `eprintln!` panic where the reader went away: [`output`] does not.
#![warn(clippy::print_stderr, clippy::print_stdout)]

pub mod arguments;
pub mod commands;
pub mod document;
pub mod output;
pub mod target;

use arguments::{Arguments, Command};
use output::Output;
use target::Common;

/// Runs one command line. Fails with what [`gridpost_ops::failure::report`] prints.
pub async fn run(arguments: Arguments) -> anyhow::Result<()> {
    let output = Output::new(arguments.json);
    let common = &Common { target: arguments.target.arguments(), output };
    match arguments.command {
        Command::Dev(dev) => commands::dev::run(dev, common).await,
        Command::Serve(serve) => commands::serve::run(*serve, output).await,
        Command::Token(token) => commands::token::run(token, output).await,
        Command::Healthcheck(place) => commands::token::healthcheck(&place, output).await,
        Command::Wait(wait) => commands::wait::run(&wait, common).await,
        Command::Up(up) => commands::up::run(up, common).await,
        Command::Status => commands::status::run(common).await,
        Command::Watch(watch) => commands::watch::run(watch, &common.target).await,
        Command::Down(down) => commands::down::run(&down, common).await,
        Command::Topic(topic) => commands::topic::run(topic, common).await,
        Command::Subscription(subscription) => {
            commands::subscription::run(subscription, common).await
        }
        Command::DeadLetter(letters) => commands::dead_letter::run(letters, common).await,
        Command::Redrive(redrive) => {
            let command = commands::dead_letter::DeadLetterCommand::Redrive(redrive);
            commands::dead_letter::run(command, common).await
        }
        Command::Poison(poison) => commands::poison::run(poison, common).await,
        Command::Parked(parked) => commands::parked::run(parked, common).await,
        Command::Delivery(delivery) => commands::delivery::run(delivery, common).await,
        Command::Console(console) => commands::console::run(console, common).await,
        Command::Explain(explain) => commands::explain::run(explain, common).await,
        Command::Tail(tail) => commands::tail::run(tail, common).await,
        Command::Export(export) => commands::export::run(&export, common).await,
        Command::Apply(apply) => commands::apply::run(&apply, common).await,
        Command::Publish(publish) => commands::publish::run(publish, common).await,
        Command::Rollout(rollout) => commands::rollout::run(&rollout, common).await,
        Command::Sas(sas) => commands::sas::run(&sas, output),
        Command::Cost(cost) => commands::cost::run(&cost, output),
        Command::Doctor(doctor) => commands::doctor::run(&doctor, output).await,
        Command::Verify(verify) => commands::verify::run(verify, common).await,
        Command::Schedule(schedule) => commands::schedule::run(&schedule, common).await,
        Command::Audit(audit) => commands::audit::run(&audit, common).await,
        Command::Listen(listen) => commands::listen::run(listen, output).await,
        Command::Prober(prober) => commands::prober::run(prober, common).await,
        Command::Deployment(deployment) => commands::deployment::run(deployment, common),
        Command::Completion { shell } => {
            commands::completion::run(shell);
            Ok(())
        }
    }
}
