//! One event to one event subscription: a sample, and what its endpoint answers in words.

use serde_json::{Value, json};

use crate::{
    attempt_lines::met,
    clock,
    failure::Misuse,
    output::{self, text_at},
};

/// An event that says what it is.
pub fn made(schema: &str, id: String) -> Result<Value, Misuse> {
    let (subject, kind) = ("gridpost/test", "Gridpost.TestEvent");
    let at = clock::now_rfc3339();
    match schema {
        "EventGridSchema" => Ok(json!({"id": id, "subject": subject, "eventType": kind,
            "eventTime": at, "dataVersion": "1", "data": {"test": true}})),
        "CloudEventSchemaV1_0" => Ok(json!({"specversion": "1.0", "id": id, "source": "/gridpost",
            "subject": subject, "type": kind, "time": at, "data": {"test": true}})),
        schema => Err(Misuse(format!(
            "the topic takes {schema}, events of your own: give one by --event FILE"
        ))),
    }
}

/// What the endpoint answered, and whether the filter would have let the event through.
pub fn told(sent: &Value) -> String {
    let met = met(text_at(sent, "/outcome"), sent["httpStatusCode"].as_u64());
    let mut text = format!("{met} after {} ms", sent["durationInMs"]);
    if let Some(said) = sent["response"].as_str() {
        text.push_str(&format!("; it said: {said}"));
    }
    if let Some(advice) = sent["advice"].as_str() {
        text.push_str(&format!("\n{advice}"));
    }
    let rows: Vec<_> = sent["refusedBy"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|part| [format!("  {}", text_at(part, "/path")), text_at(part, "/message").to_owned()])
        .collect();
    if !rows.is_empty() {
        text.push_str(&format!(
            "\nThe event was sent whatever the filter says. The filter would refuse it:\n{}",
            output::columns(&rows)
        ));
    }
    text
}

/// The same, below what the request went through.
pub fn explained(sent: &Value) -> String {
    let row = |step: &Value| {
        let result = match text_at(step, "/result") {
            "Passed" => "passed".to_owned(),
            "NotReached" => "not reached".to_owned(),
            _ => format!("failed: {}", text_at(step, "/message")),
        };
        [step_name(text_at(step, "/step")), result]
    };
    let rows: Vec<_> = sent["steps"].as_array().into_iter().flatten().map(row).collect();
    match rows.is_empty() {
        true => told(sent),
        false => format!("{}\n\n{}", output::columns(&rows), told(sent)),
    }
}

fn step_name(step: &str) -> String {
    match step {
        "name" => "host name".to_owned(),
        "tls" => "TLS".to_owned(),
        "clientCertificate" => "client certificate".to_owned(),
        other => other.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_endpoint_answered_is_told_beside_the_filter() {
        let sent = json!({"outcome": "Busy", "httpStatusCode": 503, "durationInMs": 41,
            "response": "later", "matches": false,
            "refusedBy": [{"path": "filter.subjectBeginsWith", "message": "no"}]});
        let want = "Busy (503) after 41 ms; it said: later\nThe event was sent whatever the filter \
                    says. The filter would refuse it:\n  filter.subjectBeginsWith  no";
        assert_eq!(told(&sent), want);
        let sent = json!({"outcome": "TimedOut", "durationInMs": 26000, "refusedBy": []});
        assert_eq!(told(&sent), "TimedOut after 26000 ms");
    }

    #[test]
    fn a_request_is_explained_step_by_step() {
        let sent = json!({"outcome": "SocketError", "durationInMs": 7, "refusedBy": [],
            "advice": "Check it.",
            "steps": [{"step": "name", "result": "Passed"},
                {"step": "tls", "result": "Failed", "message": "UnknownIssuer"},
                {"step": "answer", "result": "NotReached"}]});
        let want = "host name  passed\nTLS        failed: UnknownIssuer\nanswer     not reached\n\n\
                    SocketError after 7 ms\nCheck it.";
        assert_eq!(explained(&sent), want);
        // An older manage function says no steps.
        let sent = json!({"outcome": "Busy", "httpStatusCode": 503, "durationInMs": 41});
        assert_eq!(explained(&sent), "Busy (503) after 41 ms");
    }

    #[test]
    fn an_event_is_made_in_the_topics_schema() {
        let id = || "i".to_owned();
        assert_eq!(made("EventGridSchema", id()).expect("made")["eventType"], "Gridpost.TestEvent");
        assert_eq!(made("CloudEventSchemaV1_0", id()).expect("made")["specversion"], "1.0");
        let refused = made("CustomEventSchema", id()).expect_err("unknown").to_string();
        assert!(refused.contains("--event FILE"), "{refused}");
    }
}
