//! Bugs in idempotent publish.

use super::Mutation;

const CORE: &str = "shared/core/src/publish/idempotency.rs";
const REPEAT: &str = "functions/ingest/src/repeat.rs";

/// Those that the simulation notices.
pub(super) const SIMULATION: &[Mutation] = &[
    Mutation {
        name: "a publish that was not enqueued recorded as done",
        file: "functions/ingest/src/handler.rs",
        old: "repeat::end(context, keyed, record, sent.is_ok()).await;",
        new: "repeat::end(context, keyed, record, true).await;",
    },
    Mutation {
        name: "a publish that is under way answered as done",
        file: CORE,
        old: "Err(PublishError::UnderWay { retry_after_s: wait_s(left) })",
        new: "Ok(wait_s(left)).map(|_| Next::Repeated)",
    },
    Mutation {
        name: "no lease: two copies at the same publish",
        file: CORE,
        old: "Standing::Begun { lease_until } if lease_until > now => {",
        new: "Standing::Begun { lease_until } if lease_until > now && self.window.is_zero() => {",
    },
    Mutation {
        name: "a publish that is taken up after a crash makes other deliveries",
        file: CORE,
        old: "Standing::Begun { .. } => Ok(Next::Begin(fresh(stored.publish, stored.revision))),",
        new: "Standing::Begun { .. } => Ok(Next::Begin(fresh(by, stored.revision))),",
    },
];

/// Those that ingest's own tests notice.
pub(super) const INGEST: &[Mutation] = &[
    Mutation {
        name: "another body answered as the first one",
        file: CORE,
        old: "if stored.content != self.content {",
        new: "if stored.content.is_empty() {",
    },
    Mutation {
        name: "a publish with a key taken without the table",
        file: REPEAT,
        old: "match kept.map_err(|error| PublishError::Unavailable(error.into()))? {",
        new: "match kept.unwrap_or(Kept::Written) {",
    },
    Mutation {
        name: "its own record taken for another copy's",
        file: CORE,
        old: "Standing::Begun { .. } if stored.by == by => Ok(Next::Begun(stored.clone())),",
        new: "Standing::Begun { .. } if by.is_max() => Ok(Next::Begun(stored.clone())),",
    },
];
