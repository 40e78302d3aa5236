//! Decides what is kept of an earlier `up`. No IO.

use gridpost_ops::home::state::State;

/// The state that `up` begins with.
#[derive(Clone, Copy, Debug)]
pub struct Observed<'a> {
    pub state: &'a State,
    pub running: bool,
    /// Whether a new emulator could use the recorded port.
    pub port_free: bool,
    pub emulator_version: &'a str,
    pub fingerprint: &'a str,
}

/// How the stack comes up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plan {
    /// Wipes everything and deploys on any port. Has the reason, if an earlier deployment is lost.
    Afresh(Option<&'static str>),
    Keep {
        /// Whether to restart the emulator, on its saved state and port.
        start: bool,
        /// Whether to update the deployment.
        update: bool,
    },
}

const OTHER_EMULATOR: &str =
    "another version of Gridpost made it, whose emulator keeps its data in its own way";
const CUT_SHORT: &str = "its last deployment did not come to its end";
const PORT_TAKEN: &str = "another program has taken its port";

/// Decides how the stack comes up. Another version's deployment is updated, as after a change of the code:
/// topics, event subscriptions and events stay.
///
/// Queue URLs and environments contain the port, so a deployment is useless on another one. An unfinished
/// deployment can't be told from a broken one, so it is not kept either.
pub fn decide(found: Observed<'_>) -> Plan {
    let State { emulator: Some(emulator), deployment: Some(deployment) } = found.state else {
        return Plan::Afresh(found.state.emulator.as_ref().map(|_| CUT_SHORT));
    };
    if emulator.version != found.emulator_version {
        return Plan::Afresh(Some(OTHER_EMULATOR));
    }
    if !(found.running || found.port_free) {
        return Plan::Afresh(Some(PORT_TAKEN));
    }
    Plan::Keep { start: !found.running, update: deployment.fingerprint != found.fingerprint }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gridpost_ops::home::state::{Deployment, EmulatorRecord, Outputs};

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
            ("first run", &nothing, false, true, "v1", "f1", Plan::Afresh(None)),
            ("apply was cut short", &half, true, false, "v1", "f1", Plan::Afresh(Some(CUT_SHORT))),
            ("nothing changed", &whole, true, false, "v1", "f1", keep(false, false)),
            ("code or infra changed", &whole, true, false, "v1", "f2", keep(false, true)),
            ("emulator died", &whole, false, true, "v1", "f1", keep(true, false)),
            ("emulator died, code changed", &whole, false, true, "v1", "f2", keep(true, true)),
            ("port taken", &whole, false, false, "v1", "f1", Plan::Afresh(Some(PORT_TAKEN))),
            (
                "another emulator",
                &whole,
                true,
                false,
                "v2",
                "f1",
                Plan::Afresh(Some(OTHER_EMULATOR)),
            ),
        ];
        for (row, state, running, port_free, emulator_version, fingerprint, want) in table {
            let found = Observed { state, running, port_free, emulator_version, fingerprint };
            assert_eq!(decide(found), want, "{row}");
        }
    }
}
