//! `properties.deadLetterDestination`.

use std::net::Ipv4Addr;

use gridpost_core::subscription;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::document::{At, Code, quoted};

/// Most bytes of a prefix. An S3 key has at most 1,024; what follows the prefix takes up to about
/// 200.
const PREFIX_BYTES_MAX: usize = 200;

/// Prefixes of bucket names that S3 reserves.
const RESERVED_BEGINNINGS: [&str; 3] = ["xn--", "sthree-", "amzn-s3-demo-"];

/// Suffixes of bucket names that S3 reserves.
const RESERVED_ENDINGS: [&str; 5] = ["-s3alias", "--ol-s3", ".mrap", "--x-s3", "--table-s3"];

/// Where events are kept that ended undelivered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "endpointType", content = "properties")]
pub enum DeadLetterDestination {
    S3Bucket(Bucket),
}

/// An object with bucketName and, if you like, prefix.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Bucket {
    /// The name of an S3 bucket.
    #[schema(required = true)]
    pub bucket_name: Option<String>,
    /// The beginning of every object's key; at most 200 bytes.
    pub prefix: Option<String>,
}

impl DeadLetterDestination {
    pub(super) fn read(self, at: &mut At<'_>) -> Option<subscription::DeadLetterDestination> {
        let Self::S3Bucket(Bucket { bucket_name: bucket, prefix }) = self;
        if let Some((bucket, rule)) = bucket.as_deref().and_then(|it| Some((it, broken_rule(it)?)))
        {
            let rule = format!("{rule}, but is {}", quoted(bucket));
            at.member("properties").member("bucketName").invalid(rule);
        }
        let prefix = prefix.unwrap_or_default();
        let mut at = at.member("properties");
        let at = &mut at.member("prefix");
        if prefix.len() > PREFIX_BYTES_MAX {
            let bytes = prefix.len();
            let rule = format!(
                "must have at most {PREFIX_BYTES_MAX} bytes (default none), but has {bytes}"
            );
            at.add(Code::OutOfRange, rule);
        }
        if prefix.chars().any(char::is_control) {
            let rule = format!("must have no control characters, but is {}", quoted(&prefix));
            at.invalid(rule);
        }
        Some(subscription::DeadLetterDestination { bucket: bucket?, prefix })
    }

    pub(super) fn of(destination: &subscription::DeadLetterDestination) -> Self {
        Self::S3Bucket(Bucket {
            bucket_name: Some(destination.bucket.clone()),
            prefix: Some(destination.prefix.clone()),
        })
    }
}

/// The rule that a bucket's name breaks, if any.
///
/// Source: Amazon S3 user guide, "General purpose bucket naming rules".
fn broken_rule(name: &str) -> Option<String> {
    let of_the_alphabet = |byte: u8| {
        byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-' || byte == b'.'
    };
    let at_edge = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = name.as_bytes();
    if !(3..=63).contains(&bytes.len()) || !bytes.iter().copied().all(of_the_alphabet) {
        return Some("must be 3 to 63 of a-z, 0-9, '-' and '.'".to_owned());
    }
    if !at_edge(bytes.first()) || !at_edge(bytes.last()) || name.contains("..") {
        return Some("must begin and end with a letter or digit, without '..'".to_owned());
    }
    if name.parse::<Ipv4Addr>().is_ok() {
        return Some("must not look like an IP address".to_owned());
    }
    let beginning = RESERVED_BEGINNINGS.iter().find(|word| name.starts_with(**word));
    if let Some(word) = beginning {
        return Some(format!("must not begin with '{word}', which S3 keeps for itself"));
    }
    let ending = RESERVED_ENDINGS.iter().find(|word| name.ends_with(**word))?;
    Some(format!("must not end with '{ending}', which S3 keeps for itself"))
}
