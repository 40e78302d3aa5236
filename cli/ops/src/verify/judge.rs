//! Whether what arrived is what should have arrived.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::Value;
use sha2::{Digest, Sha256};

use super::step::{Verdict, Where};

/// A request that the webhook got.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// The event subscription, by the last part of the path.
    pub of: String,
    /// When, in milliseconds since the Unix epoch by this machine's clock.
    pub at_ms: i64,
    /// Attempts made before, by `aeg-delivery-count`.
    pub count: Option<u32>,
    pub ids: Vec<String>,
    /// Length and SHA-256 of the first event's filler, where it has one.
    pub filler: Option<Filler>,
}

/// What a large event is filled with, as it arrived or as it was sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filler {
    pub bytes: u64,
    /// Its SHA-256, in hexadecimal.
    pub sha256: String,
}

impl Filler {
    /// That of a text.
    pub fn of(text: &str) -> Self {
        let digest = Sha256::digest(text.as_bytes());
        let sha256 = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        Self { bytes: text.len() as u64, sha256 }
    }
}

impl Seen {
    /// A report of the webhook in `infra/modules/verify`, whose clock is ahead of ours by so much; `None`
    /// where it is of another run, or no report.
    pub fn of_report(text: &str, run: &str, ahead_ms: i64) -> Option<Self> {
        let report: Value = serde_json::from_str(text).ok()?;
        let (of_run, of) = report["path"].as_str()?.trim_matches('/').split_once('/')?;
        let ids = report["ids"].as_array()?.iter().filter_map(Value::as_str).map(str::to_owned);
        let filler = report["filler"].as_object().and_then(|filler| {
            let sha256 = filler.get("sha256")?.as_str()?.to_owned();
            Some(Filler { bytes: filler.get("bytes")?.as_u64()?, sha256 })
        });
        (of_run == run).then_some(())?;
        Some(Self {
            of: of.to_owned(),
            at_ms: report["atMs"].as_i64()? - ahead_ms,
            count: report["count"].as_u64().and_then(|count| count.try_into().ok()),
            ids: ids.collect(),
            filler,
        })
    }
}

/// The requests of an event subscription.
pub fn of<'a>(seen: &'a [Seen], name: &str) -> Vec<&'a Seen> {
    seen.iter().filter(|one| one.of == name).collect()
}

/// How much an attempt may seem early by the machine's clock: the first one may meet a function that
/// is just being started.
const EARLY: Duration = Duration::from_secs(1);

/// What SQS, Lambda and a busy machine may add to the schedule's own jitter, by the machine's clock.
pub const SLACK: Duration = Duration::from_secs(5);

/// The first request of each attempt, in order: one that came twice counts once.
pub fn attempts<'a>(seen: &[&'a Seen]) -> Vec<&'a Seen> {
    let mut by_count: BTreeMap<u32, &Seen> = BTreeMap::new();
    for one in seen {
        let first = by_count.entry(one.count.unwrap_or(0)).or_insert(one);
        if one.at_ms < first.at_ms {
            *first = one;
        }
    }
    by_count.into_values().collect()
}

/// Whether attempts came when they were due, in seconds of a clock that runs `speed` times as fast: how
/// much later each was, and a line that tells.
pub fn on_time(
    seen: &[&Seen],
    due_s: &[u64],
    speed: u32,
) -> Result<(Vec<Duration>, String), String> {
    let attempts = attempts(seen);
    let first_ms = attempts.first().map_or(0, |first| first.at_ms);
    let offsets: Vec<f64> = attempts
        .iter()
        .map(|one| (one.at_ms - first_ms) as f64 / 1_000.0 * f64::from(speed))
        .collect();
    let told = |numbers: Vec<String>| numbers.join(", ");
    let came = told(offsets.iter().map(|offset| format!("{offset:.1}")).collect());
    let due = told(due_s.iter().map(u64::to_string).collect());
    let line = format!("attempts at {came} s, due at {due} s");
    if attempts.len() != due_s.len() {
        return Err(format!("{} attempts, expected {}: {line}", attempts.len(), due_s.len()));
    }
    let (mut late, mut before_s) = (Vec::new(), 0);
    for (index, (offset, due_s)) in offsets.iter().zip(due_s).enumerate() {
        let by = offset - *due_s as f64;
        let jitter = (*due_s - before_s) as f64 / 10.0;
        let slack = |time: Duration| time.as_secs_f64() * f64::from(speed);
        if by < -slack(EARLY) || by > jitter + slack(SLACK) {
            return Err(format!("attempt {} is not in time: {line}", index + 1));
        }
        if index > 0 {
            late.push(Duration::from_secs_f64(by.max(0.0)));
        }
        before_s = *due_s;
    }
    Ok((late, line))
}

/// Whether every event reached every event subscription; how many requests were repetitions.
pub fn fanned_out(seen: &[Seen], names: &[String], ids: &[String]) -> Result<usize, String> {
    let mut got: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let mut arrived = 0;
    for one in seen.iter().filter(|one| names.contains(&one.of)) {
        arrived += one.ids.len();
        got.entry(&one.of).or_default().extend(one.ids.iter().map(String::as_str));
    }
    let found = |name: &String| got.get(name.as_str()).map_or(0, BTreeSet::len);
    let missing: Vec<_> = names.iter().filter(|name| found(name) < ids.len()).collect();
    let all: usize = names.iter().map(found).sum();
    let wanted = names.len() * ids.len();
    match missing.first() {
        None => Ok(arrived - all),
        Some(first) => Err(format!(
            "{all} of {wanted} deliveries arrived: {} event subscriptions lack some, {first} has {} of {}",
            missing.len(),
            found(first),
            ids.len(),
        )),
    }
}

/// Receives of a hidden message by its second attempt, where each visibility timeout was kept; SQS may
/// hand out a message twice now and then.
const RECEIVES: u64 = 2;

/// Whether visibility timeouts were kept, by how often the message had been received when its third
/// attempt was made: in a retry queue, received for the second and for the third attempt.
pub fn kept_hidden(receives: u64) -> Result<String, String> {
    if receives <= RECEIVES + 1 {
        return Ok(format!(
            "the hidden message had been received {receives} times by its third attempt"
        ));
    }
    Err(format!(
        "the message was received {receives} times by its third attempt, expected {RECEIVES}: what \
         dispatch names in batchItemFailures becomes visible before its visibility timeout is over"
    ))
}

/// What the third attempt tells of visibility timeouts: where the deployment runs, and how often the
/// message had been received by then, as far as dispatch's log says.
pub fn visibility(runs: Where, receives: Result<Option<u64>, String>) -> Verdict {
    const IN_TIME: &str =
        "its third attempt came when the visibility timeout was over, not after the queue's own";
    let seen = match (&receives, runs) {
        (Ok(Some(receives)), Where::Aws) => {
            return match kept_hidden(*receives) {
                Ok(line) => Verdict::Shown(vec![line, IN_TIME.to_owned()]),
                Err(problem) => Verdict::Failed(problem),
            };
        }
        (Ok(Some(receives)), _) => format!("received {receives} times by the third attempt"),
        (Ok(None), _) => "dispatch's log has no line of the third attempt".to_owned(),
        (Err(problem), _) => format!("dispatch's log can't be read: {problem}"),
    };
    Verdict::NotShown(match runs {
        Where::Aws => format!("{seen}; the attempts came in time, but that alone does not show it"),
        Where::Stack | Where::Dev => {
            format!("only Lambda's own event source mapping can show it (here: {seen})")
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(of: &str, at_ms: i64, count: u32) -> Seen {
        let ids = vec![format!("e-{at_ms}")];
        Seen { of: of.to_owned(), at_ms, count: Some(count), ids, filler: None }
    }

    #[test]
    fn attempts_are_held_to_their_schedule() {
        // (milliseconds of the attempts, speed, whether they are in time)
        let table: [(&[i64], u32, Option<&str>); 7] = [
            (&[0, 5_000, 15_000], 1, None),
            (&[0, 5_400, 21_000], 1, None),
            (&[0, 5_000, 21_100], 1, Some("attempt 3 is not in time")),
            (&[0, 3_900, 15_000], 1, Some("attempt 2 is not in time")),
            (&[0, 5_000], 1, Some("2 attempts, expected 3")),
            (&[], 1, Some("0 attempts, expected 3")),
            (&[0, 500, 1_500], 10, None),
        ];
        for (at, speed, want) in table {
            let all: Vec<_> =
                at.iter().zip(0..).map(|(at, count)| seen("r", 7 + at, count)).collect();
            let all: Vec<_> = all.iter().collect();
            let got = on_time(&all, &[0, 5, 15], speed);
            match (&got, want) {
                (Ok(_), None) => {}
                (Err(told), Some(part)) => assert!(told.contains(part), "{at:?}: {told}"),
                _ => panic!("{at:?}: {got:?}, want {want:?}"),
            }
        }
    }

    #[test]
    fn how_late_attempts_were_is_told() {
        let all = [seen("r", 0, 0), seen("r", 5_250, 1), seen("r", 14_900, 2)];
        let (late, line) =
            on_time(&all.iter().collect::<Vec<_>>(), &[0, 5, 15], 1).expect("in time");
        assert_eq!(late, [Duration::from_millis(250), Duration::ZERO]);
        assert_eq!(line, "attempts at 0.0, 5.2, 14.9 s, due at 0, 5, 15 s");
    }

    #[test]
    fn an_attempt_that_came_twice_counts_once() {
        let all = [seen("r", 9, 0), seen("r", 5, 0), seen("r", 20, 1)];
        let found = attempts(&all.iter().collect::<Vec<_>>());
        assert_eq!(found.iter().map(|one| one.at_ms).collect::<Vec<_>>(), [5, 20]);
    }

    #[test]
    fn a_fan_out_is_whole_or_says_what_is_missing() {
        let names = ["fan-00".to_owned(), "fan-01".to_owned()];
        let ids = ["a".to_owned(), "b".to_owned()];
        let one = |of: &str, id: &str| Seen { ids: vec![id.to_owned()], ..seen(of, 0, 0) };
        let whole =
            [one("fan-00", "a"), one("fan-00", "b"), one("fan-01", "a"), one("fan-01", "b")];
        assert_eq!(fanned_out(&whole, &names, &ids), Ok(0));
        let twice: Vec<_> =
            whole.iter().cloned().chain([one("fan-01", "b"), one("x", "a")]).collect();
        assert_eq!(fanned_out(&twice, &names, &ids), Ok(1));
        let told = fanned_out(&whole[..3], &names, &ids).expect_err("one is missing");
        assert!(
            told.starts_with("3 of 4 deliveries arrived") && told.contains("fan-01 has 1 of 2")
        );
    }

    #[test]
    fn receives_tell_whether_messages_stayed_hidden() {
        for (receives, want) in [(1, true), (2, true), (3, true), (4, false), (240, false)] {
            assert_eq!(kept_hidden(receives).is_ok(), want, "{receives}");
        }
    }

    #[test]
    fn only_aws_shows_what_its_mapping_does() {
        let denied = || Err("denied".to_owned());
        // (where, receives, what is told of it, whether it is shown or failed)
        let table = [
            (Where::Aws, Ok(Some(2)), "received 2 times", Some(true)),
            (Where::Aws, Ok(Some(90)), "received 90 times", Some(false)),
            (Where::Aws, Ok(None), "no line of the third attempt", None),
            (Where::Aws, denied(), "denied", None),
            (Where::Stack, Ok(Some(2)), "received 2 times", None),
            (Where::Dev, Ok(Some(90)), "only Lambda's own", None),
            (Where::Dev, denied(), "denied", None),
        ];
        for (runs, receives, part, want) in table {
            let (told, got) = match visibility(runs, receives) {
                Verdict::Shown(lines) => (lines.join("; "), Some(true)),
                Verdict::Failed(why) => (why, Some(false)),
                Verdict::NotShown(why) => (why, None),
            };
            assert_eq!(got, want, "{runs:?}: {told}");
            assert!(told.contains(part), "{runs:?}: {told}");
        }
    }

    #[test]
    fn reports_of_other_runs_are_passed_over() {
        let report = |path: &str| {
            format!(
                r#"{{"path":"{path}","atMs":1500,"count":2,"ids":["a"],"filler":{{"bytes":2,"sha256":"ab"}}}}"#
            )
        };
        let filler = Some(Filler { bytes: 2, sha256: "ab".to_owned() });
        let want = Seen {
            of: "retry".to_owned(),
            at_ms: 1_400,
            count: Some(2),
            ids: vec!["a".to_owned()],
            filler,
        };
        assert_eq!(Seen::of_report(&report("/run-1/retry"), "run-1", 100), Some(want));
        for other in [report("/run-2/retry"), report("/retry"), "{}".to_owned(), "no".to_owned()] {
            assert_eq!(Seen::of_report(&other, "run-1", 100), None, "{other}");
        }
    }

    #[test]
    fn a_filler_is_known_by_its_digest() {
        let filler = Filler::of("abc");
        assert_eq!(filler.bytes, 3);
        assert_eq!(
            filler.sha256,
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
    }
}
