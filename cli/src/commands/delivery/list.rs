//! `gridpost delivery list`: the deliveries that have failed and not ended, no more of them than are shown.

use std::ops::ControlFlow;

use futures::{StreamExt, TryStreamExt, stream};
use gridpost_api::{
    delivery::{Delivery, DeliveryStatus},
    health::Health,
};
use serde::Serialize;

use crate::{
    commands::{Scope, SubscriptionArgs},
    output,
};
use gridpost_ops::{
    lookup::{if_there, spelled},
    manage_api::ManageApi,
    output::or_dash,
};

/// Event subscriptions whose deliveries are read at the same time.
const AT_ONCE: usize = 8;

pub(super) struct Chosen {
    pub(super) scope: Scope,
    pub(super) outcome: Option<String>,
    pub(super) limit: usize,
}

/// Deliveries that were chosen, and how many more there are.
pub(super) struct Deliveries {
    deliveries: Vec<Listed>,
    more: More,
}

/// A delivery with the names of its event subscription.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Listed {
    #[serde(flatten)]
    delivery: Delivery,
    topic: String,
    event_subscription: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum More {
    Nothing,
    Count {
        deliveries: u64,
        is_exact: bool,
    },
    /// Some: only deliveries that were read could be chosen by their outcome.
    Some,
}

/// What `--json` prints.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Document<'a> {
    value: &'a [Listed],
    is_complete: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    more: Option<MoreCount>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct MoreCount {
    count: u64,
    is_complete: bool,
}

impl Deliveries {
    pub(super) fn document(&self) -> Document<'_> {
        let more = match self.more {
            More::Count { deliveries, is_exact } => {
                Some(MoreCount { count: deliveries, is_complete: is_exact })
            }
            More::Nothing | More::Some => None,
        };
        Document { value: &self.deliveries, is_complete: self.more == More::Nothing, more }
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
    health: Option<Health>,
}

/// Lists the chosen event subscriptions' deliveries whose last outcome is the chosen one, by publish time.
/// No more is read than is shown, except deliveries of other outcomes.
pub(super) async fn find(api: &ManageApi, chosen: &Chosen) -> anyhow::Result<Deliveries> {
    let whose = whose(api, chosen).await?;
    let names: Vec<_> = whose.iter().map(|one| one.of.clone()).collect();
    let of_one = async |of: SubscriptionArgs| first(api, &of, chosen).await;
    let mut lists = stream::iter(names).map(of_one).buffered(AT_ONCE);
    let (mut deliveries, mut is_whole) = (Vec::new(), true);
    while let Some((some, is_all)) = lists.try_next().await? {
        deliveries.extend(some);
        deliveries.sort_by_key(|one: &Listed| one.delivery.publish_time);
        is_whole &= is_all && deliveries.len() <= chosen.limit;
        deliveries.truncate(chosen.limit);
    }
    let more = match (is_whole, &chosen.outcome) {
        (true, _) => More::Nothing,
        (false, Some(_)) => More::Some,
        (false, None) => rest(api, &whose, deliveries.len() as u64).await?,
    };
    Ok(Deliveries { deliveries, more })
}

/// Reads the first deliveries of an event subscription; returns whether these are all.
async fn first(
    api: &ManageApi,
    of: &SubscriptionArgs,
    chosen: &Chosen,
) -> anyhow::Result<(Vec<Listed>, bool)> {
    let mut found = Vec::new();
    let take = |delivery: Delivery| {
        if chosen.outcome.is_some() && chosen.outcome != delivery.last_delivery_outcome {
            return ControlFlow::Continue(());
        }
        if found.len() == chosen.limit {
            return ControlFlow::Break(());
        }
        let (topic, event_subscription) = (of.topic.clone(), of.subscription.clone());
        found.push(Listed { delivery, topic, event_subscription });
        ControlFlow::Continue(())
    };
    let read = api.each_delivery(&of.topic, &of.subscription, take).await;
    let is_all = match chosen.scope.subscription {
        Some(_) => read?,
        // An event subscription that was deleted just now has none.
        None => if_there(read)?.unwrap_or(true),
    };
    Ok((found, is_all))
}

async fn rest(api: &ManageApi, whose: &[Waits], shown: u64) -> anyhow::Result<More> {
    let (mut sum, mut is_exact) = (0, true);
    for Waits { of, health } in whose {
        let health = match health {
            Some(health) => Some(health.clone()),
            None => if_there(api.health(&of.topic, &of.subscription).await)?,
        };
        if let Some(Health { waiting_deliveries: waiting, .. }) = health {
            sum += waiting.count as u64;
            is_exact &= waiting.is_complete;
        }
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
        None => api.topics().await?.into_iter().map(|topic| topic.name).collect(),
    };
    let mut found = Vec::new();
    for name in topics {
        let all = api.healths(&name).await;
        // It may have been deleted since the topics were listed.
        let all = if topic.is_some() { Some(all?) } else { if_there(all)? };
        for one in all.unwrap_or_default() {
            if one.health.waiting_deliveries.count > 0 {
                let of = SubscriptionArgs { topic: name.clone(), subscription: one.name };
                found.push(Waits { of, health: Some(one.health) });
            }
        }
    }
    Ok(found)
}

fn list(found: &[Listed], of_several: bool) -> String {
    if found.is_empty() {
        return "No failing deliveries are waiting.".to_owned();
    }
    let head = ["PUBLISHED", "ID", "EVENTS", "ATTEMPTS", "LAST OUTCOME", "DUE"].map(str::to_owned);
    let row = |Listed { delivery: one, .. }: &Listed| {
        let due = match one.status {
            DeliveryStatus::Waiting => or_dash(one.due),
            other => other.to_string(),
        };
        let (events, attempts) = (one.events.to_string(), one.delivery_attempts.to_string());
        [one.publish_time.to_string(), one.id.to_string(), events, attempts, outcome(one), due]
    };
    let rows: Vec<_> = std::iter::once(head).chain(found.iter().map(row)).collect();
    if !of_several {
        return output::columns(&rows);
    }
    let names = found.iter().map(|one| format!("{}/{}", one.topic, one.event_subscription));
    let whose = std::iter::once("WHOSE".to_owned()).chain(names);
    let rows = rows.into_iter().zip(whose).map(|(row, whose)| {
        let [published, id, events, attempts, outcome, due] = row;
        [published, id, whose, events, attempts, outcome, due]
    });
    output::columns(&rows.collect::<Vec<_>>())
}

fn outcome(delivery: &Delivery) -> String {
    let outcome = or_dash(delivery.last_delivery_outcome.as_ref());
    match delivery.last_http_status_code {
        Some(status) => format!("{outcome} ({status})"),
        None => outcome,
    }
}

#[cfg(test)]
mod tests {
    use gridpost_ops::testkit::{FakeApi, documents};
    use serde_json::{Value, json};

    use super::*;

    /// Ids end with this many zeros and a number.
    fn id(number: u32) -> String {
        format!("00000000-0000-0000-0000-00000000000{number}")
    }

    /// `gone` was deleted after its name was read.
    #[tokio::test]
    async fn all_that_wait_are_listed_with_their_names() {
        let one = |number: u32, hour: u32, outcome: &str| {
            documents::delivery(&json!({"id": id(number), "lastDeliveryOutcome": outcome,
                "publishTime": format!("2026-01-01T0{hour}:00:00Z")}))
        };
        let of = |found: Value| json!({ "value": found });
        let topics = ["one", "two"].map(|name| documents::topic(name, &json!({})));
        let waits = |count: u64, whole: bool| {
            let waiting = json!({"count": count, "isComplete": whole});
            documents::health(&json!({ "waitingDeliveries": waiting }))
        };
        let at = |topic: &str, name: &str| {
            format!("GET /topics/{topic}/eventSubscriptions/{name}/deliveries")
        };
        let (a, b, gone) = (at("one", "a"), at("two", "b"), at("two", "gone"));
        let health =
            |name: &str, count, whole| json!({"name": name, "health": waits(count, whole)});
        let api = FakeApi::answering(&[
            (a.as_str(), 200, of(json!([one(1, 2, "Busy"), one(2, 4, "TimedOut")]))),
            (b.as_str(), 200, of(json!([one(3, 1, "Busy"), one(4, 3, "Busy")]))),
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
            ("GET /topics ", 200, of(json!(topics))),
        ])
        .await;
        let api = ManageApi::connect(&api.url()).await.map(|it| (it, api)).expect("built");
        let counted = |deliveries, is_exact| More::Count { deliveries, is_exact };
        type Row = (
            (Option<&'static str>, Option<&'static str>),
            Option<&'static str>,
            usize,
            &'static [u32],
        );
        let table: [(Row, More); 7] = [
            (((None, None), None, 9, &[3, 1, 4, 2]), More::Nothing),
            (((None, None), None, 4, &[3, 1, 4, 2]), More::Nothing),
            (((None, None), None, 2, &[3, 1]), counted(8, false)),
            (((None, None), Some("TimedOut"), 9, &[2]), More::Nothing),
            (((None, None), Some("Busy"), 1, &[3]), More::Some),
            (((Some("two"), None), None, 9, &[3, 4]), More::Nothing),
            (((Some("one"), Some("a")), None, 1, &[1]), counted(1, true)),
        ];
        for ((whose, outcome, limit, want), more) in table {
            let [topic, subscription, outcome] =
                [whose.0, whose.1, outcome].map(|text| text.map(str::to_owned));
            let chosen = Chosen { scope: Scope { topic, subscription }, outcome, limit };
            let found = find(&api.0, &chosen).await.expect("a list");
            let ids: Vec<_> =
                found.deliveries.iter().map(|one| one.delivery.id.to_string()).collect();
            let wanted: Vec<_> = want.iter().map(|number| id(*number)).collect();
            assert_eq!((ids, found.more), (wanted, more), "{whose:?} {limit}");
            let first = if want[0] == 3 { ("two", "b") } else { ("one", "a") };
            let one = &found.deliveries[0];
            assert_eq!((one.topic.as_str(), one.event_subscription.as_str()), first);
            let named = format!("  {}/{}  ", first.0, first.1);
            assert!(found.text(true).contains(&named) && !found.text(false).contains(&named));
            let document = json!(found.document());
            assert_eq!(document["value"].as_array().map(Vec::len), Some(want.len()));
            assert_eq!(document["isComplete"], json!(more == More::Nothing));
            assert_eq!(found.text(true).contains("--limit"), more != More::Nothing);
        }
        let gone = Chosen {
            scope: Scope { topic: Some("two".to_owned()), subscription: Some("gone".to_owned()) },
            outcome: None,
            limit: 1,
        };
        assert!(find(&api.0, &gone).await.is_err(), "it was named");
    }
}
