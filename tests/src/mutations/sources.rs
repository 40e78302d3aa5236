//! Bugs in what takes events of AWS services in.

use super::Mutation;

const INTAKE: &str = "functions/intake/src/lib.rs";
const REFUSE: &str = "functions/intake/src/refuse.rs";
const CORE_INTAKE: &str = "shared/core/src/intake.rs";
const S3: &str = "shared/core/src/intake/s3.rs";
const BLOB: &str = "shared/core/src/intake/blob.rs";
const MODULE: &str = "infra/modules/aws-source/main.tf";

/// In the handler.
pub(super) const HANDLER: &[Mutation] = &[
    Mutation {
        name: "a source's messages are let go though their events were not sent",
        file: INTAKE,
        old: r#"            keep(context, taken.iter().copied(), "its events could not be sent on", &error)"#,
        new: r#"            let _ = keep(context, taken.iter().copied(), "its events could not be sent on", &error);
            Vec::new()"#,
    },
    Mutation {
        name: "a source's messages are let go though its topic could not be read",
        file: INTAKE,
        old: r#"        Err(error) => return keep(context, &messages, "its topic can't be read", &error),"#,
        new: r#"        Err(error) => {
            let _ = keep(context, &messages, "its topic can't be read", &error);
            return Vec::new();
        }"#,
    },
    Mutation {
        name: "what a topic refuses is forgotten",
        file: INTAKE,
        old: "            Ok(Err(error)) => refused.push((one.message, Refusal::Publish(error))),",
        new: "            Ok(Err(_)) => {}",
    },
    Mutation {
        name: "a refused message that could not be moved is let go",
        file: REFUSE,
        old: "                kept.push(id.to_string());",
        new: "                kept.clear();",
    },
    Mutation {
        name: "deliveries of a source's batch have the same ids each time",
        file: INTAKE,
        old: "    let id = context.dice.id();",
        new: "    let id = intake::id_from(taken.iter().map(|message| &*message.message_id));",
    },
    Mutation {
        name: "events of sources are not in the ledger",
        file: INTAKE,
        old: "            count(&*context.meter, &snapshot.topic.name, now, events.len(), &matched);",
        new: "            let _ = count;",
    },
    Mutation {
        name: "a panic at one message keeps the whole batch",
        file: INTAKE,
        old: "    if let Ok(kept) = guarded(PUBLISHING, all).await {\n        return kept;\n    }",
        new: "    match guarded(PUBLISHING, all).await {\n        Ok(kept) => return kept,\n        Err(panic) => return keep(context, messages, PANICKED, &panic),\n    }",
    },
    Mutation {
        name: "a message at which publishing panics is let go",
        file: INTAKE,
        old: "            Err(panic) => keep(context, [message], PANICKED, &panic),",
        new: "            Err(_) => Vec::new(),",
    },
    Mutation {
        name: "a message at which mapping panics is let go",
        file: INTAKE,
        old: "            Err(panic) => kept.extend(keep(context, [message], PANICKED, &panic)),",
        new: "            Err(_) => {}",
    },
    Mutation {
        name: "a source's body may be of any size",
        file: INTAKE,
        old: "        if size_bytes > BODY_BYTES_MAX {",
        new: "        if size_bytes > 2 * BODY_BYTES_MAX {",
    },
];

/// In the mapping.
pub(super) const CORE: &[Mutation] = &[
    Mutation {
        name: "two objects of one request have one id",
        file: S3,
        old: "        &*about.key,\n        version,",
        new: "        version,",
    },
    Mutation {
        name: "a plus in a key stays a plus",
        file: S3,
        old: "    let spaces = key.replace('+', \" \");",
        new: "    let spaces = key.to_owned();",
    },
    Mutation {
        name: "a notification without records is a test event",
        file: S3,
        old: "        let is_test = notification.event.as_deref() == Some(TEST_EVENT);",
        new: "        let is_test = notification.event.as_deref() != Some(\"\") || TEST_EVENT.is_empty();",
    },
    Mutation {
        name: "a delete marker is no deleted blob",
        file: S3,
        old: "name if name.starts_with(\"ObjectRemoved:\") ||",
        new: "name if name == \"ObjectRemoved:Delete\" ||",
    },
    Mutation {
        name: "sequencers of different lengths",
        file: BLOB,
        old: "format!(\"{:0<SEQUENCER_CHARS$}\", self.sequencer)",
        new: "format!(\"{:0<1$}\", self.sequencer, SEQUENCER_CHARS / 32)",
    },
    Mutation {
        name: "a notification chooses the partition of an event's source",
        file: BLOB,
        old: "            Some(partition @ (\"aws-cn\" | \"aws-us-gov\")) => partition,",
        new: "            Some(partition) => partition,",
    },
    Mutation {
        name: "arrays are read as objects",
        file: CORE_INTAKE,
        old: "    if !found.starts_with('{') {",
        new: "    if !found.starts_with(['{', '[']) {",
    },
    Mutation {
        name: "an error repeats values of a message",
        file: CORE_INTAKE,
        old: "    match said.starts_with(\"invalid \") {",
        new: "    match said.starts_with(\"invalid JSON\") {",
    },
    Mutation {
        name: "attributes keep control characters of keys",
        file: CORE_INTAKE,
        old: "        if is_for_attributes(character) {",
        new: "        if is_for_attributes(character) || character == '\\n' {",
    },
];

/// In the module.
pub(super) const TERRAFORM: &[Mutation] = &[
    Mutation {
        name: "a source's function may read every topic",
        file: MODULE,
        old: "[\"TOPIC#${var.topic}\"]",
        new: "[\"TOPIC#*\"]",
    },
    Mutation {
        name: "anybody's bucket may send to a source's queue",
        file: MODULE,
        old: r#"          { ArnEquals = { "aws:SourceArn" = sender.arn } },"#,
        new: r#"          {},"#,
    },
    Mutation {
        name: "a source's function may send to its own queue",
        file: MODULE,
        old: "        resources = [local.poison_queue_arn]",
        new: "        resources = [local.poison_queue_arn, local.queue_arn]",
    },
    Mutation {
        name: "a source of two kinds",
        file: MODULE,
        old: "      condition     = length(local.given) == 1",
        new: "      condition     = length(local.given) >= 1",
    },
];
