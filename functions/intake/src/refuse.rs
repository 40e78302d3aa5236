//! Moves messages for which a retry can't help to the source's poison queue.

use gridpost_core::{
    delivery::queue::Queue, error::chain, intake::Unmappable, metric, publish::PublishError,
};
use gridpost_ports::{Outgoing, SourceMessage};

use crate::Context;

/// Why a message is refused.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Refusal {
    #[error(transparent)]
    Unmappable(Unmappable),
    #[error(transparent)]
    Publish(PublishError),
}

impl Refusal {
    fn reason(&self) -> &'static str {
        match self {
            Self::Unmappable(_) => "Unmappable",
            Self::Publish(error) => error.detail(),
        }
    }
}

/// Moves messages unchanged to the source's poison queue, from where they can be sent back. Returns
/// the ids of those that could not be moved.
///
/// The deployment's poison queue would be wrong: an operator may send its messages back, which are
/// then read as Gridpost's own, and these texts are untrusted.
pub(crate) async fn refuse<'m>(
    context: &Context,
    refused: impl Iterator<Item = (&'m SourceMessage, Refusal)>,
) -> Vec<String> {
    let refused: Vec<_> = refused.collect();
    if refused.is_empty() {
        return Vec::new();
    }
    let message = |(message, _): &(&SourceMessage, Refusal)| Outgoing {
        body: message.body.clone(),
        group: "refused".to_owned(),
        delay_s: 0,
    };
    let outgoing = refused.iter().map(message).collect();
    let mut answers = context.sender.send(Queue::Poison, outgoing).await.into_iter();
    let mut kept = Vec::new();
    for (message, why) in &refused {
        let id = &message.message_id;
        let reason = why.reason();
        let (source, topic) = (&context.source.name, &context.source.topic);
        match answers.next() {
            Some(Ok(())) => {
                context.meter.count(metric::SOURCE_REFUSED_COUNT, &[("Reason", reason)], 1);
                tracing::error!(
                    source, topic.name = topic, message.id = %id, reason, error = %chain(why),
                    "a message of a source was refused and is in the source's poison queue",
                );
            }
            failed => {
                let error = failed.and_then(Result::err).map(|error| error.to_string());
                tracing::error!(
                    source, topic.name = topic, message.id = %id, reason, error = %chain(why),
                    poison = error.as_deref().unwrap_or("no answer came"),
                    "a message of a source was refused, could not be moved to the poison queue, and comes back",
                );
                context.count_kept();
                kept.push(id.to_string());
            }
        }
    }
    kept
}
