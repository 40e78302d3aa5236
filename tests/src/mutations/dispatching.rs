//! Bugs in dispatch, for the simulation to notice.

use super::Mutation;

const IN_HAND: &str = "functions/dispatch/src/in_hand.rs";
const ACQUIRE: &str = "functions/dispatch/src/acquire.rs";
const COUNT: &str = "functions/dispatch/src/count.rs";
const HOLD: &str = "functions/dispatch/src/settle/hold.rs";
const END: &str = "functions/dispatch/src/settle/end.rs";
const SETTLE: &str = "functions/dispatch/src/settle.rs";

/// All of them.
pub(super) const ALL: &[Mutation] = &[
    Mutation {
        name: "whole batch again though part of it was delivered",
        file: SETTLE,
        old: r#"        hand.delivery.done.add_all(&delivered);
"#,
        new: "",
    },
    Mutation {
        name: "state forgets which events of a batch are done with",
        file: IN_HAND,
        old: r#"            done: self.delivery.done.clone(),
"#,
        new: r#"            done: Default::default(),
"#,
    },
    Mutation {
        name: "refused part of a batch counts as delivered",
        file: SETTLE,
        old: r#"        sending.push(end::end_part(context, &hand, part, times.0));
"#,
        new: r#"        let _ = part;
        sending.push(std::future::ready(Ok::<(), PortError>(())));
"#,
    },
    Mutation {
        name: "part of a batch delivered and not counted",
        file: SETTLE,
        old: r#"        count::delivered_part(context, &hand, delivered.len());
"#,
        new: "",
    },
    Mutation {
        name: "delete before send",
        file: HOLD,
        old: r#"    let answers = context.sender.send(queue, messages.clone()).await;
"#,
        new: r#"    let receipts = hands.iter().map(|(hand, _)| hand.record.receipt.to_string()).collect();
    let _ = context.receiver.delete(Queue::Dispatch, receipts).await;
    let answers = context.sender.send(queue, messages.clone()).await;
"#,
    },
    Mutation {
        name: "state written without its condition",
        file: IN_HAND,
        old: "        if !is_asked || (is_behind && !is_answered) {",
        new: "        if (!is_asked || (is_behind && !is_answered)) && stored.id.is_nil() {",
    },
    Mutation {
        name: "an attempt is forgotten beside which another one was asked for",
        file: IN_HAND,
        old: "        if !is_asked || (is_behind && !is_answered) {",
        new: "        if is_asked || is_behind {",
    },
    Mutation {
        name: "attempts counted by receives",
        file: IN_HAND,
        old: r#"        if let Some(state) = &state {
            hand.merge_state(state);
        }
"#,
        new: r#"        if let Some(state) = &state {
            hand.merge_state(state);
        }
        hand.delivery.attempts.made = hand.record.receive_count - 1;
"#,
    },
    Mutation {
        name: "lost probe claim",
        file: ACQUIRE,
        old: r#"        if context.healths.write(hand.subscription(), now, &claim).await? {
"#,
        new: r#"        if context.healths.write(hand.subscription(), now, &claim).await? || true {
"#,
    },
    Mutation {
        name: "a decided end is not carried out again",
        file: SETTLE,
        old: r#"        DeliveryStatus::Ending { reason, at } => end::carry_out(context, hand, reason, at).await,
"#,
        new: r#"        DeliveryStatus::Ending { .. } => Ok(Disposition::Delete),
"#,
    },
    Mutation {
        name: "a state that is behind its message counts",
        file: IN_HAND,
        old: "        self.status = (!is_behind).then_some(state.standing);\n",
        new: "        let _ = is_behind;\n        self.status = Some(state.standing);\n",
    },
    Mutation {
        name: "parked, not deleted",
        file: HOLD,
        old: r#"    context.meter.count(metric::PARKED_COUNT, &[], 1);
    Ok(Disposition::Delete)"#,
        new: r#"    context.meter.count(metric::PARKED_COUNT, &[], 1);
    Ok(Disposition::Keep)"#,
    },
    Mutation {
        name: "deleted, though parking failed",
        file: HOLD,
        old: "    context.parking.park(&parked).await?;",
        new: "    let _ = context.parking.park(&parked).await;",
    },
    Mutation {
        name: "deleted, though sending failed",
        file: HOLD,
        old: r#"            Err(_) => send_one(context, queue, message).await,
"#,
        new: r#"            Err(_) => send_one(context, queue, message).await.or(Ok(())),
"#,
    },
    Mutation {
        name: "the reply names nothing",
        file: "functions/dispatch/src/handler.rs",
        old: "    kept.map(ToString::to_string).collect()",
        new: "    kept.take(0).map(ToString::to_string).collect()",
    },
    Mutation {
        name: "health never written",
        file: "functions/dispatch/src/health.rs",
        old: "            if self.save(entry, subscription, now, &next).await? {",
        new: "            if true {",
    },
    Mutation {
        name: "late success not noted",
        file: "functions/dispatch/src/late_response.rs",
        old: "        match acknowledge(context, id).await {",
        new: "        match Ok::<bool, PortError>(true) {",
    },
    Mutation {
        name: "late success not counted",
        file: SETTLE,
        old: "            count::delivered(context, &known.subscription, known.publish_time, events);",
        new: "            let _ = (events, &known.subscription);",
    },
    Mutation {
        name: "late success and the next one both counted",
        file: SETTLE,
        old: "            None | Some(DeliveryStatus::Waiting { .. }) => {}\n",
        new: "            None | Some(DeliveryStatus::Waiting { .. } | DeliveryStatus::Delivered) => {}\n",
    },
    Mutation {
        name: "success noted before its count is written",
        file: SETTLE,
        old: "            context.meter.flush(context.clock.now());\n            counted = true;",
        new: "            counted = true;",
    },
    Mutation {
        name: "end noted before its count is written",
        file: END,
        old: r#"    context.meter.flush(context.clock.now());
    let state = state.over(DeliveryStatus::Ended"#,
        new: "    let state = state.over(DeliveryStatus::Ended",
    },
    Mutation {
        name: "delivered in the hour of the delivery, not of the publish",
        file: COUNT,
        old: "    context.meter.count_delivered(&of(key), published_at, took, events);",
        new: r#"    let published_at = if events > 0 { context.clock.now() } else { published_at };
    context.meter.count_delivered(&of(key), published_at, took, events);"#,
    },
    Mutation {
        name: "dropped events of deleted event subscriptions still wait",
        file: END,
        old: r#"    if let Some(state) = state {
        note_end("#,
        new: r#"    if let Some(state) = state.filter(|_| false) {
        note_end("#,
    },
    Mutation {
        name: "offsets from the last attempt",
        file: "functions/dispatch/src/decide.rs",
        old: "        first_attempt_at: attempts.first_at.unwrap_or(began_at),",
        new: "        first_attempt_at: began_at,",
    },
    Mutation {
        name: "numbers of a rate given twice",
        file: "functions/dispatch/src/rate.rs",
        old: "given: last.saturating_sub(asking), last }",
        new: "given: 0, last }",
    },
    Mutation {
        name: "slots of the minute before",
        file: "functions/dispatch/src/rate.rs",
        old: "        if now.as_minutes() == minute {",
        new: "        if now.as_minutes() >= minute {",
    },
];
