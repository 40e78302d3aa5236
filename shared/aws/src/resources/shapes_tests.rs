//! The clients against every answer of `shapes.json`, and what it comes to.
//!
//! `code` and `message` are what a client reads; the service's protocol adds the rest, unless `headers` or
//! `body` give all of it. `in` is the place: a `call`, an `entry` of an accepted call, or a `function` that
//! failed. `evidence` says what was seen at AWS, by `source`:
//!
//! - `recorded`: the response, with its status and its headers or body. If `source` names another place for
//!   the message, or says that it was not kept, only the rest.
//! - `sdk`: a client's view of a response: code and message, mostly the status.
//! - `model`: nothing. The service's API model or reference has the code and most of the words.
//!
//! Accounts, names and ids were replaced.

use std::ptr;

use gridpost_core::delivery::resource_outcome::{FUNCTION_ERROR, Row, TABLE, row_of};
use serde_json::{Value, json};

use super::{
    tests::{JSON, answers, http},
    *,
};

const XML: &str = "content-type: text/xml\r\n";

#[derive(Debug)]
struct Shape(Value);

impl Shape {
    fn all() -> Vec<Self> {
        let shapes: Vec<Value> =
            serde_json::from_str(include_str!("shapes.json")).expect("a list of shapes");
        shapes.into_iter().map(Self).collect()
    }

    fn text(&self, name: &str) -> &str {
        self.0[name].as_str().unwrap_or_default()
    }

    fn kind(&self) -> ResourceKind {
        let named = ResourceKind::ALL.into_iter().find(|(name, _)| *name == self.text("kind"));
        named.expect("a kind of resource").1
    }

    fn outcome(&self) -> Outcome {
        self.text("outcome").parse().expect("an outcome")
    }

    fn response(&self) -> String {
        let status = self.0["status"].as_u64().and_then(|status| u16::try_from(status).ok());
        let (mut headers, mut body) = self.envelope();
        match &self.0["body"] {
            Value::Null => {}
            Value::String(whole) => body.clone_from(whole),
            whole => body = whole.to_string(),
        }
        if let Some(whole) = self.0["headers"].as_object() {
            let line = |(name, value): (&String, &Value)| {
                format!("{name}: {}\r\n", value.as_str().expect("text"))
            };
            headers = whole.iter().map(line).collect();
        }
        http(status.expect("a status"), &headers, &body)
    }

    /// Returns the protocol's headers and body for a code and a message.
    fn envelope(&self) -> (String, String) {
        use ResourceKind::{EventBridgeBus, KinesisStream, LambdaFunction, SnsTopic, SqsQueue};
        let (code, message) = (self.text("code"), self.text("message"));
        let entry = match self.text("in") {
            "call" => false,
            "entry" => true,
            "function" => return ("x-amz-function-error: Unhandled\r\n".to_owned(), String::new()),
            other => panic!("in {other:?}"),
        };
        let failed = json!({"ErrorCode": code, "ErrorMessage": message});
        match self.kind() {
            SqsQueue if entry => {
                let failed =
                    json!({"Id": "0", "SenderFault": true, "Code": code, "Message": message});
                (JSON.to_owned(), json!({"Successful": [], "Failed": [failed]}).to_string())
            }
            SqsQueue => {
                let body = json!({"__type": self.text("type"), "message": message});
                (format!("{JSON}x-amzn-query-error: {code};Sender\r\n"), body.to_string())
            }
            SnsTopic => {
                let inner = format!("<Code>{code}</Code><Message>{message}</Message>");
                let body = if entry {
                    format!(
                        "<PublishBatchResponse xmlns=\"http://sns.amazonaws.com/doc/2010-03-31/\">\
                         <PublishBatchResult><Failed><member><Id>0</Id>{inner}<SenderFault>true\
                         </SenderFault></member></Failed><Successful/></PublishBatchResult>\
                         </PublishBatchResponse>"
                    )
                } else {
                    format!(
                        "<ErrorResponse xmlns=\"http://sns.amazonaws.com/doc/2010-03-31/\"><Error>\
                         <Type>Sender</Type>{inner}</Error><RequestId>r</RequestId></ErrorResponse>"
                    )
                };
                (XML.to_owned(), body)
            }
            KinesisStream if entry => {
                (JSON.to_owned(), json!({"FailedRecordCount": 1, "Records": [failed]}).to_string())
            }
            EventBridgeBus if entry => {
                (JSON.to_owned(), json!({"FailedEntryCount": 1, "Entries": [failed]}).to_string())
            }
            KinesisStream | EventBridgeBus => {
                (JSON.to_owned(), json!({"__type": code, "message": message}).to_string())
            }
            LambdaFunction => {
                let headers =
                    format!("content-type: application/json\r\nx-amzn-ErrorType: {code}\r\n");
                (headers, json!({"Type": "User", "Message": message}).to_string())
            }
        }
    }

    fn refusal(&self) -> Refusal {
        let body = |name: &str| self.0["body"][name].as_str().unwrap_or_default();
        let (code, message) = match (self.text("in"), self.text("code")) {
            ("function", _) => {
                (FUNCTION_ERROR, format!("{}: {}", body("errorType"), body("errorMessage")))
            }
            (_, code) => (code, format!("{}{}", self.text("message"), body("Reason"))),
        };
        Refusal { code: code.to_owned(), message, ..Refusal::default() }
    }
}

#[tokio::test]
async fn every_shape_comes_to_its_outcome() {
    let mut wrong = Vec::new();
    for shape in Shape::all() {
        let (answers, _) = answers(shape.kind(), 1, shape.response()).await;
        let want = (shape.outcome(), status_of(shape.outcome()));
        let got: Vec<_> = answers.iter().map(|answer| (answer.outcome, answer.status)).collect();
        if got != [want] {
            wrong.push((shape, got));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// A row of the table without an answer or a document would be a guess.
#[test]
fn every_row_has_a_shape() {
    let shapes = Shape::all();
    for shape in &shapes {
        assert!(["recorded", "sdk", "model"].contains(&shape.text("evidence")), "{shape:?}");
        assert!(!shape.text("source").is_empty(), "{shape:?}");
    }
    let reached: Vec<&Row> =
        shapes.iter().filter_map(|shape| row_of(shape.kind(), &shape.refusal())).collect();
    let missing: Vec<_> =
        TABLE.iter().filter(|row| !reached.iter().any(|found| ptr::eq(*found, *row))).collect();
    assert!(missing.is_empty(), "no shape reaches {missing:#?}");
}
