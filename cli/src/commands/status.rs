//! `gridpost status`: what of the local stack runs.

use serde_json::{Value, json};

use crate::{
    output::{self, text_at},
    target::Common,
};
use gridpost_ops::home::{
    Home,
    connection::{Connection, is_in_process},
    state::{EmulatorRecord, State},
};
use gridpost_stack::{emulator::Emulator, stack};

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
        common.output.print(&document, text_in_process);
        return Ok(());
    }
    let (Some(home), Some((record, connection))) = (&home, running) else {
        let was_up = home.as_ref().is_some_and(|home| State::read(home).deployment.is_some());
        common.output.print(&json!({"running": false, "deployed": was_up}), |_| match was_up {
            true => {
                "the emulator does not run; `gridpost up` starts it again with what was deployed"
                    .to_owned()
            }
            false => "no local stack is up; `gridpost dev` starts one".to_owned(),
        });
        return Ok(());
    };
    let document = document(home, &record, &connection).await;
    common.output.print(&document, |document| text(document, home));
    Ok(())
}

/// What `gridpost dev` runs in another process; none where nothing answers.
pub(super) async fn in_process(home: &Home) -> anyhow::Result<Option<Value>> {
    let Some(connection) = Connection::read(home)?.filter(is_in_process) else { return Ok(None) };
    let Ok(topics) = topics(&connection).await else { return Ok(None) };
    Ok(Some(json!({
        "running": true,
        "publishUrl": connection.publish_url,
        "manageUrl": connection.manage_url,
        "deadLetterBucket": connection.dead_letter_bucket,
        "home": home.root(),
        "topics": topics,
    })))
}

fn text_in_process(document: &Value) -> String {
    let row = |name: &str, pointer| [name.to_owned(), text_at(document, pointer).to_owned()];
    let mut rows = vec![row("publish API", "/publishUrl"), row("manage API", "/manageUrl")];
    rows.extend(topic_rows(document));
    output::columns(&rows)
}

async fn document(home: &Home, record: &EmulatorRecord, connection: &Connection) -> Value {
    let functions =
        Emulator::of(home).processes().iter().filter(|process| !process.is_emulator).count();
    let topics = topics(connection).await;
    json!({
        "running": true,
        "emulator": {"url": connection.emulator_url, "pid": record.pid, "functionProcesses": functions},
        "publishUrl": connection.publish_url,
        "manageUrl": connection.manage_url,
        "deadLetterBucket": connection.dead_letter_bucket,
        "home": home.root(),
        "logs": home.logs(),
        "topics": topics.as_ref().ok(),
        "problem": topics.as_ref().err().map(|err| format!("the manage API does not answer: {err:#}")),
    })
}

async fn topics(connection: &Connection) -> anyhow::Result<Vec<Value>> {
    let api = connection.manage_api().await?;
    let mut found = Vec::new();
    for topic in api.topics().await? {
        let name = text_at(&topic, "/name");
        let subscriptions = api.subscriptions(name).await?;
        let subscriptions: Vec<&str> =
            subscriptions.iter().map(|document| text_at(document, "/name")).collect();
        found.push(json!({
            "name": name,
            "inputSchema": text_at(&topic, "/properties/inputSchema"),
            "endpoint": text_at(&topic, "/properties/endpoint"),
            "eventSubscriptions": subscriptions,
        }));
    }
    Ok(found)
}

fn text(document: &Value, home: &Home) -> String {
    let at = |pointer| text_at(document, pointer).to_owned();
    let number =
        |pointer| document.pointer(pointer).map_or_else(|| "-".to_owned(), Value::to_string);
    let row = |name: &str, value: String| [name.to_owned(), value];
    let emulator = format!(
        "{} (process {}, {} function processes)",
        at("/emulator/url"),
        number("/emulator/pid"),
        number("/emulator/functionProcesses"),
    );
    let mut rows = vec![
        row("emulator", emulator),
        row("publish API", at("/publishUrl")),
        row("manage API", at("/manageUrl")),
        row("dead letters", format!("s3://{}", at("/deadLetterBucket"))),
        row("logs", home.logs().display().to_string()),
    ];
    rows.extend(topic_rows(document));
    if let Some(problem) = document["problem"].as_str() {
        rows.push(row("problem", problem.to_owned()));
    }
    output::columns(&rows)
}

fn topic_rows(document: &Value) -> Vec<[String; 2]> {
    let topics = document["topics"].as_array().into_iter().flatten();
    let row = |topic: &Value| {
        let names = topic["eventSubscriptions"].as_array().into_iter().flatten();
        let names: Vec<&str> = names.filter_map(Value::as_str).collect();
        let names =
            if names.is_empty() { "no event subscriptions".to_owned() } else { names.join(", ") };
        let schema = text_at(topic, "/inputSchema");
        [format!("topic {}", text_at(topic, "/name")), format!("{schema}: {names}")]
    };
    topics.map(row).collect()
}
