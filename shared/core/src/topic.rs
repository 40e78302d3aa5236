//! Topics: where events enter.

pub mod changes;

use std::time::Duration;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::{
    event::mapping::InputSchemaMapping, retry::profile::ProfileName, secret::Secret,
    time::Timestamp,
};

pub use changes::{Change, Changes};

/// The kind of a topic, as in Event Grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[derive(Serialize, Deserialize, strum::IntoStaticStr, strum::VariantNames)]
#[strum(serialize_all = "camelCase")]
#[serde(rename_all = "camelCase")]
pub enum Kind {
    /// Of the basic tier: `POST /topics/{topic}/api/events`.
    Custom,
    /// `POST /topics/{topic}:publish`.
    Namespace,
}

/// The schema in which a topic takes events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[derive(Serialize, Deserialize, strum::IntoStaticStr, strum::VariantNames)]
pub enum InputSchema {
    EventGridSchema,
    /// In JSON, structured or batched.
    CloudEventSchemaV1_0,
    /// The publisher's own, with a mapping.
    CustomEventSchema,
}

/// A topic as it is stored.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Topic {
    /// 3 to 50 of `[A-Za-z0-9-]`, unique in the deployment.
    pub name: String,
    pub kind: Kind,
    pub input_schema: InputSchema,
    pub input_schema_mapping: Option<InputSchemaMapping>,
    pub disable_local_auth: bool,
    pub delivery_profile: ProfileName,
    /// `None` does not look at keys.
    pub idempotency: Option<Idempotency>,
    pub created_at: Timestamp,
    /// New with every change of the topic itself: a change names the version it is based on.
    #[serde(default)]
    pub etag: Uuid,
    /// Counts every change of the topic or of one of its event subscriptions.
    pub revision: u64,
    /// Stored in a separate attribute.
    #[serde(skip)]
    pub changes: Changes,
}

/// How long a topic remembers the keys of publishes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Idempotency {
    /// From the publish.
    pub window_in_seconds: u32,
}

impl Idempotency {
    pub fn window(self) -> Duration {
        Duration::from_secs(self.window_in_seconds.into())
    }
}

/// A topic's two access keys, base64, both valid so that they can be rotated. They are stored apart
/// from the topic: only functions that authenticate publishers may read them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccessKeys(pub [Secret; 2]);

impl Topic {
    /// Returns the resource id, which is also `topic` of Event Grid's events.
    pub fn id(&self) -> String {
        id_of(&self.name)
    }

    /// Returns the revision of this topic and its event subscriptions.
    pub fn at(&self) -> Revision {
        Revision { created_at: self.created_at, number: self.revision }
    }

    /// Returns the topic one revision later, with its changes.
    #[must_use]
    pub fn next(&self, changes: impl IntoIterator<Item = Change>) -> Self {
        let revision = self.revision + 1;
        Self { revision, changes: self.changes.with(revision, changes), ..self.clone() }
    }

    /// Returns the path for publishes.
    pub fn publish_path(&self) -> String {
        match self.kind {
            Kind::Custom => format!("{}/api/events", self.id()),
            Kind::Namespace => format!("{}:publish", self.id()),
        }
    }
}

/// A state of a topic and its event subscriptions: the topic's creation, and the number of changes
/// since. Numbers only compare within one creation; a later creation is newer.
///
/// It is stored as a pair, `[1795248000123, 7]`. The default is older than any stored one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[derive(Serialize, Deserialize)]
#[serde(from = "(Timestamp, u64)", into = "(Timestamp, u64)")]
pub struct Revision {
    pub created_at: Timestamp,
    /// Counts every change of the topic or of one of its event subscriptions.
    pub number: u64,
}

impl From<(Timestamp, u64)> for Revision {
    fn from((created_at, number): (Timestamp, u64)) -> Self {
        Self { created_at, number }
    }
}

impl From<Revision> for (Timestamp, u64) {
    fn from(revision: Revision) -> Self {
        (revision.created_at, revision.number)
    }
}

/// Returns the resource id of a topic's name.
pub fn id_of(name: &str) -> String {
    format!("/topics/{name}")
}

#[cfg(test)]
mod tests {
    use std::cmp::Ordering::{Equal, Greater, Less};

    use super::*;

    fn revision(created: i64, number: u64) -> Revision {
        Revision { created_at: Timestamp::from_millis(created), number }
    }

    #[test]
    fn numbers_compare_within_one_creation_and_a_later_creation_is_newer() {
        let table = [
            ((5, 3), (5, 3), Equal),
            ((5, 3), (5, 4), Less),
            ((5, 10), (5, 9), Greater),
            ((6, 1), (5, 9), Greater),
            ((5, 900), (6, 1), Less),
        ];
        for (one, other, want) in table {
            let ordering = revision(one.0, one.1).cmp(&revision(other.0, other.1));
            assert_eq!(ordering, want, "{one:?} {other:?}");
        }
        assert!(Revision::default() < revision(1, 1));
    }

    #[test]
    fn it_travels_as_a_pair() {
        let text = serde_json::to_string(&revision(1_795_248_000_123, 7)).expect("JSON");
        assert_eq!(text, "[1795248000123,7]");
        let read: Revision = serde_json::from_str(&text).expect("a pair");
        assert_eq!(read, revision(1_795_248_000_123, 7));
    }
}
