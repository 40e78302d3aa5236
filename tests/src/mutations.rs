//! Deliberate bugs, one at a time: the proof that the simulation would notice them.
//!
//! `cargo run -p gridpost-tests --bin mutations` puts each into a copy of the tree, runs the simulation
//! there, and tells which seed caught it. Whoever changes a line that a mutation replaces changes the
//! mutation too; a house rule watches that every `old` is still there.

/// A deliberate bug.
#[derive(Clone, Copy, Debug)]
pub struct Mutation {
    /// What it does wrong.
    pub name: &'static str,
    /// The file it is in, from the root of the repository.
    pub file: &'static str,
    /// The text that it replaces, which stands there once.
    pub old: &'static str,
    /// What stands there instead.
    pub new: &'static str,
}

impl Mutation {
    /// The file's text with the bug in it.
    ///
    /// # Errors
    ///
    /// The old text does not stand there exactly once.
    pub fn apply(&self, text: &str) -> Result<String, String> {
        match text.matches(self.old).count() {
            1 => Ok(text.replacen(self.old, self.new, 1)),
            times => Err(format!(
                "mutation `{}`: its old text stands {times} times in {}, not once; change the mutation \
                 in tests/src/mutations.rs with the code",
                self.name, self.file,
            )),
        }
    }
}

const EXPAND: &str = "functions/ingest/handler/src/expand.rs";
const IN_HAND: &str = "functions/dispatch/handler/src/in_hand.rs";
const ACQUIRE: &str = "functions/dispatch/handler/src/acquire.rs";
const COUNT: &str = "functions/dispatch/handler/src/count.rs";
const HOLD: &str = "functions/dispatch/handler/src/settle/hold.rs";
const END: &str = "functions/dispatch/handler/src/settle/end.rs";
const PLAN: &str = "shared/core/src/delivery/plan.rs";
const SETTLE: &str = "functions/dispatch/handler/src/settle.rs";
const HEALTH: &str = "shared/core/src/retry/health.rs";
const MEMORY: &str = "shared/ports/src/configuration.rs";
const RETRY: &str = "shared/core/src/retry.rs";

/// All of them.
pub const ALL: &[Mutation] = &[
    Mutation {
        name: "event subscriptions as they are in memory, whatever a delivery was matched under",
        file: MEMORY,
        old: "        let known = self.topic_at_least(topic, wanted.revision).await?;\n",
        new: r#"        let known = self.topic(topic).await?;
        if known.is_none_or(|_| true) {
            return Ok(wanted.find(self.topic(topic).await?));
        }
        let known = self.topic(topic).await?;
"#,
    },
    Mutation {
        name: "a deletion concluded from memory",
        file: MEMORY,
        old: "        Ok(wanted.find(self.topic_read_after(topic, wanted.received_at).await?))",
        new: "        Ok(None)",
    },
    Mutation {
        name: "the revision of a delivery ignored",
        file: MEMORY,
        old: "known.is_none_or(|known| known >= revision)",
        new: "(known.is_none() || revision >= Revision::default())",
    },
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
        old: r#"        end::end_part(context, &hand, *answer, events, times.0).await?;
"#,
        new: r#"        let _ = (answer, &events);
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
        new: r#"    let receipts = hands.iter().map(|(hand, _)| hand.record.receipt.clone()).collect();
    let _ = context.receiver.delete(Queue::Dispatch, receipts).await;
    let answers = context.sender.send(queue, messages.clone()).await;
"#,
    },
    Mutation {
        name: "state written without its condition",
        file: SETTLE,
        old: r#"        Ok(Saved::Written) => follow(context, hand, status).await,
        Ok(Saved::Conflict) => follow_stored(context, hand).await,
"#,
        new: r#"        Ok(Saved::Written) => follow(context, hand, status).await,
        Ok(Saved::Conflict) => {
            let stored = context.states.load(hand.delivery.id).await?;
            let revision = stored.map_or(0, |state| state.revision);
            let hand = DeliveryInHand { revision, ..hand };
            let _ = context.states.save(&hand.state(status)).await?;
            follow(context, hand, status).await
        }
"#,
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
        name: "time-to-live not checked",
        file: PLAN,
        old: r#"    if now >= subscription.expires_at {
"#,
        new: r#"    if false && now >= subscription.expires_at {
"#,
    },
    Mutation {
        name: "early wake attempts at once",
        file: PLAN,
        old: r#"    let early = due.map_or(Duration::ZERO, |due| due.since(now));
"#,
        new: r#"    let due = due.filter(|_| facts.lane == Lane::First);
    let early = due.map_or(Duration::ZERO, |due| due.since(now));
"#,
    },
    Mutation {
        name: "a decided end is not carried out again",
        file: SETTLE,
        old: r#"        DeliveryStatus::Ending { reason, at } => end::carry_out(context, hand, reason, at).await,
"#,
        new: r#"        DeliveryStatus::Ending { .. } => Ok(Fate::Delete),
"#,
    },
    Mutation {
        name: "a failed write of state ends the schedule",
        file: SETTLE,
        old: "            hold::in_message(context, hand, due).await\n",
        new: "            let _ = due;\n            Err(error)\n",
    },
    Mutation {
        name: "a state that is behind its message counts",
        file: IN_HAND,
        old: "        self.status = (!is_behind).then_some(state.standing);\n",
        new: "        let _ = is_behind;\n        self.status = Some(state.standing);\n",
    },
    Mutation {
        name: "a slow endpoint keeps the first lane",
        file: PLAN,
        old: "        (_, Lane::First) if subscription.is_slow => Plan::MoveLane,\n",
        new: "",
    },
    Mutation {
        name: "a mark ends while its requests are under way",
        file: "shared/core/src/retry/lane.rs",
        old: "now < until || self.under_way(now) > 0)",
        new: "now < until)",
    },
    Mutation {
        name: "a slow lane without a bound",
        file: "shared/core/src/retry/lane.rs",
        old: "wanted.min(slow.bound(settings).saturating_sub(others));",
        new: "wanted.max(others.min(0));",
    },
    Mutation {
        name: "parked, not deleted",
        file: HOLD,
        old: r#"    context.meter.count(metric::PARKED_COUNT, &[], 1);
    Ok(Fate::Delete)"#,
        new: r#"    context.meter.count(metric::PARKED_COUNT, &[], 1);
    Ok(Fate::Keep)"#,
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
        file: "functions/dispatch/handler/src/handler.rs",
        old: "    all.into_iter().filter(|id| !gone.ids.contains(id)).collect()",
        new: r#"    drop(all);
    Vec::new()"#,
    },
    Mutation {
        name: "health never written",
        file: "functions/dispatch/handler/src/health.rs",
        old: "            if self.save(page, subscription, now, &next).await? {",
        new: "            if true {",
    },
    Mutation {
        name: "late success not noted",
        file: "functions/dispatch/handler/src/late_response.rs",
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
        old: "|state: &DeliveryState| !matches!(state.standing, DeliveryStatus::Waiting { .. });",
        new: "|state: &DeliveryState| matches!(state.standing, DeliveryStatus::Ended);",
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
    let state = DeliveryState { standing: DeliveryStatus::Ended"#,
        new: "    let state = DeliveryState { standing: DeliveryStatus::Ended",
    },
    Mutation {
        name: "delivered in the hour of the delivery, not of the publish",
        file: COUNT,
        old: "    context.meter.count_events(metric::DELIVERY_SUCCESS_COUNT, &of(key), published_at, events);",
        new: r#"    let published_at = if events > 0 { context.clock.now() } else { published_at };
    context.meter.count_events(metric::DELIVERY_SUCCESS_COUNT, &of(key), published_at, events);"#,
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
        file: "functions/dispatch/handler/src/decide.rs",
        old: "        first_attempt_at: attempts.first_at.unwrap_or(began_at),",
        new: "        first_attempt_at: began_at,",
    },
    Mutation {
        name: "wake removes before it sends",
        file: "functions/wake/handler/src/page.rs",
        old: "    for fate in send_all(context, page.due, until).await {",
        new: r#"    let _ = context.due.remove_all(&page.due).await;
    for fate in send_all(context, page.due, until).await {"#,
    },
    Mutation {
        name: "refused dead letters let go",
        file: "functions/dead-letter/handler/src/gather.rs",
        old: r#"            let kept = ended.into_iter().map(|ended| refused(context, ended, now));
            join_all(kept).await.into_iter().flatten().collect()"#,
        new: "            let _ = refused;\n            Vec::new()",
    },
    Mutation {
        name: "hidden beyond 12 hours",
        file: "shared/core/src/delivery/parking.rs",
        old: "    seconds_up(wait.min(most))",
        new: "    let _ = most;\n    seconds_up(wait)",
    },
    Mutation {
        name: "messages wear out",
        file: "shared/core/src/delivery/parking.rs",
        old: "    if receives >= RECEIVES_MAX ||",
        new: "    if receives == u32::MAX ||",
    },
    Mutation {
        name: "batches by bytes alone",
        file: "shared/core/src/delivery/batch.rs",
        old: "            && sum.events + load.events <= batching.max_events as usize\n",
        new: "",
    },
    Mutation {
        name: "Retry-After ignored",
        file: RETRY,
        old: "    let least = Duration::from_secs(u64::from(min_s)).max(asked);",
        new: "    let _ = asked;\n    let least = Duration::from_secs(u64::from(min_s));",
    },
    Mutation {
        name: "one attempt too many",
        file: RETRY,
        old: "    if failure.attempts >= rules.policy.max_attempts {",
        new: "    if failure.attempts > rules.policy.max_attempts {",
    },
    Mutation {
        name: "a state is forgotten while its delivery waits",
        file: "shared/core/src/delivery/state.rs",
        old: "due.max(began + LIFE_MAX)",
        new: "due",
    },
    Mutation {
        name: "a failed probe does not lengthen the wait",
        file: "shared/core/src/retry/health/change.rs",
        old: "        Some(wait) if probed => wait.step.saturating_add(1),",
        new: "        Some(wait) if probed => wait.step,",
    },
    Mutation {
        name: "events end while delivery is only delayed",
        file: HEALTH,
        old: "        let Some(wait) = self.probation.filter(|wait| now < wait.until) else { return false };",
        new: "        let Some(wait) = self.probation.filter(|_| Some(now) < self.until()) else { return false };",
    },
    Mutation {
        name: "failures count beside successes of other copies",
        file: "shared/core/src/retry/health/change.rs",
        old: "    let too_soon = success.is_some_and(|at| failed.ended_at < at + AS_FAR_AS_KNOWN);",
        new: "    let too_soon = success.is_some_and(|at| failed.ended_at < at + AS_FAR_AS_KNOWN / 1_000);",
    },
    Mutation {
        name: "a failed probe opens the gate",
        file: "shared/core/src/retry/health/change.rs",
        old: "    let least = (probed && delayed.is_none()).then_some(FAILED_PROBE_WAIT);",
        new: "    let least = (probed && delayed.is_none()).then_some(FAILED_PROBE_WAIT).filter(|_| false);",
    },
    Mutation {
        name: "each failure lengthens the wait",
        file: "shared/core/src/retry/health/change.rs",
        old: "        Some(wait) if until < wait.until + EXTENDED_BY_MIN => current,",
        new: "        Some(wait) if until < wait.until + EXTENDED_BY_MIN / 1_000 => current,",
    },
    Mutation {
        name: "a backlog comes back at once",
        file: HEALTH,
        old: "        self.spread.max(SPREAD_MIN).mul_f64(",
        new: "        self.spread.min(SPREAD_MIN).mul_f64(",
    },
    Mutation {
        name: "a success of a stale copy ends a wait",
        file: "shared/core/src/retry/health/change.rs",
        old: "    let ends = health.until().is_some_and(|until| began_at >= until);\n",
        new: "    let ends = health.until().is_some();\n",
    },
    Mutation {
        name: "numbers of a rate given twice",
        file: "functions/dispatch/handler/src/rate.rs",
        old: "given: last.saturating_sub(asking), last }",
        new: "given: 0, last }",
    },
    Mutation {
        name: "rate not honoured",
        file: "shared/core/src/delivery/rate.rs",
        old: "    if count <= rate {",
        new: "    if count > 0 {",
    },
    Mutation {
        name: "slots of the minute before",
        file: "functions/dispatch/handler/src/rate.rs",
        old: "        if now.as_minutes() == minute {",
        new: "        if now.as_minutes() >= minute {",
    },
    Mutation {
        name: "consent not waited for",
        file: PLAN,
        old: r#"    if let Some(until) = subscription.consent_until {
"#,
        new: r#"    if let Some(until) = subscription.consent_until.filter(|_| false) {
"#,
    },
    Mutation {
        name: "ingest answers 200 for what was not sent",
        file: "functions/ingest/handler/src/handler.rs",
        old: "        Some(parcels) => enqueue(context, &packed, &parcels).await,",
        new: "        Some(parcels) => enqueue(context, &packed, &parcels).await.or(Ok(())),",
    },
    Mutation {
        name: "a fan-out accepted that was not stored",
        file: "functions/ingest/handler/src/fan_out.rs",
        old: "    put(&*context.payloads, &fan_out::key(publish), fan_out::encode(packed)).await?;",
        new: "    let _ = put(&*context.payloads, &fan_out::key(publish), fan_out::encode(packed)).await;",
    },
    Mutation {
        name: "a fan-out accepted whose pieces were not sent",
        file: "functions/ingest/handler/src/fan_out.rs",
        old: "    send_pieces(context, topic, pieces).await\n",
        new: "    send_pieces(context, topic, pieces).await.or(Ok(()))\n",
    },
    Mutation {
        name: "a piece let go whose deliveries were not sent",
        file: EXPAND,
        old: "        enqueue_wave(context, packed, wave).await?;",
        new: "        let _ = enqueue_wave(context, packed, wave).await;",
    },
    Mutation {
        name: "the rest of a piece forgotten",
        file: EXPAND,
        old: "            return send_pieces(context, packed.topic(), vec![piece.rest(wave[0].place)]).await;",
        new: "            return Ok(());",
    },
    Mutation {
        name: "events let go before their dead letter is stored",
        file: "functions/dead-letter/handler/src/gather.rs",
        old: "            ended.delivery.claim(events);",
        new: "            ended.delivery.claim(events);\n            release(context, id).await;",
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_stands_there_once_is_replaced() {
        let mutation = Mutation { name: "m", file: "f", old: "good", new: "bad" };
        assert_eq!(mutation.apply("a good day").as_deref(), Ok("a bad day"));
        for text in ["a day", "good, good"] {
            assert!(mutation.apply(text).is_err_and(|error| error.contains("`m`")), "{text}");
        }
    }
}
