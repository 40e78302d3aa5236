//! Event subscriptions that are paused and resumed.

use std::time::Duration;

use anyhow::ensure;
use serde_json::json;
use tokio::time::sleep;

use crate::e2e::{
    fixture::{EVENT_GRID, Fixture, SOON},
    receiver::{Reply, describe},
};

/// A copy of dispatch may work by what it knew before the pause for so long.
const HEARD: Duration = Duration::from_secs(11);

/// wake's next run, and what its messages and a busy machine take.
const RESUMED: Duration = Duration::from_secs(60 + 30);

/// Deliveries that come during a pause are accepted, held and seen, and nothing is attempted. A
/// change of the document does not end the pause; a resumption brings everything back within about
/// a minute.
pub async fn what_a_pause_holds_comes_back(fixture: &Fixture) -> anyhow::Result<()> {
    let topic = fixture.topic("paused", EVENT_GRID).await?;
    let endpoint = topic.subscribe("all", &[Reply::prompt(200)], json!({})).await?;
    topic.publish(&[topic.plain_event("before")]).await?;
    endpoint.wait_for(1, SOON).await?;

    let pause = fixture.api.pause(&topic.name, "all", false).await?;
    ensure!(pause["isPaused"] == true && pause["holdsBy"].is_string(), "{pause}");
    sleep(HEARD).await;
    topic.publish(&[topic.plain_event("first"), topic.plain_event("second")]).await?;
    let labels = json!({"properties": {"labels": ["changed"]}});
    fixture.api.patch_subscription(&topic.name, "all", &labels).await?;
    topic.publish(&[topic.plain_event("third")]).await?;
    sleep(SOON / 2).await;
    let seen = endpoint.deliveries();
    ensure!(seen.len() == 1, "attempted during a pause: {}", describe(&seen));
    let health = fixture.api.health(&topic.name, "all").await?;
    let since = &health["pause"]["since"];
    ensure!(health["newEvents"] == "Held" && *since == pause["since"], "{health}");
    ensure!(health["state"] == "Healthy", "{health}");

    let resumed = fixture.api.resume(&topic.name, "all").await?;
    ensure!(resumed["isPaused"] == false && resumed["resumedTime"].is_string(), "{resumed}");
    let attempts = endpoint
        .wait_until("what was held", RESUMED, |arrivals| {
            arrivals.iter().map(|arrival| arrival.ids().len()).sum::<usize>() >= 4
        })
        .await?;
    let mut ids: Vec<_> = attempts.iter().flat_map(|attempt| attempt.ids()).collect();
    ids.sort_unstable();
    ensure!(ids == ["before", "first", "second", "third"], "{}", describe(&attempts));
    Ok(())
}
