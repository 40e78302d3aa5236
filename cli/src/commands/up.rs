//! `gridpost up`: the whole product on this machine, shown to work.

use std::env;
use std::path::PathBuf;

use clap::Args;
use serde_json::json;

use crate::{
    output,
    target::{Common, TargetArguments},
};
use gridpost_ops::{
    home::{Home, connection::Connection},
    output::word,
    progress::Progress,
};
use gridpost_stack::{
    build::Profile,
    demonstration::{self, Publisher, Show, Shown},
    stack::{self, Settings},
};

/// What to do once the stack is up.
#[derive(Args, Debug)]
pub struct UpArguments {
    /// Skip the demonstration
    #[arg(long, visible_alias = "quiet")]
    no_demo: bool,

    /// Build the functions as they are deployed on AWS; that takes several times as long
    #[arg(long)]
    release: bool,

    /// Compile nothing: deploy the release whose archives (functions, infra) are unpacked in this folder
    #[arg(long, value_name = "FOLDER", conflicts_with = "release")]
    artefacts: Option<PathBuf>,
}

/// Runs `gridpost up`. The stack stays up, also when its demonstration fails.
pub async fn run(arguments: UpArguments, common: &Common) -> anyhow::Result<()> {
    let profile = if arguments.release { Profile::Release } else { Profile::default() };
    let settings = match &arguments.artefacts {
        Some(folder) => Settings::of_release(common.target.home.as_deref(), folder)?,
        None => Settings::of_workspace(common.target.home.as_deref(), profile)?,
    };
    let progress = Progress::on_stderr();
    let stack = stack::up(&settings, &progress).await?;
    let shown = match arguments.no_demo {
        true => Vec::new(),
        false => {
            let publisher = Publisher::AzureSdk(&stack.environment);
            let connection = &stack.connection;
            let show = Show {
                connection,
                publisher,
                buckets: Some("s3:/"),
                path_of: str::to_owned,
                speed: 1,
            };
            demonstration::run(show, &progress).await?
        }
    };
    let cases = shown.iter().map(|case| json!({"title": case.title, "lines": case.lines}));
    let mut document = serde_json::to_value(&stack.connection)?;
    document["demonstration"] = cases.collect();
    let gridpost = invocation(&common.target, &settings.home);
    common.output.print(&document, |_| summary(&stack.connection, &shown, &gridpost));
    Ok(())
}

/// How this program was called, so that the commands shown can be pasted. A folder that was named is
/// named with its whole path: another terminal may be in another one.
pub(super) fn invocation(target: &TargetArguments, home: &Home) -> String {
    let program = match env::var_os("CARGO_MANIFEST_DIR") {
        Some(_) => "cargo run -q --".to_owned(),
        None => env::args().next().unwrap_or_else(|| "gridpost".to_owned()),
    };
    match target.home {
        Some(_) => format!("{program} --home {}", word(&home.root().to_string_lossy())),
        None => program,
    }
}

fn summary(connection: &Connection, shown: &[Shown], gridpost: &str) -> String {
    let mut lines = seen(shown);
    lines.push(String::new());
    lines.push("Gridpost is up:".to_owned());
    let topic = connection.topics.get("demo");
    let row = |name: &str, value: &str| [format!("  {name}"), value.to_owned()];
    let first_key = topic.and_then(|topic| topic.keys.first());
    lines.push(output::columns(&[
        row("publish to", topic.map_or("-", |topic| topic.endpoint.as_str())),
        row("with aeg-sas-key", first_key.map_or("-", String::as_str)),
        row("manage API", &connection.manage_url),
        row("dead letters", &format!("s3://{}", connection.dead_letter_bucket)),
        row("AWS_ENDPOINT_URL", &connection.emulator_url),
    ]));
    lines.push(String::new());
    lines.push("Try next (the first line in a terminal of its own):".to_owned());
    let port = 9000;
    for command in [
        format!("listen --port {port} --answer 500,200"),
        format!(
            "subscription create --topic demo --subscription first --endpoint http://127.0.0.1:{port}/hook"
        ),
        "publish --topic demo --type Sample.Greeting --data '{\"hello\":\"world\"}'".to_owned(),
        "console".to_owned(),
        "status".to_owned(),
        "down".to_owned(),
    ] {
        lines.push(format!("  {gridpost} {command}"));
    }
    lines.join("\n")
}

/// The cases of the demonstration, with what each has shown.
pub(super) fn seen(shown: &[Shown]) -> Vec<String> {
    let mut lines = Vec::new();
    if !shown.is_empty() {
        lines.extend([String::new(), "What you saw:".to_owned()]);
    }
    for case in shown {
        lines.push(format!("  ✓ {}", case.title));
        lines.extend(case.lines.iter().map(|line| format!("      {line}")));
    }
    lines
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::Path;

    use super::*;
    use gridpost_ops::home::connection::TopicConnection;

    #[test]
    fn the_summary_can_be_pasted_from() {
        let topic = TopicConnection {
            endpoint: "http://p/topics/demo/api/events".into(),
            keys: vec!["k1".into()],
        };
        let connection = Connection {
            publish_url: "http://p".into(),
            manage_url: "http://m".into(),
            emulator_url: "http://a".into(),
            dead_letter_bucket: "b".into(),
            ca_file: None,
            topics: BTreeMap::from([("demo".to_owned(), topic)]),
        };
        let shown = [Shown { title: "It works", lines: vec!["attempt 1".into()] }];
        let text = summary(&connection, &shown, "cargo run -q --");
        for part in [
            "✓ It works",
            "http://p/topics/demo/api/events",
            "k1",
            "cargo run -q -- publish --topic demo",
        ] {
            assert!(text.contains(part), "{part} in\n{text}");
        }
    }

    #[test]
    fn commands_name_the_folder_that_was_named() {
        let named = TargetArguments { home: Some("my stack".into()), ..TargetArguments::default() };
        for (target, folder, want) in [
            (&named, "/tmp/x", Some(" --home /tmp/x")),
            (&named, "/a/my stack", Some(" --home '/a/my stack'")),
            (&TargetArguments::default(), "/a/.gridpost", None),
        ] {
            let told = invocation(target, &Home::at(Path::new(folder)));
            match want {
                Some(want) => assert!(told.ends_with(want), "{told}"),
                None => assert!(!told.contains("--home"), "{told}"),
            }
        }
    }
}
