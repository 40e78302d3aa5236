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
    /// Makes one call; the answers are those of its entries, in their order. It never fails: whatever
    /// goes wrong is the answer of every entry that it went wrong for.
    async fn send(&self, resource: &Resource, entries: Vec<Entry>) -> Vec<Answer>;

    /// Asks the service for the resource, and changes nothing. It never fails: whatever goes wrong is
    /// what was found.
    async fn check(&self, resource: &Resource) -> Finding;
}

/// Asks the function that will deliver to check a resource: with its role, its clients, and from where
/// it runs.
#[async_trait]
pub trait ResourceChecker: Send + Sync {
    /// What it has found.
    ///
    /// # Errors
    ///
    /// The function could not be asked.
    async fn check(&self, resource: &Resource) -> Result<Finding, PortError>;
}
