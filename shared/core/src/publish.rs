//! Turns a publish request into deliveries: who may publish, what the body holds, which event
//! subscriptions match, how events are packed. A request is accepted or refused as a whole.

pub mod authenticate;
pub mod error;
pub mod fan_out;
pub mod idempotency;
pub mod matching;
pub mod pack;
pub mod sas;

use std::borrow::Cow;

use http::{
    HeaderMap, HeaderValue,
    header::{CONTENT_ENCODING, CONTENT_TYPE},
};

pub use error::PublishError;

use crate::{
    event::{
        EVENTS_MAX, NAMESPACE_EVENTS_MAX, ParsedEvent,
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
