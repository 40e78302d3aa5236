//! Writes objects of S3 as Event Grid's events about blobs, for handlers made for those.
//!
//! Source: Event Grid, "Azure Blob Storage as an Event Grid source".

use std::borrow::Cow;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Serialize;

use super::{Data, Event, attribute, id_from};

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

/// An object of S3.
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
