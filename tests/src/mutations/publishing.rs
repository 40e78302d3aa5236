//! Bugs in ingest, for its own tests to notice.

use super::Mutation;

const INGEST_HANDLER: &str = "functions/ingest/src/handler.rs";
const INGEST_ENQUEUE: &str = "functions/ingest/src/enqueue.rs";

/// All of them.
pub(super) const ALL: &[Mutation] = &[
    Mutation {
        name: "a wave that fails repeats its whole piece",
        file: "functions/expand/src/lib.rs",
        old: "Err(error) if number == 0 => return Err(error),",
        new: "Err(error) if number < 100 => return Err(error),",
    },
    Mutation {
        name: "what the gateway let through by any way may publish",
        file: INGEST_HANDLER,
        old: "if request.authorizer == Some(authorizer) => None,",
        new: r#"if request.authorizer.is_some() => {
            let _ = authorizer;
            None
        }"#,
    },
    Mutation {
        name: "a stored payload that failed counts as stored",
        file: INGEST_ENQUEUE,
        old: r#"            payloads.put(key, object).await
"#,
        new: r#"            let _ = payloads.put(key, object).await;
            Ok(())
"#,
    },
    Mutation {
        name: "messages are sent before the payloads that they ask for",
        file: INGEST_ENQUEUE,
        old: r#"    store(outlet.payloads, packed, wave).await?;
    let message"#,
        new: "    let message",
    },
    Mutation {
        name: "a message that failed is not sent again",
        file: INGEST_ENQUEUE,
        old: r#"    let failed_again = send_once(sender, queue, failed, &message).await;
    failed_again.into_iter().next().map_or(Ok(()), |(_, error)| Err(error))"#,
        new: r#"    let _: Vec<T> = failed;
    Ok(())"#,
    },
    Mutation {
        name: "unreadable pieces are let go",
        file: "functions/expand/src/lib.rs",
        old: r#"    send(&*context.sender, Queue::Poison, vec![record.body.as_str()], message).await?;
"#,
        new: r#"    let _ = message;
"#,
    },
    Mutation {
        name: "the access key is in a log line",
        file: INGEST_HANDLER,
        old: "    let reason = chain(error);\n",
        new: r#"    tracing::debug!(headers = ?request.headers, "refused");
    let reason = chain(error);
"#,
    },
    Mutation {
        name: "a key in a path is in a log line",
        file: INGEST_HANDLER,
        old: "loggable(&request.path));",
        new: "&*request.path);",
    },
];
