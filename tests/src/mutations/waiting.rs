//! Bugs in wake, in what the functions share of the ports, and in the slow lane, for their own tests
//! to notice.

use super::Mutation;

const WAKE_PAGE: &str = "functions/wake/src/page.rs";
const PORTS_DEAD_LETTER_WALK: &str = "shared/ports/src/dead_letter_walk.rs";

/// Those in the slow lane.
pub(super) const LANE: &[Mutation] = &[Mutation {
    name: "a request that hangs is one vote only",
    file: "functions/dispatch/src/lane.rs",
    old: r#"        vote(context, subscription).await;
        pending::<()>().await;"#,
    new: "        pending::<()>().await;",
}];

/// Those in wake.
pub(super) const WAKE: &[Mutation] = &[
    Mutation {
        name: "wake goes on though what it has sent was not removed",
        file: WAKE_PAGE,
        old: r#"        return Page { lots, ..Page::failed(strand, done, error) };
    }
    for (parked, reason)"#,
        new: r#"        tracing::warn!(error = %chain(&error), "not removed");
    }
    for (parked, reason)"#,
    },
    Mutation {
        name: "a cursor that can't be noted gives up what is under way",
        file: "functions/wake/src/lib.rs",
        old: "                run.failed.get_or_insert(error);\n                // More",
        new: "                return Err(error);\n                // More",
    },
    Mutation {
        name: "wake has one page in hand at a time",
        file: "functions/wake/src/lib.rs",
        old: "const PAGES_AT_ONCE: usize = 8;",
        new: "const PAGES_AT_ONCE: usize = 1;",
    },
    Mutation {
        name: "what can't be sent is removed before it is parked anew",
        file: WAKE_PAGE,
        old: r#"    context.parking.park(&later).await?;
    context.parking.remove(&parked).await?;"#,
        new: r#"    context.parking.remove(&parked).await?;
    context.parking.park(&later).await?;"#,
    },
];

/// Those in the ports.
pub(super) const PORTS: &[Mutation] = &[
    Mutation {
        name: "an archived dead letter holds up all others",
        file: "shared/ports/src/dead_letter_walk.rs",
        old: "return Ok(vec![Item { position, found, is_last: true, is_sealed: true }]);",
        new: "return found.map(|_: Found| Vec::new()).map_err(|_| BucketError::NotFound);",
    },
    Mutation {
        name: "other event subscriptions' dead letters in a walk",
        file: PORTS_DEAD_LETTER_WALK,
        old: "origin.subscription != self.source.subscription)",
        new: "origin.subscription.topic.is_empty())",
    },
    Mutation {
        name: "a walk passes over an object that could not be read",
        file: PORTS_DEAD_LETTER_WALK,
        old: "some[at..].iter()",
        new: "some[at + 1..].iter()",
    },
    Mutation {
        name: "an object that is removed while it is listed ends a walk",
        file: PORTS_DEAD_LETTER_WALK,
        old: "let Some((body, origin)) = got else { return Ok(Vec::new()) };",
        new: "let Some((body, origin)) = got else { return Err(BucketError::NotFound) };",
    },
];
