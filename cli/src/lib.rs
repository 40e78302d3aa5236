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

/// Runs one command line. Fails with what [`gridpost_ops::failure::report`] prints.
pub async fn run(arguments: Arguments) -> anyhow::Result<()> {
    let output = Output::new(arguments.json);
    let target = arguments.target.arguments();
    match arguments.command {
        Command::Dev(dev) => commands::dev::run(dev, &target, output).await,
        Command::Wait(wait) => commands::wait::run(&wait, &target, output).await,
        Command::Up(up) => commands::up::run(up, &target, output).await,
        Command::Status => commands::status::run(&target, output).await,
        Command::Watch(watch) => commands::watch::run(watch, &target).await,
        Command::Down(down) => commands::down::run(&down, &target, output).await,
        Command::Topic(topic) => commands::topic::run(topic, &target, output).await,
        Command::Subscription(subscription) => {
            commands::subscription::run(subscription, &target, output).await
        }
        Command::DeadLetter(letters) => commands::dead_letter::run(letters, &target, output).await,
        Command::Redrive(redrive) => {
            let command = commands::dead_letter::DeadLetterCommand::Redrive(redrive);
            commands::dead_letter::run(command, &target, output).await
        }
        Command::Poison(poison) => commands::poison::run(poison, &target, output).await,
        Command::Parked(parked) => commands::parked::run(parked, &target, output).await,
        Command::Delivery(delivery) => commands::delivery::run(delivery, &target, output).await,
        Command::Console(console) => commands::console::run(console, &target, output).await,
        Command::Explain(explain) => commands::explain::run(explain, &target, output).await,
        Command::Tail(tail) => commands::tail::run(tail, &target, output).await,
        Command::Export(export) => commands::export::run(&export, &target, output).await,
        Command::Apply(apply) => commands::apply::run(&apply, &target, output).await,
        Command::Publish(publish) => commands::publish::run(publish, &target, output).await,
        Command::Rollout(rollout) => commands::rollout::run(&rollout, &target, output).await,
        Command::Sas(sas) => commands::sas::run(&sas, output),
        Command::Cost(cost) => commands::cost::run(&cost, output),
        Command::Doctor(doctor) => commands::doctor::run(&doctor, output).await,
        Command::Verify(verify) => commands::verify::run(verify, &target, output).await,
        Command::Schedule(schedule) => commands::schedule::run(&schedule, &target, output).await,
        Command::Audit(audit) => commands::audit::run(&audit, &target, output).await,
        Command::Listen(listen) => commands::listen::run(listen, output).await,
        Command::Prober(prober) => commands::prober::run(prober, &target, output).await,
        Command::Deployment(deployment) => commands::deployment::run(deployment, &target, output),
        Command::Completion { shell } => {
            commands::completion::run(shell);
            Ok(())
        }
    }
}
