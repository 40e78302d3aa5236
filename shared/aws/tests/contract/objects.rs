//! S3.

use gridpost_aws::s3::{PayloadBucket, S3Bucket};
use gridpost_core::{delivery::dead_letter::Origin, event::DeliverySchema};
use gridpost_ports::{Bucket, BucketError, DeadLetters, Payloads};
use gridpost_testkit::contract;

use super::replay::{Answer, Replay, text};

fn refusal(status: u16, code: &str) -> Answer {
    text(
        status,
        &format!("<?xml version=\"1.0\"?>\n<Error><Code>{code}</Code><Message>m</Message></Error>"),
    )
}

/// S3's refusals. A missing object is also 403 where listing is not allowed.
fn refusals() -> [Answer; 5] {
    [
        refusal(403, "AccessDenied"),
        refusal(503, "SlowDown"),
        refusal(500, "InternalError"),
        refusal(400, "RequestTimeout"),
        text(403, ""),
    ]
}

fn letters(replay: &Replay) -> S3Bucket {
    S3Bucket::new(replay.clients().s3())
}

fn payloads(replay: &Replay) -> PayloadBucket {
    PayloadBucket::new(replay.clients(), "payloads".to_owned())
}

#[tokio::test(start_paused = true)]
async fn a_refusal_of_s3_is_neither_success_nor_absence() {
    for answer in refusals() {
        let replay = Replay::always(answer);
        contract::objects::a_bucket_that_refuses_is_unavailable(&letters(&replay)).await;
        contract::objects::an_object_that_is_refused_is_an_error(&payloads(&replay)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_bucket_that_does_not_exist_says_so() {
    let replay = Replay::always(refusal(404, "NoSuchBucket"));
    contract::objects::a_missing_bucket_is_not_found(&letters(&replay)).await;
    // A missing payload bucket is a failure of the deployment, not of one delivery.
    contract::objects::an_object_that_is_refused_is_an_error(&payloads(&replay)).await;
}

/// Other objects can still be read. A refusal that may concern all is an ordinary failure.
#[tokio::test(start_paused = true)]
async fn an_object_that_its_owner_has_archived_is_unreadable_alone() {
    for (code, alone) in [
        ("InvalidObjectState", true),
        ("KMS.DisabledException", true),
        ("AccessDenied", false),
        ("SlowDown", false),
    ] {
        let replay = Replay::always(refusal(403, code));
        let refused = letters(&replay).get(contract::BUCKET, "k").await;
        let is_alone = matches!(refused, Err(BucketError::Unreadable(_)));
        assert_eq!(is_alone, alone, "{code}: {refused:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_object_that_does_not_exist_is_none() {
    let replay = Replay::always(refusal(404, "NoSuchKey"));
    contract::objects::an_object_that_is_not_there_is_none(&payloads(&replay)).await;
    let found = letters(&replay).get(contract::BUCKET, "k").await.expect("readable");
    assert!(found.is_none());
}

#[tokio::test(start_paused = true)]
async fn an_object_is_read_with_what_its_labels_say() {
    let bare = || text(200, "[1]");
    let labelled = bare()
        .with("x-amz-meta-gridpost-topic", "t")
        .with("x-amz-meta-gridpost-event-subscription", "s")
        .with("x-amz-meta-gridpost-delivery-schema", "CloudEventSchemaV1_0");
    let replay = Replay::of([labelled, bare()]);
    let get =
        async || letters(&replay).get(contract::BUCKET, "k").await.expect("it").expect("is there");
    let schema = DeliverySchema::CloudEventSchemaV1_0;
    assert_eq!(
        get().await,
        (b"[1]".to_vec(), Some(Origin { subscription: contract::key(), schema }))
    );
    assert_eq!(get().await, (b"[1]".to_vec(), None));
}

#[tokio::test(start_paused = true)]
async fn an_object_is_written_whole_under_its_name() {
    let replay = Replay::of([text(200, ""), text(200, ""), text(204, "")]);
    let origin = Origin { subscription: contract::key(), schema: DeliverySchema::EventGridSchema };
    let body = br#"{"a":1}"#.to_vec();
    letters(&replay)
        .put("letters", "f/k.json", &origin.labels(), body.clone())
        .await
        .expect("stored");
    payloads(&replay).put("deliveries/7", body).await.expect("stored");
    letters(&replay).delete("letters", "f/k.json").await.expect("deleted");
    let asked = replay.asked();
    let lines = ["PUT https://letters.s3", "PUT https://payloads.s3", "DELETE https://letters.s3"];
    for (asked, line) in asked.iter().zip(lines) {
        assert!(asked.line.starts_with(line), "{}", asked.line);
    }
    assert!(asked[0].line.contains("/f/k.json") && asked[1].line.contains("/deliveries/7"));
    assert_eq!((&asked[0].body["a"], &asked[1].body["a"]), (&1.into(), &1.into()));
}

/// A list ends with an empty answer.
#[tokio::test(start_paused = true)]
async fn a_list_goes_on_behind_a_name() {
    let page = r#"<?xml version="1.0"?>
        <ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Name>letters</Name>
        <IsTruncated>true</IsTruncated><NextContinuationToken>x</NextContinuationToken>
        <Contents><Key>dead/a.json</Key><Size>7</Size><LastModified>2026-01-02T03:04:05.000Z</LastModified></Contents>
        <Contents><Key>dead/b.json</Key><Size>8</Size><LastModified>2026-01-02T03:04:06.000Z</LastModified></Contents>
        </ListBucketResult>"#;
    let none = r#"<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"/>"#;
    let replay = Replay::of([text(200, page), text(200, none)]);
    let found = letters(&replay).list(contract::BUCKET, "dead/", None).await.expect("a page");
    let listed: Vec<_> = found.iter().map(|it| (it.name.as_str(), it.bytes)).collect();
    assert_eq!(listed, [("dead/a.json", 7), ("dead/b.json", 8)]);
    assert_eq!(found[0].written_at.to_iso_8601(), "2026-01-02T03:04:05.000Z");
    let after = Some("dead/b.json");
    let rest = letters(&replay).list(contract::BUCKET, "dead/", after).await.expect("a page");
    assert_eq!(rest.len(), 0);
    let asked = replay.asked();
    assert!(asked[0].line.contains("prefix=dead%2F") && !asked[0].line.contains("start-after"));
    assert!(asked[1].line.contains("start-after=dead%2Fb.json"), "{}", asked[1].line);
}
