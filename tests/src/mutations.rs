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
const PREPARE: &str = "functions/dispatch/handler/src/prepare.rs";
const SETTLE: &str = "functions/dispatch/handler/src/settle.rs";
const RESOURCES: &str = "functions/dispatch/handler/src/resources.rs";
const HEALTH: &str = "shared/core/src/retry/health.rs";
const RETRY: &str = "shared/core/src/retry.rs";

/// All of them.
pub const ALL: &[Mutation] = &[
    Mutation {
        name: "whole batch again though part of it was delivered",
        file: RESOURCES,
        old: "    work.delivery.done.add_all(&parted.done());\n",
        new: "",
    },
    Mutation {
        name: "state forgets which events of a batch are done with",
        file: PREPARE,
        old: "            done: self.delivery.done.clone(),\n",
        new: "            done: Default::default(),\n",
    },
    Mutation {
        name: "refused part of a batch counts as delivered",
        file: RESOURCES,
        old: "        end_part(context, &work, *answer, events, times.0).await?;\n",
        new: "        let _ = (answer, events);\n",
    },
    Mutation {
        name: "part of a batch delivered and not counted",
        file: RESOURCES,
        old: "        settle::count_part(context, &work, delivered.len());\n",
        new: "",
    },
    Mutation {
        name: "delete before send",
        file: SETTLE,
        old: r#"        let queue = work.delivery.retry_queue(context.settings.retry_shards);
        send("#,
        new: r#"        let queue = work.delivery.retry_queue(context.settings.retry_shards);
        let _ = context.receiver.delete(Queue::Dispatch, vec![work.record.receipt.clone()]).await;
        send("#,
    },
    Mutation {
        name: "state written without its condition",
        file: SETTLE,
        old: r#"        Saved::Written => follow(context, work, standing).await,
        Saved::Conflict => follow_stored(context, work).await,"#,
        new: r#"        Saved::Written => follow(context, work, standing).await,
        Saved::Conflict => {
            let stored = context.states.load(work.delivery.id).await?;
            let work = Work { revision: stored.map_or(0, |state| state.revision), ..work };
            let _ = context.states.save(&work.state(standing)).await?;
            follow(context, work, standing).await
        }"#,
    },
    Mutation {
        name: "attempts counted by receives",
        file: PREPARE,
        old: "    let due = match standing {",
        new: "    work.delivery.attempts.made = work.record.receive_count - 1;\n    let due = match standing {",
    },
    Mutation {
        name: "lost probe claim",
        file: PREPARE,
        old: r#"                if !context.healths.write(&subscription, now, &claimed).await? {
                    continue;
                }"#,
        new: "                let _ = context.healths.write(&subscription, now, &claimed).await?;",
    },
    Mutation {
        name: "time-to-live not checked",
        file: PREPARE,
        old: "    if now >= work.expires_at() {",
        new: "    if false && now >= work.expires_at() {",
    },
    Mutation {
        name: "early wake attempts at once",
        file: PREPARE,
        old: "    let early = due.map_or(Duration::ZERO, |due| due.since(context.clock.now()));",
        new: r#"    let due = due.filter(|_| work.record.queue == Queue::Dispatch);
    let early = due.map_or(Duration::ZERO, |due| due.since(context.clock.now()));"#,
    },
    Mutation {
        name: "a decided end is not carried out again",
        file: PREPARE,
        old: "        Some(DeliveryStatus::Ended) => return",
        new: "        Some(DeliveryStatus::Ended | DeliveryStatus::Ending { .. }) => return",
    },
    Mutation {
        name: "parked, not deleted",
        file: SETTLE,
        old: r#"    context.meter.count(metric::PARKED_COUNT, &[], 1);
    Ok(Fate::Delete)"#,
        new: r#"    context.meter.count(metric::PARKED_COUNT, &[], 1);
    Ok(Fate::Keep)"#,
    },
    Mutation {
        name: "deleted, though parking failed",
        file: SETTLE,
        old: "    context.parking.park(&parked).await?;",
        new: "    let _ = context.parking.park(&parked).await;",
    },
    Mutation {
        name: "deleted, though sending failed",
        file: SETTLE,
        old: "        send(context, queue, work, next.encode(), parking::delay_s(left)).await?;",
        new: "        let _ = send(context, queue, work, next.encode(), parking::delay_s(left)).await;",
    },
    Mutation {
        name: "the reply names nothing",
        file: "functions/dispatch/handler/src/handler.rs",
        old: r#"        listen(context, listening, deadline).await;
    }
    kept"#,
        new: r#"        listen(context, listening, deadline).await;
    }
    drop(kept);
    Vec::new()"#,
    },
    Mutation {
        name: "health never written",
        file: "functions/dispatch/handler/src/health.rs",
        old: "            if self.write(subscription, now, &next).await? {",
        new: "            if true {",
    },
    Mutation {
        name: "late success not noted",
        file: "functions/dispatch/handler/src/late.rs",
        old: "        match acknowledge(context, id).await {",
        new: "        match Ok::<bool, PortError>(true) {",
    },
    Mutation {
        name: "late success not counted",
        file: SETTLE,
        old: "            count_delivered(context, &known.subscription, known.publish_time, events);",
        new: "            let _ = (events, &known.subscription);",
    },
    Mutation {
        name: "late success and the next one both counted",
        file: SETTLE,
        old: "if !matches!(state.standing, DeliveryStatus::Waiting { .. }))",
        new: "if matches!(state.standing, DeliveryStatus::Ended))",
    },
    Mutation {
        name: "success noted before its count is written",
        file: SETTLE,
        old: "            context.meter.flush(context.clock.now());\n            counted = true;",
        new: "            counted = true;",
    },
    Mutation {
        name: "end noted before its count is written",
        file: SETTLE,
        old: "    context.meter.flush(context.clock.now());\n    let state = DeliveryState { standing: DeliveryStatus::Ended",
        new: "    let state = DeliveryState { standing: DeliveryStatus::Ended",
    },
    Mutation {
        name: "delivered in the hour of the delivery, not of the publish",
        file: SETTLE,
        old: "    context.meter.count_events(metric::DELIVERY_SUCCESS_COUNT, &of(key), at, events);",
        new: "    let at = if events > 0 { context.clock.now() } else { at };\n    context.meter.count_events(metric::DELIVERY_SUCCESS_COUNT, &of(key), at, events);",
    },
    Mutation {
        name: "dropped events of deleted event subscriptions still wait",
        file: SETTLE,
        old: "    if let Some(state) = state {\n        note_end(",
        new: "    if let Some(state) = state.filter(|_| false) {\n        note_end(",
    },
    Mutation {
        name: "offsets from the last attempt",
        file: "functions/dispatch/handler/src/attempt.rs",
        old: "        first_attempt_at: work.delivery.attempts.first_at.unwrap_or(began_at),",
        new: "        first_attempt_at: began_at,",
    },
    Mutation {
        name: "wake removes before it sends",
        file: "functions/wake/handler/src/lib.rs",
        old: "    let answers = context.sender.send(",
        new: "    join_all(batch.iter().map(|parked| remove(context, parked))).await;\n    let answers = context.sender.send(",
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
        name: "successes of other copies are not told",
        file: "shared/core/src/retry/health/change.rs",
        old: "    let success = seen.last_success_at?;",
        new: "    let success = seen.last_success_at.filter(|_| false)?;",
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
        file: PREPARE,
        old: "    if let Some(until) = work.subscription.waits_for_consent(now) {",
        new: "    if let Some(until) = work.subscription.waits_for_consent(now).filter(|_| false) {",
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
