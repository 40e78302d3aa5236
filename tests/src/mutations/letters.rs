//! Bugs in dead-letter and its notifier, and in redrive, for their own tests to notice.

use super::Mutation;

const REDRIVE_LIB: &str = "functions/redrive/src/lib.rs";
const DEAD_LETTER_NOTIFY: &str = "functions/dead-letter/src/notify.rs";
const DEAD_LETTER_LIB: &str = "functions/dead-letter/src/lib.rs";

/// Those of dead-letter.
pub(super) const DEAD_LETTER: &[Mutation] = &[
    Mutation {
        name: "dead letters that come back are not counted",
        file: DEAD_LETTER_LIB,
        old: "kept.iter().filter(|id| again.contains(*id)).count();",
        new: "kept.iter().filter(|id| !again.contains(*id) && again.len() > 1_000).count();",
    },
    Mutation {
        name: "dead letters of the told topic are told of",
        file: DEAD_LETTER_NOTIFY,
        old: "if first.delivery.subscription.topic == notifier.topic {",
        new: "if first.delivery.subscription.topic.is_empty() {",
    },
    Mutation {
        name: "what could not be told counts as told",
        file: DEAD_LETTER_NOTIFY,
        old: "        sent.into_iter().collect::<Result<Vec<()>, _>>()?;",
        new: "        drop(sent);",
    },
    Mutation {
        name: "told anew under another id",
        file: DEAD_LETTER_NOTIFY,
        old: r#"        "id": written.id,
        "subject": subject(written),"#,
        new: r#"        "id": uuid::Uuid::from_u128(now.as_millis().unsigned_abs().into()),
        "subject": subject(written),"#,
    },
    Mutation {
        name: "payloads are let go before their dead letters are stored",
        file: DEAD_LETTER_LIB,
        old: r#"            if kept.is_empty() {
                release(context, id).await;
            }
            kept"#,
        new: r#"            release(context, id).await;
            kept"#,
    },
    Mutation {
        name: "a second copy of what was stored counts as dropped",
        file: DEAD_LETTER_LIB,
        old: "        Ok(Some(Payload::Ended)) => Vec::new(),",
        new: r#"        Ok(Some(Payload::Ended)) => {
            drop_events(context, &ended, "PayloadMissing");
            Vec::new()
        }"#,
    },
    Mutation {
        name: "what has no bucket is dropped without a count",
        file: DEAD_LETTER_LIB,
        old: r#"            for (_, ended) in &ended {
                drop_events(context, ended, "DeadLetterDestinationNotFound");
            }
"#,
        new: "",
    },
    Mutation {
        name: "the events of a large notification are not stored",
        file: DEAD_LETTER_NOTIFY,
        old: "        context.payloads.put(&claim::key(parcel.id()), object).await?;",
        new: "        let _ = object;",
    },
];

/// Those of redrive.
pub(super) const REDRIVE: &[Mutation] = &[
    Mutation {
        name: "a redrive forgets what it could not read",
        file: "functions/redrive/src/lib.rs",
        old: "            if item.is_sealed {",
        new: "            if item.is_sealed && self.job.dry_run {",
    },
    Mutation {
        name: "a redrive's place is noted before its batch is sent",
        file: REDRIVE_LIB,
        old: r#"            self.send(std::mem::take(&mut batch)).await?;
            self.job.problem = None;"#,
        new: r#"            self.note().await?;
            self.send(std::mem::take(&mut batch)).await?;
            self.job.problem = None;"#,
    },
    Mutation {
        name: "a redrive's failed messages count as sent",
        file: REDRIVE_LIB,
        old: r#"                Some(Err(error)) => {
                    failed = Some(error);
                    true
                }"#,
        new: r#"                Some(Err(error)) => {
                    failed = Some(error);
                    false
                }"#,
    },
    Mutation {
        name: "two redrives at once",
        file: REDRIVE_LIB,
        old: "if let Some(first) = jobs.iter().find(|other| self.job.waits_for(other)) {",
        new: "if let Some(first) = jobs.iter().find(|other| self.job.waits_for(other) && other.dry_run) {",
    },
    Mutation {
        name: "a redrive under another worker's lease",
        file: REDRIVE_LIB,
        old: "job.lease.as_ref().filter(|lease| lease.until > now)",
        new: "job.lease.as_ref().filter(|lease| lease.until > now && job.dry_run)",
    },
    Mutation {
        name: "a redrive to an event subscription that was created anew",
        file: REDRIVE_LIB,
        old: "one.key == *to && one.uid == *to_uid",
        new: "one.key == *to && (one.uid == *to_uid || one.uid != *to_uid)",
    },
    Mutation {
        name: "a redrive that was stopped goes on",
        file: REDRIVE_LIB,
        old: "            if self.job.status != Status::Running || !self.has_time() {",
        new: "            if self.job.status == Status::Completed || !self.has_time() {",
    },
    Mutation {
        name: "a redrive forgets what it found before a read that failed",
        file: REDRIVE_LIB,
        old: r#"                            self.send(batch).await?;
                            self.note().await?;"#,
        new: "                            drop(batch);",
    },
    Mutation {
        name: "a redrive passes over what it found before a read that failed",
        file: REDRIVE_LIB,
        old: r#"                            self.send(batch).await?;
                            self.note().await?;"#,
        new: r#"                            drop(batch);
                            self.note().await?;"#,
    },
    Mutation {
        name: "a redriven event is not counted",
        file: REDRIVE_LIB,
        old: "self.context.meter.count_events(counter, &key, delivery.publish_time, 1);",
        new: "let _ = (counter, key);",
    },
];
