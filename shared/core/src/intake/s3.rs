//! S3's notifications, and its objects as Event Grid's blobs, for handlers made for those.
//!
//! Source: Amazon S3 user guide, "Event message structure"; attributes are those of the CloudEvents
//! adapter for AWS S3, except the id: theirs is the same for all objects that one request deletes.

use std::borrow::Cow;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{Data, Event, Unmappable, attribute, id_from, object};

const WHAT: &str = "a notification of S3";
const RECORD: &str = "a record of a notification of S3";
const TEST_EVENT: &str = "s3:TestEvent";

#[derive(Deserialize)]
struct Notification<'m> {
    #[serde(borrow, default, rename = "Records")]
    records: Vec<&'m RawValue>,
    #[serde(borrow, default, rename = "Event")]
    event: Option<Cow<'m, str>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Record<'m> {
    #[serde(borrow)]
    event_source: Cow<'m, str>,
    #[serde(borrow)]
    aws_region: Cow<'m, str>,
    #[serde(borrow)]
    event_time: Cow<'m, str>,
    #[serde(borrow)]
    event_name: Cow<'m, str>,
    #[serde(borrow, default)]
    response_elements: Option<Response<'m>>,
    #[serde(borrow)]
    s3: About<'m>,
}

#[derive(Default, Deserialize)]
struct Response<'m> {
    #[serde(borrow, default, rename = "x-amz-request-id")]
    request_id: Cow<'m, str>,
    #[serde(borrow, default, rename = "x-amz-id-2")]
    host_id: Cow<'m, str>,
}

#[derive(Deserialize)]
struct About<'m> {
    #[serde(borrow)]
    bucket: Bucket<'m>,
    #[serde(borrow)]
    object: Object<'m>,
}

#[derive(Deserialize)]
struct Bucket<'m> {
    #[serde(borrow)]
    name: Cow<'m, str>,
    #[serde(borrow, default)]
    arn: Cow<'m, str>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Object<'m> {
    /// Encoded as in a query: a space is a plus.
    #[serde(borrow)]
    key: Cow<'m, str>,
    #[serde(default)]
    size: Option<u64>,
    #[serde(borrow, default)]
    e_tag: Option<Cow<'m, str>>,
    #[serde(borrow, default)]
    version_id: Option<Cow<'m, str>>,
    #[serde(borrow, default)]
    sequencer: Option<Cow<'m, str>>,
}

/// Returns an event for each record; `None` for S3's test event.
pub(super) fn events<'m>(
    text: &Cow<'m, str>,
    blobs: bool,
) -> Result<Option<Vec<Event<'m>>>, Unmappable> {
    match text {
        Cow::Borrowed(text) => read(text, blobs),
        Cow::Owned(text) => {
            let found = read(text, blobs)?;
            Ok(found.map(|events| events.into_iter().map(Event::into_owned).collect()))
        }
    }
}

fn read(text: &str, blobs: bool) -> Result<Option<Vec<Event<'_>>>, Unmappable> {
    let notification: Notification<'_> = object(text, WHAT)?;
    if notification.records.is_empty() {
        let is_test = notification.event.as_deref() == Some(TEST_EVENT);
        return if is_test { Ok(None) } else { Err(Unmappable::NoRecords) };
    }
    let events = notification.records.into_iter().map(|record| event(record, blobs));
    events.collect::<Result<_, _>>().map(Some)
}

fn event(record: &RawValue, blobs: bool) -> Result<Event<'_>, Unmappable> {
    let found: Record<'_> = object(record.get(), RECORD)?;
    let name = found.event_name.strip_prefix("s3:").unwrap_or(&found.event_name);
    let (bucket, about) = (&found.s3.bucket, &found.s3.object);
    let (sequencer, version) = (text(&about.sequencer), text(&about.version_id));
    let response = found.response_elements.unwrap_or_default();
    let id = id_from([
        &*response.request_id,
        &*bucket.name,
        &*about.key,
        version,
        sequencer,
        name,
        &found.event_time,
    ]);
    let id = Cow::Owned(id.to_string());
    let key = decoded(&about.key);
    if let Some((happened, api)) = meaning(name, version).filter(|_| blobs) {
        let blob = Blob {
            happened,
            api,
            bucket: &bucket.name,
            bucket_arn: &bucket.arn,
            region: &found.aws_region,
            key: &key,
            size: about.size,
            etag: text(&about.e_tag),
            sequencer,
            request_id: &response.request_id,
            host_id: &response.host_id,
        };
        return Ok(blob.event(id, found.event_time.clone()));
    }
    let (service, region) = (&found.event_source, &found.aws_region);
    Ok(Event {
        id,
        source: Cow::Owned(format!("{service}.{region}.{}", bucket.name)),
        event_type: Cow::Owned(format!("com.amazonaws.s3.{name}")),
        subject: attribute(&key),
        time: found.event_time.clone(),
        data: Data::Json(Cow::Borrowed(record)),
    })
}

fn text<'t>(text: &'t Option<Cow<'_, str>>) -> &'t str {
    text.as_deref().unwrap_or_default()
}

/// Decodes a key; one that does not decode to text stays as it came.
fn decoded(key: &str) -> String {
    let spaces = key.replace('+', " ");
    percent_decode_str(&spaces).decode_utf8().map_or_else(|_| key.to_owned(), Cow::into_owned)
}

/// Returns what an event means for a blob, if it has a counterpart.
///
/// `:Delete` with a version leaves others; a delete marker, which hides the blob, has another name.
fn meaning(name: &str, version: &str) -> Option<(Happened, Api)> {
    Some(match name {
        "ObjectCreated:Copy" => (Happened::Created, Api::CopyBlob),
        "ObjectCreated:CompleteMultipartUpload" => (Happened::Created, Api::PutBlockList),
        name if name.starts_with("ObjectCreated:") => (Happened::Created, Api::PutBlob),
        "ObjectRemoved:Delete" | "LifecycleExpiration:Delete" if !version.is_empty() => {
            return None;
        }
        name if name.starts_with("ObjectRemoved:") || name.starts_with("LifecycleExpiration:") => {
            (Happened::Deleted, Api::DeleteBlob)
        }
        _ => return None,
    })
}

/// All but RFC 3986's unreserved characters and the slashes of keys.
const IN_PATHS: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'/');

/// Sequencers are compared as strings, so they must be equally long. S3's documentation says to pad
/// them with zeros on the right; Azure's have 32 characters.
const SEQUENCER_CHARS: usize = 32;

/// The unknown media type (RFC 9110, 8.3): S3 does not name an object's.
const CONTENT_TYPE: &str = "application/octet-stream";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Happened {
    Created,
    Deleted,
}

/// The equivalent operation of Azure's storage.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) enum Api {
    PutBlob,
    PutBlockList,
    CopyBlob,
    DeleteBlob,
}

/// An object of S3, for Event Grid's events about blobs. Source: Event Grid, "Azure Blob Storage as
/// an Event Grid source".
pub(super) struct Blob<'m> {
    pub(super) happened: Happened,
    pub(super) api: Api,
    pub(super) bucket: &'m str,
    /// May be empty.
    pub(super) bucket_arn: &'m str,
    pub(super) region: &'m str,
    /// Decoded.
    pub(super) key: &'m str,
    pub(super) size: Option<u64>,
    pub(super) etag: &'m str,
    pub(super) sequencer: &'m str,
    pub(super) request_id: &'m str,
    /// S3's second id of the request.
    pub(super) host_id: &'m str,
}

/// In the order of Event Grid's documentation.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct BlobData<'b> {
    api: Api,
    client_request_id: &'b str,
    request_id: &'b str,
    #[serde(skip_serializing_if = "Option::is_none")]
    e_tag: Option<&'b str>,
    content_type: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    content_length: Option<u64>,
    blob_type: &'static str,
    url: String,
    sequencer: String,
    storage_diagnostics: Diagnostics,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Diagnostics {
    batch_id: String,
}

impl Blob<'_> {
    pub(super) fn event<'m>(&self, id: Cow<'m, str>, time: Cow<'m, str>) -> Event<'m> {
        let created = self.happened == Happened::Created;
        let data = BlobData {
            api: self.api,
            client_request_id: self.host_id,
            request_id: self.request_id,
            e_tag: created.then_some(self.etag),
            content_type: CONTENT_TYPE,
            content_length: self.size.filter(|_| created),
            blob_type: "BlockBlob",
            url: self.url(),
            sequencer: format!("{:0<SEQUENCER_CHARS$}", self.sequencer),
            storage_diagnostics: Diagnostics {
                batch_id: id_from([self.bucket, self.request_id]).to_string(),
            },
        };
        let data = serde_json::value::to_raw_value(&data).expect("texts and numbers are JSON");
        let (bucket, key) = (attribute(self.bucket), attribute(self.key));
        Event {
            id,
            source: Cow::Owned(format!("arn:{}:s3:::{bucket}", self.partition())),
            event_type: Cow::Borrowed(match self.happened {
                Happened::Created => "Microsoft.Storage.BlobCreated",
                Happened::Deleted => "Microsoft.Storage.BlobDeleted",
            }),
            subject: format!("/blobServices/default/containers/{bucket}/blobs/{key}"),
            time,
            data: Data::Json(Cow::Owned(data)),
        }
    }

    fn partition(&self) -> &str {
        let named = self.bucket_arn.strip_prefix("arn:").and_then(|rest| rest.split(':').next());
        match named {
            Some(partition @ ("aws-cn" | "aws-us-gov")) => partition,
            _ => "aws",
        }
    }

    fn url(&self) -> String {
        let suffix = match self.partition() {
            "aws-cn" => "amazonaws.com.cn",
            _ => "amazonaws.com",
        };
        let encoded = |text| utf8_percent_encode(text, IN_PATHS);
        let (bucket, region, key) = (self.bucket, self.region, self.key);
        format!("https://{}.s3.{}.{suffix}/{}", encoded(bucket), encoded(region), encoded(key))
    }
}
