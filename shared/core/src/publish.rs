//! Turns a publish request into deliveries: who may publish, what the body holds, which event
//! subscriptions match, how events are packed. A request is accepted or refused as a whole.

pub mod authenticate;
pub mod fan_out;
pub mod idempotency;
pub mod matching;
pub mod origin;
pub mod pack;
pub mod sas;

use std::{borrow::Cow, error::Error};

use http::{
    HeaderMap, HeaderValue,
    header::{CONTENT_ENCODING, CONTENT_TYPE},
};
use idempotency::KEY_CHARS_MAX;
use sas::TokenError;
use serde_json::json;

use crate::{
    event::{
        EVENTS_MAX, NAMESPACE_EVENTS_MAX, ParseError, ParsedEvent,
        cloud_events::{self, binary},
        custom::{self, Stamps},
        event_grid,
    },
    topic::{InputSchema, Kind, Topic},
};

/// The most bytes of a body or event: 1 MiB. Source: Event Grid, "Quotas and limits" (1 MB).
pub const BODY_BYTES_MAX: usize = 1_048_576;

/// Returns the body as [`read`] takes it: unchanged, or a binary CloudEvent in structured form.
///
/// For Event Grid's schema, everything but CloudEvents is read as JSON: some publishers send forms.
/// Fails if the body is too large, compressed or of another schema, or its headers make no event.
pub fn body<'a>(
    topic: &Topic,
    headers: &HeaderMap,
    body: &'a [u8],
) -> Result<Cow<'a, [u8]>, PublishError> {
    if body.len() > BODY_BYTES_MAX {
        return Err(PublishError::BodyTooLarge { size_bytes: body.len() });
    }
    let media_type = media_type(headers)?;
    let cloud_events = CLOUD_EVENTS.contains(&media_type.as_str());
    match topic.input_schema {
        InputSchema::EventGridSchema | InputSchema::CustomEventSchema if cloud_events => {
            Err(PublishError::ContentType { given: media_type, takes: "application/json" })
        }
        InputSchema::EventGridSchema | InputSchema::CustomEventSchema => plain(headers, body),
        InputSchema::CloudEventSchemaV1_0 if cloud_events => plain(headers, body),
        InputSchema::CloudEventSchemaV1_0
            if binary::is_binary(headers) && !media_type.starts_with(CLOUD_EVENTS_OF_ANY_FORM) =>
        {
            Ok(Cow::Owned(binary::to_structured(headers, &plain(headers, body)?)?.into_bytes()))
        }
        InputSchema::CloudEventSchemaV1_0 => Err(PublishError::ContentType {
            given: media_type,
            takes: "application/cloudevents+json or application/cloudevents-batch+json, or any \
                    content type together with the headers ce-specversion, ce-id, ce-source and \
                    ce-type",
        }),
    }
}

/// Refuses a compressed body, which would otherwise be refused as invalid text.
fn plain<'a>(headers: &HeaderMap, body: &'a [u8]) -> Result<Cow<'a, [u8]>, PublishError> {
    let encoding = headers.get(CONTENT_ENCODING).map(HeaderValue::as_bytes);
    let encoding = encoding.filter(|given| !given.eq_ignore_ascii_case(b"identity"));
    match encoding.filter(|_| std::str::from_utf8(body).is_err()) {
        Some(given) => Err(PublishError::ContentEncoding {
            given: String::from_utf8_lossy(given).into_owned(),
        }),
        None => Ok(Cow::Borrowed(body)),
    }
}

/// Reads the events from the result of [`body`]. `stamps` are for events of a publisher's own
/// schema. Fails if there are too many events, or one breaks a rule.
pub fn read<'a>(
    topic: &Topic,
    topic_id: &'a str,
    body: &'a [u8],
    stamps: Stamps<'_>,
) -> Result<Vec<ParsedEvent<'a>>, PublishError> {
    let mapping = topic.input_schema_mapping.as_ref();
    Ok(match topic.input_schema {
        InputSchema::CustomEventSchema => custom::parse(body, topic_id, mapping, stamps)?,
        InputSchema::EventGridSchema => event_grid::parse(body, topic_id)?,
        InputSchema::CloudEventSchemaV1_0 => {
            cloud_events::parse_up_to(body, events_max(topic.kind))?
        }
    })
}

fn events_max(kind: Kind) -> usize {
    match kind {
        Kind::Custom => EVENTS_MAX,
        Kind::Namespace => NAMESPACE_EVENTS_MAX,
    }
}

const CLOUD_EVENTS_OF_ANY_FORM: &str = "application/cloudevents";

const CLOUD_EVENTS: [&str; 2] =
    ["application/cloudevents+json", "application/cloudevents-batch+json"];

/// Returns the content type in lower case without parameters; empty without the header.
fn media_type(headers: &HeaderMap) -> Result<String, PublishError> {
    let value = binary::only(headers, CONTENT_TYPE.as_str())?;
    let value = value.and_then(|value| value.to_str().ok()).unwrap_or_default();
    Ok(value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase())
}

/// The reason why a publish request was refused. Nothing is delivered, except with
/// [`Self::Unavailable`].
#[derive(Debug, thiserror::Error)]
pub enum PublishError {
    #[error(
        "nothing is served here; publish with POST to /topics/<topic>/api/events, or to \
         /topics/<topic>:publish for a namespace topic"
    )]
    RouteNotFound,
    #[error("the topic does not exist")]
    TopicNotFound,
    #[error(
        "the request has no credentials; send one of the topic's two access keys in the header \
         aeg-sas-key, or a SAS token in aeg-sas-token"
    )]
    CredentialsMissing,
    #[error(
        "credentials in {given} are not taken; send an access key in aeg-sas-key or as \
         'Authorization: SharedAccessKey <key>', or a SAS token in aeg-sas-token or as \
         'Authorization: SharedAccessSignature <token>'"
    )]
    CredentialsUnsupported { given: &'static str },
    #[error("the request has credentials more than once, in {given}; send them once")]
    CredentialsTwice { given: &'static str },
    #[error(transparent)]
    Token(#[from] TokenError),
    #[error("the access key is not one of the topic's two; ask for them with listKeys")]
    KeyRefused,
    #[error(
        "publishers are authorized by API Gateway here, and this request did not pass its \
         authorizer; the deployment's publish routes have lost it: apply its Terraform again"
    )]
    AuthorizerPassedBy,
    #[error(
        "the request did not come through what stands in front of this API; publish to the address that \
         the operator names, which the topic's endpoint shows"
    )]
    OriginRefused,
    #[error(
        "the topic's local authentication is disabled, so access keys and SAS tokens are refused; \
         set its disableLocalAuth to false, or publish to a deployment with an authorizer"
    )]
    LocalAuthDisabled,
    #[error("the topic is of kind '{kind}'; publish to it with POST to {path}")]
    OtherPath {
        /// As documents name it.
        kind: &'static str,
        path: String,
    },
    /// None of the body was parsed.
    #[error("the body has {size_bytes} bytes; at most {BODY_BYTES_MAX} are taken")]
    BodyTooLarge { size_bytes: usize },
    #[error("the topic takes {takes}, the request is '{given}'")]
    ContentType {
        /// Without parameters; may be empty.
        given: String,
        /// The content type for the topic's input schema.
        takes: &'static str,
    },
    #[error("the body has the Content-Encoding '{given}', and none is taken: send it uncompressed")]
    ContentEncoding { given: String },
    #[error(transparent)]
    Body(#[from] ParseError),
    #[error("the body is not the base64 that it is marked as")]
    NotBase64,
    #[error(
        "the key in the header {header} can't be used; send 1 to {KEY_CHARS_MAX} printable ASCII \
         characters"
    )]
    KeyUnusable { header: &'static str },
    #[error(
        "the idempotency key was used for a publish with another body; send a new key with each \
         publish, and the same one only to repeat it"
    )]
    KeyReused,
    /// A publish with the same key is under way, or has died. Azure's SDKs retry 503, but not 409,
    /// nor 408 in Python.
    #[error(
        "a publish with the same idempotency key is under way; send it again, and it is answered as \
         that one is"
    )]
    UnderWay { retry_after_s: u32 },
    /// A port failed. Some deliveries may have been made, and a retry duplicates them.
    #[error("the events could not be stored for delivery; send them again")]
    Unavailable(#[source] Box<dyn Error + Send + Sync>),
}

impl PublishError {
    pub fn status(&self) -> u16 {
        self.kind().0
    }

    /// Returns Event Grid's name of the status.
    pub fn code(&self) -> &'static str {
        self.kind().1
    }

    pub fn detail(&self) -> &'static str {
        self.kind().2
    }

    /// Returns after how many seconds to retry, if that makes sense. Other answers must not carry
    /// `Retry-After`: the Azure SDK for Python repeats every request whose answer has it.
    pub fn retry_after_s(&self) -> Option<u32> {
        match self {
            Self::Unavailable(_) => Some(1),
            Self::UnderWay { retry_after_s } => Some(*retry_after_s),
            _ => None,
        }
    }

    /// Writes the body of the answer. Source: Event Grid, "Publish events to custom topics
    /// with access keys", and observed bodies; `code` is the name of the status.
    pub fn to_json(&self) -> String {
        let message = self.to_string();
        let details = json!([{"code": self.detail(), "message": message}]);
        let error = json!({"code": self.code(), "message": message, "details": details});
        json!({ "error": error }).to_string()
    }

    fn kind(&self) -> (u16, &'static str, &'static str) {
        const BAD_REQUEST: &str = "BadRequest";
        const UNAUTHORIZED: &str = "Unauthorized";
        const TOO_LARGE: &str = "RequestEntityTooLarge";
        const UNAVAILABLE: &str = "ServiceUnavailable";
        match self {
            Self::RouteNotFound => (404, "NotFound", "RouteNotFound"),
            Self::TopicNotFound => (404, "NotFound", "TopicNotFound"),
            Self::CredentialsMissing => (401, UNAUTHORIZED, "CredentialsMissing"),
            Self::CredentialsTwice { .. } => (401, UNAUTHORIZED, "CredentialsTwice"),
            Self::Token(TokenError::Malformed(_) | TokenError::Expiry(_)) => {
                (401, UNAUTHORIZED, "TokenMalformed")
            }
            Self::Token(TokenError::Signature) => (401, UNAUTHORIZED, "TokenRefused"),
            Self::Token(TokenError::Expired(_)) => (401, UNAUTHORIZED, "TokenExpired"),
            Self::Token(TokenError::OtherResource { .. }) => {
                (401, UNAUTHORIZED, "TokenForOtherResource")
            }
            Self::CredentialsUnsupported { .. } => (401, UNAUTHORIZED, "CredentialsUnsupported"),
            Self::KeyRefused => (401, UNAUTHORIZED, "KeyRefused"),
            Self::AuthorizerPassedBy => (401, UNAUTHORIZED, "AuthorizerPassedBy"),
            Self::OriginRefused => (403, "Forbidden", "OriginRefused"),
            Self::LocalAuthDisabled => (401, UNAUTHORIZED, "LocalAuthDisabled"),
            Self::OtherPath { .. } => (404, "NotFound", "OtherPath"),
            Self::BodyTooLarge { .. } => (413, TOO_LARGE, "RequestTooLarge"),
            Self::ContentType { .. } => (400, BAD_REQUEST, "ContentTypeUnsupported"),
            Self::Body(ParseError::Header { .. }) => (400, BAD_REQUEST, "InputHeaderInvalid"),
            Self::Body(ParseError::TooManyEvents { .. }) => (400, BAD_REQUEST, "TooManyEvents"),
            Self::ContentEncoding { .. } | Self::Body(_) | Self::NotBase64 => {
                (400, BAD_REQUEST, "InputJsonInvalid")
            }
            Self::KeyUnusable { .. } => (400, BAD_REQUEST, "IdempotencyKeyInvalid"),
            Self::KeyReused => (409, "Conflict", "IdempotencyKeyReused"),
            Self::UnderWay { .. } => (503, UNAVAILABLE, "PublishUnderWay"),
            Self::Unavailable(_) => (503, UNAVAILABLE, UNAVAILABLE),
        }
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::time::Timestamp;

    const EVENT_GRID: &str =
        r#"[{"id":"1","subject":"s","eventType":"T","eventTime":"2026-01-02T03:04:05Z"}]"#;
    const CLOUD_EVENT: &str = r#"{"id":"1","source":"/s","type":"T","specversion":"1.0"}"#;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let pair = |(name, value): &(&'static str, &'static str)| {
            (name.parse().expect("a name"), value.parse().expect("a value"))
        };
        pairs.iter().map(pair).collect()
    }

    fn topic(kind: Kind, input_schema: InputSchema) -> Topic {
        Topic { kind, input_schema, ..crate::fixtures::topic() }
    }

    fn count(topic: &Topic, headers: &HeaderMap, body: &[u8]) -> Result<usize, PublishError> {
        let body = super::body(topic, headers, body)?;
        let stamps = Stamps { now: Timestamp::from_millis(0), id: &mut Uuid::nil };
        read(topic, "/topics/t", &body, stamps).map(|events| events.len())
    }

    #[test]
    fn content_type_table() {
        use InputSchema::{
            CloudEventSchemaV1_0 as CloudEvents, CustomEventSchema as Custom,
            EventGridSchema as EventGrid,
        };
        let kind = |content_type: &'static str| headers(&[("content-type", content_type)]);
        let binary = |content_type: &'static str| {
            headers(&[
                ("content-type", content_type),
                ("ce-specversion", "1.0"),
                ("ce-id", "1"),
                ("ce-source", "/s"),
                ("ce-type", "T"),
            ])
        };
        let batch = format!("[{CLOUD_EVENT},{CLOUD_EVENT}]");
        let wrong_type = "takes application/cloudevents+json or application/cloudevents-batch+json";
        let table = [
            (EventGrid, kind("application/json"), EVENT_GRID, Ok(1)),
            (EventGrid, kind("Application/JSON; Charset=UTF-8"), EVENT_GRID, Ok(1)),
            (EventGrid, kind("application/x-www-form-urlencoded"), EVENT_GRID, Ok(1)),
            (EventGrid, HeaderMap::new(), EVENT_GRID, Ok(1)),
            (
                EventGrid,
                kind("application/cloudevents-batch+json; charset=utf-8"),
                &batch,
                Err("topic takes application/json, the request is 'application/cloudevents-batch+"),
            ),
            (CloudEvents, kind("application/cloudevents+json"), CLOUD_EVENT, Ok(1)),
            (CloudEvents, kind("application/cloudevents+json; charset=utf-8"), &batch, Ok(2)),
            (CloudEvents, kind("APPLICATION/CloudEvents-Batch+JSON ;x=y"), &batch, Ok(2)),
            (CloudEvents, kind("application/cloudevents-batch+json"), CLOUD_EVENT, Ok(1)),
            (CloudEvents, kind("application/json"), CLOUD_EVENT, Err(wrong_type)),
            (CloudEvents, HeaderMap::new(), CLOUD_EVENT, Err(wrong_type)),
            (CloudEvents, binary("application/json"), "{}", Ok(1)),
            (CloudEvents, binary("application/octet-stream"), "x", Ok(1)),
            (CloudEvents, binary("application/cloudevents+json"), &batch, Ok(2)),
            (CloudEvents, binary("application/cloudevents+avro"), "x", Err(wrong_type)),
            (CloudEvents, headers(&[("ce-id", "1")]), "x", Err("'ce-specversion' is required")),
            (EventGrid, binary("application/json"), EVENT_GRID, Ok(1)),
            (Custom, kind("application/json"), "[{},{}]", Ok(2)),
            (Custom, kind("application/x-www-form-urlencoded"), "{}", Ok(1)),
            (
                Custom,
                kind("application/cloudevents+json"),
                CLOUD_EVENT,
                Err("topic takes application/json"),
            ),
        ];
        for (schema, headers, body, want) in table {
            for kind in [Kind::Custom, Kind::Namespace] {
                let got = count(&topic(kind, schema), &headers, body.as_bytes());
                match (got, want) {
                    (Ok(events), Ok(count)) => assert_eq!(events, count, "{headers:?}"),
                    (Err(error), Err(text)) => {
                        assert!(error.to_string().contains(text), "{headers:?}: {error}");
                        assert_eq!(error.status(), 400, "{headers:?}");
                    }
                    (got, want) => panic!("{headers:?} {body}: {got:?}, not {want:?}"),
                }
            }
        }
    }

    #[test]
    fn a_compressed_body_is_refused_for_its_encoding() {
        // gzip's first bytes.
        let compressed: &[u8] = &[0x1f, 0x8b, 0x08, 0x00];
        let batch = "application/cloudevents-batch+json";
        // Content type, encoding, body, error; accepted without one.
        let table = [
            ("application/json", "gzip", compressed, Some("Content-Encoding 'gzip'")),
            (batch, "br", compressed, Some("Content-Encoding 'br'")),
            ("application/json", "identity", compressed, Some("not UTF-8 from byte 1 on")),
            // The header is wrong; the readable body is accepted.
            ("application/json", "gzip", EVENT_GRID.as_bytes(), None),
        ];
        for (content_type, encoding, body, want) in table {
            let schema = match content_type == batch {
                true => InputSchema::CloudEventSchemaV1_0,
                false => InputSchema::EventGridSchema,
            };
            let headers =
                headers(&[("content-type", content_type), ("content-encoding", encoding)]);
            let got = count(&topic(Kind::Custom, schema), &headers, body);
            let Some(want) = want else {
                assert_eq!(got.expect("accepted"), 1, "{encoding}");
                continue;
            };
            let refused = got.expect_err(encoding);
            assert!(refused.to_string().contains(want), "{encoding}: {refused}");
            assert_eq!((refused.status(), refused.detail()), (400, "InputJsonInvalid"));
        }
    }

    #[test]
    fn a_compressed_cloud_event_in_binary_mode_is_refused_as_well() {
        let topic = topic(Kind::Custom, InputSchema::CloudEventSchemaV1_0);
        let required = [("ce-specversion", "1.0"), ("ce-id", "1"), ("ce-source", "/s")];
        for content_type in ["text/plain", "application/json", "application/octet-stream"] {
            let mut all = vec![("content-type", content_type), ("ce-type", "T")];
            all.extend(required);
            let plain = headers(&all);
            all.push(("content-encoding", "gzip"));
            let refused = body(&topic, &headers(&all), &[0x1f, 0x8b, 0x08, 0x00]);
            let refused = refused.expect_err("it is compressed");
            assert!(refused.to_string().contains("Content-Encoding 'gzip'"), "{refused}");
            assert!(body(&topic, &plain, b"1").is_ok(), "{content_type}");
        }
    }

    #[test]
    fn each_kind_has_its_most_events() {
        let headers = headers(&[("content-type", "application/cloudevents-batch+json")]);
        for (kind, most) in [(Kind::Custom, 5_000), (Kind::Namespace, 1_000)] {
            let topic = topic(kind, InputSchema::CloudEventSchemaV1_0);
            let events = |count: usize| format!("[{}]", vec![CLOUD_EVENT; count].join(","));
            let count = |events: String| count(&topic, &headers, events.as_bytes());
            assert_eq!(count(events(most)).expect("just fits"), most);
            let refused = count(events(most + 1)).expect_err("too many");
            assert_eq!((refused.status(), refused.detail()), (400, "TooManyEvents"));
            assert!(refused.to_string().contains(&format!("more than {most} events")));
        }
    }

    #[test]
    fn bodies_up_to_a_mebibyte() {
        let topic = topic(Kind::Custom, InputSchema::EventGridSchema);
        let count = |body: String| count(&topic, &HeaderMap::new(), body.as_bytes());
        let padded = |bytes: usize| format!("{EVENT_GRID}{}", " ".repeat(bytes - EVENT_GRID.len()));
        assert_eq!(count(padded(BODY_BYTES_MAX)).expect("just fits"), 1);
        let refused = count(padded(BODY_BYTES_MAX + 1)).expect_err("too large");
        assert_eq!(refused.status(), 413);
    }
}

#[cfg(test)]
mod error_tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn the_body_has_event_grids_shape() {
        let error = PublishError::Body(ParseError::NotAnObject { index: 3, found: "a \"string\"" });
        let body: Value = serde_json::from_str(&error.to_json()).expect("JSON");
        let message = "the event at index 3 must be a JSON object, but it begins with a \"string\"";
        let details = json!([{"code": "InputJsonInvalid", "message": message}]);
        let want = json!({"error": {"code": "BadRequest", "message": message, "details": details}});
        assert_eq!(body, want);
    }

    #[test]
    fn what_went_wrong_inside_stays_inside() {
        let error = PublishError::Unavailable("sqs:SendMessageBatch failed: host x".into());
        let (status, retry_after_s) = (error.status(), error.retry_after_s());
        assert_eq!((status, retry_after_s), (503, Some(1)));
        assert!(!error.to_json().contains("host x"), "{}", error.to_json());
    }
}
