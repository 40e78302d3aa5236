use std::time::Duration;

use gridpost_core::{
    delivery::{Delivery, queue::Queue},
    time::Timestamp,
    topic::Revision,
};
use gridpost_ports::Record;

use crate::{
    Context,
    handler::handle,
    world::{NOW, World, delivery},
};

/// Lets a copy of dispatch, whose memory it has, receive new deliveries. Returns how many it keeps.
async fn receive(
    context: &Context,
    world: &World,
    deliveries: &[Delivery],
    receive_count: u32,
) -> usize {
    let queues = &world.deployment.queues;
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
        let mut world = World::new(None);
        world.status = 500;
        assert!(world.receive(Queue::Dispatch, &[delivery(7)]).await.is_empty());
        let kept = receive(&world.context(), &world, &[delivery(7)], receive_count).await;
        assert_eq!((kept, world.requests()), (0, requests), "receipt {receive_count}");
    }
}

fn revision(world: &World) -> Revision {
    world.deployment.tables.stored_topics()[0].at()
}

/// The event subscription was paused between their publishes, which this copy has not read yet. What
/// serves the newest delivery serves those before it, too.
#[tokio::test(start_paused = true)]
async fn deliveries_of_several_revisions_go_by_the_newest() {
    let world = World::new(None);
    world.receive(Queue::Dispatch, &[delivery(1)]).await;
    let of = |number, revision| {
        let mut one = delivery(number);
        one.revision = revision;
        one
    };
    let (context, before) = (world.context(), revision(&world));
    assert_eq!(receive(&context, &world, &[of(2, before)], 1).await, 0);
    assert_eq!(world.requests(), 2, "this copy has it in memory");
    let since = Timestamp::from_millis(NOW.as_millis() - 60_000);
    world.deployment.tables.change(&world.subscription.key, |subscription| {
        subscription.pauses = subscription.pauses.paused(false, None, since).expect("it may be");
    });
    let after = revision(&world);
    assert!(after > before);
    for order in [[(3, before), (4, after)], [(6, after), (5, before)]] {
        let both = order.map(|(number, revision)| of(number, revision));
        assert_eq!(receive(&context, &world, &both, 1).await, 0);
        assert_eq!(world.requests(), 2, "both are held");
    }
}
