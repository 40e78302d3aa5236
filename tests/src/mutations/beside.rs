//! Bugs in the other functions and in memory, for the simulation to notice.

use super::Mutation;

const EXPAND: &str = "functions/expand/src/lib.rs";
const MEMORY: &str = "shared/ports/src/configuration.rs";

/// All of them.
pub(super) const ALL: &[Mutation] = &[
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
        name: "wake removes before it sends",
        file: "functions/wake/src/page.rs",
        old: "    let (fitted, refused) = fit_all(context, due, until).await;\n",
        new: r#"    let _ = context.due.remove_all(&due).await;
    let (fitted, refused) = fit_all(context, due, until).await;
"#,
    },
    Mutation {
        name: "refused dead letters let go",
        file: "functions/dead-letter/src/lib.rs",
        old: r#"            let kept = ended.into_iter().map(|ended| refused(context, ended, now));
            join_all(kept).await.into_iter().flatten().collect()"#,
        new: "            let _ = refused;\n            Vec::new()",
    },
    Mutation {
        name: "ingest answers 200 for what was not sent",
        file: "functions/ingest/src/publish.rs",
        old: "        Some(parcels) => enqueue(way.outlet, &packed, &parcels).await,",
        new: "        Some(parcels) => enqueue(way.outlet, &packed, &parcels).await.or(Ok(())),",
    },
    Mutation {
        name: "a fan-out accepted that was not stored",
        file: "functions/ingest/src/publish.rs",
        old: "    put(way.outlet.payloads, &fan_out::key(publish), fan_out::encode(packed)).await?;",
        new: "    let _ = put(way.outlet.payloads, &fan_out::key(publish), fan_out::encode(packed)).await;",
    },
    Mutation {
        name: "a fan-out accepted whose pieces were not sent",
        file: "functions/ingest/src/publish.rs",
        old: "    send_pieces(way.outlet, topic, pieces).await\n",
        new: "    send_pieces(way.outlet, topic, pieces).await.or(Ok(()))\n",
    },
    Mutation {
        name: "a piece let go whose deliveries were not sent",
        file: EXPAND,
        old: "            Err(error) if number == 0 => return Err(error),\n",
        new: "            Err(_) if number == 0 => return Ok(()),\n",
    },
    Mutation {
        name: "the rest of a piece forgotten",
        file: EXPAND,
        old: "        if number > 0 && left < WAVE_WAIT {\n            return send_pieces(context.outlet(), packed.topic(), rest(wave)).await;",
        new: "        if number > 0 && left < WAVE_WAIT {\n            return Ok(());",
    },
    Mutation {
        name: "events let go before their dead letter is stored",
        file: "functions/dead-letter/src/lib.rs",
        old: "            ended.delivery.claim(events);",
        new: "            ended.delivery.claim(events);\n            release(context, id).await;",
    },
    Mutation {
        name: "a dead letter given up at its fourth refusal",
        file: "functions/dead-letter/src/lib.rs",
        old: "    if record.receive_count >= RECEIVES_MIN && is_given_up(context, &ended, now) {",
        new: "    if record.receive_count >= RECEIVES_MIN {",
    },
    Mutation {
        name: "parked deliveries sent back ten minutes late",
        file: "functions/wake/src/lib.rs",
        old: "    let this_minute = context.clock.now().as_minutes();",
        new: "    let this_minute = context.clock.now().as_minutes() - 10;",
    },
    Mutation {
        name: "a redrive sends the first of each batch",
        file: "functions/redrive/src/lib.rs",
        old: "            self.send(std::mem::take(&mut batch)).await?;",
        new: r#"            batch.truncate(1);
            self.send(std::mem::take(&mut batch)).await?;"#,
    },
    Mutation {
        name: "a topic is told of its own dead letters",
        file: "functions/dead-letter/src/notify.rs",
        old: "    if first.delivery.subscription.topic == notifier.topic {",
        new: "    if first.delivery.subscription.topic == notifier.topic && context.give_up_after.is_zero() {",
    },
    Mutation {
        name: "an end is noted before its dead letter is sent",
        file: "functions/dispatch/src/settle/end.rs",
        old: "    dead_letter_or_drop(context, &hand, reason, at).await?;
    note_end(context, hand.state(DeliveryStatus::Ended)).await;",
        new: "    note_end(context, hand.state(DeliveryStatus::Ended)).await;
    dead_letter_or_drop(context, &hand, reason, at).await?;",
    },
    Mutation {
        name: "a further page of wake forgets what the first kept",
        file: "functions/wake/src/page.rs",
        old: "Strand { after: Some(after), is_whole, reads: 0, ..strand.clone() }",
        new: "Strand { after: Some(after), is_whole: true, reads: 0, ..strand.clone() }",
    },
];
