//! Errors that say what went wrong and what to do next.

use std::fmt::Write as _;
use std::process::ExitCode;

use gridpost_api::client::ClientError;
use serde_json::{Map, Value, json};

use crate::output;

/// A command that cannot be carried out as it was written. Exit code 2, as for a bad flag.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Misuse(pub String);

/// Neither done nor failed: what was asked about is not over yet. Exit code 3.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Unfinished(pub String);

/// An error with what is known so far for programs: members of its JSON.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct SoFar {
    pub message: String,
    pub members: Map<String, Value>,
}

/// Work of several parts, some of which were refused and kept nothing else from being done. Exit code 2
/// where what was refused can't be carried out as it was written, else 1.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct InPart {
    /// The part that was done, and the part that was not.
    pub message: String,
    /// Members of the error's JSON.
    pub members: Map<String, Value>,
    pub is_misuse: bool,
}

/// One problem of a refused request, as the server names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Detail {
    pub code: String,
    pub message: String,
    /// The JSON path of the member that it is about, where the server says it.
    pub target: Option<String>,
}

/// A request that the server refused, in Event Grid's error shape.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.headline())]
pub struct Refusal {
    pub status: u16,
    /// Event Grid's code, such as `BadRequest`; empty when something before Gridpost refused it.
    pub code: String,
    pub message: String,
    pub details: Vec<Detail>,
}

impl Refusal {
    /// Reads a refusal from an answer, whatever its body holds: API Gateway itself answers
    /// `{"message":…}`, a proxy in between perhaps HTML.
    pub fn from_answer(status: u16, body: &str) -> Self {
        let document: Value = serde_json::from_str(body).unwrap_or(Value::Null);
        let error = document.get("error").unwrap_or(&document);
        let text = |value: &Value, member: &str| {
            value.get(member).and_then(Value::as_str).map(str::to_owned)
        };
        let plain = || {
            if document.is_null() {
                body.trim().chars().take(500).collect()
            } else {
                body.to_owned()
            }
        };
        let details = error.get("details").and_then(Value::as_array);
        let details = details.into_iter().flatten().map(|detail| Detail {
            code: text(detail, "code").unwrap_or_default(),
            message: text(detail, "message").unwrap_or_else(|| detail.to_string()),
            target: text(detail, "target"),
        });
        Self {
            status,
            code: text(error, "code").unwrap_or_default(),
            message: text(error, "message").unwrap_or_else(plain),
            details: details.collect(),
        }
    }

    /// Returns what to do about it, if the message does not say so.
    pub fn next_step(&self) -> Option<&'static str> {
        match self.status {
            // Its message names the permission that the deployment lacks, not the caller.
            403 if self.code == "JournalDenied" => None,
            401 => {
                Some("Check the key: `gridpost topic keys <topic>` shows the two that are valid.")
            }
            403 => Some(
                "The manage API asks for IAM permission (execute-api:Invoke on this route): check which \
                 AWS identity is in use (`aws sts get-caller-identity`) and its policy.",
            ),
            404 => Some(
                "`gridpost topic list` and `gridpost subscription list --topic <topic>` show what exists.",
            ),
            413 => Some("Publish fewer or smaller events in one request."),
            429 | 503 => Some("The service asks to slow down: repeat it in a few seconds."),
            500.. => Some(
                "The function's log says more: `gridpost status` names the log folder of a local stack; on AWS see its CloudWatch log group.",
            ),
            _ => None,
        }
    }

    fn headline(&self) -> String {
        let Self { status, code, message, .. } = self;
        match code.as_str() {
            "" => format!("HTTP {status}: {message}"),
            code => format!("{code} (HTTP {status}): {message}"),
        }
    }

    /// The refusal with all its details and the next step, several lines.
    pub fn explain(&self) -> String {
        let mut text = self.headline();
        // A single problem often stands in the sentence already.
        let told = |detail: &&Detail| !self.message.contains(&detail.message);
        for Detail { code, message, .. } in self.details.iter().filter(told) {
            let code = if code.is_empty() { String::new() } else { format!("{code}: ") };
            // Writing to a string cannot fail.
            let _ = write!(text, "\n  - {code}{message}");
        }
        if let Some(step) = self.next_step() {
            let _ = write!(text, "\n{step}");
        }
        text
    }
}

/// Prints the failure to standard error, as JSON in Event Grid's shape when `json`, and gives the exit
/// code: 2 for a misuse, 3 for what is not over yet, else 1.
pub fn report(error: &anyhow::Error, json: bool) -> ExitCode {
    match error.downcast_ref::<Refusal>() {
        refusal if json => output::note(&as_json(error, refusal).to_string()),
        Some(refusal) => output::note(&format!("error: {}{}", context(error), refusal.explain())),
        None if is_unfinished(error) => output::note(&chain(error)),
        None => output::note(&format!("error: {}", chain(error))),
    }
    match (is_misuse(error), is_unfinished(error)) {
        (true, _) => ExitCode::from(2),
        (_, true) => ExitCode::from(3),
        _ => ExitCode::from(1),
    }
}

/// Tells whether it cannot be carried out as it was written.
pub fn is_misuse(error: &anyhow::Error) -> bool {
    let is_name = matches!(error.downcast_ref(), Some(ClientError::Name(_)));
    is_name || error.is::<Misuse>() || error.downcast_ref::<InPart>().is_some_and(|it| it.is_misuse)
}

fn is_unfinished(error: &anyhow::Error) -> bool {
    error.is::<Unfinished>() || error.is::<SoFar>()
}

fn context(error: &anyhow::Error) -> String {
    let outer = error.chain().take_while(|cause| !cause.is::<Refusal>());
    outer.map(|cause| format!("{cause}: ")).collect()
}

/// An error and its causes, joined by colons.
pub fn chain(error: &anyhow::Error) -> String {
    format!("{error:#}")
}

fn as_json(error: &anyhow::Error, refusal: Option<&Refusal>) -> Value {
    let Some(refusal) = refusal else {
        let mut document = json!({"error": {"code": "GridpostCli", "message": chain(error)}});
        let so_far = error.downcast_ref::<SoFar>().map(|it| &it.members);
        let members = so_far.or_else(|| error.downcast_ref::<InPart>().map(|it| &it.members));
        for (name, value) in members.into_iter().flatten() {
            document["error"][name] = value.clone();
        }
        return document;
    };
    let detail = |detail: &Detail| {
        let mut one = json!({"code": detail.code, "message": detail.message});
        if let Some(target) = &detail.target {
            one["target"] = json!(target);
        }
        one
    };
    json!({"error": {
        "code": refusal.code,
        "message": refusal.message,
        "status": refusal.status,
        "details": refusal.details.iter().map(detail).collect::<Vec<_>>(),
        "nextStep": refusal.next_step(),
    }})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn event_grids_shape_is_read_with_its_details() {
        let body = r#"{"error":{"code":"BadRequest","message":"2 problems","details":[
            {"code":"InvalidValue","message":"$.properties.x: out of range"}]}}"#;
        let refusal = Refusal::from_answer(400, body);
        assert_eq!((refusal.code.as_str(), refusal.message.as_str()), ("BadRequest", "2 problems"));
        let text = refusal.explain();
        assert_eq!(
            text,
            "BadRequest (HTTP 400): 2 problems\n  - InvalidValue: $.properties.x: out of range"
        );
    }

    #[test]
    fn programs_get_the_target_that_the_server_names() {
        let body = r#"{"error":{"code":"InvalidRequest","message":"2 problems","details":[
            {"code":"OutOfRange","target":"properties.x","message":"x is out of range"},
            {"code":"Conflict","message":"m"}]}}"#;
        let refusal = Refusal::from_answer(400, body);
        let document = as_json(&refusal.clone().into(), Some(&refusal));
        let want = json!([
            {"code": "OutOfRange", "target": "properties.x", "message": "x is out of range"},
            {"code": "Conflict", "message": "m"},
        ]);
        assert_eq!(document["error"]["details"], want);
    }

    #[test]
    fn programs_get_what_is_known_so_far() {
        let members = Map::from_iter([("delivered".to_owned(), json!(3))]);
        let so_far = SoFar { message: "not yet".into(), members: members.clone() };
        let in_part = InPart { message: "not yet".into(), members, is_misuse: false };
        let want = json!({"error": {"code": "GridpostCli", "message": "not yet", "delivered": 3}});
        let errors: [anyhow::Error; 2] = [so_far.into(), in_part.into()];
        for error in errors {
            assert_eq!(as_json(&error, None), want);
        }
    }

    #[test]
    fn a_problem_is_told_once() {
        let body = r#"{"error":{"code":"A","message":"The document has a problem: x is bad.",
            "details":[{"code":"B","message":"x is bad"}]}}"#;
        let text = Refusal::from_answer(400, body).explain();
        assert_eq!(text, "A (HTTP 400): The document has a problem: x is bad.");
    }

    #[test]
    fn other_bodies_are_shown_as_they_are() {
        for (status, body, headline) in [
            (403, r#"{"message":"Forbidden"}"#, "HTTP 403: Forbidden"),
            (502, "<html>bad gateway</html>", "HTTP 502: <html>bad gateway</html>"),
            (500, "", "HTTP 500: "),
            (400, r#"{"x":1}"#, r#"HTTP 400: {"x":1}"#),
        ] {
            let refusal = Refusal::from_answer(status, body);
            assert_eq!(refusal.headline(), headline, "{body}");
        }
    }

    #[test]
    fn what_was_being_done_stands_before_the_refusal() {
        use anyhow::Context as _;
        let refused: Result<(), _> = Err(Refusal::from_answer(404, "{}"));
        let error = refused.context("topic demo cannot be created").expect_err("refused");
        assert_eq!(context(&error), "topic demo cannot be created: ");
        assert_eq!(context(&Refusal::from_answer(404, "{}").into()), "");
    }

    #[test]
    fn a_misuse_exits_2_and_the_rest_1() {
        let code = |error: anyhow::Error| format!("{:?}", report(&error, false));
        assert_eq!(code(Misuse("no".into()).into()), format!("{:?}", ExitCode::from(2)));
        for (is_misuse, want) in [(true, 2), (false, 1)] {
            let in_part = InPart { message: "some".into(), members: Map::new(), is_misuse };
            assert_eq!(code(in_part.into()), format!("{:?}", ExitCode::from(want)));
        }
        let so_far = SoFar { message: "not yet".into(), members: Map::new() };
        for unfinished in [Unfinished("not yet".into()).into(), so_far.into()] {
            assert_eq!(code(unfinished), format!("{:?}", ExitCode::from(3)));
        }
        assert_eq!(code(anyhow::anyhow!("no")), format!("{:?}", ExitCode::from(1)));
    }
}
