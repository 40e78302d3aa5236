//! From a publish request to deliveries, as plain decisions: who may publish, what the body holds,
//! which event subscriptions want it, and how it is packed. A request is accepted or refused as a
//! whole.

pub mod authenticate;
pub mod error;
pub mod matching;
pub mod pack;

#[cfg(test)]
mod fixtures;

use http::{HeaderMap, header::CONTENT_TYPE};

pub use error::PublishError;

use crate::{
    event::{ParsedEvent, cloud_events, event_grid},
    topic::InputSchema,
};

/// Most bytes of a request's body, and so of an event: 1 MiB. Source: Event Grid, "Quotas and
/// limits", which says 1 MB and not which one.
pub const BODY_BYTES_MAX: usize = 1_048_576;

/// Reads the events of a publish to the topic with that id.
///
/// The content type decides little for Event Grid's schema: all but CloudEvents is read as JSON,
/// because publishers send theirs as forms too (`curl -d`). A topic that takes CloudEvents asks for
/// one of the two content types, which tell structured from binary events.
///
/// # Errors
///
/// [`PublishError`] when the body is too large, in another schema, or holds an event that breaks a
/// rule.
pub fn read<'a>(
    schema: InputSchema,
    topic_id: &'a str,
    headers: &HeaderMap,
    body: &'a [u8],
) -> Result<Vec<ParsedEvent<'a>>, PublishError> {
    if body.len() > BODY_BYTES_MAX {
        return Err(PublishError::BodyTooLarge { size_bytes: body.len() });
    }
    let media_type = media_type(headers);
    let cloud_events = CLOUD_EVENTS.contains(&media_type.as_str());
    match schema {
        InputSchema::EventGridSchema if cloud_events => {
            Err(PublishError::ContentType { given: media_type, takes: "application/json" })
        }
        InputSchema::EventGridSchema => Ok(event_grid::parse(body, topic_id)?),
        InputSchema::CloudEventSchemaV1_0 if cloud_events => Ok(cloud_events::parse(body)?),
        InputSchema::CloudEventSchemaV1_0 if headers.contains_key("ce-specversion") => {
            Err(PublishError::BinaryMode)
        }
        InputSchema::CloudEventSchemaV1_0 => Err(PublishError::ContentType {
            given: media_type,
            takes: "application/cloudevents+json or application/cloudevents-batch+json",
        }),
    }
}

/// The content types of structured CloudEvents, by themselves and in a batch.
const CLOUD_EVENTS: [&str; 2] =
    ["application/cloudevents+json", "application/cloudevents-batch+json"];

/// The content type in lower case without its parameters; empty where there is none.
fn media_type(headers: &HeaderMap) -> String {
    let value = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVENT_GRID: &str =
        r#"[{"id":"1","subject":"s","eventType":"T","eventTime":"2026-01-02T03:04:05Z"}]"#;
    const CLOUD_EVENT: &str = r#"{"id":"1","source":"/s","type":"T","specversion":"1.0"}"#;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let pair = |(name, value): &(&'static str, &'static str)| {
            (name.parse().expect("a name"), value.parse().expect("a value"))
        };
        pairs.iter().map(pair).collect()
    }

    #[test]
    fn content_type_table() {
        use InputSchema::{CloudEventSchemaV1_0 as CloudEvents, EventGridSchema as EventGrid};
        let kind = |content_type: &'static str| headers(&[("content-type", content_type)]);
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
            (
                CloudEvents,
                headers(&[("content-type", "application/json"), ("ce-specversion", "1.0")]),
                "{}",
                Err("binary mode"),
            ),
        ];
        for (schema, headers, body, want) in table {
            let got = read(schema, "/topics/t", &headers, body.as_bytes());
            match (got, want) {
                (Ok(events), Ok(count)) => assert_eq!(events.len(), count, "{headers:?}"),
                (Err(error), Err(text)) => {
                    assert!(error.to_string().contains(text), "{headers:?}: {error}");
                    assert_eq!(error.status(), 400, "{headers:?}");
                }
                (got, want) => panic!("{headers:?} {body}: {got:?}, not {want:?}"),
            }
        }
    }

    #[test]
    fn bodies_up_to_a_mebibyte() {
        let read = |body: &str| {
            read(InputSchema::EventGridSchema, "/topics/t", &HeaderMap::new(), body.as_bytes())
                .map(|events| events.len())
        };
        let padded = |bytes: usize| format!("{EVENT_GRID}{}", " ".repeat(bytes - EVENT_GRID.len()));
        assert_eq!(read(&padded(BODY_BYTES_MAX)).expect("just fits"), 1);
        let refused = read(&padded(BODY_BYTES_MAX + 1)).expect_err("too large");
        assert_eq!(refused.status(), 413);
    }
}
