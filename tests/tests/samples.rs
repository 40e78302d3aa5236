//! The sample payloads in `functions/*/samples` are what the functions take.

use std::fs;
use std::path::{Path, PathBuf};

use gridpost_core::delivery::{Delivery, dead_letter::Ended, redrive::RedriveMessage};
use gridpost_core::publish::fan_out::Piece;
use serde_json::Value;

fn samples(function: &str) -> Vec<(PathBuf, Value)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace");
    let folder = root.join("functions").join(function).join("samples");
    let files = fs::read_dir(&folder).unwrap_or_else(|err| panic!("{}: {err}", folder.display()));
    let read = |path: PathBuf| {
        let text = fs::read_to_string(&path).expect("readable");
        let value = serde_json::from_str(&text);
        (path.clone(), value.unwrap_or_else(|err| panic!("{}: {err}", path.display())))
    };
    files.flatten().map(|entry| read(entry.path())).collect()
}

/// The bodies of a sample's SQS records.
fn bodies(sample: &Value) -> Vec<&str> {
    let records = sample["Records"].as_array().expect("records");
    records.iter().map(|record| record["body"].as_str().expect("a body")).collect()
}

#[test]
fn dispatch_reads_its_samples_but_the_one_that_is_none() {
    for (path, sample) in samples("dispatch") {
        let is_delivery = !path.ends_with("not-a-delivery.json");
        for body in bodies(&sample) {
            assert_eq!(Delivery::decode(body).is_ok(), is_delivery, "{}", path.display());
        }
    }
}

#[test]
fn dead_letter_reads_its_samples() {
    for (path, sample) in samples("dead-letter") {
        for body in bodies(&sample) {
            let ended: Ended = serde_json::from_str(body)
                .unwrap_or_else(|err| panic!("{}: {err}", path.display()));
            assert_eq!(ended.records().len(), 1, "{}", path.display());
        }
    }
}

#[test]
fn redrive_reads_its_sample_and_expand_does_not() {
    for (path, sample) in samples("redrive") {
        for body in bodies(&sample) {
            assert!(RedriveMessage::decode(body).is_some(), "{}", path.display());
        }
    }
    for (path, sample) in samples("expand") {
        for body in bodies(&sample) {
            assert!(Piece::decode(body).is_err(), "{}", path.display());
        }
    }
}

#[test]
fn every_function_has_samples() {
    for function in
        ["ingest", "intake", "expand", "dispatch", "dead-letter", "redrive", "manage", "wake"]
    {
        assert!(!samples(function).is_empty(), "{function}");
    }
}
