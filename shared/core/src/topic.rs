//! Topics: where events enter.

pub mod changes;
pub mod revision;

use std::time::Duration;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::{
    event::mapping::InputSchemaMapping, retry::profile::ProfileName, secret::Secret,
    time::Timestamp,
};

pub use changes::{Change, Changes};
pub use revision::Revision;

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
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Topic {
    /// 3 to 50 of `[A-Za-z0-9-]`, unique in the deployment.
    pub name: String,
    pub kind: Kind,
    pub input_schema: InputSchema,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_schema_mapping: Option<InputSchemaMapping>,
    pub disable_local_auth: bool,
    pub delivery_profile: ProfileName,
    /// `None` does not look at keys.
    #[serde(default, skip_serializing_if = "Option::is_none")]
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

/// Returns the resource id of a topic's name.
pub fn id_of(name: &str) -> String {
    format!("/topics/{name}")
}
