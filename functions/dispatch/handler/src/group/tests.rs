use gridpost_core::{
    delivery::state::{AttemptRecord, Resend},
    retry::{DelayReason, health::Probation, outcome::Answer},
};

use std::time::Duration;

use crate::world::{NOW, World, delivery};
use gridpost_core::{
    delivery::{
        Delivery,
        queue::Queue,
        state::{DeliveryState, DeliveryStatus},
    },
    retry::{attempts::Attempts, outcome::Outcome},
};

/// The state of a delivery that has failed once and is due; asked for, where it is.
fn state(of: &Delivery, resend_requested: bool) -> DeliveryState {
    let answer = Answer::of_status(503, None);
    DeliveryState {
        id: of.id,
        subscription: of.subscription.clone(),
        subscription_uid: of.subscription_uid,
        publish_time: of.publish_time,
        events: 1,
        done: Default::default(),
        attempts: Attempts::default().with(NOW, answer.outcome, answer.status),
        standing: DeliveryStatus::Waiting { due: NOW },
        past: vec![AttemptRecord::of(answer, (NOW, NOW), Some(DelayReason::MinimumDelay))],
        receipt: None,
        redriven_at: None,
        resend: resend_requested.then_some(Resend { at: NOW, was_due: NOW }),
        revision: 0,
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_asked_for_is_attempted_on_probation() {
    for resend_requested in [false, true] {
        let delivery = delivery(7);
        let until = NOW + Duration::from_secs(60);
        let (outcome, status) = (Outcome::Busy, Some(503));
        let world = World::new(None).waits(Probation { since: NOW, until, outcome, status }).await;
        world.knows(&state(&delivery, resend_requested)).await;
        let kept = world.receive(Queue::Retry(0), &[delivery]).await;
        assert_eq!(
            (world.requests(), kept.is_empty()),
            (usize::from(resend_requested), resend_requested)
        );
    }
}
