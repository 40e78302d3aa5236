//! Events of EventBridge.
//!
//! Source: EventBridge user guide, "Event structure reference"; S3's, "EventBridge event message".

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{
    Data, Event, Unmappable, attribute, object,
    s3::{Api, Blob, Happened},
};

const WHAT: &str = "an event of EventBridge";

#[derive(Deserialize)]
struct Envelope<'m> {
    #[serde(borrow)]
    id: Cow<'m, str>,
    #[serde(borrow)]
    source: Cow<'m, str>,
    #[serde(borrow, rename = "detail-type")]
    detail_type: Cow<'m, str>,
    #[serde(borrow)]
    time: Cow<'m, str>,
    #[serde(borrow, default)]
    region: Cow<'m, str>,
    #[serde(default)]
    resources: Vec<String>,
    #[serde(borrow)]
    detail: &'m RawValue,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Detail<'m> {
    #[serde(borrow)]
    bucket: Bucket<'m>,
    #[serde(borrow)]
    object: Object<'m>,
    #[serde(borrow, default)]
    request_id: Cow<'m, str>,
    #[serde(borrow, default)]
    reason: Cow<'m, str>,
    #[serde(borrow, default)]
    deletion_type: Option<Cow<'m, str>>,
}

impl Detail<'_> {
    /// Returns whether one version was deleted for good: the blob may still exist in another.
    fn is_of_a_version(&self) -> bool {
        let version = self.object.version_id.as_deref().unwrap_or_default();
        self.deletion_type.as_deref() == Some("Permanently Deleted") && !version.is_empty()
    }
}

#[derive(Deserialize)]
struct Bucket<'m> {
    #[serde(borrow)]
    name: Cow<'m, str>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Object<'m> {
    /// Not encoded, unlike in S3's own notifications.
    #[serde(borrow)]
    key: Cow<'m, str>,
    #[serde(default)]
    size: Option<u64>,
    #[serde(borrow, default)]
    etag: Cow<'m, str>,
    #[serde(borrow, default)]
    sequencer: Cow<'m, str>,
    #[serde(borrow, default)]
    version_id: Option<Cow<'m, str>>,
}

/// Turns an event of EventBridge into an event whose data is all of it, as targets of rules get it.
pub(super) fn event<'m>(text: &Cow<'m, str>, blobs: bool) -> Result<Event<'m>, Unmappable> {
    match text {
        Cow::Borrowed(text) => read(text, blobs),
        Cow::Owned(text) => read(text, blobs).map(Event::into_owned),
    }
}

fn read(text: &str, blobs: bool) -> Result<Event<'_>, Unmappable> {
    let whole: &RawValue = object(text, WHAT)?;
    let found: Envelope<'_> = object(whole.get(), WHAT)?;
    let happened = match &*found.detail_type {
        "Object Created" => Some(Happened::Created),
        "Object Deleted" => Some(Happened::Deleted),
        _ => None,
    };
    if let Some(happened) = happened.filter(|_| blobs && found.source == "aws.s3") {
        let detail: Detail<'_> = object(found.detail.get(), "the detail of an event of S3")?;
        if happened == Happened::Created || !detail.is_of_a_version() {
            return Ok(of_blob(&found, &detail, happened));
        }
    }
    Ok(Event {
        subject: attribute(found.resources.first().map_or("", String::as_str)),
        id: found.id,
        source: found.source,
        event_type: found.detail_type,
        time: found.time,
        data: Data::Json(Cow::Borrowed(whole)),
    })
}

fn of_blob<'m>(found: &Envelope<'m>, detail: &Detail<'_>, happened: Happened) -> Event<'m> {
    let blob = Blob {
        happened,
        api: match (happened, &*detail.reason) {
            (Happened::Deleted, _) => Api::DeleteBlob,
            (_, "CopyObject") => Api::CopyBlob,
            (_, "CompleteMultipartUpload") => Api::PutBlockList,
            _ => Api::PutBlob,
        },
        bucket: &detail.bucket.name,
        bucket_arn: found.resources.first().map_or("", String::as_str),
        region: &found.region,
        key: &detail.object.key,
        size: detail.object.size,
        etag: &detail.object.etag,
        sequencer: &detail.object.sequencer,
        request_id: &detail.request_id,
        host_id: "",
    };
    blob.event(found.id.clone(), found.time.clone())
}
