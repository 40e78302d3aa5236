//! The flags that every command has: which deployment it is for.

use std::path::PathBuf;

use clap::{Args, builder::Resettable};

use crate::output::Output;
pub use gridpost_ops::target::*;

/// What every command gets: flags that choose the deployment, and how to print.
#[derive(Clone, Debug)]
pub struct Common {
    pub target: TargetArguments,
    pub output: Output,
}

/// The heading in `--help` of the options that every command has.
pub const EVERYWHERE: &str = "Options of every command";

/// Flags that choose the deployment; one that is named by `--deployment` keeps what other flags do not
/// say. Without them: the local stack that `gridpost dev` or `gridpost up` started.
#[derive(Args, Clone, Debug, Default)]
pub struct TargetFlags {
    /// Base URL of the manage API (Terraform output `manage_url`); requests are signed with your AWS
    /// identity, unless there is a token
    #[arg(long, global = true, help_heading = EVERYWHERE, env = "GRIDPOST_MANAGE_URL", value_name = "URL")]
    pub manage_url: Option<String>,

    /// Base URL of the publish API (Terraform output `publish_url`)
    #[arg(long, global = true, help_heading = EVERYWHERE, env = "GRIDPOST_PUBLISH_URL", value_name = "URL")]
    pub publish_url: Option<String>,

    /// A deployment by its name (`gridpost deployment add`)
    #[arg(long, global = true, help_heading = EVERYWHERE, env = "GRIDPOST_DEPLOYMENT", value_name = "NAME")]
    pub deployment: Option<String>,

    /// What the names of the deployment's functions and queues begin with (Terraform variable
    /// `name_prefix`) [default: gridpost]
    #[arg(long, global = true, help_heading = EVERYWHERE, env = "GRIDPOST_NAME_PREFIX", value_name = "TEXT")]
    pub name_prefix: Option<String>,

    /// File with a token for the manage API of `gridpost serve`; GRIDPOST_TOKEN has the token itself
    #[arg(long, global = true, help_heading = EVERYWHERE, env = "GRIDPOST_TOKEN_FILE", value_name = "FILE")]
    pub token_file: Option<PathBuf>,

    /// Folder of the local stack [default: .gridpost, here or in a parent folder]
    #[arg(long, global = true, help_heading = EVERYWHERE, env = "GRIDPOST_HOME", value_name = "DIR")]
    pub home: Option<PathBuf>,
}

/// Returns the error that the same command line has without environment variables: clap lists a flag
/// that a variable sets as if it were required.
pub fn without_environment(error: clap::Error, command: clap::Command) -> clap::Error {
    if !error.use_stderr() {
        return error;
    }
    let command = command.mut_args(|flag| flag.env(Resettable::Reset));
    command.try_get_matches().err().unwrap_or(error)
}

impl TargetFlags {
    /// Leaves out what the environment says of one deployment where the command line names another.
    pub fn prefer(&mut self, is_given: impl Fn(&str) -> bool) {
        let home = is_given("home");
        if !home && !is_given("deployment") {
            return;
        }
        if home && !is_given("deployment") {
            self.deployment = None;
        }
        for (flag, value) in [
            ("manage_url", &mut self.manage_url),
            ("publish_url", &mut self.publish_url),
            ("name_prefix", &mut self.name_prefix),
        ] {
            if !is_given(flag) {
                *value = None;
            }
        }
        if !is_given("token_file") {
            self.token_file = None;
        }
    }

    /// Returns the flags' choice of a deployment.
    pub fn arguments(self) -> TargetArguments {
        let Self { manage_url, publish_url, deployment, name_prefix, token_file, home } = self;
        TargetArguments { manage_url, publish_url, deployment, name_prefix, token_file, home }
    }
}
