//! What may be kept of an earlier `up`: the only place that decides it. No IO.

use crate::local::state::State;

/// What `up` finds.
#[derive(Clone, Copy, Debug)]
pub struct Found<'a> {
    /// The record of the last run.
    pub state: &'a State,
    /// Whether the recorded emulator runs and answers.
    pub running: bool,
    /// Whether the recorded port could be used by a new emulator.
    pub port_free: bool,
    /// Version of the emulator that would be started now.
    pub emulator_version: &'a str,
    /// Fingerprint of what would be deployed now.
    pub fingerprint: &'a str,
}

/// How the stack comes up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plan {
    /// Everything is wiped, the emulator started on any port, everything deployed.
    Afresh,
    /// The recorded deployment is kept.
    Keep {
        /// The emulator must be started again, on its saved state and port.
        start: bool,
        /// The deployment must be brought up to date.
        update: bool,
    },
}

/// Decides how the stack comes up.
///
/// Queue URLs and the functions' environment contain the port, so a deployment is worth nothing on
/// another one. A deployment that was not finished cannot be told from a broken one, so neither is it.
pub fn decide(found: Found<'_>) -> Plan {
    let State { emulator: Some(emulator), deployment: Some(deployment) } = found.state else {
        return Plan::Afresh;
    };
    if emulator.version != found.emulator_version || !(found.running || found.port_free) {
        return Plan::Afresh;
    }
    Plan::Keep { start: !found.running, update: deployment.fingerprint != found.fingerprint }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::local::state::{Deployment, EmulatorRecord, Outputs};

    fn state(emulator: bool, deployment: bool) -> State {
        let outputs = Outputs {
            publish_url: "p".into(),
            manage_url: "m".into(),
            dead_letter_bucket: "b".into(),
        };
        State {
            emulator: emulator.then(|| EmulatorRecord { pid: 1, port: 2, version: "v1".into() }),
            deployment: deployment.then(|| Deployment { fingerprint: "f1".into(), outputs }),
        }
    }

    #[test]
    fn decide_table() {
        let keep = |start, update| Plan::Keep { start, update };
        let (nothing, half, whole) = (state(false, false), state(true, false), state(true, true));
        let table = [
            // (row, state, running, port free, emulator version, fingerprint, plan)
            ("first run", &nothing, false, true, "v1", "f1", Plan::Afresh),
            ("apply was cut short", &half, true, false, "v1", "f1", Plan::Afresh),
            ("nothing changed", &whole, true, false, "v1", "f1", keep(false, false)),
            ("code or infra changed", &whole, true, false, "v1", "f2", keep(false, true)),
            ("emulator died", &whole, false, true, "v1", "f1", keep(true, false)),
            ("emulator died, code changed", &whole, false, true, "v1", "f2", keep(true, true)),
            ("emulator died, port taken", &whole, false, false, "v1", "f1", Plan::Afresh),
            ("another emulator version", &whole, true, false, "v2", "f1", Plan::Afresh),
        ];
        for (row, state, running, port_free, emulator_version, fingerprint, want) in table {
            let found = Found { state, running, port_free, emulator_version, fingerprint };
            assert_eq!(decide(found), want, "{row}");
        }
    }
}
