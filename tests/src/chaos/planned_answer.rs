//! Planned failures of calls to a case's own AWS resources, once each: the whole call is refused,
//! or one entry of its batch.

use anyhow::{Context, ensure};
use bytes::Bytes;
use http::{HeaderMap, StatusCode, request::Parts};
use serde_json::{Value, json};

/// The answer to one call.
#[derive(Clone, Debug)]
pub enum Answer {
    /// This status and error; the call does not reach the emulator.
    Refused(u16, &'static str),
    /// The emulator's answer, except that the entry with this text fails with an error of the
    /// service and does not reach the emulator.
    WithoutEntry(&'static str),
}

/// A call with a planned answer.
#[derive(Clone, Debug)]
pub struct PlannedAnswer {
    /// The operation, such as `PutRecords`.
    pub operation: &'static str,
    /// The resource's name, which is in the body or the path.
    pub resource: String,
    /// Its answer.
    pub answer: Answer,
}

impl PlannedAnswer {
    /// Whether that call is meant.
    pub fn is_of(&self, parts: &Parts, body: &str) -> bool {
        let named = |name: &str| {
            let ends = |text: &str| {
                text.split(name).skip(1).any(|rest| {
                    !rest.starts_with(|next: char| next.is_ascii_alphanumeric() || next == '-')
                })
            };
            ends(body) || ends(parts.uri.path())
        };
        operation(parts, body).as_deref() == Some(self.operation) && named(&self.resource)
    }
}

/// The operation that is called, in each of the protocols.
fn operation(parts: &Parts, body: &str) -> Option<String> {
    if let Some(target) = parts.headers.get("x-amz-target") {
        return Some(target.to_str().ok()?.rsplit('.').next()?.to_owned());
    }
    if parts.uri.path().ends_with("/invocations") {
        let kind = parts.headers.get("x-amz-invocation-type");
        let is_dry = kind.is_some_and(|kind| kind == "DryRun");
        return Some(if is_dry { "DryRun" } else { "Invoke" }.to_owned());
    }
    let mut form = url::form_urlencoded::parse(body.as_bytes());
    form.find(|(name, _)| name == "Action").map(|(_, action)| action.into_owned())
}

/// A refusal in the protocol of the operation, or of a service by its name.
pub fn refusal(operation: &str, status: u16, code: &str) -> anyhow::Result<http::Response<Bytes>> {
    let response = http::Response::builder().status(StatusCode::from_u16(status)?);
    let json = json!({"__type": code, "message": "injected"}).to_string();
    let (header, value, body) = match operation {
        "PublishBatch" => {
            let error = format!(
                "<ErrorResponse><Error><Type>Receiver</Type><Code>{code}</Code>\
                 <Message>injected</Message></Error><RequestId>r</RequestId></ErrorResponse>"
            );
            ("content-type", "text/xml", error)
        }
        "S3" => {
            let error = format!("<Error><Code>{code}</Code><Message>injected</Message></Error>");
            ("content-type", "application/xml", error)
        }
        "Invoke" => ("x-amzn-errortype", code, json!({"Message": "injected"}).to_string()),
        _ => ("content-type", "application/x-amz-json-1.1", json),
    };
    Ok(response.header(header, value).body(Bytes::from(body))?)
}

/// A batch without one of its entries, and how to report that entry's failure in the answer.
#[derive(Debug)]
pub struct Reduced {
    /// The body that is sent on.
    pub body: String,
    operation: &'static str,
    /// The entry's index, from 0.
    position: usize,
    id: String,
}

impl Reduced {
    /// Takes the entry with that text out.
    pub fn of(operation: &'static str, body: &str, text: &str) -> anyhow::Result<Self> {
        if operation == "PublishBatch" {
            return Self::of_form(operation, body, text);
        }
        let mut batch: Value = serde_json::from_str(body)?;
        let list = if operation == "PutRecords" { "Records" } else { "Entries" };
        let entries = batch[list].as_array_mut().context("a batch")?;
        let has_it = |entry: &Value| entry.to_string().contains(text);
        let position = entries.iter().position(has_it).context("no entry has the text")?;
        let taken = entries.remove(position);
        ensure!(!entries.iter().any(has_it), "two entries have the text {text}");
        let id = taken["Id"].as_str().unwrap_or_default().to_owned();
        Ok(Self { body: batch.to_string(), operation, position, id })
    }

    /// SNS takes forms, whose members are numbered from 1.
    fn of_form(operation: &'static str, body: &str, text: &str) -> anyhow::Result<Self> {
        const MEMBER: &str = "PublishBatchRequestEntries.member.";
        let number = |name: &str| -> Option<usize> {
            name.strip_prefix(MEMBER)?.split('.').next()?.parse().ok()
        };
        let pairs: Vec<(String, String)> =
            url::form_urlencoded::parse(body.as_bytes()).into_owned().collect();
        let mut with_it = pairs.iter().filter(|(_, value)| value.contains(text));
        let taken = with_it.find_map(|(name, _)| number(name)).context("no entry has the text")?;
        let id_name = format!("{MEMBER}{taken}.Id");
        let id = pairs.iter().find(|(name, _)| *name == id_name).context("an entry has an id")?;
        let rest = pairs.iter().filter(|(name, _)| number(name) != Some(taken));
        let rest = rest.map(|(name, value)| match number(name) {
            Some(at) if at > taken => {
                let renamed =
                    name.replacen(&format!("{MEMBER}{at}."), &format!("{MEMBER}{}.", at - 1), 1);
                (renamed, value.as_str())
            }
            _ => (name.clone(), value.as_str()),
        });
        let body = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(rest).finish();
        Ok(Self { body, operation, position: taken - 1, id: id.1.clone() })
    }

    /// Corrects the headers, because the signed content has changed.
    pub fn unsign(&self, headers: &mut HeaderMap, unsigned: &str) -> anyhow::Result<()> {
        for signed in ["content-length", "x-amz-content-sha256", "x-amz-security-token"] {
            headers.remove(signed);
        }
        headers.insert(http::header::AUTHORIZATION, unsigned.parse()?);
        Ok(())
    }

    /// The service in whose name the request is signed.
    pub fn service(&self) -> &'static str {
        match self.operation {
            "PublishBatch" => "sns",
            "PutRecords" => "kinesis",
            "PutEvents" => "events",
            _ => "sqs",
        }
    }

    /// The emulator's answer, with the failure of the entry in it.
    pub fn tell(&self, answer: &[u8]) -> anyhow::Result<String> {
        let text = std::str::from_utf8(answer)?;
        let id = &self.id;
        if self.operation == "PublishBatch" {
            let failed = format!(
                "<Failed><member><Id>{id}</Id><Code>InternalError</Code><Message>injected</Message>\
                 <SenderFault>false</SenderFault></member></Failed>"
            );
            let document = ["<Failed/>", "<Failed />", "<Failed></Failed>"];
            let document = document.into_iter().find(|none| text.contains(none));
            return Ok(match document {
                Some(none) => text.replacen(none, &failed, 1),
                None => {
                    let end = "</PublishBatchResult>";
                    ensure!(text.contains(end), "an answer of another kind: {text}");
                    text.replacen(end, &format!("{failed}{end}"), 1)
                }
            });
        }
        let mut document: Value = serde_json::from_str(text)?;
        let positional = json!({"ErrorCode": "InternalFailure", "ErrorMessage": "injected"});
        let (list, count) = match self.operation {
            "PutRecords" => ("Records", "FailedRecordCount"),
            "PutEvents" => ("Entries", "FailedEntryCount"),
            _ => {
                let mut all = document["Failed"].as_array().cloned().unwrap_or_default();
                all.push(json!({
                    "Id": id, "SenderFault": false, "Code": "InternalError", "Message": "injected",
                }));
                document["Failed"] = Value::Array(all);
                return Ok(document.to_string());
            }
        };
        document[list].as_array_mut().context("a list")?.insert(self.position, positional);
        document[count] = json!(document[count].as_u64().unwrap_or(0) + 1);
        Ok(document.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_taken_out_and_told_of() {
        let records =
            r#"{"Records":[{"PartitionKey":"a"},{"PartitionKey":"b"},{"PartitionKey":"c"}]}"#;
        let reduced = Reduced::of("PutRecords", records, r#""PartitionKey":"b""#).expect("reduced");
        assert_eq!(reduced.body, r#"{"Records":[{"PartitionKey":"a"},{"PartitionKey":"c"}]}"#);
        let document = reduced.tell(br#"{"FailedRecordCount":0,"Records":[{"n":1},{"n":2}]}"#);
        let document: Value = serde_json::from_str(&document.expect("document")).expect("JSON");
        assert_eq!(document["FailedRecordCount"], 1);
        assert_eq!(document["Records"][1]["ErrorCode"], "InternalFailure");
        assert_eq!(document["Records"][2]["n"], 2);

        let form = "Action=PublishBatch&PublishBatchRequestEntries.member.1.Id=0\
            &PublishBatchRequestEntries.member.1.Message=a&PublishBatchRequestEntries.member.2.Id=1\
            &PublishBatchRequestEntries.member.2.Message=b&TopicArn=t";
        let reduced = Reduced::of("PublishBatch", form, "a").expect("reduced");
        let want = "Action=PublishBatch&PublishBatchRequestEntries.member.1.Id=1\
            &PublishBatchRequestEntries.member.1.Message=b&TopicArn=t";
        assert_eq!(reduced.body, want);
        let document = reduced.tell(b"<PublishBatchResult><Failed/></PublishBatchResult>");
        assert!(document.expect("document").contains("<Id>0</Id><Code>InternalError</Code>"));
    }
}
