//! What a change of an event subscription keeps, and what it may not change.

use gridpost_core::{
    endpoint::arn::AllowedResources,
    subscription::{Resource, ResourceKind, attributes::AttributeValue},
};

use super::*;

const VALUE: &str =
    "properties.destination.properties.deliveryAttributeMappings[0].properties.value";

fn allowed() -> Allowed {
    let patterns = "arn:aws:sqs:eu-central-1:123456789012:*".parse().expect("a pattern");
    let resources = AllowedResources { region: "eu-central-1".to_owned(), patterns };
    Allowed { resources, ..Allowed::default() }
}

/// The header `Authorization`, a secret, with that value.
fn secret(value: Value) -> Value {
    json!([{"name": "Authorization", "type": "Static",
        "properties": {"value": value, "isSecret": true}}])
}

fn secret_at(url: &str, value: Value) -> Value {
    webhook(json!({"endpointUrl": url, "deliveryAttributeMappings": secret(value)}))
}

fn put(document: &Value, existing: Option<&EventSubscription>) -> Result<Settings, Problems> {
    let (topic, allowed) = (topic(Kind::Custom), allowed());
    read(document, &Context { topic: &topic, existing, now: NOW, allowed: &allowed })
}

fn patch(document: &Value, existing: &EventSubscription) -> Result<Settings, Problems> {
    let (topic, allowed) = (topic(Kind::Custom), allowed());
    let context = Context { topic: &topic, existing: Some(existing), now: NOW, allowed: &allowed };
    read_patch(document, existing, &context)
}

/// The secret that a change leaves, or the path of the one problem that it has.
fn outcome(changed: Result<Settings, Problems>) -> Result<String, String> {
    match changed {
        Ok(settings) => match &settings.delivery_attributes[0].value {
            AttributeValue::Secret { value } => Ok(value.expose().to_owned()),
            other => panic!("no secret: {other:?}"),
        },
        Err(problems) => {
            let problems: Vec<_> = problems.iter().map(|problem| problem.path.clone()).collect();
            Err(problems.join(" "))
        }
    }
}

#[test]
fn a_secret_does_not_follow_an_endpoint_to_another_party() {
    let existing = put(&secret_at("https://e.example/hook?code=1", json!("hush")), None);
    let existing = stored(existing.expect("valid"));
    let table = [
        ("https://e.example/hook?code=1", true),
        ("https://e.example/other", true),
        ("https://E.EXAMPLE:443/hook", true),
        ("https://e.example:8443/hook", false),
        ("https://f.example/hook", false),
        ("https://sub.e.example/hook", false),
        ("https://e.example.f.example/hook", false),
        ("https://f.example/https://e.example/hook", false),
    ];
    for (url, is_kept) in table {
        let changed = put(&secret_at(url, Value::Null), Some(&existing));
        let want = if is_kept { Ok("hush".to_owned()) } else { Err(VALUE.to_owned()) };
        assert_eq!(outcome(changed), want, "PUT {url}");
        let flat = json!({"destination": {"properties": {"endpointUrl": url}}});
        let want = want.map_err(|path| path.replace("properties.destination", "destination"));
        assert_eq!(outcome(patch(&flat, &existing)), want, "PATCH {url}");
        let anew = put(&secret_at(url, json!("new")), Some(&existing));
        assert_eq!(outcome(anew), Ok("new".to_owned()), "{url}");
    }
    let arn = |name: &str| format!("arn:aws:sqs:eu-central-1:123456789012:{name}");
    let queue = |name: &str| {
        let properties =
            json!({"resourceId": arn(name), "deliveryAttributeMappings": secret(Value::Null)});
        destination(json!({"endpointType": "SqsQueue", "properties": properties}))
    };
    assert_eq!(outcome(put(&queue("q"), Some(&existing))), Err(VALUE.to_owned()));
    let endpoint = Endpoint::Resource(Resource {
        kind: ResourceKind::SqsQueue,
        arn: arn("q").parse().expect("an ARN"),
        message_group_id: None,
        partition_key: None,
    });
    let to_queue = EventSubscription { endpoint, ..existing };
    assert_eq!(outcome(put(&queue("q"), Some(&to_queue))), Ok("hush".to_owned()));
    for document in [queue("other"), secret_at("https://e.example/hook", Value::Null)] {
        assert_eq!(outcome(put(&document, Some(&to_queue))), Err(VALUE.to_owned()), "{document}");
    }
}

#[test]
fn a_patch_may_leave_out_the_type_of_a_destination() {
    let document =
        webhook(json!({"endpointUrl": "https://e.example/hook", "maxEventsPerBatch": 9}));
    let existing = stored(put(&document, None).expect("valid"));
    let change = json!({"destination": {"properties":
        {"onBatchFailure": "Bisect", "partialResults": true}}});
    let changed = patch(&change, &existing).expect("of a webhook").batch_failure;
    assert!(changed.bisects && changed.reads_results, "{changed:?}");
    let existing = EventSubscription { batch_failure: changed, ..existing };
    let back = json!({"destination": {"properties": {"partialResults": false}}});
    let changed = patch(&back, &existing).expect("of a webhook").batch_failure;
    assert!(changed.bisects && !changed.reads_results, "{changed:?}");
    let endpoint = Endpoint::Resource(Resource {
        kind: ResourceKind::SqsQueue,
        arn: "arn:aws:sqs:eu-central-1:123456789012:q".parse().expect("an ARN"),
        message_group_id: None,
        partition_key: None,
    });
    let refused = patch(&change, &EventSubscription { endpoint, ..existing }).expect_err("a queue");
    let paths: Vec<_> = refused.iter().map(|problem| problem.path.as_str()).collect();
    assert_eq!(
        paths,
        ["onBatchFailure", "partialResults"].map(|name| format!("destination.properties.{name}"))
    );
}

#[test]
fn a_change_of_something_else_does_not_meet_bounds_that_came_later() {
    let document = webhook(json!({"endpointUrl": "https://e.example/hook"}));
    let mut existing = stored(put(&document, None).expect("valid"));
    let types: Vec<_> = (0..300).map(|number| format!("T{number}")).collect();
    existing.filter.included_event_types = Some(types.clone());
    existing.filter.subject_begins_with = "s".repeat(2_000);
    let changed = patch(&json!({"labels": ["a"]}), &existing).expect("a change of labels");
    assert_eq!(changed.filter, existing.filter);
    let fewer = json!({"filter": {"includedEventTypes": types[1..]}});
    let refused = patch(&fewer, &existing).expect_err("still too many");
    let paths: Vec<_> = refused.iter().map(|problem| problem.path.as_str()).collect();
    assert_eq!(paths, ["filter.includedEventTypes"]);
}

#[test]
fn hidden_keeps_the_stored_secret() {
    let url = "https://e.example/hook";
    let existing = stored(put(&secret_at(url, json!("hush")), None).expect("valid"));
    let hidden = || secret_at(url, json!("Hidden"));
    assert_eq!(outcome(put(&hidden(), Some(&existing))), Ok("hush".to_owned()));
    // Nothing is kept where nothing is stored, nor elsewhere.
    assert_eq!(outcome(put(&hidden(), None)), Err(VALUE.to_owned()));
    let elsewhere = secret_at("https://f.example/", json!("Hidden"));
    assert_eq!(outcome(put(&elsewhere, Some(&existing))), Err(VALUE.to_owned()));
    // It is a word like others where it is no secret.
    let mut plain = hidden();
    let mapping =
        &mut plain["properties"]["destination"]["properties"]["deliveryAttributeMappings"][0];
    mapping["properties"]["isSecret"] = json!(false);
    let value = put(&plain, None).expect("valid").delivery_attributes.remove(0).value;
    assert_eq!(value, AttributeValue::Static { value: "Hidden".to_owned() });
}

#[test]
fn the_schema_of_delivery_stays_what_it_was() {
    let with_schema = |schema: Value| with("eventDeliverySchema", schema);
    let (grid, cloud) = (json!("EventGridSchema"), json!("CloudEventSchemaV1_0"));
    for (was, other) in [(&grid, &cloud), (&cloud, &grid)] {
        let existing = stored(put(&with_schema(was.clone()), None).expect("valid"));
        let stays = |changed: Result<Settings, Problems>| {
            changed.is_ok_and(|settings| settings.delivery_schema == existing.delivery_schema)
        };
        for same in [with_schema(was.clone()), with_schema(Value::Null), url("https://e.example/")]
        {
            assert!(stays(put(&same, Some(&existing))), "{was} {same}");
        }
        for same in [was.clone(), Value::Null] {
            assert!(stays(patch(&json!({"eventDeliverySchema": same}), &existing)), "{was} {same}");
        }
        let refused = [
            (put(&with_schema(other.clone()), Some(&existing)), "properties.eventDeliverySchema"),
            (patch(&json!({"eventDeliverySchema": other}), &existing), "eventDeliverySchema"),
        ];
        for (changed, path) in refused {
            let problems = changed.expect_err("the schema would change");
            let listed: Vec<_> = problems.iter().collect();
            assert_eq!(listed.len(), 1, "{listed:?}");
            assert_eq!(listed[0].path, path);
            assert!(listed[0].rule.contains("can't be changed"), "{}", listed[0]);
        }
    }
}

#[test]
fn a_patched_filter_takes_the_place_of_the_whole_filter() {
    let before = json!({
        "includedEventTypes": ["A"], "subjectBeginsWith": "/a", "isSubjectCaseSensitive": true,
        "advancedFilters": [{"operatorType": "IsNotNull", "key": "data.k"}],
    });
    let existing = stored(put(&with("filter", before), None).expect("valid"));
    let table = [
        (json!({}), Filter::default()),
        (
            json!({"subjectEndsWith": ".z"}),
            Filter { subject_ends_with: ".z".to_owned(), ..Filter::default() },
        ),
        (Value::Null, Filter::default()),
    ];
    for (filter, want) in table {
        let changed = patch(&json!({"filter": filter}), &existing).expect("valid");
        assert_eq!(changed.filter, want, "{filter}");
    }
    let labels = patch(&json!({"labels": ["a"]}), &existing).expect("valid");
    assert_eq!(labels.filter, existing.filter);
}

#[test]
fn parts_that_a_patch_replaces_are_in_it_as_a_whole() {
    let filter = json!({"includedEventTypes": ["A"], "subjectBeginsWith": "/a"});
    let hook = |url: &str| {
        json!({"endpointType": "WebHook",
            "properties": {"endpointBaseUrl": url, "maxEventsPerBatch": 9}})
    };
    let of = |filter: &Value, destination: Value| json!({"properties": {"filter": filter, "destination": destination}});
    let old = of(&filter, hook("a"));
    let mut other = filter.clone();
    other["subjectBeginsWith"] = json!("/b");
    let patch = patch_of(&old, &of(&other, hook("a")));
    assert_eq!(patch, json!({"properties": {"filter": other}}));
    let patch = patch_of(&old, &of(&filter, hook("b")));
    let want = json!({"destination": {"properties": {"endpointBaseUrl": "b"}}});
    assert_eq!(patch["properties"], want);
    let queue = json!({"endpointType": "SqsQueue", "properties": {"maxEventsPerBatch": 9}});
    let patch = patch_of(&old, &of(&filter, queue.clone()));
    assert_eq!(patch["properties"]["destination"], queue);
    assert_eq!(patch_of(&old, &old), json!({}));
}
