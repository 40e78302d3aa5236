//! Tests of event subscriptions whose dead letters can't be read.

use clap::Parser;
use serde_json::{Value, json};

use super::*;
use crate::{output::Output, target::TargetArguments};
use gridpost_ops::testkit::{
    FakeApi,
    documents::{dead_letter, list, subscription, topic},
};

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    filter: Filter,

    #[command(flatten)]
    sent: Sent,
}

#[derive(Parser)]
struct Whole {
    #[command(subcommand)]
    command: DeadLetterCommand,
}

fn refused(message: &str) -> Value {
    json!({"error": {"code": "Conflict", "message": message}})
}

/// The bucket of `a` is gone, `gone` was deleted since its name was read, and `b` has three letters.
async fn api() -> FakeApi {
    let one = |name: &str| {
        let bucket = json!({"endpointType": "S3Bucket", "properties": {"bucketName": "bucket"}});
        subscription(name, &json!({"properties": {"deadLetterDestination": bucket}}))
    };
    let counted = json!({"events": 3, "redrivenEvents": 1, "byReason": {"R": 3},
        "byEventType": {}, "unreadable": 0});
    let letter = dead_letter(&json!({"id": "1"}));
    FakeApi::answering(&[
        ("GET /topics/t/eventSubscriptions/a/", 409, refused("no bucket")),
        ("GET /topics/t/eventSubscriptions/gone/", 404, refused("gone")),
        ("GET /topics/t/eventSubscriptions/b/deadLetters:count", 200, counted),
        ("GET /topics/t/eventSubscriptions/b/deadLetters/1", 200, letter.clone()),
        ("GET /topics/t/eventSubscriptions/b/deadLetters", 200, list(&[letter])),
        ("GET /topics/t/eventSubscriptions ", 200, list(&[one("a"), one("gone"), one("b")])),
        ("GET /topics/u/eventSubscriptions/a/", 409, refused("no bucket")),
        ("GET /topics/u/eventSubscriptions ", 200, list(&[one("a")])),
        ("GET /topics/w/eventSubscriptions/a/", 400, refused("from")),
        ("GET /topics/w/eventSubscriptions ", 200, list(&[one("a"), one("b")])),
        ("GET /topics ", 200, list(&[topic("t", &json!({}))])),
    ])
    .await
}

#[tokio::test]
async fn one_that_cant_be_read_keeps_no_count_of_the_others_back() {
    let fake = api().await;
    let api = ManageApi::connect(&fake.url()).await.expect("built");
    let Line { filter, sent } = Line::parse_from(["count"]);
    let now = Timestamp::from_millis(0);
    let counts = count(&api, &filter, sent, now).await.expect("the others");
    let counted = json!(counts);
    assert_eq!((&counted["events"], &counted["openEvents"]), (&json!(3), &json!(2)));
    assert_eq!(counted["byEventSubscription"], json!({"t/b": 3}));
    let want = json!([{"whose": "t/a", "error": "Conflict (HTTP 409): no bucket"}]);
    assert_eq!(counted["failed"], want);
    let told = counts.unread.check().expect_err("not all").to_string();
    let want =
        "1 of 3 event subscriptions could not be read:\n  t/a: Conflict (HTTP 409): no bucket";
    assert_eq!(told, want);
    let Letters { letters, unread, .. } =
        found(&api, &filter, sent, now, 9).await.expect("the others");
    assert_eq!((letters.len(), letters[0].owner.subscription.as_str()), (1, "b"));
    assert!(!unread.is_empty() && unread.nothing_found().ends_with("could be read."));
}

#[tokio::test]
async fn each_command_fails_behind_what_it_printed() {
    let fake = api().await;
    let target = TargetArguments { manage_url: Some(fake.url()), ..TargetArguments::default() };
    let common = Common { target, output: Output::new(true) };
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("letters.jsonl").display().to_string();
    let run = async |words: &[&str]| {
        let words = std::iter::once("dead-letter").chain(words.iter().copied());
        let Whole { command } = Whole::parse_from(words);
        super::run(command, &common).await
    };
    let commands: [&[&str]; 4] =
        [&["list"], &["count"], &["summary"], &["export", "--to-file", file.as_str()]];
    for words in commands {
        let told = run(words).await.expect_err("not all").to_string();
        assert!(told.contains("1 of 3") && told.contains("t/a: Conflict"), "{words:?} {told}");
    }
    let text = std::fs::read_to_string(&file).expect("what was exported");
    assert_eq!(text.lines().count(), 1, "{text}");
    run(&["count", "--topic", "t", "--subscription", "b"]).await.expect("it can be read");
    // The only one is the command's own failure, and what is named must be there; what is wrong with
    // the request is wrong for all of them.
    let refused: [(&[&str], u16); 4] = [
        (&["--topic", "t", "--subscription", "a"], 409),
        (&["--topic", "t", "--subscription", "gone"], 404),
        (&["--topic", "u"], 409),
        (&["--topic", "w"], 400),
    ];
    for (flags, status) in refused {
        let words: Vec<_> = std::iter::once("count").chain(flags.iter().copied()).collect();
        let error = run(&words).await.expect_err("refused");
        let refusal = error.downcast_ref::<Refusal>().expect("the server's");
        assert_eq!(refusal.status, status, "{words:?}");
        assert!(chain(&error).contains('/'), "{words:?} {error:#}");
    }
}
