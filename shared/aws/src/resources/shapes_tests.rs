//! The clients against every shape of `shapes.json`: an answer of a service, and what it comes to.
//!
//! `code` and `message` are what a client reads of it; around them stands what the service's protocol has
//! there, unless `headers` or `body` say it whole. `in` is where it stands: of a `call`, of an `entry`
//! of a call that was accepted, or of a `function` that ran and failed. `evidence` says how much of a shape
//! was seen at AWS, and `source` by whom:
//!
//! - `recorded`: the response, with its status and its headers or its body. Where `source` names another
//!   place for the message, or says that it was not kept, the record has only the rest.
//! - `sdk`: what a client made of a response: its code and message, mostly its status.
//! - `model`: nothing. The service's API model or reference has the code, and the words are mostly its.
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

/// One object of the file.
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

    /// The whole response.
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

    /// The headers and the body that the service's protocol has for a code and a message.
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

    /// What the table is asked for.
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

/// A row that no answer was ever seen to reach, or that no document has, is a guess.
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
