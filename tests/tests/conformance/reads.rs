//! Documents and reads of event subscriptions, out of recorded conversations with Event Grid,
//! against the real handler of manage. What the members of a row mean is said in the table.

use gridpost_api::subscription::retry::parse_duration;
use gridpost_core::time::Timestamp;
use serde_json::{Value, json};

use super::{
    fixture::Fixture,
    read,
    rows::{Different, Verdict, judge},
};

/// Empty: where Azure does otherwise, the row has Gridpost's answer, and `differs` says why.
const DIFFERENT: &[Different] = &[];

/// The bucket that stands for BUCKET.
const BUCKET: &str = "letters";

#[tokio::test(start_paused = true)]
async fn every_event_subscription_reads_as_the_table_says() {
    let table = read(include_str!("../../conformance/event_subscription_reads.json"));
    judge(&verdicts(&table, 42, Value::clone).await, DIFFERENT);
}

#[tokio::test(start_paused = true)]
async fn azures_own_documents_are_taken_or_refused_by_name() {
    let table = read(include_str!("../../conformance/azure_documents.json"));
    judge(&verdicts(&table, 47, Value::clone).await, DIFFERENT);
}

#[tokio::test(start_paused = true)]
async fn every_word_of_a_document_may_be_in_another_case() {
    for table in [
        include_str!("../../conformance/event_subscription_reads.json"),
        include_str!("../../conformance/azure_documents.json"),
    ] {
        let mut table = read(table);
        let rows = table["rows"].as_array_mut().expect("rows");
        rows.retain(|row| row.get("status").is_none());
        judge(&verdicts(&table, 25, in_another_case).await, DIFFERENT);
    }
}

/// The verdicts on all rows, of which there are `least` at least, with what `change` makes of what
/// they write.
async fn verdicts(
    table: &Value,
    least: usize,
    change: impl Fn(&Value) -> Value,
) -> Vec<(String, Verdict)> {
    let mut verdicts = Vec::new();
    for row in table["rows"].as_array().expect("rows") {
        let name = row["name"].as_str().expect("a name").to_owned();
        let mut row = filled(row);
        row["write"] = change(&row["write"]);
        verdicts.push((name, verdict(&row).await));
    }
    assert!(verdicts.len() >= least, "{} rows", verdicts.len());
    verdicts
}

/// Returns the document with every name of an enumeration in another case and every boolean as
/// text.
fn in_another_case(value: &Value) -> Value {
    const ENUMERATIONS: [&str; 9] = [
        "deliveryMode",
        "deliveryProfile",
        "endpointType",
        "eventDeliverySchema",
        "inputSchema",
        "inputSchemaMappingType",
        "kind",
        "operatorType",
        "publicNetworkAccess",
    ];
    let swapped = |text: &str| {
        let swap = |one: char| match one.is_ascii_lowercase() {
            true => one.to_ascii_uppercase(),
            false => one.to_ascii_lowercase(),
        };
        json!(text.chars().map(swap).collect::<String>())
    };
    match value {
        Value::Bool(flag) => json!(if *flag { "True" } else { "FALSE" }),
        Value::Array(items) => items.iter().map(in_another_case).collect(),
        Value::Object(members) => {
            let each = members.iter().map(|(name, value)| {
                let is_named = ENUMERATIONS.contains(&name.as_str())
                    || name == "type" && ["Static", "Dynamic"].iter().any(|it| value == it);
                let value = match value.as_str().filter(|_| is_named) {
                    Some(text) => swapped(text),
                    None => in_another_case(value),
                };
                (name.clone(), value)
            });
            each.collect()
        }
        other => other.clone(),
    }
}

/// The row with what its words mean.
fn filled(value: &Value) -> Value {
    match value {
        Value::String(text) => json!(match text.strip_prefix("@repeat:") {
            Some(repeat) => {
                let (text, count) = repeat.split_once(':').expect("a text and a count");
                text.repeat(count.parse().expect("a count"))
            }
            None => text.replace("BUCKET", BUCKET),
        }),
        Value::Array(items) => items.iter().map(filled).collect(),
        Value::Object(members) => {
            members.iter().map(|(name, value)| (name.clone(), filled(value))).collect()
        }
        other => other.clone(),
    }
}

async fn verdict(row: &Value) -> Verdict {
    let fixture = Fixture::new();
    let is_of_topic = row["of"] == "topic";
    if !is_of_topic || row.get("topic").is_some() {
        let topic = row.get("topic").cloned().unwrap_or_else(|| json!({}));
        assert_eq!(fixture.send("PUT /topics/demo", &topic).await.status, 201, "{row}");
    }
    let name = row["eventSubscription"].as_str().unwrap_or("es-1");
    let path = match is_of_topic {
        true => "/topics/demo".to_owned(),
        false => format!("/topics/demo/eventSubscriptions/{name}"),
    };
    for before in row["before"].as_array().into_iter().flatten() {
        let reply = fixture.send(&format!("PUT {path}"), before).await;
        assert!(matches!(reply.status, 200 | 201), "{before}: {reply:?}");
    }
    let get = format!("GET {path}");
    let was = fixture.send(&get, &Value::Null).await;
    let method = row["method"].as_str().unwrap_or("PUT");
    let written = fixture.send(&format!("{method} {path}"), &row["write"]).await;
    let now = fixture.send(&get, &Value::Null).await;
    if let Some(status) = row["status"].as_u64() {
        let body = written.body.unwrap_or_default();
        let code = &body["error"]["code"];
        let as_wanted = u64::from(written.status) == status
            && row["code"].as_str().is_none_or(|want| code == want);
        let answered = format!("answered {} {body}", written.status);
        check(as_wanted, answered)?;
        says(row, &body["error"]["details"])?;
        return check(was == now, "something was stored".to_owned());
    }
    let answered = format!("answered {} {:?}", written.status, written.body);
    check(matches!(written.status, 200 | 201), answered)?;
    let document = now.body.unwrap_or_default();
    for (member, found) in [("read", &document["properties"]), ("readRoot", &document)] {
        let want = row.get(member);
        want.map_or(Ok(()), |want| is_subset(want, found, Missing::IsNothing, member))?;
    }
    for (action, want) in row["post"].as_object().into_iter().flatten() {
        let answer = fixture.send(&format!("POST {path}/{action}"), &Value::Null).await;
        is_subset(want, &answer.body.unwrap_or_default(), Missing::IsWrong, action)?;
    }
    Ok(())
}

/// Whether each part that the row wants is in a detail, and each detail has one.
fn says(row: &Value, details: &Value) -> Verdict {
    let Some(wanted) = row.get("says").and_then(Value::as_array) else { return Ok(()) };
    let wanted: Vec<_> = wanted.iter().filter_map(Value::as_str).collect();
    let told: Vec<_> = details.as_array().into_iter().flatten().collect();
    let has =
        |detail: &Value, part: &str| detail["message"].as_str().is_some_and(|it| it.contains(part));
    let is_told = wanted.iter().all(|part| told.iter().any(|detail| has(detail, part)));
    let is_wanted = told.iter().all(|detail| wanted.iter().any(|part| has(detail, part)));
    check(is_told && is_wanted, format!("it says {details}"))
}

fn check(holds: bool, problem: String) -> Verdict {
    if holds { Ok(()) } else { Err(problem) }
}

/// The meaning of a null in the table.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Missing {
    /// Absent, null and empty lists are the same.
    IsNothing,
    /// The value is null.
    IsWrong,
}

/// Whether all that is wanted is there.
fn is_subset(want: &Value, found: &Value, missing: Missing, path: &str) -> Verdict {
    let is_nothing = missing == Missing::IsNothing && found.as_array().is_none_or(Vec::is_empty);
    match want {
        Value::Null if is_nothing && (found.is_null() || found.is_array()) => Ok(()),
        Value::Bool(false) if found.is_null() && missing == Missing::IsNothing => Ok(()),
        Value::Object(members) => members.iter().try_for_each(|(name, want)| {
            let found = found.get(name).unwrap_or(&Value::Null);
            is_subset(want, found, missing, &format!("{path}.{name}"))
        }),
        Value::Array(items) => {
            let others = found.as_array().ok_or_else(|| format!("{path} is {found}"))?;
            check(items.len() == others.len(), format!("{path} is {found}"))?;
            items.iter().zip(others).enumerate().try_for_each(|(index, (want, found))| {
                is_subset(want, found, missing, &format!("{path}[{index}]"))
            })
        }
        _ => check(is_same(want, found), format!("{path} is {found}, not {want}")),
    }
}

/// Numbers by value, times as instants, durations by length.
fn is_same(want: &Value, found: &Value) -> bool {
    if let (Some(want), Some(found)) = (want.as_f64(), found.as_f64()) {
        return want == found;
    }
    let (Some(a), Some(b)) = (want.as_str(), found.as_str()) else { return want == found };
    let as_times = Timestamp::parse_rfc_3339(a).zip(Timestamp::parse_rfc_3339(b));
    let as_durations = parse_duration(a).zip(parse_duration(b));
    a == b || as_times.is_some_and(|(a, b)| a == b) || as_durations.is_some_and(|(a, b)| a == b)
}

#[test]
fn what_is_missing_or_other_is_found() {
    let found = json!({"a": 1.0, "b": [], "c": "PT24H", "d": [1, 2], "e": "2026-01-01T00:00:00Z"});
    for (want, holds) in [
        (json!({"a": 1, "b": null, "x": null, "y": false, "c": "P1D"}), true),
        (json!({"e": "2026-01-01T01:00:00+01:00", "d": [1, 2]}), true),
        (json!({"a": null}), false),
        (json!({"d": null}), false),
        (json!({"a": false}), false),
        (json!({"x": {"y": 1}}), false),
        (json!({"d": [1]}), false),
        (json!({"d": [2, 1]}), false),
        (json!({"c": "P2D"}), false),
    ] {
        let verdict = is_subset(&want, &found, Missing::IsNothing, "$");
        assert_eq!(verdict.is_ok(), holds, "{want}: {verdict:?}");
    }
    assert!(is_subset(&json!({"b": null}), &found, Missing::IsWrong, "$").is_err());
}
