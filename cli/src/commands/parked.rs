//! `gridpost parked`: deliveries whose long wait a table holds, seen, released or canceled.

use anyhow::Context;
use clap::{ArgGroup, Args, Subcommand};
use serde_json::{Value, json};

use crate::{
    output::{self, Output, count, text_at},
    target::Common,
};
use gridpost_ops::{
    failure::Misuse,
    lookup::check_exists,
    manage_api::{
        ManageApi,
        waiting::{Changed, ParkedChoice, is_handled},
    },
};

/// Told where nothing was found.
const NONE: &str = "no delivery is parked";

/// What to do with parked deliveries.
#[derive(Subcommand, Debug)]
pub enum ParkedCommand {
    /// List parked deliveries, without their events. One that a late answer has delivered stays among
    /// them until it is due, and is not attempted then
    List(Filter),
    /// Attempt parked deliveries now, unless their endpoint is on probation
    Release(Change),
    /// End parked deliveries: they become dead letters, or are dropped if there is no destination
    Cancel(Change),
}

/// Whose deliveries.
#[derive(Args, Debug)]
pub struct Filter {
    /// Only those of this topic
    #[arg(long)]
    topic: Option<String>,

    /// Only those of the event subscription of this name
    #[arg(long, visible_alias = "name", value_name = "NAME")]
    subscription: Option<String>,
}

/// Which deliveries are to be changed.
#[derive(Args, Debug)]
#[command(group(
    ArgGroup::new("which")
        .required(true)
        .multiple(true)
        .args(["ids", "topic", "subscription", "all"])
))]
pub struct Change {
    /// Ids of deliveries (`parked list` prints them)
    #[arg(value_name = "ID", num_args = 1..=100)]
    ids: Vec<String>,

    #[command(flatten)]
    filter: Filter,

    /// All parked deliveries of the deployment
    #[arg(long, conflicts_with_all = ["ids", "topic", "subscription"])]
    all: bool,

    /// Confirm that you mean all of them, if you give no ids
    #[arg(long)]
    yes: bool,
}

impl Change {
    fn choice(self) -> ParkedChoice {
        ParkedChoice { ids: self.ids, ..self.filter.choice() }
    }
}

impl Filter {
    fn choice(self) -> ParkedChoice {
        ParkedChoice { ids: Vec::new(), topic: self.topic, subscription: self.subscription }
    }
}

/// Also fails when deliveries were not handled.
pub async fn run(command: ParkedCommand, common: &Common) -> anyhow::Result<()> {
    let api = common.target.resolve()?.manage_api().await?;
    match command {
        ParkedCommand::List(filter) => {
            let choice = filter.choice();
            let found = api.parked(&choice).await?;
            check_names(&api, &choice, &found).await?;
            common.output.print(&json!({ "value": found }), |_| list(&found));
            Ok(())
        }
        ParkedCommand::Release(change) => {
            let choice = change.choice();
            let changed = api.release_parked(&choice).await;
            finish(&api, common.output, &choice, changed, "Released").await
        }
        ParkedCommand::Cancel(change) => {
            let is_confirmed = change.yes || !change.ids.is_empty();
            let choice = change.choice();
            if !is_confirmed {
                let found = api.parked(&choice).await?;
                check_names(&api, &choice, &found).await?;
                return Err(Misuse(consent(&found)).into());
            }
            let changed = api.cancel_parked(&choice).await;
            finish(&api, common.output, &choice, changed, "Canceled").await
        }
    }
}

fn consent(found: &[Value]) -> String {
    let events = found.iter().filter_map(|one| one["events"].as_u64()).sum();
    format!(
        "This ends {} with {}: they become dead letters, or are lost where there is no dead-letter \
         destination. Repeat with --yes.",
        count(found.len() as u64, "parked delivery").replace("deliverys", "deliveries"),
        count(events, "event")
    )
}

/// Refuses a topic that does not exist, or an event subscription, where nothing was found of it.
async fn check_names(
    api: &ManageApi,
    choice: &ParkedChoice,
    found: &[Value],
) -> anyhow::Result<()> {
    // Ids that were not found are told one by one.
    if !found.is_empty() || !choice.ids.is_empty() {
        return Ok(());
    }
    check_exists(api, choice.topic.as_deref(), choice.subscription.as_deref()).await
}

/// Refuses a name that does not exist, and tells what became of the others.
async fn finish(
    api: &ManageApi,
    output: Output,
    choice: &ParkedChoice,
    changed: Changed,
    good: &str,
) -> anyhow::Result<()> {
    if changed.1.is_ok() {
        check_names(api, choice, &changed.0).await?;
    }
    report(output, choice, changed, good)
}

/// Prints what became of each; one that was not handled, or not found, makes the command fail, and so does
/// a request behind others that were answered.
fn report(
    output: Output,
    choice: &ParkedChoice,
    (mut done, asked): Changed,
    good: &str,
) -> anyhow::Result<()> {
    if done.is_empty() && asked.is_err() {
        return asked;
    }
    // Behind a failure, an id that was not found may still have come.
    if asked.is_ok() {
        let missing = missing(choice, &done);
        done.extend(missing);
    }
    let left = done.iter().filter(|one| !is_handled(one, good)).count();
    output.tell(&json!({ "value": done }), |_| results(&done));
    let (handled, all) = (done.len() - left, done.len());
    asked.with_context(|| format!("{handled} of {all} deliveries were handled, then it failed"))?;
    anyhow::ensure!(left == 0, "{left} of {all} deliveries were not handled");
    Ok(())
}

/// The ids that were asked for and not found.
fn missing(choice: &ParkedChoice, done: &[Value]) -> Vec<Value> {
    let is_found = |id: &&String| done.iter().any(|one| one["id"].as_str() == Some(id.as_str()));
    let missing = choice.ids.iter().filter(|id| !is_found(id)).map(|id| {
        let message = "it is not parked: it has ended, or waits in a queue";
        json!({"id": id, "result": "NotFound", "message": message})
    });
    missing.collect()
}

fn results(done: &[Value]) -> String {
    if done.is_empty() {
        return NONE.to_owned();
    }
    let row = |one: &Value| {
        ["/id", "/result", "/message"].map(|pointer| match one.pointer(pointer) {
            Some(Value::String(text)) => text.clone(),
            _ => String::new(),
        })
    };
    output::columns(&done.iter().map(row).collect::<Vec<_>>())
}

fn list(found: &[Value]) -> String {
    if found.is_empty() {
        return NONE.to_owned();
    }
    let mut found: Vec<_> = found.iter().collect();
    found.sort_by_key(|&one| text_at(one, "/due"));
    let head = ["DUE", "ID", "WHOSE", "EVENTS", "ATTEMPTS", "LAST OUTCOME"];
    let row = |one: &Value| {
        let at = |pointer| text_at(one, pointer).to_owned();
        let number = |member: &str| {
            one[member].as_u64().map_or_else(|| "-".to_owned(), |number| number.to_string())
        };
        let whose = format!("{}/{}", at("/topic"), at("/eventSubscription"));
        let outcome = one["problem"].as_str().map(str::to_owned);
        let outcome = outcome.unwrap_or_else(|| at("/lastDeliveryOutcome"));
        [at("/due"), at("/id"), whose, number("events"), number("deliveryAttempts"), outcome]
    };
    output::table(head, found.into_iter().map(row))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::TargetArguments;
    use gridpost_ops::testkit::{FakeApi, documents::topic};

    #[test]
    fn what_is_due_first_stands_first() {
        let one = |id: &str, due: &str| {
            json!({"id": id, "due": due, "topic": "t",
            "eventSubscription": "s", "events": 1, "deliveryAttempts": 2, "lastDeliveryOutcome": "Busy"})
        };
        let text = list(&[one("late", "2026-01-02"), one("soon", "2026-01-01")]);
        assert_eq!((list(&[]), results(&[])), (NONE.to_owned(), NONE.to_owned()));
        let lines: Vec<_> = text.lines().skip(1).collect();
        assert_eq!(
            lines,
            [
                "2026-01-01  soon  t/s    1       2         Busy",
                "2026-01-02  late  t/s    1       2         Busy",
            ]
        );
    }

    #[tokio::test]
    async fn a_misspelt_name_is_an_error_whatever_is_done() {
        let empty = json!({"value": []});
        let topics = json!({"value": [topic("orders", &json!({}))]});
        let api = FakeApi::answering(&[
            ("POST /parked:release", 200, empty.clone()),
            ("POST /parked:cancel", 200, empty.clone()),
            ("GET /parked", 200, empty),
            ("GET /topics", 200, topics),
        ])
        .await;
        let target = TargetArguments { manage_url: Some(api.url()), ..TargetArguments::default() };
        let change = |topic: &str| Change {
            ids: Vec::new(),
            filter: Filter { topic: Some(topic.to_owned()), subscription: None },
            all: false,
            yes: true,
        };
        let list = |topic: &str| Filter { topic: Some(topic.to_owned()), subscription: None };
        let common = Common { target, output: Output::new(true) };
        for command in [
            ParkedCommand::Release(change("order")),
            ParkedCommand::Cancel(change("order")),
            ParkedCommand::List(list("order")),
        ] {
            let refused = run(command, &common).await.expect_err("misspelt");
            assert!(refused.is::<Misuse>(), "{refused}");
            assert!(refused.to_string().contains("did you mean orders?"), "{refused}");
        }
        run(ParkedCommand::Release(change("orders")), &common).await.expect("a name");
    }

    #[test]
    fn many_are_not_ended_without_a_count() {
        let found = [json!({"events": 2}), json!({"events": 3})];
        let told = consent(&found);
        assert!(told.starts_with("This ends 2 parked deliveries with 5 events"), "{told}");
        assert!(told.ends_with("Repeat with --yes."), "{told}");
    }

    #[test]
    fn what_was_not_found_makes_the_command_fail() {
        let done = vec![json!({"id": "a", "result": "Released"})];
        let choice = |ids: &[&str]| ParkedChoice {
            ids: ids.iter().map(|id| (*id).to_owned()).collect(),
            ..ParkedChoice::default()
        };
        let output = Output::new(true);
        assert!(report(output, &choice(&["a"]), (done.clone(), Ok(())), "Released").is_ok());
        let both = choice(&["a", "b"]);
        let left = report(output, &both, (done.clone(), Ok(())), "Released").expect_err("left");
        assert_eq!(left.to_string(), "1 of 2 deliveries were not handled");
        // A later request fails: what was done is told, and nothing is called missing.
        let failed = || Err(anyhow::anyhow!("503"));
        let told = report(output, &both, (done, failed()), "Released").expect_err("failed");
        assert_eq!(format!("{told:#}"), "1 of 1 deliveries were handled, then it failed: 503");
        let told = report(output, &both, (Vec::new(), failed()), "Released").expect_err("failed");
        assert_eq!(format!("{told:#}"), "503");
    }

    #[tokio::test]
    async fn a_failure_half_way_fails_the_command_behind_what_was_done() {
        let first = json!({"value": [{"id": "a", "result": "Canceled"}],
            "nextLink": "/parked:cancel?$skiptoken=x"});
        let api = FakeApi::answering(&[
            ("POST /parked:cancel?$skiptoken=x ", 503, json!({})),
            ("POST /parked:cancel ", 200, first),
        ])
        .await;
        let target = TargetArguments { manage_url: Some(api.url()), ..TargetArguments::default() };
        let filter = Filter { topic: None, subscription: None };
        let change = Change { ids: Vec::new(), filter, all: true, yes: true };
        let common = Common { target, output: Output::new(true) };
        let failed = run(ParkedCommand::Cancel(change), &common).await.expect_err("503");
        let told = format!("{failed:#}");
        assert!(told.starts_with("1 of 1 deliveries were handled, then it failed"), "{told}");
        assert!(told.contains("HTTP 503"), "{told}");
        assert!(failed.is::<gridpost_ops::failure::Refusal>(), "its next step is told");
    }
}
