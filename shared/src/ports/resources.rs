//! AWS resources as endpoints.

use async_trait::async_trait;

use crate::{
    delivery::{outcome::Answer, resource_request::Entry},
    subscription::Resource,
};

/// Sends events to AWS resources.
#[async_trait]
pub trait ResourceClient: Send + Sync {
    /// Makes one call; the answers are those of its entries, in their order. It never fails: whatever
    /// goes wrong is the answer of every entry that it went wrong for.
    async fn send(&self, resource: &Resource, entries: Vec<Entry>) -> Vec<Answer>;
}
