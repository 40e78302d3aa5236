//! `gridpost console`: the web console of a deployment, on this machine.

use std::process::{Command, Stdio};

use clap::Args;
use serde_json::json;

use crate::{
    output,
    target::{Common, Target, TargetArguments},
};
use gridpost_console::{Console, Settings};

const PORT: u16 = 7071;

/// How the console runs.
#[derive(Args, Debug)]
pub struct ConsoleArguments {
    /// Refuse every change, and show no keys and secrets
    #[arg(long)]
    read_only: bool,

    /// Port on 127.0.0.1; 0 takes a free one
    #[arg(long, default_value_t = PORT)]
    port: u16,

    /// Print the link that signs in, and open no browser
    #[arg(long)]
    no_browser: bool,
}

/// Runs `gridpost console`, until it is interrupted.
pub async fn run(arguments: ConsoleArguments, common: &Common) -> anyhow::Result<()> {
    let resolved = common.target.resolve()?;
    let settings = Settings {
        name: name(&common.target, &resolved),
        flags: flags(&common.target),
        target: resolved,
        read_only: arguments.read_only,
        port: arguments.port,
    };
    let console = Console::bind(settings).await?;
    let (url, sign_in_url) = (console.url(), console.sign_in_url());
    let document = json!({"url": url, "signInUrl": sign_in_url, "readOnly": arguments.read_only});
    common.output.print(&document, |_| {
        format!("The console is at {url}. This link signs one browser in, once:\n\n  {sign_in_url}\n\nCtrl-C ends it.")
    });
    if !arguments.no_browser && !open(&sign_in_url) {
        output::note("No browser could be opened: open the link yourself.");
    }
    tokio::select! {
        ended = console.serve() => ended,
        interrupted = tokio::signal::ctrl_c() => interrupted.map_err(Into::into),
    }
}

/// Returns the deployment's name on pages.
fn name(arguments: &TargetArguments, target: &Target) -> String {
    match (&arguments.deployment, target.is_dev(), target.manage_url()) {
        (Some(name), ..) => name.clone(),
        (None, true, Some(url)) => format!("gridpost dev, {url}"),
        (None, _, url) => url.unwrap_or_default().to_owned(),
    }
}

/// The flags that choose this deployment, for commands that pages name.
fn flags(arguments: &TargetArguments) -> String {
    let TargetArguments { manage_url, publish_url, deployment, name_prefix, token_file, home: _ } =
        arguments;
    let token_file = token_file.as_ref().map(|file| file.display().to_string());
    let all = [
        ("deployment", deployment),
        ("manage-url", manage_url),
        ("publish-url", publish_url),
        ("name-prefix", name_prefix),
        ("token-file", &token_file),
    ];
    let given = all.into_iter().filter_map(|(flag, value)| Some((flag, value.as_ref()?)));
    given.map(|(flag, value)| format!(" --{flag} {value}")).collect()
}

fn open(url: &str) -> bool {
    let program = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let mut command = Command::new(program);
    command.arg(url).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_for_the_same_deployment() {
        let text = |text: &str| Some(text.to_owned());
        let named = TargetArguments {
            deployment: text("prod"),
            name_prefix: text("events"),
            ..TargetArguments::default()
        };
        assert_eq!(flags(&named), " --deployment prod --name-prefix events");
        assert_eq!(flags(&TargetArguments::default()), "");
        assert_eq!(name(&named, &Target::default()), "prod");
    }
}
