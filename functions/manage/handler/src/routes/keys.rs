//! A topic's access keys.

use gridpost_core::topic::resource;
use gridpost_ports::Saved;
use serde_json::Value;

use super::{Answer, topics};
use crate::{Context, Reply, TRIES_MAX};

/// Both keys.
pub(super) async fn list(context: &Context, topic: &str) -> Answer {
    Ok(Reply::ok(resource::write_keys(&topics::existing(context, topic).await?)))
}

/// Replaces one key; the other stays valid, so that publishers can be moved over.
pub(super) async fn regenerate(context: &Context, name: &str, document: &Value) -> Answer {
    let index = resource::read_key_name(document)?;
    let key = topics::new_key(context.dice.as_ref());
    for _ in 0..TRIES_MAX {
        let mut topic = topics::existing(context, name).await?;
        topic.keys[index] = key.clone();
        if context.topics.save(&topic).await? == Saved::Conflict {
            context.back_off().await;
            continue;
        }
        tracing::info!(topic.name = %name, "key {} of topic {name} regenerated", index + 1);
        context.until_seen().await;
        return Ok(Reply::ok(resource::write_keys(&topic)));
    }
    Err(Reply::too_many_changes())
}
