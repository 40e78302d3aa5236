//! AWS resources as endpoints.

use async_trait::async_trait;

use super::PortError;
use gridpost_core::{
    delivery::{resource_check::Finding, resource_request::Entry},
    retry::outcome::Answer,
    subscription::Resource,
};

/// Sends events to AWS resources.
#[async_trait]
pub trait ResourceClient: Send + Sync {
    /// Makes one call; answers are in the order of its entries. It never fails: an error is the
    /// answer of every entry that it affects.
    async fn send(&self, resource: &Resource, entries: Vec<Entry>) -> Vec<Answer>;

    /// Checks the resource without changing anything. It never fails: an error is the finding.
    async fn check(&self, resource: &Resource) -> Finding;
}

/// Asks the function that will deliver to check a resource, with its own role, clients and network.
#[async_trait]
pub trait ResourceChecker: Send + Sync {
    /// The function's finding.
    async fn check(&self, resource: &Resource) -> Result<Finding, PortError>;
}
