//! Faults of the calls that say who listens for late responses.

use async_trait::async_trait;
use gridpost_core::time::Timestamp;
use gridpost_ports::{LateListeners, Listener, PortError};

use super::{About, Faulty};
use crate::table::Tables;

#[async_trait]
impl LateListeners for Faulty<Tables> {
    async fn join(
        &self,
        listener: Listener,
        most: usize,
        now: Timestamp,
    ) -> Result<bool, PortError> {
        self.table(About::Other, self.inner.join(listener, most, now)).await
    }

    async fn leave(&self, listener: Listener) -> Result<(), PortError> {
        self.table(About::Other, self.inner.leave(listener)).await
    }
}
