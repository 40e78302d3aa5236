//! One event to one event subscription: a sample, and what its endpoint answers in words.

use gridpost_api::trial::{TestEventSent, TestStep};
use gridpost_core::{
    delivery::probe::{Step, StepResult},
    topic::InputSchema,
};
use serde_json::{Value, json};

use crate::{
    attempt_lines::describe_outcome,
    clock,
    failure::Misuse,
    output::{self, or_dash},
};

/// Makes an event that says what it is. Fails for a topic of another schema.
pub fn made(schema: InputSchema, id: String) -> Result<Value, Misuse> {
    let (subject, kind) = ("gridpost/test", "Gridpost.TestEvent");
    let at = clock::now_rfc3339();
    match schema {
        InputSchema::EventGridSchema => Ok(json!({"id": id, "subject": subject, "eventType": kind,
            "eventTime": at, "dataVersion": "1", "data": {"test": true}})),
        InputSchema::CloudEventSchemaV1_0 => {
            Ok(json!({"specversion": "1.0", "id": id, "source": "/gridpost",
            "subject": subject, "type": kind, "time": at, "data": {"test": true}}))
        }
        InputSchema::CustomEventSchema => Err(Misuse(
            "the topic takes CustomEventSchema, events of your own: give one by --event FILE"
                .to_owned(),
        )),
    }
}

/// Describes what the endpoint answered, and whether the filter would have let the event through.
pub fn told(sent: &TestEventSent) -> String {
    let TestEventSent {
        outcome, http_status_code, duration_in_ms, response, advice, verdict, ..
    } = sent;
    let mut text =
        format!("{} after {duration_in_ms} ms", describe_outcome(outcome, *http_status_code));
    if let Some(response) = response {
        text.push_str(&format!("; it said: {response}"));
    }
    if let Some(advice) = advice {
        text.push_str(&format!("\n{advice}"));
    }
    let refused_by = verdict.refused_by.iter();
    let rows: Vec<_> =
        refused_by.map(|part| [format!("  {}", part.path), part.message.clone()]).collect();
    if !rows.is_empty() {
        text.push_str(&format!(
            "\nThe event was sent whatever the filter says. The filter would refuse it:\n{}",
            output::columns(&rows)
        ));
    }
    text
}

/// Describes the same, below the steps of the request.
pub fn explained(sent: &TestEventSent) -> String {
    let row = |TestStep { step, result, message }: &TestStep| {
        let result = match result {
            StepResult::Passed => "passed".to_owned(),
            StepResult::NotReached => "not reached".to_owned(),
            StepResult::Failed => format!("failed: {}", or_dash(message.as_ref())),
        };
        [name_step(*step).to_owned(), result]
    };
    let rows: Vec<_> = sent.steps.iter().map(row).collect();
    match rows.is_empty() {
        true => told(sent),
        false => format!("{}\n\n{}", output::columns(&rows), told(sent)),
    }
}

fn name_step(step: Step) -> &'static str {
    match step {
        Step::Token => "token",
        Step::Name => "host name",
        Step::Address => "address",
        Step::Connection => "connection",
        Step::Tls => "TLS",
        Step::ClientCertificate => "client certificate",
        Step::Answer => "answer",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(patch: &Value) -> TestEventSent {
        let mut sent = json!({"delivery": "00000000-0000-0000-0000-000000000001", "matches": true,
            "refusedBy": [], "steps": []});
        gridpost_api::document::merge(&mut sent, patch);
        serde_json::from_value(sent).expect("an answer")
    }

    #[test]
    fn what_the_endpoint_answered_is_told_beside_the_filter() {
        let refused = sent(&json!({"outcome": "Busy", "httpStatusCode": 503, "durationInMs": 41,
            "response": "later", "matches": false, "refusedBy":
                [{"path": "filter.subjectBeginsWith", "found": "x", "message": "no"}]}));
        let want = "Busy (503) after 41 ms; it said: later\nThe event was sent whatever the filter \
                    says. The filter would refuse it:\n  filter.subjectBeginsWith  no";
        assert_eq!(told(&refused), want);
        let late = sent(&json!({"outcome": "TimedOut", "durationInMs": 26000}));
        assert_eq!(told(&late), "TimedOut after 26000 ms");
    }

    #[test]
    fn a_request_is_explained_step_by_step() {
        let failed = sent(&json!({"outcome": "SocketError", "durationInMs": 7,
            "advice": "Check it.",
            "steps": [{"step": "name", "result": "Passed"},
                {"step": "tls", "result": "Failed", "message": "UnknownIssuer"},
                {"step": "answer", "result": "NotReached"}]}));
        let want = "host name  passed\nTLS        failed: UnknownIssuer\nanswer     not reached\n\n\
                    SocketError after 7 ms\nCheck it.";
        assert_eq!(explained(&failed), want);
        let stepless = sent(&json!({"outcome": "Busy", "httpStatusCode": 503, "durationInMs": 41}));
        assert_eq!(explained(&stepless), "Busy (503) after 41 ms");
    }

    #[test]
    fn an_event_is_made_in_the_topics_schema() {
        let id = || "i".to_owned();
        assert_eq!(
            made(InputSchema::EventGridSchema, id()).expect("made")["eventType"],
            "Gridpost.TestEvent"
        );
        assert_eq!(
            made(InputSchema::CloudEventSchemaV1_0, id()).expect("made")["specversion"],
            "1.0"
        );
        let refused = made(InputSchema::CustomEventSchema, id()).expect_err("unknown").to_string();
        assert!(refused.contains("--event FILE"), "{refused}");
    }
}
