//! Bugs in the ports on AWS, for their contract tests to notice.

use super::Mutation;

const AWS_SQS: &str = "shared/aws/src/sqs.rs";
const AWS_TABLE: &str = "shared/aws/src/table.rs";
const AWS_PARKING: &str = "shared/aws/src/parking.rs";
const AWS_STATE_WAITING: &str = "shared/aws/src/state/waiting.rs";
const AWS_CONFIGURATION: &str = "shared/aws/src/configuration.rs";
const AWS_S3: &str = "shared/aws/src/s3.rs";

/// All of them.
pub(super) const ALL: &[Mutation] = &[
    Mutation {
        name: "keys of publishes forgotten at once",
        file: "shared/aws/src/state.rs",
        old: "number(record.until.as_seconds())",
        new: "number(record.until.as_seconds() / 1_000)",
    },
    Mutation {
        name: "a failed entry of a send counts as sent",
        file: AWS_SQS,
        old: "if sent.contains(id.as_str()) { Ok(()) }",
        new: "if sent.contains(id.as_str()) || !answer.failed().is_empty() { Ok(()) }",
    },
    Mutation {
        name: "a message without an answer counts as sent",
        file: AWS_SQS,
        old: "if sent.contains(id.as_str()) { Ok(()) }",
        new: "if !answer.failed().iter().any(|entry| entry.id() == id) { Ok(()) }",
    },
    Mutation {
        name: "a send that is refused counts as sent",
        file: AWS_SQS,
        old: "(0..count).map(|_| Err(PortError::new(CALL, &error.reason))).collect()",
        new: "(0..count).map(|_| Ok(()).map_err(|()| error.clone())).collect()",
    },
    Mutation {
        name: "messages are sent without their delay",
        file: AWS_SQS,
        old: ".filter(|delay| *delay > 0)",
        new: ".filter(|delay| *delay < 0)",
    },
    Mutation {
        name: "an entry that was not deleted counts as deleted",
        file: AWS_SQS,
        old: r#"let real = |code: &str| !code.contains("ReceiptHandleIsInvalid");"#,
        new: "let real = |code: &str| code.is_empty();",
    },
    Mutation {
        name: "a message that was not hidden counts as hidden",
        file: AWS_SQS,
        old: r#"        change.send().await.map_err(|error| port_error(CALL, error))?;
        Ok(())"#,
        new: r#"        let _ = change.send().await;
        Ok(())"#,
    },
    Mutation {
        name: "delayed messages are no backlog",
        file: AWS_SQS,
        old: r#"            QueueAttributeName::ApproximateNumberOfMessagesDelayed,
        ];
        self.counts(queue, &all).await"#,
        new: r#"        ];
        self.counts(queue, &all).await"#,
    },
    Mutation {
        name: "a number that SQS does not tell is nought",
        file: AWS_SQS,
        old: "names.iter().map(count).sum::<Option<u64>>();",
        new: "Some(names.iter().filter_map(count).sum::<u64>());",
    },
    Mutation {
        name: "a throttled write counts as a conflict",
        file: AWS_TABLE,
        old: "if matches!(error.err(), PutItemError::ConditionalCheckFailedException(_)) =>",
        new: "if matches!(error.err(), PutItemError::ConditionalCheckFailedException(_) | PutItemError::ThrottlingException(_) | PutItemError::ProvisionedThroughputExceededException(_)) =>",
    },
    Mutation {
        name: "a conflict counts as an error",
        file: AWS_TABLE,
        old: "                Ok(Saved::Conflict)",
        new: "                Err(PortError::new(CALL, error.err()))",
    },
    Mutation {
        name: "a write without its condition",
        file: AWS_TABLE,
        old: r#"put.condition_expression("revision = :revision")"#,
        new: r#"put.condition_expression("attribute_exists(pk)")"#,
    },
    Mutation {
        name: "states are read as they were a while ago",
        file: AWS_TABLE,
        old: ".consistent_read(true)",
        new: ".consistent_read(false)",
    },
    Mutation {
        name: "what was not come to counts as deleted",
        file: AWS_PARKING,
        old: "        Ok(written.unprocessed_items.and_then(|mut left| left.remove(name)).unwrap_or_default())",
        new: "        Ok(written.unprocessed_items.map(|_| Vec::new()).unwrap_or_default())",
    },
    Mutation {
        name: "a page of unreadable parked deliveries is the last one",
        file: AWS_PARKING,
        old: r#"        let items = page.items.unwrap_or_default();
"#,
        new: r#"        let items = page.items.unwrap_or_default();
        let next = next.filter(|_| items.iter().any(|item| parked(item).is_some()));
"#,
    },
    Mutation {
        name: "parked deliveries expire",
        file: AWS_PARKING,
        old: r#"            .item("body", text(&parked.body));"#,
        new: r#"            .item("body", text(&parked.body))
            .item("expiresAt", number(parked.due.as_seconds()));"#,
    },
    Mutation {
        name: "states that were not come to are left out",
        file: AWS_STATE_WAITING,
        old: "keys = left.map(|left| left.keys).unwrap_or_default();",
        new: "keys = left.map(|_| Vec::new()).unwrap_or_default();",
    },
    Mutation {
        name: "what has ended still waits",
        file: AWS_STATE_WAITING,
        old: r#"            states.retain(|state| keys(state).is_some());
"#,
        new: "",
    },
    Mutation {
        name: "jobs of the first page alone",
        file: "shared/aws/src/state.rs",
        old: r#"            found.push(Job { revision, ..job });
"#,
        new: r#"            found.push(Job { revision, ..job });
            break;
"#,
    },
    Mutation {
        name: "a throttled transaction counts as a lost race",
        file: AWS_CONFIGURATION,
        old: r#""ConditionalCheckFailed" | "TransactionConflict""#,
        new: r#""ConditionalCheckFailed" | "TransactionConflict" | "ThrottlingError""#,
    },
    Mutation {
        name: "a topic's keys outlive it",
        file: AWS_CONFIGURATION,
        old: "let all = [unchanged, of(keys_pk(&topic.name), KEYS), of(TOPICS.to_owned(), &topic.name)];",
        new: "let all = [unchanged, of(TOPICS.to_owned(), &topic.name)];",
    },
    Mutation {
        name: "an object that is refused counts as gone",
        file: AWS_S3,
        old: "match get {\n            Ok(object) => object,\n            Err(error) if error.as_service_error().is_some_and(GetObjectError::is_no_such_key) => {",
        new: "match get {\n            Ok(object) => object,\n            Err(error) if error.as_service_error().is_some() => {",
    },
    Mutation {
        name: "a bucket that refuses counts as missing",
        file: AWS_S3,
        old: r#"Some("NoSuchBucket") => BucketError::NotFound"#,
        new: r#"Some("NoSuchBucket" | "AccessDenied") => BucketError::NotFound"#,
    },
    Mutation {
        name: "a list begins anew with each page",
        file: AWS_S3,
        old: "let list = list.set_start_after(after.map(str::to_owned)).send().await;",
        new: r#"let _ = after;
        let list = list.send().await;"#,
    },
];
