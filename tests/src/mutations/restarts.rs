//! Bugs in reopening the stores of one machine.

use super::Mutation;

const ROWS: &str = "shared/embedded/src/queues/rows.rs";

/// Bugs that the worlds with restarts find.
pub(super) const SIMULATION: &[Mutation] = &[
    Mutation {
        name: "what waits is visible when the process is started again",
        file: ROWS,
        old: "        let visible_at = if visible_at == sent_at { sent_at.min(now) } else { visible_at };",
        new: "        let visible_at = visible_at.min(now);",
    },
    Mutation {
        name: "what was hidden when the process ended is lost",
        file: ROWS,
        old: "FROM messages ORDER BY id\";",
        new: "FROM messages WHERE receives = 0 ORDER BY id\";",
    },
];
