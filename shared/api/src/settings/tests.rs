use std::{collections::BTreeSet, env, fs};

use serde_json::{Value, json};

use super::*;
use crate::{
    document::read::Reader,
    subscription::{EventSubscriptionSettings, Filter, ResourceDestination, RetryPolicy, WebHook},
};

/// The reference page.
const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/event-subscriptions.md");
/// With this variable, the test writes the page's table.
const WRITE: &str = "GRIDPOST_WRITE_SETTINGS";
/// The note of a new row.
const UNWRITTEN: &str = "(what it is)";
const MARKS: [&str; 2] = ["<!-- settings -->\n", "<!-- /settings -->\n"];

/// Members that no setting of the table sets: what only reads have, and other forms of the same.
const OTHERS: [&str; 8] = [
    "destination.endpointBaseUrl",
    "signing.scheme",
    "signing.previousSecretValidUntil",
    "filter.advancedFilters.*.value",
    "deliveryConfiguration",
    "filtersConfiguration",
    "retryPolicy.statusRules.*.retryAfterSeconds",
    "destination.deliveryAttributeMappings.*.type",
];

/// Collects the paths of a schema's members that are no objects.
fn members(reader: &Reader, schema: &Value, path: &str, found: &mut BTreeSet<String>) {
    let below = |name: &str| match (path, name) {
        (path, "properties") => path.to_owned(),
        ("", name) => name.to_owned(),
        (path, name) => format!("{path}.{name}"),
    };
    for form in reader.variants(schema) {
        match (&form["items"], &form["properties"]) {
            (items, _) if reader.resolve(items)["properties"].is_object() => {
                members(reader, items, &below("*"), found);
            }
            (_, Value::Object(own)) if !OTHERS.contains(&path) => {
                for (name, schema) in own {
                    members(reader, schema, &below(name), found);
                }
            }
            _ => {
                found.insert(path.to_owned());
            }
        }
    }
}

#[test]
fn every_member_of_the_document_is_a_setting_and_every_setting_is_a_member() {
    let (reader, schema) = Reader::of::<EventSubscriptionSettings>();
    let mut found = BTreeSet::new();
    members(&reader, &schema, "", &mut found);
    let (reader, schema) = Reader::of::<TopicSettings>();
    members(&reader, &schema, "", &mut found);
    // Keys are texts, or objects.
    let is_other = |path: &String| {
        OTHERS.contains(&path.as_str())
            || all().any(|one| one.path.starts_with(&format!("{path}.")))
    };
    let found: BTreeSet<_> = found.into_iter().filter(|path| !is_other(path)).collect();
    assert!(found.len() > 50, "{found:?}");
    let missing: Vec<_> = found.iter().filter(|path| setting(path).is_none()).collect();
    assert!(missing.is_empty(), "no row has {missing:?}");
    for one in all().filter(|one| one.list() != Some("retryPolicy.statusRules")) {
        assert!(!schemas(one.path).is_empty(), "{} is no member", one.path);
    }
}

#[test]
fn types_have_the_settings_that_they_read() {
    let reads = |types: &[&str], path: &str, members: Value| {
        for (name, _) in members.as_object().expect("members") {
            let path = format!("{path}.{name}");
            let rows = || {
                SETTINGS.iter().filter(|one| one.path == path || one.path == format!("{path}.type"))
            };
            let is_of = |kind: &&str| rows().any(|one| one.of.is_empty() || one.of.contains(kind));
            let is_read = path.ends_with("BaseUrl") || types.iter().any(is_of);
            assert!(is_read, "{path} of {types:?}");
        }
    };
    let properties = |(_, schema): (Reader, Value)| schema["properties"].clone();
    reads(&["WebHook"], "destination", properties(Reader::of::<WebHook>()));
    let resources: Vec<_> = setting("destination.resourceId").expect("a row").of.to_vec();
    reads(&resources, "destination", properties(Reader::of::<ResourceDestination>()));
    let types = setting("destination.endpointType").expect("a row").choices();
    let types: BTreeSet<_> = types.into_iter().map(|(name, _)| name).collect();
    assert_eq!(types, resources.into_iter().chain(["WebHook"]).collect());
    let (reader, by) =
        Reader::of::<crate::subscription::destination::authentication::Authentication>();
    for form in reader.variants(&by) {
        let kind = form["properties"]["type"]["enum"][0].as_str().expect("a type");
        let own = reader.resolve(&form["properties"]["properties"]);
        reads(&[kind], "destination.authentication", own["properties"].clone());
    }
    reads(&["basic"], "filter", properties(Reader::of::<Filter>()));
    reads(&["basic", "namespace"], "retryPolicy", properties(Reader::of::<RetryPolicy>()));
}

#[test]
fn ranges_defaults_and_choices_are_those_of_the_schemas() {
    let hint = |path: &str| setting(path).expect("a row").hint();
    let table = [
        ("destination.maxEventsPerBatch", "1 to 5,000; 1 where empty."),
        ("destination.preferredBatchSizeInKilobytes", "1 to 1,024; 64 where empty."),
        ("retryPolicy.maxDeliveryAttempts", "1 to 30; 30 where empty. The first one is included."),
        ("retryPolicy.maxDeliveryCount", "1 to 10; 10 where empty. The first one is included."),
        (
            "retryPolicy.eventTimeToLiveInMinutes",
            "1 to 1,440; 1,440 where empty. From the publish.",
        ),
        ("filter.subjectBeginsWith", ""),
        ("deliveryProfile", "The table of retry rules, and the form of dead letters."),
    ];
    for (path, want) in table {
        assert_eq!(hint(path), want, "{path}");
    }
    let choices = |path: &str| -> Vec<String> {
        setting(path).expect("a row").choices().into_iter().map(|(_, told)| told).collect()
    };
    assert_eq!(
        choices("probationPolicy"),
        ["EventGrid, the default", "EventGrid: end", "Delay: wait"]
    );
    assert_eq!(choices("filter.advancedFilters.*.operatorType").len(), 19);
    assert_eq!(choices("filter.advancedFilters.*.operatorType")[0], "NumberIn: numbers");
    assert_eq!(choices("destination.messageGroupId.type")[1], "Static: this text");
    assert_eq!(choices("deliveryProfile")[1..], ["basic", "basic2021", "namespace"]);
    assert_eq!(choices("inputSchema")[3], "CustomEventSchema: events of one's own");
    let window = hint("idempotency.windowInSeconds");
    assert!(window.starts_with("60 to 86,400. A publish"), "{window}");
}

/// Settings, each with its texts.
type Sets<'a> = &'a [(&'a str, &'a [&'a str])];

/// A setting's texts are written into a document, and read out of it again.
#[test]
fn texts_come_back_as_they_were() {
    let hook = json!({"endpointType": "WebHook", "properties": {}});
    let by = |properties: Value| {
        let by = json!({"type": "OAuth2ClientCredentials", "properties": properties});
        json!({"destination": {"endpointType": "WebHook", "properties": {"authentication": by}}})
    };
    let attribute = |of: &str, member: &str| {
        json!({"destination": {"properties": {"deliveryAttributeMappings":
            [{"name": "X", "type": of, "properties": {member: "v"}}]}}})
    };
    let list = "destination.deliveryAttributeMappings.0";
    // What is there before, what is set, and what is there then.
    let mapping = |members: Value| json!({"inputSchemaMapping": {"inputSchemaMappingType": "Json", "properties": members}});
    let table: [(Value, Sets<'_>, Value); 19] = [
        (
            json!({}),
            &[("inputSchemaMapping.id.sourceField", &["a"])],
            mapping(json!({"id": {"sourceField": "a"}})),
        ),
        (
            mapping(json!({"id": {"sourceField": "a"}, "subject": {"defaultValue": "s"}})),
            &[("inputSchemaMapping.id.sourceField", &[])],
            mapping(json!({"subject": {"defaultValue": "s"}})),
        ),
        (
            mapping(json!({"subject": {"defaultValue": "s"}})),
            &[("inputSchemaMapping.subject.defaultValue", &[])],
            json!({}),
        ),
        (
            json!({"idempotency": {"windowInSeconds": 60}}),
            &[("idempotency.windowInSeconds", &[])],
            json!({}),
        ),
        (json!({}), &[("labels", &["a", "b"])], json!({"labels": ["a", "b"]})),
        (
            json!({}),
            &[("filter.isSubjectCaseSensitive", &["true"])],
            json!({"filter": {"isSubjectCaseSensitive": true}}),
        ),
        (
            json!({}),
            &[("retryPolicy.schedule", &["5", "x"])],
            json!({"retryPolicy": {"schedule": [5, "x"]}}),
        ),
        (json!({}), &[("signing", &["true"])], json!({"signing": {"scheme": "StandardWebhooks"}})),
        (
            json!({"signing": {"scheme": "S", "previousSecretValidUntil": null}}),
            &[("signing", &[])],
            json!({}),
        ),
        (
            json!({}),
            &[("deadLetterDestination.bucketName", &["b"])],
            json!({"deadLetterDestination": {"endpointType": "S3Bucket", "properties": {"bucketName": "b"}}}),
        ),
        (
            json!({"deadLetterDestination": {"endpointType": "S3Bucket", "properties": {"bucketName": "b"}}}),
            &[("deadLetterDestination.bucketName", &[])],
            json!({}),
        ),
        (
            json!({"deadLetterDestination": {"endpointType": "S3Bucket",
                "properties": {"bucketName": "b", "prefix": ""}}}),
            &[("deadLetterDestination.bucketName", &[])],
            json!({}),
        ),
        (
            by(json!({"clientAssertion": {"type": "AwsWebIdentity", "properties":
                {"audience": "a", "signingAlgorithm": "ES384"}}})),
            &[("destination.authentication.clientAssertion.audience", &[])],
            by(json!({})),
        ),
        (
            by(json!({"scope": "s"})),
            &[("destination.authentication.type", &[])],
            json!({"destination": hook}),
        ),
        (
            json!({"destination": hook}),
            &[("destination.endpointUrl", &["https://e"])],
            json!({"destination": {"endpointType": "WebHook", "properties": {"endpointUrl": "https://e"}}}),
        ),
        (
            json!({}),
            &[
                (&format!("{list}.name"), &["X"]),
                (&format!("{list}.type"), &["Dynamic"]),
                (&format!("{list}.sourceField"), &["v"]),
            ],
            attribute("Dynamic", "sourceField"),
        ),
        (
            json!({"retryPolicy": {"statusRules": {"404": "deadLetter"}}}),
            &[
                ("retryPolicy.statusRules.1.which", &["5xx"]),
                ("retryPolicy.statusRules.1.action", &["retry"]),
                ("retryPolicy.statusRules.1.seconds", &["10"]),
            ],
            json!({"retryPolicy": {"statusRules":
                {"404": "deadLetter", "5xx": {"retryAfterSeconds": 10}}}}),
        ),
        (
            json!({}),
            &[
                ("filter.advancedFilters.0.operatorType", &["NumberInRange"]),
                ("filter.advancedFilters.0.values", &["1, 2.5", "3, 4"]),
            ],
            json!({"filter": {"advancedFilters":
                [{"operatorType": "NumberInRange", "values": [[1, 2.5], [3, 4]]}]}}),
        ),
        (
            json!({}),
            &[
                ("filter.advancedFilters.0.operatorType", &["BoolEquals"]),
                ("filter.advancedFilters.0.values", &["true"]),
            ],
            json!({"filter": {"advancedFilters": [{"operatorType": "BoolEquals", "value": true}]}}),
        ),
    ];
    for (before, sets, want) in table {
        let mut document = Document::of(&json!({ "properties": before }));
        for (path, texts) in sets {
            let texts: Vec<_> = texts.iter().map(|text| (*text).to_owned()).collect();
            document.set(path, &texts);
            assert_eq!(document.texts(path), texts, "{path}");
        }
        assert_eq!(document.into_properties(), want);
    }
}

#[test]
fn a_patch_names_objects_whole_or_restores_their_defaults() {
    let mut patch = Document::default();
    patch.begin("destination.authentication.type", "AwsSigV4");
    let stored =
        Document::of(&json!({"properties": {"destination": {"properties": {"authentication":
        {"type": "AwsSigV4", "properties": {"region": "r", "roleArn": null}}}}}}));
    patch.copy("destination.authentication.region", &stored);
    patch.copy("destination.authentication.roleArn", &stored);
    for path in ["labels", "deadLetterDestination.endpointType"] {
        patch.reset(setting(path).expect("a row"));
    }
    let by = json!({"type": "AwsSigV4", "properties": {"region": "r"}});
    let want = json!({"destination": {"properties": {"authentication": by}}, "labels": null,
        "deadLetterDestination": null});
    assert_eq!(patch.into_properties(), want);
}

#[test]
fn only_a_client_with_a_secret_of_its_own_has_one_stored() {
    let assertion = json!({"type": "AwsWebIdentity", "properties": {"audience": "a"}});
    let table = [
        ("EntraId", json!({"clientSecret": null}), Some("clientSecret")),
        ("EntraId", json!({}), Some("clientSecret")),
        ("EntraId", json!({"clientSecret": null, "clientAssertion": assertion}), None),
        ("EntraId", json!({"clientSecretReference": "arn:s"}), None),
        ("OAuth2ClientCredentials", json!({"clientAuthentication": "Post"}), Some("clientSecret")),
        (
            "OAuth2ClientCredentials",
            json!({"clientAuthentication": "PrivateKeyJwt"}),
            Some("privateKey"),
        ),
        (
            "OAuth2ClientCredentials",
            json!({"clientAuthentication": "PrivateKeyJwt", "privateKeyReference": "arn:k"}),
            None,
        ),
        ("ClientCertificate", json!({"certificate": "c"}), Some("privateKey")),
        ("ClientCertificate", json!({"certificateReference": "arn:c"}), None),
        ("AwsSigV4", json!({"service": "s"}), None),
    ];
    for (kind, properties, want) in table {
        let by = json!({"type": kind, "properties": properties});
        let hook = json!({"endpointType": "WebHook", "properties": {"authentication": by}});
        let document = Document::of(&json!({"properties": {"destination": hook}}));
        assert_eq!(document.stored_secret().map(Setting::name), want, "{kind} {properties}");
    }
}

/// What the page says of ranges that schemas don't.
fn range(one: &Setting) -> String {
    let names: Vec<_> = names(one.path).iter().map(|name| format!("`{name}`")).collect();
    match one.range() {
        Some(range) => range,
        None => names.join(", "),
    }
}

/// A row of the page, with the note that the page has in it; that of a new row is to be written there.
fn row(one: &Setting, page: &str) -> String {
    let path = pointer(one.path).trim_start_matches('/').replace('/', ".");
    let path = path.trim_end_matches(".type");
    let ours = if one.is(Mark::Ours) { " *ours*" } else { "" };
    let own = page.lines().find(|line| line.starts_with(&format!("| `{path}`")));
    let note = own.and_then(|line| line.trim_end_matches(" |").rsplit_once('|'));
    let note = note.map_or(UNWRITTEN, |(_, note)| note.trim());
    let flag = one.flag().map(|(flag, _)| format!("`--{flag}`")).unwrap_or_default();
    let default = match one.default() {
        Some(default) if matches!(one.kind, Kind::Choice | Kind::Flag) => format!("`{default}`"),
        default => default.unwrap_or_default(),
    };
    format!("| `{path}`{ours} | {flag} | {} | {default} | {note} |\n", range(one))
}

#[test]
fn the_reference_page_has_every_setting() {
    let page = fs::read_to_string(PAGE).expect("the page");
    let cut = || {
        let (before, rest) = page.split_once(MARKS[0])?;
        Some((before, rest.split_once(MARKS[1])?))
    };
    let (before, (table, after)) = cut().expect("a table between marks");
    // What has a chapter of its own is told there.
    let is_told = |one: &&Setting| {
        let is_below = |object: &str| one.path.starts_with(&format!("destination.{object}."));
        let is_key = is_below("messageGroupId") || is_below("partitionKey");
        one.list().is_none()
            && (one.is_type() || !is_key && !is_below("authentication"))
            && !one.path.ends_with("clientAssertion.type")
    };
    let head = "| member of `properties` | flag | range | default | |\n|---|---|---|---|---|\n";
    let rows = SETTINGS.iter().filter(is_told).map(|one| row(one, table));
    let new = format!("{head}{}", rows.collect::<String>());
    if env::var_os(WRITE).is_some() {
        let page = format!("{before}{}{new}{}{after}", MARKS[0], MARKS[1]);
        fs::write(PAGE, page).expect("a file");
        return;
    }
    assert!(!new.contains(UNWRITTEN), "write what they are: {new}");
    assert_eq!(table, new, "run with {WRITE}=1");
}
