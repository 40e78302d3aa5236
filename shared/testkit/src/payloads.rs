//! The payload bucket of S3: what is stored is visible at once.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use gridpost_core::{delivery::claim, publish::fan_out};
use gridpost_ports::{Clock, Payloads, PortError};
use uuid::Uuid;

use crate::{clock::VirtualClock, history::History};

/// The payload bucket of one fixture. Its objects are in the history, where the checker reads them.
pub struct PayloadBucket {
    pub clock: VirtualClock,
    pub history: Arc<Mutex<History>>,
}

/// The delivery whose events an object holds.
pub fn delivery_of(key: &str) -> Option<Uuid> {
    named(key, claim::key)
}

/// The publish that an object is.
fn publish_of(key: &str) -> Option<Uuid> {
    named(key, fan_out::key)
}

fn named(key: &str, name: impl Fn(Uuid) -> String) -> Option<Uuid> {
    let (_, id) = key.rsplit_once('/')?;
    id.parse().ok().filter(|id| name(*id) == key)
}

#[async_trait]
impl Payloads for PayloadBucket {
    async fn put(&self, key: &str, object: Vec<u8>) -> Result<(), PortError> {
        let now = self.clock.now();
        let mut history = self.history.lock().expect("no panic while held");
        if let Some(publish) = publish_of(key) {
            history.trace(now, || format!("publish {publish}: {} bytes", object.len()));
            history.publishes.insert(publish, object);
            return Ok(());
        }
        let Some(delivery) = delivery_of(key) else {
            history.violation(now, format!("an object of no delivery and no publish: {key}"));
            return Err(PortError::new("s3:PutObject", "AccessDenied"));
        };
        history.trace(now, || format!("payload of {delivery}: {} bytes", object.len()));
        let is_over = history.payloads.get(&delivery).is_some_and(|stored| stored == claim::ENDED);
        if is_over && object != claim::ENDED {
            history.disturb(now, delivery, "its publish was expanded once more");
        }
        history.payloads.insert(delivery, object);
        Ok(())
    }

    async fn get(&self, key: &str) -> Result<Option<Vec<u8>>, PortError> {
        let mut history = self.history.lock().expect("no panic while held");
        history.payload_reads += 1;
        let publish = publish_of(key).and_then(|publish| history.publishes.get(&publish));
        let object = publish.or_else(|| history.payloads.get(&delivery_of(key)?));
        Ok(object.cloned())
    }
}
