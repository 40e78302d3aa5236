//! `gridpost wait`: until so many events were delivered or dead-lettered, for scripts.

use std::time::Duration;

use anyhow::Context;
use clap::{ArgGroup, Args};
use gridpost_core::name;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tokio::time::{Instant, sleep};

use crate::target::Common;
use gridpost_ops::{
    failure::{Misuse, SoFar},
    given::{TimeSpan, count_in},
    http_client,
    lookup::check_exists,
};
use gridpost_stack::demonstration::own;

const POLL: Duration = Duration::from_millis(50);

/// What to wait for. Events are counted since `gridpost dev` was started; one that is delivered twice
/// counts twice.
#[derive(Args, Debug)]
#[command(group(
    ArgGroup::new("until").required(true).multiple(true).args(["delivered", "dead_lettered"])
))]
pub struct WaitArguments {
    /// Events of this topic
    #[arg(long, value_name = "NAME")]
    topic: String,

    /// Only those for this event subscription; without it, an event counts once for each event subscription,
    /// except those of the demonstration
    #[arg(long, visible_alias = "name", value_name = "NAME")]
    subscription: Option<String>,

    /// Until at least this many were delivered
    #[arg(long, value_name = "COUNT", value_parser = count_in::<u64>(..))]
    delivered: Option<u64>,

    /// Until at least this many are in dead letters
    #[arg(long, value_name = "COUNT", value_parser = count_in::<u64>(..))]
    dead_lettered: Option<u64>,

    /// Give up after this time: 500ms, 30s, 10m. Exit code 3
    #[arg(long, value_name = "TIME", default_value = "30s")]
    timeout: TimeSpan,
}

/// Events that have ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Counted {
    delivered: u64,
    dead_lettered: u64,
    dropped: u64,
}

/// The answer of `gridpost dev` to `/dev/counts`.
#[derive(Debug, Deserialize)]
struct Counts {
    value: Vec<OfSubscription>,
}

/// The counts of one event subscription.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct OfSubscription {
    topic: String,
    event_subscription: String,
    #[serde(flatten)]
    counted: Counted,
}

/// What `--json` prints.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Document<'a> {
    topic: &'a str,
    event_subscription: Option<&'a str>,
    #[serde(flatten)]
    counted: Counted,
}

/// Fails with [`SoFar`] when the time is up; [`Misuse`] where `gridpost dev` does not run, or a
/// name does not exist by then.
pub async fn run(arguments: &WaitArguments, common: &Common) -> anyhow::Result<()> {
    let target = common.target.resolve()?;
    let url = target.manage_url().filter(|url| http_client::is_loopback(url));
    let url = url.ok_or_else(not_dev)?.trim_end_matches('/');
    let http = target.http_client(url)?;
    let api = target.manage_api().await?;
    let url = format!("{url}/dev/counts");
    let last_look = Instant::now() + arguments.timeout.0;
    loop {
        let answer = http.get(&url).send().await;
        let answer = answer.with_context(|| format!("GET {url} got no answer"))?;
        if !answer.status().is_success() {
            return Err(not_dev().into());
        }
        let counts: Counts = answer.json().await.map_err(|_| not_dev())?;
        let counted = arguments.count(&counts);
        if arguments.is_reached(counted) {
            common.output.print(&arguments.document(counted), |_| arguments.describe(counted));
            return Ok(());
        }
        if Instant::now() >= last_look {
            // A misspelt name looks like a loss; one may also be made while this waits.
            check_exists(&api, Some(&arguments.topic), arguments.subscription.as_deref()).await?;
            return Err(arguments.not_in_time(counted).into());
        }
        sleep(POLL).await;
    }
}

fn not_dev() -> Misuse {
    Misuse(
        "this waits for `gridpost dev`, which does not run here; on AWS and on `gridpost up` use \
         `gridpost audit --wait SECONDS`"
            .to_owned(),
    )
}

impl WaitArguments {
    fn count(&self, counts: &Counts) -> Counted {
        let mut sum = Counted::default();
        for OfSubscription { topic, event_subscription, counted } in &counts.value {
            let is_wanted = match &self.subscription {
                Some(wanted) => name::is_same(wanted, event_subscription),
                // No script has published the demonstration's events.
                None => !own::is_own(&self.topic, event_subscription),
            };
            if is_wanted && name::is_same(topic, &self.topic) {
                sum.delivered += counted.delivered;
                sum.dead_lettered += counted.dead_lettered;
                sum.dropped += counted.dropped;
            }
        }
        sum
    }

    fn is_reached(&self, counted: Counted) -> bool {
        self.delivered.is_none_or(|wanted| counted.delivered >= wanted)
            && self.dead_lettered.is_none_or(|wanted| counted.dead_lettered >= wanted)
    }

    fn document(&self, counted: Counted) -> Document<'_> {
        let (topic, event_subscription) = (&self.topic, self.subscription.as_deref());
        Document { topic, event_subscription, counted }
    }

    fn not_in_time(&self, counted: Counted) -> SoFar {
        let (waited, described) = (self.timeout.0.as_secs_f64(), self.describe(counted));
        let members = match serde_json::to_value(self.document(counted)) {
            Ok(Value::Object(members)) => members,
            _ => Map::new(),
        };
        SoFar { message: format!("not after {waited} s: {described}"), members }
    }

    fn describe(&self, counted: Counted) -> String {
        let of = |count, wanted: Option<u64>| match wanted {
            Some(wanted) if count <= wanted => format!("{count} of {wanted}"),
            Some(wanted) => format!("{count} (at least {wanted} waited for)"),
            None => format!("{count}"),
        };
        format!(
            "{} delivered, {} dead-lettered, {} dropped",
            of(counted.delivered, self.delivered),
            of(counted.dead_lettered, self.dead_lettered),
            counted.dropped,
        )
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn wait_table() {
        let counts = json!({"value": [
            {"topic": "a", "eventSubscription": "x", "delivered": 2, "deadLettered": 1, "dropped": 0},
            {"topic": "a", "eventSubscription": "y", "delivered": 3, "deadLettered": 0, "dropped": 4},
            {"topic": "b", "eventSubscription": "x", "delivered": 9, "deadLettered": 9, "dropped": 9},
            {"topic": "demo", "eventSubscription": "demonstration-delivered", "delivered": 1,
                "deadLettered": 0, "dropped": 0},
        ]});
        let counts = serde_json::from_value(counts).expect("counts");
        let counted =
            |delivered, dead_lettered, dropped| Counted { delivered, dead_lettered, dropped };
        // (topic, event subscription, --delivered, --dead-lettered, what is counted, reached)
        let table = [
            ("a", None, Some(5), None, counted(5, 1, 4), true),
            ("a", None, Some(6), None, counted(5, 1, 4), false),
            ("a", None, Some(5), Some(2), counted(5, 1, 4), false),
            ("a", Some("x"), None, Some(1), counted(2, 1, 0), true),
            ("a", Some("z"), Some(0), None, counted(0, 0, 0), true),
            ("c", None, Some(1), None, counted(0, 0, 0), false),
            ("demo", None, Some(1), None, counted(0, 0, 0), false),
            ("demo", Some("demonstration-delivered"), Some(1), None, counted(1, 0, 0), true),
        ];
        for (topic, subscription, delivered, dead_lettered, want, reached) in table {
            let arguments = WaitArguments {
                topic: topic.to_owned(),
                subscription: subscription.map(str::to_owned),
                delivered,
                dead_lettered,
                timeout: TimeSpan(Duration::ZERO),
            };
            let got = arguments.count(&counts);
            assert_eq!((got, arguments.is_reached(got)), (want, reached), "{arguments:?}");
            let late = arguments.not_in_time(got);
            assert!(late.message.starts_with("not after 0 s: "), "{}", late.message);
            assert_eq!(late.members["delivered"], json!(want.delivered));
            assert_eq!(late.members["deadLettered"], json!(want.dead_lettered));
        }
    }
}
