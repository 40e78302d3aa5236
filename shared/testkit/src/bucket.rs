//! S3: buckets that may be missing, or refuse for hours.

use std::{
    collections::BTreeSet,
    ops::Range,
    sync::{Arc, Mutex},
};

use async_trait::async_trait;
use gridpost_core::{
    delivery::dead_letter::Labels, subscription::SubscriptionKey, time::Timestamp,
};
use gridpost_ports::{Bucket, BucketError, Clock, PortError};
use serde_json::Value;

use crate::{
    clock::VirtualClock,
    history::{DeadLetter, History},
};

/// All buckets of one world. Any name is a bucket unless it is missing.
pub struct Buckets {
    /// Names of buckets that do not exist.
    pub missing: BTreeSet<String>,
    /// When every bucket refuses.
    pub refuses: Vec<Range<Timestamp>>,
    /// The time.
    pub clock: VirtualClock,
    /// Where stored records are noted.
    pub history: Arc<Mutex<History>>,
}

impl Buckets {
    /// Buckets of any name, which never refuse.
    pub fn new(clock: VirtualClock, history: Arc<Mutex<History>>) -> Self {
        Self { missing: BTreeSet::new(), refuses: Vec::new(), clock, history }
    }

    fn store(&self, key: &str, body: &[u8]) -> Result<(), PortError> {
        let records: Vec<Value> =
            serde_json::from_slice(body).map_err(|error| PortError::new("s3:PutObject", error))?;
        let mut history = self.history.lock().expect("no panic while held");
        let at = self.clock.now();
        for record in records {
            let event = record.get("event").unwrap_or(&record);
            let id = event["id"].as_str().unwrap_or_default().to_owned();
            let owner = event["subject"].as_str().and_then(subscription_of);
            let Some(delivery) = owner.and_then(|owner| history.carrier(&owner, &id)) else {
                history.violation(at, format!("a dead letter of nobody's event: {record}"));
                continue;
            };
            history.trace(at, || format!("dead letter {delivery} in {key}"));
            *history.stored.entry(delivery).or_default() += 1;
            history.dead_letters.insert((key.to_owned(), id), DeadLetter { delivery, at, record });
        }
        Ok(())
    }
}

/// The event subscription that an event was made for: simulated events have it as their subject.
pub fn subscription_of(subject: &str) -> Option<SubscriptionKey> {
    let (topic, name) = subject.split_once('/')?;
    Some(SubscriptionKey { topic: topic.to_owned(), name: name.to_owned() })
}

#[async_trait]
impl Bucket for Buckets {
    async fn put(
        &self,
        bucket: &str,
        key: &str,
        _: &Labels,
        body: Vec<u8>,
    ) -> Result<(), BucketError> {
        if self.missing.contains(bucket) {
            return Err(BucketError::NotFound);
        }
        let now = self.clock.now();
        if self.refuses.iter().any(|window| window.contains(&now)) {
            return Err(PortError::new("s3:PutObject", "SlowDown").into());
        }
        Ok(self.store(key, &body)?)
    }
}
