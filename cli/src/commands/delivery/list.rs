//! `gridpost delivery list`: the deliveries that have failed and not ended, no more of them than are shown.

use std::ops::ControlFlow;

use futures::{StreamExt, TryStreamExt, stream};
use serde_json::{Value, json};

use crate::{
    commands::{Scope, SubscriptionArgs},
    output::{self, text_at},
};
use gridpost_ops::{
    lookup::{if_there, spelled},
    manage_api::ManageApi,
};

/// Event subscriptions whose deliveries are read at the same time.
const AT_ONCE: usize = 8;

pub(super) struct Chosen {
    pub(super) scope: Scope,
    pub(super) outcome: Option<String>,
    pub(super) limit: usize,
}

pub(super) struct Found {
    deliveries: Vec<Value>,
    more: More,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum More {
    Nothing,
    Count {
        deliveries: u64,
        is_exact: bool,
    },
    /// Some: only those that were read could be chosen by their outcome.
    Some,
}

impl Found {
    pub(super) fn document(&self) -> Value {
        let mut document =
            json!({"value": self.deliveries, "isComplete": self.more == More::Nothing});
        if let More::Count { deliveries, is_exact } = self.more {
            document["more"] = json!({"count": deliveries, "isComplete": is_exact});
        }
        document
    }

    pub(super) fn text(&self, of_several: bool) -> String {
        let text = list(&self.deliveries, of_several);
        let more = match self.more {
            More::Nothing => return text,
            More::Count { deliveries, is_exact: true } => format!("{deliveries} more are"),
            More::Count { deliveries, .. } => format!("over {deliveries} more are"),
            More::Some => "more are".to_owned(),
        };
        let next = 10 * self.deliveries.len().max(1);
        format!("{text}\n{more} not shown: --limit {next} shows up to {next}")
    }
}

/// An event subscription of which deliveries wait; how many, where that is known already.
struct Waits {
    of: SubscriptionArgs,
    health: Option<Value>,
}

/// Those of the event subscriptions that are chosen, whose last outcome is the chosen one, by publish time.
/// No more is read than is shown, but for those of other outcomes.
pub(super) async fn found(api: &ManageApi, chosen: &Chosen) -> anyhow::Result<Found> {
    let whose = whose(api, chosen).await?;
    let names: Vec<_> = whose.iter().map(|one| one.of.clone()).collect();
    let of_one = async |of: SubscriptionArgs| first(api, &of, chosen).await;
    let mut lists = stream::iter(names).map(of_one).buffered(AT_ONCE);
    let (mut deliveries, mut is_whole) = (Vec::new(), true);
    while let Some((some, is_all)) = lists.try_next().await? {
        deliveries.extend(some);
        deliveries
            .sort_by(|one, other| text_at(one, "/publishTime").cmp(text_at(other, "/publishTime")));
        is_whole &= is_all && deliveries.len() <= chosen.limit;
        deliveries.truncate(chosen.limit);
    }
    let more = match (is_whole, &chosen.outcome) {
        (true, _) => More::Nothing,
        (false, Some(_)) => More::Some,
        (false, None) => rest(api, &whose, deliveries.len() as u64).await?,
    };
    Ok(Found { deliveries, more })
}

/// The first deliveries of an event subscription, and whether these are all.
async fn first(
    api: &ManageApi,
    of: &SubscriptionArgs,
    chosen: &Chosen,
) -> anyhow::Result<(Vec<Value>, bool)> {
    let mut found = Vec::new();
    let take = |delivery: &Value| {
        let last = delivery["lastDeliveryOutcome"].as_str();
        if chosen.outcome.is_some() && chosen.outcome.as_deref() != last {
            return ControlFlow::Continue(());
        }
        if found.len() == chosen.limit {
            return ControlFlow::Break(());
        }
        let mut one = delivery.clone();
        one["topic"] = json!(of.topic);
        one["eventSubscription"] = json!(of.subscription);
        found.push(one);
        ControlFlow::Continue(())
    };
    let read = api.deliveries_while(&of.topic, &of.subscription, take).await;
    let is_all = match chosen.scope.subscription {
        Some(_) => read?,
        // One that was deleted just now has none.
        None => if_there(read)?.unwrap_or(true),
    };
    Ok((found, is_all))
}

async fn rest(api: &ManageApi, whose: &[Waits], shown: u64) -> anyhow::Result<More> {
    let (mut sum, mut is_exact) = (0, true);
    for Waits { of, health } in whose {
        let health = match health {
            Some(health) => health.clone(),
            None => if_there(api.health(&of.topic, &of.subscription).await)?.unwrap_or_default(),
        };
        sum += health.pointer("/waitingDeliveries/count").and_then(Value::as_u64).unwrap_or(0);
        is_exact &= health.pointer("/waitingDeliveries/isComplete") != Some(&Value::Bool(false));
    }
    // What came after it was counted is at least one.
    Ok(More::Count { deliveries: sum.saturating_sub(shown).max(1), is_exact })
}

async fn whose(api: &ManageApi, chosen: &Chosen) -> anyhow::Result<Vec<Waits>> {
    let topic = chosen.scope.topic.as_ref();
    if let (Some(topic), Some(subscription)) = (topic, &chosen.scope.subscription) {
        let of = SubscriptionArgs::named(api, topic, subscription).await;
        return Ok(vec![Waits { of, health: None }]);
    }
    let topics = match topic {
        Some(topic) => vec![spelled(api, topic).await],
        None => api.topics().await?.iter().map(|one| text_at(one, "/name").to_owned()).collect(),
    };
    let mut found = Vec::new();
    for name in topics {
        let all = api.healths(&name).await;
        // It may have been deleted since the topics were listed.
        let all = if topic.is_some() { Some(all?) } else { if_there(all)? };
        for mut one in all.unwrap_or_default() {
            let health = one["health"].take();
            if health.pointer("/waitingDeliveries/count") != Some(&json!(0)) {
                let subscription = text_at(&one, "/name").to_owned();
                let of = SubscriptionArgs { topic: name.clone(), subscription };
                found.push(Waits { of, health: Some(health) });
            }
        }
    }
    Ok(found)
}

fn list(found: &[Value], of_several: bool) -> String {
    if found.is_empty() {
        return "No failing deliveries are waiting.".to_owned();
    }
    let head = ["PUBLISHED", "ID", "EVENTS", "ATTEMPTS", "LAST OUTCOME", "DUE"].map(str::to_owned);
    let row = |one: &Value| {
        let at = |pointer| text_at(one, pointer).to_owned();
        let due = match at("/status").as_str() {
            "Waiting" => at("/due"),
            other => other.to_owned(),
        };
        let counts = ["events", "deliveryAttempts"].map(|name| one[name].to_string());
        let [events, attempts] = counts;
        [at("/publishTime"), at("/id"), events, attempts, outcome(one), due]
    };
    let rows: Vec<_> = std::iter::once(head).chain(found.iter().map(row)).collect();
    if !of_several {
        return output::columns(&rows);
    }
    let names = found
        .iter()
        .map(|one| format!("{}/{}", text_at(one, "/topic"), text_at(one, "/eventSubscription")));
    let whose = std::iter::once("WHOSE".to_owned()).chain(names);
    let rows = rows.into_iter().zip(whose).map(|(row, whose)| {
        let [published, id, events, attempts, outcome, due] = row;
        [published, id, whose, events, attempts, outcome, due]
    });
    output::columns(&rows.collect::<Vec<_>>())
}

fn outcome(delivery: &Value) -> String {
    let outcome = text_at(delivery, "/lastDeliveryOutcome");
    match delivery["lastHttpStatusCode"].as_u64() {
        Some(status) => format!("{outcome} ({status})"),
        None => outcome.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gridpost_ops::testkit::FakeApi;

    /// `gone` was deleted after its name was read.
    #[tokio::test]
    async fn all_that_wait_are_listed_with_their_names() {
        let one = |id: &str, published: &str, outcome: &str| {
            json!({"id": id, "publishTime": published, "lastDeliveryOutcome": outcome,
                "events": 1, "deliveryAttempts": 1, "status": "Waiting", "due": "D"})
        };
        let of = |found: Value| json!({ "value": found });
        let names = |names: &[&str]| of(names.iter().map(|name| json!({"name": name})).collect());
        let waits = |count: u64, whole: bool| json!({"waitingDeliveries": {"count": count, "isComplete": whole}});
        let at = |topic: &str, name: &str| {
            format!("GET /topics/{topic}/eventSubscriptions/{name}/deliveries")
        };
        let (a, b, gone) = (at("one", "a"), at("two", "b"), at("two", "gone"));
        let health =
            |name: &str, count, whole| json!({"name": name, "health": waits(count, whole)});
        let api = FakeApi::answering(&[
            (a.as_str(), 200, of(json!([one("1", "T2", "Busy"), one("2", "T4", "TimedOut")]))),
            (b.as_str(), 200, of(json!([one("3", "T1", "Busy"), one("4", "T3", "Busy")]))),
            (gone.as_str(), 404, json!({})),
            ("GET /topics/one/eventSubscriptions/a/health", 200, waits(2, true)),
            // Of `idle` no delivery is asked for: none waits.
            (
                "GET /topics/one/healths",
                200,
                of(json!([health("a", 2, true), health("idle", 0, true)])),
            ),
            (
                "GET /topics/two/healths",
                200,
                of(json!([health("b", 7, false), health("gone", 1, true)])),
            ),
            ("GET /topics ", 200, names(&["one", "two"])),
        ])
        .await;
        let api = ManageApi::connect(&api.url()).await.map(|it| (it, api)).expect("built");
        let counted = |deliveries, is_exact| More::Count { deliveries, is_exact };
        type Row = (
            (Option<&'static str>, Option<&'static str>),
            Option<&'static str>,
            usize,
            &'static [&'static str],
        );
        let table: [(Row, More); 7] = [
            (((None, None), None, 9, &["3", "1", "4", "2"]), More::Nothing),
            (((None, None), None, 4, &["3", "1", "4", "2"]), More::Nothing),
            (((None, None), None, 2, &["3", "1"]), counted(8, false)),
            (((None, None), Some("TimedOut"), 9, &["2"]), More::Nothing),
            (((None, None), Some("Busy"), 1, &["3"]), More::Some),
            (((Some("two"), None), None, 9, &["3", "4"]), More::Nothing),
            (((Some("one"), Some("a")), None, 1, &["1"]), counted(1, true)),
        ];
        for ((whose, outcome, limit, want), more) in table {
            let [topic, subscription, outcome] =
                [whose.0, whose.1, outcome].map(|text| text.map(str::to_owned));
            let chosen = Chosen { scope: Scope { topic, subscription }, outcome, limit };
            let found = found(&api.0, &chosen).await.expect("a list");
            let ids: Vec<_> = found.deliveries.iter().map(|one| text_at(one, "/id")).collect();
            assert_eq!((ids.as_slice(), found.more), (want, more), "{whose:?} {limit}");
            let first = match ids[0] {
                "3" => ("two", "b"),
                _ => ("one", "a"),
            };
            let one = &found.deliveries[0];
            assert_eq!((text_at(one, "/topic"), text_at(one, "/eventSubscription")), first);
            let named = format!("  {}/{}  ", first.0, first.1);
            assert!(found.text(true).contains(&named) && !found.text(false).contains(&named));
            let document = found.document();
            assert_eq!(document["value"].as_array().map(Vec::len), Some(want.len()));
            assert_eq!(document["isComplete"], json!(more == More::Nothing));
            assert_eq!(found.text(true).contains("--limit"), more != More::Nothing);
        }
        let gone = Chosen {
            scope: Scope { topic: Some("two".to_owned()), subscription: Some("gone".to_owned()) },
            outcome: None,
            limit: 1,
        };
        assert!(found(&api.0, &gone).await.is_err(), "it was named");
    }
}
