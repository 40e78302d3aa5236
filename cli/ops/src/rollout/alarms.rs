//! The deployment's alarms: which they are, and which of them end a rollout.

use serde::Serialize;

use crate::failure::Misuse;

/// An alarm of CloudWatch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Alarm {
    pub name: String,
    /// `OK`, `ALARM` or `INSUFFICIENT_DATA`.
    pub state: String,
    /// The reason for that state, in CloudWatch's words.
    pub reason: String,
}

/// The alarm that says by a lack of data that wake does not run (`treat_missing_data` in
/// `infra/alarms.tf`).
const WITHOUT_DATA: &str = "wake-not-running";

/// The alarm that goes off at the first failed run; the others see consequences.
const SOONEST: &str = "function-errors";

/// The names of the alarms of `infra/alarms.tf` behind the name prefix.
const NAMES: [&str; 18] = [
    "publish-refused",
    "publish-throttled",
    "late",
    "kept",
    "poison-not-empty",
    "events-dropped",
    WITHOUT_DATA,
    "dead-letters",
    "failed-attempts",
    "retry-late",
    "slow-in-flight",
    "parked-stuck",
    "fan-out-age",
    "redrive-age",
    SOONEST,
    "function-throttles",
    "table-throttles",
    "manage-failing",
];

/// Returns an alarm's name without the prefix, if it is one of the deployment's. Another
/// deployment's prefix may begin with this one's.
fn own_name<'a>(prefix: &str, name: &'a str) -> Option<&'a str> {
    let rest = name.strip_prefix(prefix)?.strip_prefix('-')?;
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|it| it.is_ascii_digit());
    let numbered = rest.strip_prefix("retry-").is_some_and(|rest| {
        rest.strip_suffix("-in-flight").or(rest.strip_prefix("late-")).is_some_and(is_number)
    });
    (numbered || NAMES.contains(&rest)).then_some(rest)
}

/// Whether an alarm of that name is one of the deployment's.
pub fn is_of(prefix: &str, name: &str) -> bool {
    own_name(prefix, name).is_some()
}

fn is_off(alarm: &Alarm) -> bool {
    alarm.state == "ALARM"
        || alarm.state == "INSUFFICIENT_DATA" && alarm.name.ends_with(WITHOUT_DATA)
}

/// Returns the alarms that say that something is wrong.
pub fn off(alarms: &[Alarm]) -> Vec<Alarm> {
    alarms.iter().filter(|alarm| is_off(alarm)).cloned().collect()
}

/// Returns the alarms to watch: all but the ignored ones, which are named in full or without the
/// prefix. Fails with [`Misuse`] if an ignored one does not exist, or none is left although one
/// must be.
pub fn watched(
    prefix: &str,
    mut alarms: Vec<Alarm>,
    ignored: &[String],
    may_be_none: bool,
) -> Result<Vec<Alarm>, Misuse> {
    let is = |alarm: &Alarm, given: &String| {
        alarm.name == *given || own_name(prefix, &alarm.name) == Some(given.as_str())
    };
    for given in ignored {
        if !alarms.iter().any(|alarm| is(alarm, given)) {
            let known: Vec<_> = alarms.iter().map(|alarm| alarm.name.as_str()).collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            return Err(Misuse(format!(
                "no alarm to ignore is called {given}; there are: {known}"
            )));
        }
    }
    alarms.retain(|alarm| !ignored.iter().any(|given| is(alarm, given)));
    if alarms.is_empty() && !may_be_none {
        return Err(Misuse(format!(
            "{prefix} has no alarm that could end the rollout: set the Terraform variable alarms to \
             \"ALL\" (or \"PAGES\"), or give --unwatched"
        )));
    }
    Ok(alarms)
}

/// Whether one of them sees failed runs themselves: the others may not see what fails of a small share.
pub fn see_errors(alarms: &[Alarm]) -> bool {
    alarms.iter().any(|alarm| alarm.name.ends_with(SOONEST))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn alarm(name: &str, state: &str) -> Alarm {
        Alarm { name: name.to_owned(), state: state.to_owned(), reason: String::new() }
    }

    #[test]
    fn alarms_are_known_by_their_names() {
        let table = [
            ("gridpost-late", true),
            ("gridpost-kept", true),
            ("gridpost-source-uploads-kept", false),
            ("gridpost-retry-late", true),
            ("gridpost-retry-late-1", true),
            ("gridpost-retry-31-in-flight", true),
            ("gridpost-test-late", false),
            ("gridpost-retry-x-in-flight", false),
            ("gridpost-retry--in-flight", false),
            ("gridpost-late-2", false),
            ("gridpostlate", false),
            ("gridpost-", false),
            ("other-late", false),
        ];
        for (name, want) in table {
            assert_eq!(is_of("gridpost", name), want, "{name}");
        }
        assert!(is_of("gridpost-test", "gridpost-test-late"));
    }

    /// What Terraform calls them, with its expressions filled in.
    #[test]
    fn every_alarm_of_the_module_is_known() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../infra/alarms.tf");
        let text = std::fs::read_to_string(file).expect("the module");
        // Keys of the map end in `= {` or `=> {`.
        let names = text.lines().filter(|line| line.ends_with("= {") || line.ends_with("=> {"));
        let mut found = 0;
        for line in names {
            for suffix in line.split('"').skip(1).step_by(2) {
                let suffix = suffix.replace("${role}", "retry-3").replace("${index}", "3");
                let name = format!("gridpost-{suffix}");
                assert!(is_of("gridpost", &name), "{name} of infra/alarms.tf is unknown");
                found += 1;
            }
        }
        assert!(found > NAMES.len(), "{found} alarms are in infra/alarms.tf");
    }

    #[test]
    fn what_says_that_something_is_wrong() {
        let table = [
            ("gridpost-late", "OK", false),
            ("gridpost-late", "ALARM", true),
            ("gridpost-late", "INSUFFICIENT_DATA", false),
            ("gridpost-wake-not-running", "OK", false),
            ("gridpost-wake-not-running", "ALARM", true),
            ("gridpost-wake-not-running", "INSUFFICIENT_DATA", true),
        ];
        for (name, state, want) in table {
            assert_eq!(is_off(&alarm(name, state)), want, "{name} {state}");
        }
    }

    #[test]
    fn alarms_may_be_ignored_by_name_and_there_must_be_one() {
        let both = || vec![alarm("g-late", "ALARM"), alarm("g-dead-letters", "ALARM")];
        let watch = |ignored: &[&str], may_be_none| {
            let ignored: Vec<_> = ignored.iter().map(|name| (*name).to_owned()).collect();
            let left = watched("g", both(), &ignored, may_be_none).map_err(|error| error.0)?;
            Ok::<_, String>(left.into_iter().map(|alarm| alarm.name).collect::<Vec<_>>())
        };
        assert_eq!(watch(&[], false).expect("both").len(), 2);
        assert_eq!(watch(&["dead-letters"], false).expect("one"), ["g-late"]);
        assert_eq!(watch(&["g-late"], false).expect("one"), ["g-dead-letters"]);
        let told = watch(&["lates"], false).expect_err("unknown");
        assert!(told.contains("called lates; there are: g-late, g-dead-letters"), "{told}");
        let told = watch(&["late", "dead-letters"], false).expect_err("none is left");
        assert!(told.contains("--unwatched"), "{told}");
        assert!(watch(&["late", "dead-letters"], true).expect("none").is_empty());
    }
}
