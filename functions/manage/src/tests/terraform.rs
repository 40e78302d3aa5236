//! Event subscriptions as Terraform resources.

use gridpost_testkit::consent::ConsentAnswer;
use serde_json::{Value, json};

use super::{Fixture, S1_GET, body, webhook};
use crate::terraform::{answer, is_invocation};

fn invocation(operation: &str, name: &str, document: &Value) -> Value {
    json!({"terraform": operation, "topic": "demo", "name": name, "document": document})
}

fn removal(topic: &str, name: &str, action: &str) -> Value {
    let own = json!({"terraform": "remove", "topic": topic, "name": name});
    let mut event = own.clone();
    event["tf"] = json!({"action": action, "prev_input": own});
    event
}

async fn refusal(fixture: &Fixture, event: &Value) -> String {
    answer(&fixture.context, event).await.expect_err("refused").to_string()
}

#[test]
fn a_request_of_api_gateway_is_none_of_terraforms() {
    let sample = include_str!("../../samples/create-topic.json");
    assert!(!is_invocation(&serde_json::from_str(sample).expect("JSON")));
    assert!(is_invocation(&json!({"terraform": "write"})));
}

#[tokio::test(start_paused = true)]
async fn a_subscription_lives_and_goes_with_its_resource() {
    let fixture = Fixture::with_subscription().await;
    let document = webhook("https://e.example/new?code=hush");
    let life = |action: &'static str| removal("demo", "s-2", action);
    assert_eq!(answer(&fixture.context, &life("create")).await, Ok(json!({})));
    assert_eq!(fixture.subscription_uid("s-2"), None);

    let written = answer(&fixture.context, &invocation("write", "s-2", &document)).await;
    let written = written.expect("written");
    let read = fixture.call("GET /topics/demo/eventSubscriptions/s-2").await;
    assert_eq!(&written, body(&read));
    assert!(!written.to_string().contains("hush"), "Terraform keeps the answer in its state");
    let uid = fixture.subscription_uid("s-2");

    let mut changed = document.clone();
    changed["properties"]["labels"] = json!(["new"]);
    let written = answer(&fixture.context, &invocation("write", "s-2", &changed)).await;
    assert_eq!(written.expect("written")["properties"]["labels"], json!(["new"]));
    assert_eq!(fixture.subscription_uid("s-2"), uid, "changed, it stays what it is");

    assert_eq!(answer(&fixture.context, &life("update")).await, Ok(json!({})));
    assert_eq!(fixture.subscription_uid("s-2"), uid);
    assert_eq!(answer(&fixture.context, &life("delete")).await, Ok(json!({})));
    assert_eq!(fixture.subscription_uid("s-2"), None);
    assert!(fixture.subscription_uid("s-1").is_some());
    // What is gone, alone or with its topic, need not be deleted.
    assert_eq!(answer(&fixture.context, &life("delete")).await, Ok(json!({})));
    assert_eq!(answer(&fixture.context, &removal("none", "s-2", "delete")).await, Ok(json!({})));
}

#[tokio::test(start_paused = true)]
async fn writing_over_an_existing_one_adopts_it() {
    let fixture = Fixture::with_subscription().await;
    let uid = fixture.subscription_uid("s-1");
    // As a read has given it, without the URL's query.
    let document = body(&fixture.call(S1_GET).await).clone();
    let written = answer(&fixture.context, &invocation("write", "s-1", &document)).await;
    assert_eq!(written, Ok(document));
    assert_eq!((fixture.subscription_uid("s-1"), fixture.asked()), (uid, 1));
}

#[tokio::test(start_paused = true)]
async fn validation_finds_what_writing_refuses() {
    let fixture = Fixture::with_subscription().await;
    let (asked, stored) = (fixture.asked(), fixture.topic("demo"));
    let good = webhook("https://other.example/h");
    let mut bad = webhook("https://10.0.0.1/?code=hush");
    bad["properties"]["retryPolicy"] = json!({"maxDeliveryAttempts": 31, "patience": 1});
    let no_topic =
        json!({"terraform": "validate", "topic": "none", "name": "s-2", "document": good});
    let table = [
        ("s-2", invocation("validate", "s-2", &good), vec![]),
        ("s-1", invocation("validate", "s-1", &good), vec![]),
        (
            "bad members",
            invocation("validate", "s-2", &bad),
            vec![
                "properties.retryPolicy.maxDeliveryAttempts must be a whole number from 1 to 30",
                "properties.retryPolicy.patience is not known",
                "properties.destination.properties.endpointUrl is a URL that must not be called",
            ],
        ),
        ("no object", invocation("validate", "s-2", &json!([])), vec!["$ must be an object"]),
        ("a bad name", invocation("validate", "s 2", &good), vec!["name must be"]),
        ("a path", invocation("validate", "s-2/x", &good), vec!["There is nothing at"]),
        ("no topic", no_topic, vec!["There is no topic 'none'"]),
    ];
    for (row, event, want) in table {
        let found = answer(&fixture.context, &event).await.expect(row);
        let found = found["problems"].as_array().expect("a list").clone();
        assert_eq!(found.len(), want.len(), "{row}: {found:?}");
        for (found, want) in found.iter().zip(&want) {
            let found = found.as_str().expect("text");
            assert!(found.starts_with(want) && !found.contains("hush"), "{row}: {found}");
        }
        if want.is_empty() {
            continue;
        }
        let mut event = event;
        event["terraform"] = json!("write");
        let refused = refusal(&fixture, &event).await;
        want.iter().for_each(|want| assert!(refused.contains(want), "{row}: {refused}"));
    }
    assert_eq!(
        (fixture.asked(), fixture.topic("demo")),
        (asked, stored),
        "nobody asked, nothing stored"
    );
    assert_eq!(fixture.subscription_uid("s-2"), None);
}

#[tokio::test(start_paused = true)]
async fn a_refusal_names_every_problem_in_one_line() {
    let fixture = Fixture::with_subscription().await;
    let mut bad = webhook("https://e.example/hook?code=hush");
    bad["properties"]["retryPolicy"] = json!({"maxDeliveryAttempts": 31});
    let one = refusal(&fixture, &invocation("write", "s-2", &bad)).await;
    let want = "event subscription s-2 of topic demo: properties.retryPolicy.maxDeliveryAttempts \
                must be a whole number from 1 to 30";
    assert!(one.starts_with(want), "{one}");
    bad["properties"]["colour"] = json!("red");
    let two = refusal(&fixture, &invocation("write", "s-2", &bad)).await;
    assert!(two.starts_with("event subscription s-2 of topic demo: 2 problems: "), "{two}");
    assert!(two.contains(" properties.colour is not known"), "{two}");

    fixture.consent(ConsentAnswer::Denies);
    let endpoint = webhook("https://other.example/h?code=hush");
    let denied = refusal(&fixture, &invocation("write", "s-2", &endpoint)).await;
    assert!(denied.contains("validate the provided endpoint https://other.example/h"), "{denied}");
    assert!(!denied.contains("hush") && !denied.contains('\n'), "{denied}");
    assert_eq!(fixture.subscription_uid("s-2"), None);

    for operation in ["validate", "write"] {
        fixture.fails_after(Some(0));
        let failed = refusal(&fixture, &invocation(operation, "s-1", &endpoint)).await;
        assert!(failed.ends_with("a call failed. Try again."), "{failed}");
    }
    let failed = refusal(&fixture, &removal("demo", "s-1", "delete")).await;
    assert!(failed.ends_with("a call failed. Try again."), "{failed}");
}

#[tokio::test(start_paused = true)]
async fn a_payload_of_another_form_is_refused() {
    let fixture = Fixture::with_subscription().await;
    let table = [
        (json!({"terraform": null}), "3 problems: terraform is required: 'validate', 'write' or"),
        (json!({"terraform": "put", "topic": "demo", "name": "s-1"}), "terraform must be 'val"),
        (json!({"terraform": 1, "topic": "demo", "name": "s-1"}), "terraform must be a string"),
        (json!({"terraform": "write", "topic": "demo", "name": "s-1"}), "document is required"),
        (json!({"terraform": "remove", "topic": "demo", "name": "s-1"}), "tf is required"),
        (
            json!({"terraform": "remove", "topic": "demo", "name": "s-1", "tf": {}}),
            "tf.action is required",
        ),
        (removal("demo", "s-1", "destroy"), "tf.action must be 'create', 'update' or 'delete'"),
        (
            json!({"terraform": "write", "topic": "demo", "name": "s-1", "document": {}, "x": 1}),
            "x is not known; members here are document, name, terraform, tf, topic",
        ),
    ];
    for (event, want) in table {
        let refused = refusal(&fixture, &event).await;
        assert!(refused.contains(want), "{event}: {refused}");
    }
    assert!(fixture.subscription_uid("s-1").is_some());
}
