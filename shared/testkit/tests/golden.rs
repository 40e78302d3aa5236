//! Messages and items as they are in queues, tables and buckets while a new version is rolled out:
//! `golden/1` has those of the first version, `golden/2` those of the second, and so on.
//!
//! Every version reads all of them, and writes the last ones to the byte. A failing test here means
//! that a format has changed. While there are deployments, existing files stay as they are, and the
//! new format gets a folder of its own; the versions before must be able to read that too, for
//! rolling back.
//!
//! So there are two ways to a second version. A member that may be left out keeps the number (`v`): copy
//! the last folder to the next, and change the text there; versions before skip the member. Where skipping
//! it would be wrong, the number rises, and versions before refuse the message, keep it or move it to the
//! poison queue. For a rollback, then release a version first that reads the new number and still writes
//! the old one.

use std::{collections::BTreeMap, error::Error, fs, path::Path};

use gridpost_core::{
    delivery::{
        Delivery,
        dead_letter::Ended,
        listeners::Listeners,
        parking::Parked,
        redrive::{Job, RedriveMessage},
        state::DeliveryState,
    },
    publish::{
        fan_out::{self, Piece},
        idempotency::Record,
    },
    retry::health::Health,
    subscription::{EventSubscription, Secrets},
    topic::{AccessKeys, Changes, Topic},
};
use serde::{Serialize, de::DeserializeOwned};

type Rewritten = Result<String, Box<dyn Error>>;

fn document<T: Serialize + DeserializeOwned>(text: &str) -> Rewritten {
    Ok(serde_json::to_string(&serde_json::from_str::<T>(text)?)?)
}

/// Reads a text of that kind, as the functions do, and writes what was read.
fn rewritten(kind: &str, text: &str) -> Rewritten {
    match kind {
        "delivery" => Ok(Delivery::decode(text)?.encode()),
        "ended" => Ok(serde_json::to_string(&Ended::decode(text)?)?),
        "piece" => Ok(Piece::decode(text)?.encode()),
        "publish" => {
            let packed = fan_out::decode(text.as_bytes(), 262_144)?;
            Ok(String::from_utf8(fan_out::encode(&packed))?)
        }
        "redrive" => {
            Ok(RedriveMessage::decode(text).ok_or("no message of the redrive queue")?.encode())
        }
        "state" => document::<DeliveryState>(text),
        "health" => document::<Health>(text),
        "parked" => document::<Parked>(text),
        "job" => document::<Job>(text),
        "listeners" => document::<Listeners>(text),
        "record" => document::<Record>(text),
        "topic" => document::<Topic>(text),
        "changes" => document::<Changes>(text),
        "keys" => document::<AccessKeys>(text),
        "subscription" => document::<EventSubscription>(text),
        "secrets" => document::<Secrets>(text),
        _ => Err("it is of no kind that is known")?,
    }
}

/// The stored texts by version and name.
fn stored() -> BTreeMap<(u32, String), String> {
    let mut found = BTreeMap::new();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    for folder in fs::read_dir(root).expect("the folder").flatten() {
        let version = folder.file_name().to_string_lossy().parse().expect("a version");
        for file in fs::read_dir(folder.path()).expect("a folder").flatten() {
            let name = file.file_name().to_string_lossy().into_owned();
            let name = name.strip_suffix(".json").expect("JSON").to_owned();
            let text = fs::read_to_string(file.path()).expect("a text");
            found.insert((version, name), text.trim_end().to_owned());
        }
    }
    found
}

#[test]
fn what_was_stored_is_read_and_what_is_written_stays_as_it_is() {
    let all = stored();
    let last = all.keys().map(|(version, _)| *version).max().expect("a version");
    let mut problems = Vec::new();
    for ((version, name), text) in &all {
        let kind = name.split('-').next().unwrap_or_default();
        match rewritten(kind, text) {
            Err(error) => problems.push(format!("{version}/{name} is not read: {error}")),
            Ok(now) if *version == last && now != *text => {
                problems.push(format!("{version}/{name} is written otherwise now:\n{now}"));
            }
            Ok(_) => {}
        }
    }
    assert!(problems.is_empty(), "\n{}", problems.join("\n"));
}

/// All kinds, each with every member that it may have: a member that is missing here could change
/// unnoticed.
#[test]
fn every_kind_is_stored() {
    let kinds = [
        "delivery",
        "delivery-first",
        "delivery-claimed",
        "ended",
        "piece",
        "publish",
        "redrive-message",
        "state-waiting",
        "state-ending",
        "state-delivered",
        "state-ended",
        "health",
        "parked",
        "job",
        "listeners",
        "record-begun",
        "record-done",
        "topic",
        "changes",
        "keys",
        "subscription-webhook",
        "subscription-resource",
        "secrets",
    ];
    let all = stored();
    let last = all.keys().map(|(version, _)| *version).max().expect("a version");
    let mut names: Vec<_> = all.keys().filter(|(version, _)| *version == last).collect();
    names.sort_unstable();
    let mut kinds = kinds.map(|kind| (last, kind.to_owned()));
    kinds.sort_unstable();
    assert_eq!(names, kinds.iter().collect::<Vec<_>>());
}

/// A message of a newer version is refused as a whole, so that functions keep it or move it to the
/// poison queue: read as far as it is known, the addition of the newer version would be gone.
#[test]
fn a_newer_version_is_refused_and_not_misread() {
    let mut refused = Vec::new();
    for ((version, name), text) in stored() {
        let mut newer: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        // An ended delivery has the version of its delivery.
        let place = if newer["delivery"]["v"].is_null() { "/v" } else { "/delivery/v" };
        let Some(own) = newer.pointer_mut(place) else { continue };
        *own = serde_json::json!(99);
        let kind = name.split('-').next().unwrap_or_default();
        let read = rewritten(kind, &newer.to_string());
        assert!(read.is_err(), "{version}/{name} is read as another version: {read:?}");
        refused.push(kind.to_owned());
    }
    refused.dedup();
    assert_eq!(refused, ["delivery", "ended", "piece", "publish", "redrive"]);
}

/// The positions and counters that are in texts come back as numbers, not as their defaults.
#[test]
fn nothing_that_was_stored_is_forgotten() {
    for ((version, name), text) in stored() {
        let stored: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        let kind = name.split('-').next().unwrap_or_default();
        let now = rewritten(kind, &text).expect("it is read");
        let now: serde_json::Value = serde_json::from_str(&now).expect("JSON");
        let (Some(stored), Some(now)) = (stored.as_object(), now.as_object()) else { continue };
        for member in stored.keys() {
            assert!(now.contains_key(member), "{version}/{name} loses {member}");
        }
    }
}
