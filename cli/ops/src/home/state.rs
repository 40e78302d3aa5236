//! `.gridpost/state.json`: what `up` left running and deployed.

use std::fs;

use serde::{Deserialize, Serialize};

use crate::home::{Home, remove_file, write_private};

/// The record of a stack. Each part is written only when it is complete, so a run that was cut
/// short leaves no half-made part.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    pub emulator: Option<EmulatorRecord>,
    /// The deployment that was finished last, and is on the emulator's disk.
    pub deployment: Option<Deployment>,
}

/// A started emulator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EmulatorRecord {
    pub pid: u32,
    pub port: u16,
    /// Fingerprint of launcher and packages; another version may not read this one's saved state.
    pub version: String,
}

/// A finished `terraform apply`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deployment {
    /// The fingerprint of infrastructure, functions and variables.
    pub fingerprint: String,
    pub outputs: Outputs,
}

/// The outputs of `infra/deploy` that the command line uses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outputs {
    pub publish_url: String,
    pub manage_url: String,
    pub dead_letter_bucket: String,
}

impl State {
    /// Reads the record. A damaged one counts as none: the stack is then made afresh.
    pub fn read(home: &Home) -> Self {
        let text = fs::read_to_string(home.state_file()).unwrap_or_default();
        serde_json::from_str(&text).unwrap_or_default()
    }

    /// Replaces the record.
    pub fn write(&self, home: &Home) -> anyhow::Result<()> {
        write_private(&home.state_file(), &serde_json::to_string_pretty(self)?)
    }

    /// Removes the record.
    pub fn remove(home: &Home) -> anyhow::Result<()> {
        Ok(remove_file(&home.state_file())?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_damaged_record_counts_as_none() {
        let folder = tempfile::tempdir().expect("folder");
        let home = Home::at(folder.path());
        assert_eq!(State::read(&home), State::default());
        let emulator = EmulatorRecord { pid: 7, port: 14_566, version: "v".into() };
        let state = State { emulator: Some(emulator), deployment: None };
        state.write(&home).expect("written");
        assert_eq!(State::read(&home), state);
        fs::write(home.state_file(), r#"{"emulator":{"pid":"#).expect("written");
        assert_eq!(State::read(&home), State::default());
    }
}
