//! `gridpost parked`: deliveries whose long wait a table holds, seen, released or canceled.

use anyhow::Context;
use clap::{ArgGroup, Args, Subcommand};
use gridpost_api::{
    requests::ParkedInput,
    waiting::{HandledDelivery, Parked, ParkedResult},
};
use serde::Serialize;

use crate::{
    output::{self, Output, count},
    target::Common,
};
use gridpost_ops::{failure::Misuse, lookup::check_exists, manage_api::ManageApi, output::or_dash};

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
    fn input(self) -> ParkedInput {
        let input = self.filter.input();
        let ids = (!self.ids.is_empty()).then(|| self.ids.into_iter().collect());
        let all = self.all.then_some(true);
        ParkedInput { ids, all, ..input }
    }
}

impl Filter {
    fn input(self) -> ParkedInput {
        ParkedInput {
            topic: self.topic,
            event_subscription: self.subscription,
            ..ParkedInput::default()
        }
    }
}

/// Also fails when deliveries were not handled.
pub async fn run(command: ParkedCommand, common: &Common) -> anyhow::Result<()> {
    let api = common.target.resolve()?.manage_api().await?;
    match command {
        ParkedCommand::List(filter) => {
            let input = filter.input();
            let found = api.parked(&input).await?;
            check_names(&api, &input, found.is_empty()).await?;
            common.output.print_list(&found, list);
            Ok(())
        }
        ParkedCommand::Release(change) => {
            let input = change.input();
            self::change(&api, common.output, &input, "release", ParkedResult::Released).await
        }
        ParkedCommand::Cancel(change) => {
            let is_confirmed = change.yes || !change.ids.is_empty();
            let input = change.input();
            if !is_confirmed {
                let found = api.parked(&input).await?;
                check_names(&api, &input, found.is_empty()).await?;
                return Err(Misuse(consent(&found)).into());
            }
            self::change(&api, common.output, &input, "cancel", ParkedResult::Canceled).await
        }
    }
}

fn consent(found: &[Parked]) -> String {
    let events = |one: &Parked| match one {
        Parked::Delivery(one) => one.delivery.events as u64,
        Parked::Unreadable(_) => 0,
    };
    format!(
        "This ends {} with {}: they become dead letters, or are lost where there is no dead-letter \
         destination. Repeat with --yes.",
        count(found.len() as u64, "parked delivery").replace("deliverys", "deliveries"),
        count(found.iter().map(events).sum(), "event")
    )
}

/// Refuses a topic or an event subscription that does not exist, where nothing was found of it.
async fn check_names(api: &ManageApi, input: &ParkedInput, is_empty: bool) -> anyhow::Result<()> {
    // Ids that were not found are listed one by one.
    if !is_empty || input.ids.is_some() {
        return Ok(());
    }
    check_exists(api, input.topic.as_deref(), input.event_subscription.as_deref()).await
}

/// The result for a delivery, or for an id of which none is parked.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct Handled {
    id: String,
    result: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
    /// Whether nothing of it is parked any more.
    #[serde(skip)]
    is_done: bool,
}

impl Handled {
    fn of(one: HandledDelivery, good: ParkedResult) -> Self {
        let gone = [good, ParkedResult::AlreadyDelivered, ParkedResult::AlreadyEnded];
        let (id, result) = (one.id.to_string(), one.result.to_string());
        Self { id, result, message: one.message, is_done: gone.contains(&one.result) }
    }

    fn missing(id: &str) -> Self {
        let message = "it is not parked: it has ended, or waits in a queue".to_owned();
        let result = "NotFound".to_owned();
        Self { id: id.to_owned(), result, message: Some(message), is_done: false }
    }
}

/// Releases or cancels deliveries (`action`), and prints the result of each. Refuses a name that does not
/// exist.
async fn change(
    api: &ManageApi,
    output: Output,
    input: &ParkedInput,
    action: &str,
    good: ParkedResult,
) -> anyhow::Result<()> {
    let mut done = Vec::new();
    let take = |some: Vec<HandledDelivery>| {
        done.extend(some.into_iter().map(|one| Handled::of(one, good)));
    };
    let end = api.change_parked(action, input, take).await.map(drop);
    if end.is_ok() {
        check_names(api, input, done.is_empty()).await?;
    }
    report(output, input, done, end)
}

/// Prints the result of each. Fails if one was not handled or not found, or a request failed behind others.
fn report(
    output: Output,
    input: &ParkedInput,
    mut done: Vec<Handled>,
    end: anyhow::Result<()>,
) -> anyhow::Result<()> {
    if done.is_empty() && end.is_err() {
        return end;
    }
    // Behind a failure, an id that was not found may still have come.
    if end.is_ok() {
        let is_found = |id: &&String| done.iter().any(|one| one.id == **id);
        let ids = input.ids.iter().flatten().filter(|id| !is_found(id));
        let missing: Vec<_> = ids.map(|id| Handled::missing(id)).collect();
        done.extend(missing);
    }
    let left = done.iter().filter(|one| !one.is_done).count();
    output.tell_list(&done, results);
    let (handled, all) = (done.len() - left, done.len());
    end.with_context(|| format!("{handled} of {all} deliveries were handled, then it failed"))?;
    anyhow::ensure!(left == 0, "{left} of {all} deliveries were not handled");
    Ok(())
}

fn results(done: &[Handled]) -> String {
    if done.is_empty() {
        return NONE.to_owned();
    }
    let row = |one: &Handled| {
        [one.id.clone(), one.result.clone(), one.message.clone().unwrap_or_default()]
    };
    output::columns(&done.iter().map(row).collect::<Vec<_>>())
}

fn list(found: &[Parked]) -> String {
    if found.is_empty() {
        return NONE.to_owned();
    }
    let row = |one: &Parked| match one {
        Parked::Delivery(one) => {
            let of = &one.delivery;
            let outcome = one.problem.as_ref().or(of.last_delivery_outcome.as_ref());
            [
                or_dash(of.due),
                of.id.to_string(),
                format!("{}/{}", of.topic, of.event_subscription),
                of.events.to_string(),
                of.delivery_attempts.to_string(),
                or_dash(outcome),
            ]
        }
        Parked::Unreadable(one) => [
            one.due.to_string(),
            one.id.to_string(),
            format!("{}/{}", one.topic, one.event_subscription),
            "-".to_owned(),
            "-".to_owned(),
            one.problem.clone(),
        ],
    };
    let mut rows: Vec<_> = found.iter().map(row).collect();
    rows.sort_by(|one, other| one[0].cmp(&other[0]));
    output::table(["DUE", "ID", "WHOSE", "EVENTS", "ATTEMPTS", "LAST OUTCOME"], rows)
}

#[cfg(test)]
mod tests {
    use gridpost_ops::testkit::{
        FakeApi,
        documents::{topic, waiting_delivery},
    };
    use serde_json::{Value, json};

    use super::*;
    use crate::target::TargetArguments;

    fn parked(patch: &Value) -> Parked {
        serde_json::from_value(waiting_delivery(patch)).expect("a delivery")
    }

    #[test]
    fn what_is_due_first_stands_first() {
        let one = |day: u32| {
            parked(&json!({"due": format!("2026-01-0{day}T00:00:00Z"), "topic": "t",
                "eventSubscription": "s", "deliveryAttempts": 2, "lastDeliveryOutcome": "Busy"}))
        };
        let text = list(&[one(2), one(1)]);
        assert_eq!((list(&[]), results(&[])), (NONE.to_owned(), NONE.to_owned()));
        let lines: Vec<_> = text.lines().skip(1).collect();
        assert!(lines[0].starts_with("2026-01-01") && lines[1].starts_with("2026-01-02"), "{text}");
        assert!(lines[0].ends_with("t/s    1       2         Busy"), "{text}");
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
        let found = [2, 3].map(|events| parked(&json!({ "events": events })));
        let told = consent(&found);
        assert!(told.starts_with("This ends 2 parked deliveries with 5 events"), "{told}");
        assert!(told.ends_with("Repeat with --yes."), "{told}");
    }

    #[test]
    fn what_was_not_found_makes_the_command_fail() {
        let released = || Handled {
            id: "a".to_owned(),
            result: "Released".to_owned(),
            message: None,
            is_done: true,
        };
        let report = |ids: &[&str], done, end| {
            let ids = Some(ids.iter().map(|id| (*id).to_owned()).collect());
            let input = ParkedInput { ids, ..ParkedInput::default() };
            report(Output::new(true), &input, done, end)
        };
        assert!(report(&["a"], vec![released()], Ok(())).is_ok());
        let left = report(&["a", "b"], vec![released()], Ok(())).expect_err("left");
        assert_eq!(left.to_string(), "1 of 2 deliveries were not handled");
        // A later request fails: the results are printed, and nothing is called missing.
        let failed = || Err(anyhow::anyhow!("503"));
        let told = report(&["a", "b"], vec![released()], failed()).expect_err("failed");
        assert_eq!(format!("{told:#}"), "1 of 1 deliveries were handled, then it failed: 503");
        let told = report(&["a", "b"], Vec::new(), failed()).expect_err("failed");
        assert_eq!(format!("{told:#}"), "503");
    }

    #[test]
    fn what_has_ended_is_done_too() {
        let of = |result| {
            let id = uuid::Uuid::nil();
            Handled::of(HandledDelivery { id, result, message: None }, ParkedResult::Released)
        };
        let table = [
            (ParkedResult::Released, true),
            (ParkedResult::AlreadyDelivered, true),
            (ParkedResult::AlreadyEnded, true),
            (ParkedResult::Canceled, false),
            (ParkedResult::Refused, false),
        ];
        for (result, want) in table {
            assert_eq!(of(result).is_done, want, "{result}");
        }
    }

    #[tokio::test]
    async fn a_failure_half_way_fails_the_command_behind_what_was_done() {
        let id = "00000000-0000-0000-0000-000000000001";
        let first = json!({"value": [{"id": id, "result": "Canceled"}],
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
