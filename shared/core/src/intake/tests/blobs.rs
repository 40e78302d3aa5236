//! Objects of S3 as blobs.

use serde_json::{Value, json};

use super::{EVENT_BRIDGE_S3, S3_PUT, cloud_event, event_grid, source};
use crate::intake::{Carries, Envelope, Source};

fn blobs(carries: Carries) -> Source {
    source(Envelope::None, carries, true)
}

fn s3(name: &str, key: &str) -> String {
    S3_PUT.replace("ObjectCreated:Put", name).replace("HappyFace.jpg", key)
}

#[test]
fn a_created_object_is_a_created_blob() {
    let event = event_grid(&blobs(Carries::S3), S3_PUT);
    let want = json!({
        "id": event["id"],
        "subject": "/blobServices/default/containers/amzn-s3-demo-bucket/blobs/HappyFace.jpg",
        "eventType": "Microsoft.Storage.BlobCreated",
        "eventTime": "1970-01-01T00:00:00.000Z",
        "dataVersion": "",
        "data": {
            "api": "PutBlob",
            "clientRequestId": "FMyUVURIY8/IgAtTv8xRjskZQpcIZ9KG4V5Wp6S7S/JRWeUWerMUE5JgHvANOjpD",
            "requestId": "C3D13FE58DE4C810",
            "eTag": "d41d8cd98f00b204e9800998ecf8427e",
            "contentType": "application/octet-stream",
            "contentLength": 1024,
            "blobType": "BlockBlob",
            "url": "https://amzn-s3-demo-bucket.s3.us-west-2.amazonaws.com/HappyFace.jpg",
            "sequencer": "0055AED6DCD90281E500000000000000",
            "storageDiagnostics": {"batchId": event["data"]["storageDiagnostics"]["batchId"]},
        },
    });
    assert_eq!(event, want);
    let cloud = cloud_event(&blobs(Carries::S3), S3_PUT);
    assert_eq!(cloud["source"], "arn:aws:s3:::amzn-s3-demo-bucket");
    assert_eq!(cloud["type"], event["eventType"]);
    assert_eq!((&cloud["subject"], &cloud["data"]), (&event["subject"], &event["data"]));
    assert_eq!((&cloud["id"], &cloud["time"]), (&event["id"], &event["eventTime"]));
}

#[test]
fn event_names_table() {
    let created = "Microsoft.Storage.BlobCreated";
    let deleted = "Microsoft.Storage.BlobDeleted";
    let table = [
        ("ObjectCreated:Put", created, "PutBlob"),
        ("ObjectCreated:Post", created, "PutBlob"),
        ("ObjectCreated:Copy", created, "CopyBlob"),
        ("ObjectCreated:CompleteMultipartUpload", created, "PutBlockList"),
        ("ObjectCreated:SomethingNew", created, "PutBlob"),
        ("s3:ObjectCreated:Put", created, "PutBlob"),
        ("ObjectRemoved:Delete", deleted, "DeleteBlob"),
        ("ObjectRemoved:DeleteMarkerCreated", deleted, "DeleteBlob"),
        ("LifecycleExpiration:Delete", deleted, "DeleteBlob"),
        ("LifecycleExpiration:DeleteMarkerCreated", deleted, "DeleteBlob"),
        ("ObjectRestore:Completed", "com.amazonaws.s3.ObjectRestore:Completed", ""),
        ("ObjectTagging:Put", "com.amazonaws.s3.ObjectTagging:Put", ""),
    ];
    for (name, event_type, api) in table {
        let text = s3(name, "k").replace("096fKKXTRTtl3on89fVO.nfljtsv6qko", "");
        let event = event_grid(&blobs(Carries::S3), &text);
        assert_eq!(event["eventType"], event_type, "{name}");
        assert_eq!(event["data"]["api"].as_str().unwrap_or_default(), api, "{name}");
        if event_type == deleted {
            let data = event["data"].as_object().expect("data");
            assert!(!data.contains_key("eTag") && !data.contains_key("contentLength"), "{name}");
        }
    }
}

/// Whether the record names a version.
#[test]
fn a_version_that_is_deleted_is_no_deleted_blob() {
    let table = [
        ("ObjectRemoved:Delete", false, true),
        ("ObjectRemoved:Delete", true, false),
        ("ObjectRemoved:DeleteMarkerCreated", true, true),
        ("LifecycleExpiration:Delete", false, true),
        ("LifecycleExpiration:Delete", true, false),
        ("LifecycleExpiration:DeleteMarkerCreated", true, true),
        ("ObjectCreated:Put", true, false),
    ];
    let without = "096fKKXTRTtl3on89fVO.nfljtsv6qko";
    assert!(S3_PUT.contains(without));
    for (name, version, is_deleted) in table {
        let text = s3(name, "k");
        let text = if version { text } else { text.replace(without, "") };
        let event_type = &event_grid(&blobs(Carries::S3), &text)["eventType"];
        assert_eq!(event_type == "Microsoft.Storage.BlobDeleted", is_deleted, "{name} {version}");
        if name.ends_with(":Delete") && version {
            assert_eq!(*event_type, format!("com.amazonaws.s3.{name}"));
        }
    }
    let permanent = r#""Permanently Deleted""#;
    let table = [
        (permanent, r#""v1""#, "Object Deleted"),
        (permanent, r#""""#, "Microsoft.Storage.BlobDeleted"),
        (permanent, "null", "Microsoft.Storage.BlobDeleted"),
        (r#""Delete Marker Created""#, r#""v1""#, "Microsoft.Storage.BlobDeleted"),
        ("null", r#""v1""#, "Microsoft.Storage.BlobDeleted"),
    ];
    for (deletion_type, version, want) in table {
        let mut event: Value = serde_json::from_str(EVENT_BRIDGE_S3).expect("JSON");
        let value = |text: &str| -> Value { serde_json::from_str(text).expect("JSON") };
        event["detail-type"] = json!("Object Deleted");
        event["detail"]["deletion-type"] = value(deletion_type);
        event["detail"]["object"]["version-id"] = value(version);
        let got = event_grid(&blobs(Carries::EventBridge), &event.to_string());
        assert_eq!(got["eventType"], want, "{deletion_type} {version}");
    }
}

#[test]
fn urls_and_subjects_of_odd_keys() {
    let table = [
        ("a+b%2Bc", "a b+c", "a%20b%2Bc"),
        ("dir/%C3%A4%3F%23.txt", "dir/ä?#.txt", "dir/%C3%A4%3F%23.txt"),
        ("..%2F..%2Fetc", "../../etc", "../../etc"),
        ("line%0Abreak", "line%0Abreak", "line%0Abreak"),
        ("%22quote%5C", "\"quote\\", "%22quote%5C"),
    ];
    for (key, subject, path) in table {
        let event = event_grid(&blobs(Carries::S3), &s3("ObjectCreated:Put", key));
        let start = "/blobServices/default/containers/amzn-s3-demo-bucket/blobs/";
        assert_eq!(event["subject"], format!("{start}{subject}"), "{key}");
        let host = "https://amzn-s3-demo-bucket.s3.us-west-2.amazonaws.com/";
        assert_eq!(event["data"]["url"], format!("{host}{path}"), "{key}");
    }
}

#[test]
fn partitions_have_their_own_hosts_and_sources() {
    for (partition, suffix) in
        [("aws", "com"), ("aws-cn", "com.cn"), ("aws-us-gov", "com"), ("x/evil.example", "com")]
    {
        let arn = |partition| format!("arn:{partition}:s3:::amzn");
        let text = S3_PUT.replace(&arn("aws"), &arn(partition));
        let event = cloud_event(&blobs(Carries::S3), &text);
        let url = event["data"]["url"].as_str().expect("a URL").to_owned();
        let host = format!("https://amzn-s3-demo-bucket.s3.us-west-2.amazonaws.{suffix}/");
        assert!(url.starts_with(&host), "{partition}: {url}");
        let known = if partition.contains('/') { "aws" } else { partition };
        assert_eq!(event["source"], format!("arn:{known}:s3:::amzn-s3-demo-bucket"));
    }
}

#[test]
fn objects_that_event_bridge_tells_of_are_blobs_too() {
    let event = event_grid(&blobs(Carries::EventBridge), EVENT_BRIDGE_S3);
    let want = json!({
        "id": "17793124-05d4-b198-2fde-7ededc63b103",
        "subject": "/blobServices/default/containers/amzn-s3-demo-bucket1/blobs/example-key",
        "eventType": "Microsoft.Storage.BlobCreated",
        "eventTime": "2021-11-12T00:00:00Z",
        "dataVersion": "",
        "data": {
            "api": "PutBlob",
            "clientRequestId": "",
            "requestId": "N4N7GDK58NMKJ12R",
            "eTag": "b1946ac92492d2347c6235b4d2611184",
            "contentType": "application/octet-stream",
            "contentLength": 5,
            "blobType": "BlockBlob",
            "url": "https://amzn-s3-demo-bucket1.s3.ca-central-1.amazonaws.com/example-key",
            "sequencer": "617f08299329d1890000000000000000",
            "storageDiagnostics": {"batchId": event["data"]["storageDiagnostics"]["batchId"]},
        },
    });
    assert_eq!(event, want);
    let other = |from: &str, to: &str| {
        event_grid(&blobs(Carries::EventBridge), &EVENT_BRIDGE_S3.replace(from, to))
    };
    // EventBridge's keys are not encoded.
    let plus = other("example-key", "a+b%20c");
    assert_eq!(
        plus["subject"],
        "/blobServices/default/containers/amzn-s3-demo-bucket1/blobs/a+b%20c"
    );
    for (reason, api) in [("CopyObject", "CopyBlob"), ("CompleteMultipartUpload", "PutBlockList")] {
        assert_eq!(other("PutObject", reason)["data"]["api"], api);
    }
    let deleted = other("Object Created", "Object Deleted");
    assert_eq!(deleted["eventType"], "Microsoft.Storage.BlobDeleted");
    assert_eq!(deleted["data"]["api"], "DeleteBlob");
    // Other events stay what they are.
    assert_eq!(other("aws.s3", "my.app")["eventType"], "Object Created");
    let restored = other("Object Created", "Object Restore Completed");
    let whole: Value = serde_json::from_str(EVENT_BRIDGE_S3).expect("JSON");
    assert_eq!(restored["eventType"], "Object Restore Completed");
    assert_eq!(restored["data"]["detail"], whole["detail"]);
}
