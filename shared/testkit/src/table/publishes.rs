//! Records of publishes that came with a key.

use async_trait::async_trait;
use gridpost_core::publish::idempotency::{Record, RecordKey};
use gridpost_ports::{Clock, Kept, PortError, PublishRecords};

use super::{Tables, is_gone, stored};

impl Tables {
    /// The stored records, with their names.
    pub fn publish_records(&self) -> Vec<(RecordKey, Record)> {
        let all = self.items();
        all.publishes.iter().map(|(key, record)| (key.clone(), record.clone())).collect()
    }
}

#[async_trait]
impl PublishRecords for Tables {
    async fn save(&self, key: &RecordKey, record: &Record) -> Result<Kept, PortError> {
        if let Some(real) = self.real() {
            return PublishRecords::save(&*real, key, record).await;
        }
        let now = self.clock.now();
        let mut items = self.items();
        let before = items.publishes.get(key);
        let before = before.filter(|before| !is_gone(before.publish, before.until, now));
        if before.map_or(0, |before| before.revision) != record.revision {
            return Ok(Kept::Other(before.cloned()));
        }
        let next = Record { revision: record.revision + 1, ..stored(record)? };
        items.publishes.insert(key.clone(), next);
        Ok(Kept::Written)
    }
}
