//! Messages that no repetition would take in.

use gridpost_core::{
    delivery::queue::Queue, error::chain, intake::Unmappable, metric, publish::PublishError,
};
use gridpost_ports::{Outgoing, SourceMessage};

use crate::Context;

/// The fair-queue group of refused messages: their queue has no others.
const GROUP: &str = "refused";

/// Why a message is not taken in.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Refusal {
    /// It does not have its source's form.
    #[error(transparent)]
    Unmappable(Unmappable),
    /// The topic does not take its events.
    #[error(transparent)]
    Publish(PublishError),
}

impl Refusal {
    /// The dimension of the count.
    fn reason(&self) -> &'static str {
        match self {
            Self::Unmappable(_) => "Unmappable",
            Self::Publish(error) => error.detail(),
        }
    }
}

/// Moves messages as they came to the source's poison queue, from where they can be sent back; answers
/// which are kept because they could not be moved.
///
/// That queue is the source's own, not the deployment's: what lies there is read as Gridpost's messages
/// when an operator sends it back, and these texts are strangers'.
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
        group: GROUP.to_owned(),
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
