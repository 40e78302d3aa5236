//! S3: buckets that may be missing, or refuse for hours. Objects are kept only if requested.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use async_trait::async_trait;
use gridpost_core::{
    delivery::dead_letter::{Labels, Origin},
    subscription::SubscriptionKey,
    time::Timestamp,
};
use gridpost_ports::{Bucket, BucketError, Clock, DeadLetters, Listed, PortError};
use serde_json::Value;
use uuid::Uuid;

use crate::{
    clock::VirtualClock,
    event,
    history::{DeadLetter, History, Published},
};

/// The call that stores an object.
pub const PUT: &str = "s3:PutObject";

pub const LIST: &str = "s3:ListObjectsV2";

/// The call that reads an object.
pub const GET: &str = "s3:GetObject";

/// The call that deletes an object.
pub const DELETE: &str = "s3:DeleteObject";

/// How a deployment's buckets behave. Any name is a bucket unless it is missing.
#[derive(Clone, Debug)]
pub struct BucketSettings {
    /// Names of buckets that do not exist.
    pub missing: BTreeSet<String>,
    pub refuses: Vec<Range<Timestamp>>,
    /// Names of objects that can't be read.
    pub unreadable: BTreeSet<String>,
    /// Names of objects that are archived, or whose key is disabled.
    pub sealed: BTreeSet<String>,
    /// Most objects of one page of a list.
    pub page_max: usize,
    /// How long it takes to read an object.
    pub read_time: Duration,
    /// Whether objects and calls are kept to be read back; a simulation has no memory for them.
    pub keeps_objects: bool,
}

impl BucketSettings {
    /// S3 without faults, with everything kept.
    pub const CALM: Self = Self {
        missing: BTreeSet::new(),
        refuses: Vec::new(),
        unreadable: BTreeSet::new(),
        sealed: BTreeSet::new(),
        page_max: 1_000,
        read_time: Duration::ZERO,
        keeps_objects: true,
    };
}

/// A kept object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    pub body: Vec<u8>,
    /// The origin in its labels, if they are ours.
    pub origin: Option<Origin>,
    pub written_at: Timestamp,
}

/// The kept objects and the calls.
#[derive(Debug, Default)]
struct Contents {
    objects: BTreeMap<(String, String), Object>,
    /// Calls, each with the object's name or the list's prefix.
    calls: Vec<(&'static str, String)>,
}

/// All buckets of one fixture.
pub struct Buckets {
    settings: Mutex<BucketSettings>,
    contents: Mutex<Contents>,
    clock: VirtualClock,
    history: Arc<Mutex<History>>,
}

impl Buckets {
    pub fn new(
        settings: BucketSettings,
        clock: VirtualClock,
        history: Arc<Mutex<History>>,
    ) -> Self {
        Self { settings: Mutex::new(settings), contents: Mutex::default(), clock, history }
    }

    /// How they behave from now on.
    pub fn settings(&self) -> MutexGuard<'_, BucketSettings> {
        self.settings.lock().expect("no panic while held")
    }

    /// Inserts an object, as if it had been written at its time.
    pub fn insert(&self, bucket: &str, name: &str, object: Object) {
        self.contents().objects.insert((bucket.to_owned(), name.to_owned()), object);
    }

    /// The objects of a bucket, by name.
    pub fn objects(&self, bucket: &str) -> BTreeMap<String, Object> {
        let contents = self.contents();
        let of_it = contents.objects.iter().filter(|((found, _), _)| found == bucket);
        of_it.map(|((_, name), object)| (name.clone(), object.clone())).collect()
    }

    /// The subjects of calls of that kind, successful or not, in order: an object's name, or a
    /// list's prefix.
    pub fn calls(&self, of: &str) -> Vec<String> {
        let contents = self.contents();
        let of_it = contents.calls.iter().filter(|(call, _)| *call == of);
        of_it.map(|(_, about)| about.clone()).collect()
    }

    fn contents(&self) -> MutexGuard<'_, Contents> {
        self.contents.lock().expect("no panic while held")
    }

    /// Records a call. Fails if the bucket is missing or refuses.
    fn call(&self, call: &'static str, bucket: &str, about: &str) -> Result<(), BucketError> {
        let settings = self.settings();
        if settings.keeps_objects {
            self.contents().calls.push((call, about.to_owned()));
        }
        if settings.missing.contains(bucket) {
            return Err(BucketError::NotFound);
        }
        let now = self.clock.now();
        if settings.refuses.iter().any(|window| window.contains(&now)) {
            return Err(PortError::new(call, "SlowDown").into());
        }
        Ok(())
    }

    /// Records the contents of an object in the history.
    fn note(
        &self,
        in_hand: &[Uuid],
        key: &str,
        labels: &Labels,
        body: &[u8],
    ) -> Result<(), PortError> {
        let records: Vec<Value> =
            serde_json::from_slice(body).map_err(|error| PortError::new(PUT, error))?;
        let mut history = self.history.lock().expect("no panic while held");
        let at = self.clock.now();
        for record in records {
            let event = record.get("event").unwrap_or(&record);
            let id = event::name_of(event);
            if history.published.get(&id).is_some_and(|of| !has_data_of(event, of)) {
                history.violation(at, format!("a dead letter with other data: {record}"));
            }
            let label = |wanted: &str| labels.iter().find(|(name, _)| *name == wanted);
            let owner = Origin::of(|wanted| label(wanted).map(|(_, value)| value.clone()));
            let owner = owner.map(|origin| origin.subscription);
            let said = |one: &Uuid| history.stored.get(one).map_or(0, |count| *count as usize);
            let delivery =
                owner.as_ref().and_then(|owner| history.carrier_in(owner, &id, in_hand, said));
            let Some((delivery, owner)) = delivery.zip(owner) else {
                history.violation(at, format!("a dead letter of nobody's event: {record}"));
                continue;
            };
            history.note_twins(&owner, &id, in_hand);
            history.trace(at, || format!("dead letter {delivery} in {key}"));
            *history.stored.entry(delivery).or_default() += 1;
            let found = DeadLetter { delivery, at, record, writes: 0 };
            // Written again under the same name, it is the same.
            let kept = history.dead_letters.entry((key.to_owned(), id, delivery)).or_insert(found);
            kept.writes += 1;
            // The rest of a claimed delivery has an id of its own. A fault that affects it affects the
            // delivery.
            let is_rest = !in_hand.contains(&delivery);
            if is_rest && in_hand.iter().any(|one| history.disturbances(*one) > 0) {
                history.disturb(at, delivery, "a call about what was left of it was disturbed");
            }
        }
        Ok(())
    }
}

/// Whether a dead letter has the data of an event as it was published.
fn has_data_of(event: &Value, published: &Published) -> bool {
    let text = serde_json::from_str::<Value>(&published.text).unwrap_or_default();
    event["data"] == if published.is_own { text } else { text["data"].clone() }
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
        labels: &Labels,
        body: Vec<u8>,
    ) -> Result<(), BucketError> {
        self.put_by(&[], bucket, key, labels, body)
    }
}

impl Buckets {
    /// Stores an object for a caller that has these deliveries in hand.
    pub(crate) fn put_by(
        &self,
        in_hand: &[Uuid],
        bucket: &str,
        key: &str,
        labels: &Labels,
        body: Vec<u8>,
    ) -> Result<(), BucketError> {
        self.call(PUT, bucket, key)?;
        self.note(in_hand, key, labels, &body)?;
        if self.settings().keeps_objects {
            let label = |wanted: &str| labels.iter().find(|(name, _)| *name == wanted);
            let origin = Origin::of(|wanted| label(wanted).map(|(_, value)| value.clone()));
            // S3 reports whole seconds.
            let written_at = Timestamp::from_millis(self.clock.now().as_seconds() * 1_000);
            self.insert(bucket, key, Object { body, origin, written_at });
        }
        Ok(())
    }
}

#[async_trait]
impl DeadLetters for Buckets {
    async fn list(
        &self,
        bucket: &str,
        prefix: &str,
        after: Option<&str>,
    ) -> Result<Vec<Listed>, BucketError> {
        self.call(LIST, bucket, prefix)?;
        let most = self.settings().page_max;
        let contents = self.contents();
        let first = (bucket.to_owned(), after.unwrap_or(prefix).max(prefix).to_owned());
        let found = contents
            .objects
            .range(first..)
            .take_while(|((of, name), _)| of == bucket && name.starts_with(prefix));
        let found = found.filter(|((_, name), _)| after.is_none_or(|after| after < name.as_str()));
        let listed = |((_, name), object): (&(String, String), &Object)| Listed {
            name: name.clone(),
            bytes: object.body.len() as u64,
            written_at: object.written_at,
        };
        Ok(found.take(most).map(listed).collect())
    }

    async fn get(
        &self,
        bucket: &str,
        name: &str,
    ) -> Result<Option<(Vec<u8>, Option<Origin>)>, BucketError> {
        let read_time = self.settings().read_time;
        if !read_time.is_zero() {
            tokio::time::sleep(read_time).await;
        }
        self.call(GET, bucket, name)?;
        if self.settings().unreadable.contains(name) {
            return Err(PortError::new(GET, "SlowDown").into());
        }
        if self.settings().sealed.contains(name) {
            return Err(BucketError::Unreadable(PortError::new(GET, "KMS.DisabledException")));
        }
        let contents = self.contents();
        let found = contents.objects.get(&(bucket.to_owned(), name.to_owned()));
        Ok(found.map(|object| (object.body.clone(), object.origin.clone())))
    }

    async fn delete(&self, bucket: &str, name: &str) -> Result<(), BucketError> {
        self.call(DELETE, bucket, name)?;
        self.contents().objects.remove(&(bucket.to_owned(), name.to_owned()));
        let mut history = self.history.lock().expect("no panic while held");
        history.operated.deleted_letters.insert(name.to_owned(), self.clock.now());
        Ok(())
    }
}
