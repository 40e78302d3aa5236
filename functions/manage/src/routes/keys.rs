//! A topic's access keys.

use gridpost_core::topic::{AccessKeys, resource};
use gridpost_ports::Saved;
use serde_json::Value;

use super::{Answer, topics};
use crate::{Context, Reply, TRIES_MAX};

/// Both keys.
pub(super) async fn list(context: &Context, topic: &str) -> Answer {
    topics::existing(context, topic).await?;
    Ok(Reply::ok(resource::write_keys(&stored(context, topic).await?)))
}

/// Replaces one key; the other stays valid, so that publishers can be moved over.
pub(super) async fn regenerate(context: &Context, name: &str, document: &Value) -> Answer {
    let index = resource::read_key_name(document)?;
    let key = topics::new_key(context.dice.as_ref());
    for _ in 0..TRIES_MAX {
        // The topic first: if the keys change after that, it changes too.
        let topic = topics::existing(context, name).await?;
        let mut keys = stored(context, name).await?;
        keys.0[index] = key.clone();
        if context.topics.save(&topic, Some(&keys)).await? == Saved::Conflict {
            context.back_off().await;
            continue;
        }
        tracing::info!(topic.name = %name, "key {} of topic {name} regenerated", index + 1);
        context.until_seen().await;
        return Ok(Reply::ok(resource::write_keys(&keys)));
    }
    Err(Reply::too_many_changes())
}

/// The keys of a topic that is there.
async fn stored(context: &Context, topic: &str) -> Result<AccessKeys, Reply> {
    let found = context.keys.keys(topic).await?;
    found.map(|(keys, _)| keys).ok_or_else(|| Reply::no_topic(topic))
}
