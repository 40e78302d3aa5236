//! The second step: loads a group's event subscription and the states of its deliveries. The
//! endpoint's health comes later, from the cache in [`health`](crate::health).

use futures::future::{join, join_all};
use gridpost_core::delivery::{queue::Queue, state::DeliveryState};
use gridpost_ports::{
    Result,
    configuration::{Owner, SubscriptionLookup},
};

use crate::{
    Context,
    loaded::{Received, SettledRecord},
};

/// A group with everything that was read for it.
pub struct Loaded {
    /// `None` if the event subscription was deleted.
    pub owner: Option<Owner>,
    pub received: Vec<Received>,
    /// Deliveries whose state could not be read.
    pub failed: Vec<SettledRecord>,
}

/// Loads a group. Fails if the configuration can't be read.
pub async fn load(context: &Context, group: Vec<Received>) -> Result<Loaded> {
    let (owner, states) = {
        let states = join_all(group.iter().map(|received| state(context, received)));
        join(owner(context, &group), states).await
    };
    let owner = owner?;
    let mut loaded = Loaded { owner, received: Vec::new(), failed: Vec::new() };
    for (received, state) in group.into_iter().zip(states) {
        match state {
            Ok(state) => loaded.received.push(Received { state, ..received }),
            Err(error) => loaded.failed.push((received.record, Err(error))),
        }
    }
    Ok(loaded)
}

/// Reads the state of a delivery, unless this is its first receipt from the dispatch queue: nothing
/// was attempted before.
async fn state(context: &Context, received: &Received) -> Result<Option<DeliveryState>> {
    let Received { record, delivery, .. } = received;
    if record.queue == Queue::Dispatch && record.receive_count <= 1 {
        return Ok(None);
    }
    context.states.load(delivery.id).await
}

/// Reads the event subscription of a group, no earlier than its newest delivery was received.
async fn owner(context: &Context, group: &[Received]) -> Result<Option<Owner>> {
    let newest = group.iter().map(|received| received.delivery.revision).max();
    let received_at = group.iter().map(|received| received.record.received_at).max();
    let Some(((revision, received_at), first)) = newest.zip(received_at).zip(group.first()) else {
        return Ok(None);
    };
    let (key, uid) = (&first.delivery.subscription, first.delivery.subscription_uid);
    let wanted = SubscriptionLookup { key, uid, revision, received_at };
    context.configuration.subscription(wanted).await
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use gridpost_core::{
        delivery::{Delivery, queue::Queue},
        time::Timestamp,
        topic::Revision,
    };
    use gridpost_ports::Record;

    use crate::{
        Context,
        fixture_for_tests::{Fixture, NOW, delivery},
        handler::handle,
    };

    /// Lets the same copy of dispatch receive new deliveries. Returns how many it keeps.
    async fn receive(
        context: &Context,
        fixture: &Fixture,
        deliveries: &[Delivery],
        receive_count: u32,
    ) -> usize {
        let queues = &fixture.deployment.queues;
        let record = |delivery: &Delivery| Record {
            receive_count,
            ..queues.hand(Queue::Dispatch, delivery.encode()).record(Queue::Dispatch)
        };
        let records = deliveries.iter().map(record).collect();
        handle(context, records, NOW + Duration::from_secs(200)).await.len()
    }

    /// A copy of dispatch had attempted it and died before its message was deleted.
    #[tokio::test(start_paused = true)]
    async fn from_its_second_receipt_on_a_message_may_have_a_state() {
        for (receive_count, requests) in [(1, 2), (2, 1), (3, 1)] {
            let mut fixture = Fixture::new(None);
            fixture.status = 500;
            assert!(fixture.receive(Queue::Dispatch, &[delivery(7)]).await.is_empty());
            let kept = receive(&fixture.context(), &fixture, &[delivery(7)], receive_count).await;
            assert_eq!((kept, fixture.requests()), (0, requests), "receipt {receive_count}");
        }
    }

    fn revision(fixture: &Fixture) -> Revision {
        fixture.deployment.tables.stored_topics()[0].at()
    }

    /// The event subscription was paused between their publishes, which this copy has not read yet. The
    /// newest delivery's configuration serves the older ones, too.
    #[tokio::test(start_paused = true)]
    async fn deliveries_of_several_revisions_go_by_the_newest() {
        let fixture = Fixture::new(None);
        fixture.receive(Queue::Dispatch, &[delivery(1)]).await;
        let of = |number, revision| {
            let mut one = delivery(number);
            one.revision = revision;
            one
        };
        let (context, before) = (fixture.context(), revision(&fixture));
        assert_eq!(receive(&context, &fixture, &[of(2, before)], 1).await, 0);
        assert_eq!(fixture.requests(), 2, "this copy has it in memory");
        let since = Timestamp::from_millis(NOW.as_millis() - 60_000);
        fixture.deployment.tables.change(&fixture.subscription.key, |subscription| {
            subscription.pauses =
                subscription.pauses.paused(false, None, since).expect("it may be");
        });
        let after = revision(&fixture);
        assert!(after > before);
        for order in [[(3, before), (4, after)], [(6, after), (5, before)]] {
            let both = order.map(|(number, revision)| of(number, revision));
            assert_eq!(receive(&context, &fixture, &both, 1).await, 0);
            assert_eq!(fixture.requests(), 2, "both are held");
        }
    }
}
