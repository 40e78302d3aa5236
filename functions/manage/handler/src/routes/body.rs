//! The documents of requests.

use gridpost_core::{
    document::{parse, parse_around},
    publish::BODY_BYTES_MAX,
};
use http::header::CONTENT_TYPE;
use serde_json::{Value, json, value::RawValue};

use crate::{Reply, Request};

/// Bytes of a document. An item of DynamoDB has 400 KiB at most, and the largest honest document
/// has a few.
const DOCUMENT_BYTES_MAX: usize = 256 * 1024;

/// The request's document; one without a body is an empty object, for defaults exist.
pub(super) fn document(request: &Request) -> Result<Value, Reply> {
    check_body(request, DOCUMENT_BYTES_MAX)?;
    if request.body.iter().all(u8::is_ascii_whitespace) {
        return Ok(json!({}));
    }
    Ok(parse(&request.body)?)
}

/// The same where one member is what could be published, as it came.
pub(super) fn document_around<'r>(
    request: &'r Request,
    member: &str,
) -> Result<(Value, Option<&'r RawValue>), Reply> {
    check_body(request, DOCUMENT_BYTES_MAX + BODY_BYTES_MAX)?;
    if request.body.iter().all(u8::is_ascii_whitespace) {
        return Ok((json!({}), None));
    }
    Ok(parse_around(&request.body, member)?)
}

fn check_body(request: &Request, bytes_max: usize) -> Result<(), Reply> {
    let bytes = request.body.len();
    if bytes > bytes_max {
        let kib = bytes_max / 1_024;
        let message = format!(
            "The document is {bytes} bytes, over the limit of {bytes_max} bytes ({kib} KiB)."
        );
        return Err(Reply::error(413, "RequestEntityTooLarge", message));
    }
    if request.body.iter().all(u8::is_ascii_whitespace) {
        return Ok(());
    }
    if let Some(given) = request.headers.get(CONTENT_TYPE) {
        let given = String::from_utf8_lossy(given.as_bytes());
        if !is_json(&given) {
            return Err(Reply::not_json(&given));
        }
    }
    Ok(())
}

/// Whether a content type is JSON in UTF-8: `application/json`, `text/json`, or any `+json`, such as
/// a patch's `application/merge-patch+json`.
fn is_json(content_type: &str) -> bool {
    let content_type = content_type.to_ascii_lowercase();
    let mut parts = content_type.split(';').map(str::trim);
    let essence = parts.next().unwrap_or_default();
    let of_json = matches!(essence, "application/json" | "text/json") || essence.ends_with("+json");
    let charset = parts.find_map(|parameter| parameter.strip_prefix("charset="));
    of_json && charset.is_none_or(|charset| matches!(charset.trim_matches('"'), "utf-8" | "utf8"))
}
