//! Dead letters in memory.

use std::collections::{BTreeMap, BTreeSet};

use gridpost_core::time::Timestamp;
use gridpost_ports::Listed;

struct Object {
    body: Vec<u8>,
    written_at: Timestamp,
}

/// All buckets, and the objects in them by name.
#[derive(Default)]
pub(super) struct Shelf {
    buckets: BTreeSet<String>,
    objects: BTreeMap<(String, String), Object>,
}

fn key(bucket: &str, name: &str) -> (String, String) {
    (bucket.to_owned(), name.to_owned())
}

impl Shelf {
    pub(super) fn create(&mut self, bucket: &str) {
        self.buckets.insert(bucket.to_owned());
    }

    pub(super) fn buckets(&self) -> Vec<String> {
        self.buckets.iter().cloned().collect()
    }

    pub(super) fn has(&self, bucket: &str) -> bool {
        self.buckets.contains(bucket)
    }

    pub(super) fn put(&mut self, bucket: &str, name: &str, body: Vec<u8>, now: Timestamp) {
        let written_at = Timestamp::from_millis(now.as_seconds() * 1_000);
        self.objects.insert(key(bucket, name), Object { body, written_at });
    }

    pub(super) fn get(&self, bucket: &str, name: &str) -> Option<Vec<u8>> {
        self.objects.get(&key(bucket, name)).map(|object| object.body.clone())
    }

    pub(super) fn delete(&mut self, bucket: &str, name: &str) {
        self.objects.remove(&key(bucket, name));
    }

    pub(super) fn list(
        &self,
        bucket: &str,
        prefix: &str,
        after: Option<&str>,
        most: usize,
    ) -> Vec<Listed> {
        let first = key(bucket, after.unwrap_or(prefix).max(prefix));
        let here = self.objects.range(first..);
        let here = here.take_while(|((of, name), _)| of == bucket && name.starts_with(prefix));
        let behind = here.filter(|((_, name), _)| after.is_none_or(|after| after < name.as_str()));
        let listed = behind.map(|((_, name), object)| Listed {
            name: name.clone(),
            bytes: object.body.len() as u64,
            written_at: object.written_at,
        });
        listed.take(most).collect()
    }
}
