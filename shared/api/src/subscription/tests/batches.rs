//! What batches may come to beside all or none, in documents.

use gridpost_core::topic::Topic;

use super::*;

const ON_FAILURE: &str = "properties.destination.properties.onBatchFailure";

const RESULTS: &str = "properties.destination.properties.partialResults";

fn batched(more: Value) -> Value {
    let mut properties = json!({"endpointUrl": "https://example.com/", "maxEventsPerBatch": 10});
    for (name, value) in more.as_object().expect("members") {
        properties[name] = value.clone();
    }
    webhook(properties)
}

#[test]
fn what_is_asked_for_is_read_and_written() {
    let of = |bisects, reads_results| BatchFailure { bisects, reads_results };
    let table = [
        (json!({}), of(false, false)),
        (json!({"onBatchFailure": "Whole", "partialResults": false}), of(false, false)),
        (json!({"onBatchFailure": null, "partialResults": null}), of(false, false)),
        (json!({"onBatchFailure": "Bisect"}), of(true, false)),
        (json!({"partialResults": true}), of(false, true)),
        (json!({"onBatchFailure": "Bisect", "partialResults": true}), of(true, true)),
    ];
    for (more, want) in table {
        let settings = read_for(Kind::Custom, &batched(more.clone())).expect("valid");
        assert_eq!(settings.batch_failure, want, "{more}");
        let one = gridpost_core::fixtures::subscription("s");
        let one = EventSubscription { batch_failure: want, batching: settings.batching, ..one };
        let written = write(&one, ProfileName::Basic);
        let members = &written["properties"]["destination"]["properties"];
        let is_written =
            (members.get("onBatchFailure").is_some(), members.get("partialResults").is_some());
        assert_eq!(is_written, (want.bisects, want.reads_results), "{members}");
        let stored = serde_json::to_string(&one).expect("JSON");
        assert_eq!(stored.contains("batchFailure"), want != BatchFailure::default());
        assert_eq!(serde_json::from_str::<EventSubscription>(&stored).expect("read"), one);
    }
}

#[test]
fn what_they_need_is_named() {
    let queue = json!({"properties": {"destination": {"endpointType": "SqsQueue", "properties": {
        "resourceId": "arn:aws:sqs:eu-west-1:123456789012:q", "onBatchFailure": "Bisect",
        "partialResults": true}}}});
    let mut nameless = batched(json!({"partialResults": true}));
    nameless["properties"]["eventDeliverySchema"] = json!("CustomInputSchema");
    let table = [
        (webhook_with("onBatchFailure", json!("Bisect")), ON_FAILURE, "set maxEventsPerBatch"),
        (webhook_with("partialResults", json!(true)), RESULTS, "set maxEventsPerBatch"),
        (batched(json!({"onBatchFailure": "halve"})), ON_FAILURE, "'Whole' or 'Bisect'"),
        (batched(json!({"partialResults": "yes"})), RESULTS, "true or false"),
        (queue.clone(), ON_FAILURE, "belongs to WebHook"),
        (queue, RESULTS, "belongs to WebHook"),
    ];
    for (document, path, rule) in table {
        let problems = read_for(Kind::Custom, &document).expect_err(path);
        let found = problems.iter().find(|problem| problem.path == path);
        let found = found.unwrap_or_else(|| panic!("{path}: {problems:?}"));
        assert!(found.rule.contains(rule), "{path}: {}", found.rule);
    }
    let topic = Topic { input_schema: InputSchema::CustomEventSchema, ..topic(Kind::Custom) };
    let allowed = Allowed::default();
    let context = Context { topic: &topic, existing: None, now: NOW, allowed: &allowed };
    let problems = read(&nameless, &context).expect_err("no ids");
    let found = problems.iter().find(|problem| problem.path == RESULTS).expect("named");
    assert!(found.rule.contains("needs events with ids"), "{}", found.rule);
}
