//! `gridpost status`: what of the local stack runs.

use std::path::{Path, PathBuf};

use gridpost_core::topic::InputSchema;
use serde::Serialize;

use crate::{output, target::Common};
use gridpost_ops::home::{
    Home,
    connection::{Connection, is_in_process},
    state::State,
};
use gridpost_stack::{emulator::Emulator, stack};

/// What `--json` prints where nothing runs.
#[derive(Serialize)]
struct Down {
    running: bool,
    deployed: bool,
}

/// What `--json` prints of a stack, or of what `gridpost dev` runs.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Running<'h> {
    running: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    emulator: Option<EmulatorProcess>,
    publish_url: String,
    pub(super) manage_url: String,
    dead_letter_bucket: String,
    home: &'h Path,
    #[serde(skip_serializing_if = "Option::is_none")]
    logs: Option<PathBuf>,
    topics: Option<Vec<TopicStatus>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct EmulatorProcess {
    url: String,
    pid: u32,
    function_processes: usize,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct TopicStatus {
    name: String,
    input_schema: Option<InputSchema>,
    endpoint: String,
    event_subscriptions: Vec<String>,
}

impl<'h> Running<'h> {
    fn of(connection: &Connection, home: &'h Home) -> Self {
        Self {
            running: true,
            emulator: None,
            publish_url: connection.publish_url.clone(),
            manage_url: connection.manage_url.clone(),
            dead_letter_bucket: connection.dead_letter_bucket.clone(),
            home: home.root(),
            logs: None,
            topics: None,
            problem: None,
        }
    }
}

/// Runs `gridpost status`. It changes nothing, and a stack that does not run is no error.
pub async fn run(common: &Common) -> anyhow::Result<()> {
    let home = common.target.existing_home()?;
    let running = match &home {
        Some(home) => stack::running(home).await?,
        None => None,
    };
    if let (Some(home), None) = (&home, &running)
        && let Some(document) = in_process(home).await?
    {
        common.output.print(&document, text);
        return Ok(());
    }
    let (Some(home), Some((record, connection))) = (&home, running) else {
        let was_up = home.as_ref().is_some_and(|home| State::read(home).deployment.is_some());
        common.output.print(&Down { running: false, deployed: was_up }, |down| {
            match down.deployed {
            true => {
                "the emulator does not run; `gridpost up` starts it again with what was deployed"
                    .to_owned()
            }
            false => "no local stack is up; `gridpost dev` starts one".to_owned(),
        }
        });
        return Ok(());
    };
    let mut document = Running::of(&connection, home);
    let processes = Emulator::of(home).processes();
    document.emulator = Some(EmulatorProcess {
        url: connection.emulator_url.clone(),
        pid: record.pid,
        function_processes: processes.iter().filter(|process| !process.is_emulator).count(),
    });
    document.logs = Some(home.logs());
    match topics(&connection).await {
        Ok(topics) => document.topics = Some(topics),
        Err(err) => document.problem = Some(format!("the manage API does not answer: {err:#}")),
    }
    common.output.print(&document, text);
    Ok(())
}

/// Describes what `gridpost dev` runs in another process; `None` if nothing answers.
pub(super) async fn in_process(home: &Home) -> anyhow::Result<Option<Running<'_>>> {
    let Some(connection) = Connection::read(home)?.filter(is_in_process) else { return Ok(None) };
    let Ok(topics) = topics(&connection).await else { return Ok(None) };
    Ok(Some(Running { topics: Some(topics), ..Running::of(&connection, home) }))
}

async fn topics(connection: &Connection) -> anyhow::Result<Vec<TopicStatus>> {
    let api = connection.manage_api().await?;
    let mut found = Vec::new();
    for topic in api.topics().await? {
        let subscriptions = api.subscriptions(&topic.name).await?;
        found.push(TopicStatus {
            name: topic.name,
            input_schema: topic.properties.settings.input_schema,
            endpoint: topic.properties.endpoint,
            event_subscriptions: subscriptions.into_iter().map(|one| one.name).collect(),
        });
    }
    Ok(found)
}

fn text(status: &Running<'_>) -> String {
    let row = |name: &str, value: &str| [name.to_owned(), value.to_owned()];
    let mut rows = Vec::new();
    if let Some(EmulatorProcess { url, pid, function_processes }) = &status.emulator {
        let processes = format!("{url} (process {pid}, {function_processes} function processes)");
        rows.push(row("emulator", &processes));
    }
    rows.push(row("publish API", &status.publish_url));
    rows.push(row("manage API", &status.manage_url));
    if let Some(logs) = &status.logs {
        rows.push(row("dead letters", &format!("s3://{}", status.dead_letter_bucket)));
        rows.push(row("logs", &logs.display().to_string()));
    }
    for topic in status.topics.iter().flatten() {
        let names = match topic.event_subscriptions.is_empty() {
            true => "no event subscriptions".to_owned(),
            false => topic.event_subscriptions.join(", "),
        };
        let schema: &str = topic.input_schema.map_or("-", Into::into);
        rows.push(row(&format!("topic {}", topic.name), &format!("{schema}: {names}")));
    }
    rows.extend(status.problem.as_ref().map(|problem| row("problem", problem)));
    output::columns(&rows)
}
