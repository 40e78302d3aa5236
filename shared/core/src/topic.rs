//! Topics: where events enter.

use std::{
    collections::{BTreeSet, VecDeque},
    time::Duration,
};

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::{
    event::mapping::InputSchemaMapping, name, retry::profile::ProfileName, secret::Secret,
    time::Timestamp,
};

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

/// The most changes kept: with a topic's document, they usually fit one read unit of 4 KB.
const CHANGES_MAX: usize = 16;

/// One change. Names are folded: see [`crate::name`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Change {
    /// Created or changed.
    Written(String),
    Deleted(String),
    Keys,
}

/// The resources that the latest changes wrote or deleted besides the topic itself.
///
/// A cached topic that is a few changes old only reads what these changed, not all of up to 500
/// event subscriptions. And a concurrent reader can tell whether its result includes a change:
/// DynamoDB shows the items of a transaction one after the other.
///
/// A change of more than [`CHANGES_MAX`] is dropped with all earlier ones: cached topics read all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Changes {
    /// Each with the number of its revision, the oldest first.
    latest: VecDeque<(u64, Change)>,
    /// All changes with greater numbers are known.
    after: u64,
}

/// The changes since an earlier revision, with folded names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChangesSince<'c> {
    pub names: BTreeSet<&'c str>,
    pub keys: bool,
}

impl Change {
    /// Records that an event subscription was created or changed.
    pub fn written(name: &str) -> Self {
        Self::Written(name::folded(name))
    }

    /// Records that an event subscription was deleted.
    pub fn deleted(name: &str) -> Self {
        Self::Deleted(name::folded(name))
    }
}

impl Changes {
    /// Adds the changes that make revision `number`.
    #[must_use]
    pub fn with(&self, number: u64, changes: impl IntoIterator<Item = Change>) -> Self {
        let mut next = self.clone();
        next.latest.extend(changes.into_iter().map(|change| (number, change)));
        while next.latest.len() > CHANGES_MAX {
            let forgotten = next.latest.pop_front().map_or(number, |(number, _)| number);
            // The changes of one revision are kept together or not at all.
            next.after = next.after.max(forgotten);
            next.latest.retain(|(number, _)| *number > forgotten);
        }
        next
    }

    /// Returns the changes after revision `number` of the same creation, if they are known.
    pub fn since(&self, number: u64) -> Option<ChangesSince<'_>> {
        if number < self.after {
            return None;
        }
        let mut since = ChangesSince::default();
        for (_, change) in self.latest.iter().filter(|(changed_at, _)| *changed_at > number) {
            match change {
                Change::Written(name) | Change::Deleted(name) => {
                    since.names.insert(name);
                }
                Change::Keys => since.keys = true,
            }
        }
        Some(since)
    }

    /// Returns whether what was read includes these changes. `among` says which names were read;
    /// `found` returns the revision at which a name was written, if it exists.
    pub fn are_in(
        &self,
        among: impl Fn(&str) -> bool,
        found: impl Fn(&str) -> Option<u64>,
    ) -> bool {
        let mut seen = BTreeSet::new();
        // Only the latest change of each name counts.
        self.latest.iter().rev().all(|(number, change)| match change {
            Change::Written(name) | Change::Deleted(name) if !among(name) || !seen.insert(name) => {
                true
            }
            Change::Written(name) => found(name).is_some_and(|revision| revision >= *number),
            Change::Deleted(name) => found(name).is_none_or(|revision| revision > *number),
            Change::Keys => true,
        })
    }

    /// Returns whether access keys of that revision include these changes.
    pub fn are_in_keys(&self, revision: u64) -> bool {
        let mut keys = self.latest.iter().filter(|(_, change)| *change == Change::Keys);
        keys.all(|(number, _)| revision >= *number)
    }
}

/// Returns the resource id of a topic's name.
pub fn id_of(name: &str) -> String {
    format!("/topics/{name}")
}

#[cfg(test)]
mod tests {
    use std::cmp::Ordering::{Equal, Greater, Less};

    use super::{
        Change::{Deleted, Keys, Written},
        *,
    };

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

    fn written(name: &str) -> Change {
        Written(name.to_owned())
    }

    fn deleted(name: &str) -> Change {
        Deleted(name.to_owned())
    }

    fn many(count: usize) -> Vec<Change> {
        (0..count).map(|number| written(&format!("s{number}"))).collect()
    }

    #[test]
    fn what_was_changed_since() {
        let none = Changes::default();
        let some = none
            .with(2, [written("a")])
            .with(3, [])
            .with(4, [deleted("b"), deleted("c")])
            .with(5, [Keys])
            .with(6, [written("a")]);
        let table: [(u64, &[&str], bool); 6] = [
            (1, &["a", "b", "c"], true),
            (2, &["a", "b", "c"], true),
            (4, &["a"], true),
            (5, &["a"], false),
            (6, &[], false),
            (9, &[], false),
        ];
        for (number, names, keys) in table {
            let since = some.since(number).expect("known");
            assert_eq!(since.names.into_iter().collect::<Vec<_>>(), names, "since {number}");
            assert_eq!(since.keys, keys, "since {number}");
        }
        assert_eq!(none.since(1), Some(ChangesSince::default()), "the topic alone changed");
    }

    #[test]
    fn the_oldest_are_forgotten_revision_by_revision() {
        let names = |changes: &Changes, number| changes.since(number).map(|some| some.names.len());
        let full = Changes::default().with(2, many(2)).with(3, many(CHANGES_MAX - 2));
        assert_eq!(names(&full, 1), Some(CHANGES_MAX - 2), "two are in both");
        let more = full.with(4, [written("x")]);
        assert_eq!((names(&more, 1), names(&more, 2)), (None, Some(CHANGES_MAX - 1)));
        let too_many = more.with(5, many(CHANGES_MAX + 1));
        assert_eq!((names(&too_many, 4), names(&too_many, 5)), (None, Some(0)));
        let one = too_many.with(6, [written("b")]);
        assert_eq!((names(&one, 4), names(&one, 5)), (None, Some(1)));
    }

    #[test]
    fn what_was_read_too_early_is_told_by_its_revisions() {
        let changes = Changes::default().with(7, [written("a")]).with(8, [deleted("b")]);
        let again = changes.with(9, [deleted("a")]).with(10, [written("b")]);
        // Changes; the revisions of a and b as found; whether the changes are in them.
        let table = [
            (&changes, Some(7), None, true),
            (&changes, Some(12), None, true),
            (&changes, Some(6), None, false),
            (&changes, None, None, false),
            (&changes, Some(7), Some(3), false),
            (&changes, Some(7), Some(11), true),
            (&again, None, Some(10), true),
            (&again, Some(7), Some(10), false),
            (&again, None, Some(3), false),
        ];
        for (changes, a, b, want) in table {
            let found = |name: &str| if name == "a" { a } else { b };
            assert_eq!(changes.are_in(|_| true, found), want, "{changes:?}: {a:?}, {b:?}");
        }
        assert!(changes.are_in(|name| name == "b", |_| None), "the other one was not read");
        let keys = Changes::default().with(3, [Keys]).with(5, [Keys]);
        assert_eq!([4, 5, 6].map(|revision| keys.are_in_keys(revision)), [false, true, true]);
    }
}
