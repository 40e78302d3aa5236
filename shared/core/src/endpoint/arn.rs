//! Names of AWS resources, and patterns of them.
//!
//! Source: AWS IAM user guide, "Amazon Resource Names (ARNs)" and "Policy elements: Resource".

use std::{fmt, str::FromStr};

use serde_with::{DeserializeFromStr, SerializeDisplay};

use crate::text::matches;

/// Source: IAM API reference, `arnType`.
const CHARS_MAX: usize = 2_048;

/// The name of one AWS resource: `arn:partition:service:region:account:resource`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, SerializeDisplay, DeserializeFromStr)]
pub struct Arn {
    /// `aws`, `aws-cn`, `aws-us-gov`.
    pub partition: String,
    /// Such as `sqs`.
    pub service: String,
    /// Such as `eu-central-1`.
    pub region: String,
    pub account: String,
    /// May have colons.
    pub resource: String,
}

/// A text that is not an ARN.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be an ARN: arn:partition:service:region:account:resource, the account 12 digits")]
pub struct NotAnArn;

impl FromStr for Arn {
    type Err = NotAnArn;

    fn from_str(text: &str) -> Result<Self, NotAnArn> {
        let mut parts = text.splitn(6, ':');
        let mut part = || parts.next().filter(|part| !part.is_empty()).ok_or(NotAnArn);
        if part()? != "arn" || text.len() > CHARS_MAX {
            return Err(NotAnArn);
        }
        let arn = Self {
            partition: part()?.to_owned(),
            service: part()?.to_owned(),
            region: part()?.to_owned(),
            account: part()?.to_owned(),
            resource: part()?.to_owned(),
        };
        let is_account = arn.account.len() == 12 && arn.account.bytes().all(|b| b.is_ascii_digit());
        let plain = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'*' | b'?');
        if is_account && text.bytes().all(plain) { Ok(arn) } else { Err(NotAnArn) }
    }
}

impl fmt::Display for Arn {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { partition, service, region, account, resource } = self;
        write!(formatter, "arn:{partition}:{service}:{region}:{account}:{resource}")
    }
}

/// The AWS resources that a deployment may deliver to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AllowedResources {
    /// The only region allowed, the deployment's; empty if not checked.
    pub region: String,
    /// `*` matches any characters.
    pub patterns: ArnPatterns,
}

/// ARNs in which `*` matches any characters, as in the policy that grants them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ArnPatterns {
    patterns: Vec<String>,
    because: Option<&'static str>,
}

impl ArnPatterns {
    /// Creates an empty list that no setting can change; `because` ends "which … can't deliver to".
    pub fn nothing(because: &'static str) -> Self {
        Self { patterns: Vec::new(), because: Some(because) }
    }

    /// Returns why the list is empty, unless by a setting.
    pub fn because(&self) -> Option<&'static str> {
        self.because
    }

    pub fn has(&self, arn: &Arn) -> bool {
        let text = arn.to_string();
        self.patterns.iter().any(|pattern| matches(pattern, &text))
    }
}

impl FromStr for ArnPatterns {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let patterns = text.split(',').map(str::trim).filter(|pattern| !pattern.is_empty());
        Ok(Self { patterns: patterns.map(str::to_owned).collect(), because: None })
    }
}

impl fmt::Display for ArnPatterns {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.patterns.as_slice() {
            [] => formatter.write_str("none"),
            some => formatter.write_str(&some.join(", ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arns_are_read_and_written() {
        for good in [
            "arn:aws:sqs:eu-central-1:123456789012:orders.fifo",
            "arn:aws-cn:lambda:cn-north-1:123456789012:function:f:live",
            "arn:aws:events:us-east-1:123456789012:event-bus/a/b",
        ] {
            assert_eq!(good.parse::<Arn>().expect(good).to_string(), good);
        }
        for bad in [
            "",
            "orders",
            "arn:aws:sqs:eu-central-1:123456789012",
            "arn:aws:sqs:eu-central-1:123456789012:",
            "arn:aws:sqs::123456789012:q",
            "arn:aws:sqs:eu-central-1:12345678901:q",
            "arn:aws:sqs:eu-central-1:12345678901x:q",
            "arn:aws:sqs:eu-central-1:123456789012:q*",
            "arn:aws:sqs:eu-central-1:123456789012:a b",
            "urn:aws:sqs:eu-central-1:123456789012:q",
        ] {
            assert_eq!(bad.parse::<Arn>(), Err(NotAnArn), "{bad}");
        }
    }

    #[test]
    fn pattern_table() {
        let table = [
            ("arn:aws:sqs:r:123456789012:q", true),
            ("arn:aws:sqs:r:123456789012:*", true),
            ("arn:aws:sqs:r:*:q", true),
            ("*", true),
            ("arn:aws:sqs:*:q", true),
            ("arn:*:123456789012:q*", true),
            ("arn:aws:sqs:r:123456789012:qq", false),
            ("arn:aws:sqs:r:123456789012:", false),
            ("arn:aws:sns:r:123456789012:q", false),
            ("arn:aws:sqs:r:999999999999:*", false),
            ("*:x*:q", false),
            ("", false),
        ];
        let arn: Arn = "arn:aws:sqs:r:123456789012:q".parse().expect("an ARN");
        for (pattern, want) in table {
            assert_eq!(matches(pattern, &arn.to_string()), want, "{pattern}");
        }
        let patterns: ArnPatterns = " a, arn:aws:sqs:r:1234*:q,".parse().expect("patterns");
        assert!(patterns.has(&arn));
        assert_eq!(patterns.to_string(), "a, arn:aws:sqs:r:1234*:q");
        assert!(!ArnPatterns::default().has(&arn));
    }
}
