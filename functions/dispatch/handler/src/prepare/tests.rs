use std::sync::Arc;

use gridpost_core::{
    delivery::state::{AttemptRecord, Resend},
    retry::{DelayReason, outcome::Answer, probation::Wait},
};

use super::*;
use crate::rate::tests::{NOW, World, delivery, record};

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
        revision: 1,
    }
}

#[tokio::test]
async fn what_is_asked_for_is_attempted_on_probation() {
    for resend_requested in [false, true] {
        let mut world = World::new(None);
        let delivery = delivery(7);
        world.state = Some(state(&delivery, resend_requested));
        let until = NOW + Duration::from_secs(60);
        let (outcome, status) = (Outcome::Busy, Some(503));
        world.health.lock().expect("no panic while held").wait =
            Some(Wait { since: NOW, until, outcome, status });
        let world = Arc::new(world);
        let kept = world.receive(vec![record(Queue::Retry(0), &delivery)]).await;
        assert_eq!(
            (world.requests(), kept.is_empty()),
            (usize::from(resend_requested), resend_requested)
        );
    }
}
