//! How a bad endpoint behaves, in a word.

use std::{fmt, str::FromStr, time::Duration};

use gridpost_testkit::endpoint::{Reaction, Script};

/// The longest that an endpoint may be told to take.
const SECONDS_MAX: f64 = 600.0;

/// How a bad endpoint behaves.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Spec {
    /// Does so with each request.
    Always(Answering),
    /// With every other one, the first among them; the others succeed at once.
    Half(Answering),
}

/// The answer to a request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Answering {
    /// Nothing ever comes.
    Never,
    Status {
        /// The status: 200 to 599.
        status: u16,
        after: Duration,
    },
}

impl Spec {
    pub fn script(&self) -> Script {
        match self {
            Self::Always(answering) => Script::Answers(vec![answering.reaction()]),
            Self::Half(answering) => Script::EveryOther(answering.reaction()),
        }
    }
}

impl Answering {
    fn reaction(&self) -> Reaction {
        match self {
            Self::Never => Reaction::NEVER,
            Self::Status { status, after } => Reaction::status(*status).after(*after),
        }
    }
}

impl FromStr for Spec {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.strip_prefix("half:") {
            Some(rest) if rest.starts_with("half:") => {
                Err(format!("`{text}` halves twice; write half: once"))
            }
            Some(rest) => rest.parse().map(Self::Half),
            None => text.parse().map(Self::Always),
        }
    }
}

impl FromStr for Answering {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "never" {
            return Ok(Self::Never);
        }
        let (status, seconds) = text.split_once('@').unwrap_or((text, "0"));
        let of_status = status.parse().ok().filter(|status| (200..=599).contains(status));
        let status = of_status
            .ok_or_else(|| format!("`{status}` is neither `never` nor a status from 200 to 599"))?;
        let of_seconds = seconds.parse().ok().filter(|it| (0.0..=SECONDS_MAX).contains(it));
        let seconds = of_seconds.ok_or_else(|| {
            format!("`{seconds}` is not a number of seconds from 0 to {SECONDS_MAX}")
        })?;
        Ok(Self::Status { status, after: Duration::from_secs_f64(seconds) })
    }
}

impl fmt::Display for Spec {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Always(answering) => answering.fmt(formatter),
            Self::Half(answering) => write!(formatter, "half:{answering}"),
        }
    }
}

impl fmt::Display for Answering {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Never => write!(formatter, "never"),
            Self::Status { status, after } if after.is_zero() => write!(formatter, "{status}"),
            Self::Status { status, after } => {
                write!(formatter, "{status}@{}", after.as_secs_f64())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(status: u16, seconds: f64) -> Answering {
        Answering::Status { status, after: Duration::from_secs_f64(seconds) }
    }

    #[test]
    fn spec_table() {
        for (text, want) in [
            ("never", Spec::Always(Answering::Never)),
            ("500", Spec::Always(after(500, 0.0))),
            ("200@20", Spec::Always(after(200, 20.0))),
            ("503@0.25", Spec::Always(after(503, 0.25))),
            ("half:never", Spec::Half(Answering::Never)),
            ("half:200@31", Spec::Half(after(200, 31.0))),
        ] {
            let read: Spec = text.parse().expect(text);
            assert_eq!(read, want, "{text}");
            assert_eq!(read.to_string(), text);
        }
    }

    #[test]
    fn a_strange_word_is_named() {
        for (text, says) in [
            ("", "``"),
            ("always", "`always`"),
            ("199", "`199`"),
            ("600", "`600`"),
            ("200@", "`` is not a number"),
            ("200@-1", "`-1`"),
            ("200@601", "`601`"),
            ("200@NaN", "`NaN`"),
            ("half:", "``"),
            ("half:half:never", "twice"),
        ] {
            let refused = text.parse::<Spec>().expect_err(text);
            assert!(refused.contains(says), "{text}: {refused}");
        }
    }
}
