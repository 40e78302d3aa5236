//! Prints warnings beside an event subscription's document, and that its endpoint has yet to
//! consent.

use clap::Args;
use gridpost_api::subscription::EventSubscription;
use gridpost_ops::{
    failure::Unfinished,
    manage_api::ManageApi,
    subscription::{
        show::awaited,
        warnings::{self, unmatched},
    },
};

/// What becomes of the exit code while the endpoint has yet to consent.
#[derive(Args, Clone, Copy, Debug)]
pub struct ConsentFlags {
    /// Exit with 0 although the endpoint has yet to consent, by the validation URL that it was sent
    #[arg(long)]
    no_wait: bool,
}

impl ConsentFlags {
    /// Fails with [`Unfinished`] while an endpoint's consent is awaited, saying why and what is to be
    /// done, unless that is to count as done.
    pub fn check(self, awaited: impl IntoIterator<Item = String>) -> Result<(), Unfinished> {
        let awaited: Vec<_> = awaited.into_iter().collect();
        match awaited.is_empty() || self.no_wait {
            true => Ok(()),
            false => Err(Unfinished(format!(
                "{}\n--no-wait exits with 0 all the same.",
                awaited.join("\n")
            ))),
        }
    }

    /// Checks the document of one event subscription.
    pub fn check_one(self, subscription: &EventSubscription) -> Result<(), Unfinished> {
        self.check(awaited(subscription))
    }
}

/// Prints what finds nothing in the events of its topic. A topic that can't be read has no warnings.
pub(super) async fn warn_of_unmatched(api: &ManageApi, subscription: &EventSubscription) {
    let topic = subscription.properties.topic.trim_start_matches("/topics/");
    if let Ok(topic) = api.topic(topic).await {
        warnings::print(unmatched(&topic.document, subscription));
    }
}
