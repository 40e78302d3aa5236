//! The queues that deliveries go through.

use std::fmt;

/// A queue by its role.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Queue {
    /// First attempts only; nothing in it is ever hidden to wait.
    Dispatch,
    /// Everything after a first failure or deferral, by shard.
    Retry(usize),
    /// What has been held back because its endpoint is slow, in large batches. A deployment without this
    /// queue leaves it in the retry queues.
    Slow,
    DeadLetter,
    /// Pieces of publishes too large to fan out within their request.
    FanOut,
    Redrive,
    /// Messages that could not be read or settled.
    Poison,
}

impl fmt::Display for Queue {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dispatch => formatter.write_str("dispatch"),
            Self::Retry(shard) => write!(formatter, "retry-{shard}"),
            Self::Slow => formatter.write_str("slow"),
            Self::DeadLetter => formatter.write_str("dead-letter"),
            Self::FanOut => formatter.write_str("fan-out"),
            Self::Redrive => formatter.write_str("redrive"),
            Self::Poison => formatter.write_str("poison"),
        }
    }
}

/// The lowest `queue_message_bytes_max` that a deployment may set in Terraform.
pub const MESSAGE_BYTES_MAX_LOWEST: usize = 224 * 1_024;

/// The queues' `maxReceiveCount`: SQS then moves a message to the poison queue.
pub const POISON_RECEIVES: u32 = 1_000;

/// The longest delay that SQS allows.
pub const DELAY_S_MAX: u32 = 900;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_queues_have_the_receives_that_the_code_reckons_with() {
        let terraform = include_str!("../../../../infra/queues.tf");
        let of = terraform.lines().find_map(|line| line.trim().strip_prefix("receives_max = "));
        assert_eq!(of, Some(POISON_RECEIVES.to_string().as_str()));
        assert_eq!(terraform.matches("maxReceiveCount     = local.receives_max").count(), 1);
    }
}
