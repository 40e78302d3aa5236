//! `properties.deadLetterDestination`.

use std::net::Ipv4Addr;

use gridpost_core::subscription::DeadLetterDestination;

use crate::document::{Code, Object, Problems, quoted};

/// Most bytes of a prefix. An S3 key has at most 1,024; what follows the prefix takes up to about
/// 200.
const PREFIX_BYTES_MAX: usize = 200;

/// Prefixes of bucket names that S3 reserves.
const RESERVED_BEGINNINGS: [&str; 3] = ["xn--", "sthree-", "amzn-s3-demo-"];

/// Suffixes of bucket names that S3 reserves.
const RESERVED_ENDINGS: [&str; 5] = ["-s3alias", "--ol-s3", ".mrap", "--x-s3", "--table-s3"];

pub(super) fn read(
    properties: &mut Object<'_>,
    problems: &mut Problems,
) -> Option<DeadLetterDestination> {
    let mut destination = properties.object("deadLetterDestination", problems)?;
    let what = "'S3Bucket'";
    let endpoint_type = destination.required_text("endpointType", what, problems);
    if let Some(other) = endpoint_type.filter(|name| !name.eq_ignore_ascii_case("S3Bucket")) {
        let rule = format!(
            "must be 'S3Bucket', but is {}; its properties are bucketName and prefix",
            quoted(other)
        );
        problems.add(Code::InvalidValue, destination.path_of("endpointType"), rule);
        return None;
    }
    let what = "an object with bucketName and, if you like, prefix";
    let bucket = destination.required_object("properties", what, problems);
    destination.finish(problems);
    bucket.and_then(|bucket| read_bucket(bucket, problems))
}

fn read_bucket(
    mut properties: Object<'_>,
    problems: &mut Problems,
) -> Option<DeadLetterDestination> {
    let bucket = properties.required_text("bucketName", "the name of an S3 bucket", problems);
    if let Some(rule) = bucket.and_then(broken_bucket_rule) {
        let rule = format!("{rule}, but is {}", quoted(bucket.unwrap_or_default()));
        problems.add(Code::InvalidValue, properties.path_of("bucketName"), rule);
    }
    let prefix = properties.text("prefix", problems).unwrap_or_default();
    if prefix.len() > PREFIX_BYTES_MAX {
        let bytes = prefix.len();
        let rule =
            format!("must have at most {PREFIX_BYTES_MAX} bytes (default none), but has {bytes}");
        problems.add(Code::OutOfRange, properties.path_of("prefix"), rule);
    }
    if prefix.chars().any(char::is_control) {
        let rule = format!("must have no control characters, but is {}", quoted(prefix));
        problems.add(Code::InvalidValue, properties.path_of("prefix"), rule);
    }
    properties.finish(problems);
    Some(DeadLetterDestination { bucket: bucket?.to_owned(), prefix: prefix.to_owned() })
}

/// The rule that a bucket's name breaks, if any.
///
/// Source: Amazon S3 user guide, "General purpose bucket naming rules".
fn broken_bucket_rule(name: &str) -> Option<String> {
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
