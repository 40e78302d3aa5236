//! How the process's file descriptors are shared out.

/// Descriptors for everything but connections: the database, the log, dead letters, name resolution, and
/// a client that is accepted before another one is closed for it.
const OTHERS: u64 = 64;

/// The fewest connections of either side, however few descriptors there are.
const LEAST: u64 = 8;

/// How many connections may be open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connections {
    /// To endpoints, idle ones included.
    pub endpoints: usize,
    /// Of clients.
    pub clients: usize,
}

impl Connections {
    /// Shares out that many open files: some for everything else, and half of the rest for each side.
    pub fn of(open_files: u64) -> Self {
        let each = (open_files.saturating_sub(OTHERS) / 2).max(LEAST);
        let each = usize::try_from(each).unwrap_or(usize::MAX);
        Self { endpoints: each, clients: each }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_are_shared_out() {
        // (open files, connections of each side)
        for (open_files, each) in
            [(0, 8), (64, 8), (80, 8), (100, 18), (256, 96), (1_024, 480), (20_000, 9_968)]
        {
            let shared = Connections::of(open_files);
            assert_eq!((shared.endpoints, shared.clients), (each, each), "{open_files}");
            let all = (shared.endpoints + shared.clients) as u64 + OTHERS;
            assert!(all <= open_files.max(OTHERS + 2 * LEAST), "{open_files}");
        }
    }
}
