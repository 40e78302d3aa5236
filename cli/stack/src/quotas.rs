//! AWS's limits on single requests, which the emulator does not enforce: checks in front of its services
//! answer as AWS would, and log violations.

use std::fmt;
use std::fs;
use std::io::ErrorKind;

use anyhow::Context;
use serde::Deserialize;

use gridpost_ops::home::Home;

/// The limits as checks, each with its source.
pub const CHECKS: &str = include_str!("../emulator/quotas.py");

/// Installs them in front of the emulator's services.
pub const FRONT: &str = include_str!("../emulator/strict.py");

/// A request or a response that AWS would have refused.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Broken {
    /// `sqs`, `sns`, `events`, `dynamodb`, `s3`, `lambda`, `apigateway`.
    pub service: String,
    pub operation: String,
    /// The queue, topic, bus, table, bucket, function or path.
    pub resource: String,
    pub problem: String,
}

impl fmt::Display for Broken {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { service, operation, resource, problem } = self;
        write!(formatter, "{service} {operation} {resource}: {problem}")
    }
}

/// Reads the violations since the emulator was wiped, the oldest first.
pub fn broken(home: &Home) -> anyhow::Result<Vec<Broken>> {
    let path = home.quota_log();
    let text = match fs::read_to_string(&path) {
        Err(err) if err.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        read => read.with_context(|| format!("{} cannot be read", path.display()))?,
    };
    let lines = text.lines().map(serde_json::from_str);
    lines.collect::<Result<_, _>>().with_context(|| format!("{} is damaged", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_broken_is_read_and_nothing_is_no_error() {
        let folder = tempfile::tempdir().expect("folder");
        let home = Home::at(folder.path());
        assert_eq!(broken(&home).expect("nothing"), []);
        fs::create_dir_all(home.emulator()).expect("folder");
        let line = r#"{"service":"sqs","operation":"SendMessage","resource":"q","problem":"p"}"#;
        fs::write(home.quota_log(), format!("{line}\n{line}\n")).expect("written");
        let found = broken(&home).expect("read");
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].to_string(), "sqs SendMessage q: p");
    }
}
