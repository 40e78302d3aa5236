//! Faults of the calls about listeners for late responses.

use async_trait::async_trait;
use gridpost_core::time::Timestamp;
use gridpost_ports::{LateListeners, Listener, PortError};

use super::{About, Faulty, Units};
use crate::table::Tables;

#[async_trait]
impl LateListeners for Faulty<Tables> {
    async fn join(
        &self,
        listener: Listener,
        most: usize,
        now: Timestamp,
    ) -> Result<bool, PortError> {
        let units = [(format!("listeners {}", listener.queue), Units::Write(1))];
        self.table(About::Other, &units, || self.inner.join(listener, most, now)).await
    }

    async fn leave(&self, listener: Listener) -> Result<(), PortError> {
        let units = [(format!("listeners {}", listener.queue), Units::Write(1))];
        self.table(About::Other, &units, || self.inner.leave(listener)).await
    }
}
