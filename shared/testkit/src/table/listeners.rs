//! The listeners for late responses.

use async_trait::async_trait;
use gridpost_core::time::Timestamp;
use gridpost_ports::{LateListeners, Listener, PortError};

use super::Tables;
#[async_trait]
impl LateListeners for Tables {
    async fn join(
        &self,
        listener: Listener,
        most: usize,
        now: Timestamp,
    ) -> Result<bool, PortError> {
        if let Some(real) = self.real() {
            return real.join(listener, most, now).await;
        }
        let mut items = self.items();
        let listeners = items.listeners.entry(listener.queue).or_default();
        let next = listeners.join(listener.id, listener.until, most, now);
        let joined = next.is_some();
        if let Some(next) = next {
            *listeners = next;
        }
        Ok(joined)
    }

    async fn leave(&self, listener: Listener) -> Result<(), PortError> {
        if let Some(real) = self.real() {
            return real.leave(listener).await;
        }
        let mut items = self.items();
        let listeners = items.listeners.entry(listener.queue).or_default();
        *listeners = listeners.leave(listener.id);
        Ok(())
    }
}
