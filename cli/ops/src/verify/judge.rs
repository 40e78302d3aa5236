//! Judges whether what arrived is what should have arrived.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::Deserialize;
use sha2::{Digest, Sha256};

use super::step::{Platform, Verdict};

/// A request that the webhook received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received {
    /// The event subscription, by the last part of the path.
    pub of: String,
    /// When it came, in milliseconds since the Unix epoch by the local clock.
    pub at_ms: i64,
    /// Attempts made before, by `aeg-delivery-count`.
    pub count: Option<u32>,
    pub ids: Vec<String>,
    /// Length and SHA-256 of the first event's filler, where it has one.
    pub filler: Option<Filler>,
}

/// The text that fills a large event, as it arrived or as it was sent.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Filler {
    pub bytes: u64,
    /// Its SHA-256, in hexadecimal.
    pub sha256: String,
}

/// A report of the webhook in `infra/modules/verify`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    path: String,
    at_ms: i64,
    count: Option<u32>,
    ids: Vec<Option<String>>,
    filler: Option<Filler>,
}

impl Filler {
    /// Measures a text.
    pub fn of(text: &str) -> Self {
        let digest = Sha256::digest(text.as_bytes());
        let sha256 = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        Self { bytes: text.len() as u64, sha256 }
    }
}

impl Received {
    /// Reads a report of the webhook in `infra/modules/verify`, whose clock is ahead of ours by so much.
    /// Returns `None` if it belongs to another run, or is no report.
    pub fn of_report(text: &str, run: &str, ahead_ms: i64) -> Option<Self> {
        let Report { path, at_ms, count, ids, filler } = serde_json::from_str(text).ok()?;
        let (_, of) =
            path.trim_matches('/').split_once('/').filter(|(of_run, _)| *of_run == run)?;
        let ids = ids.into_iter().flatten().collect();
        Some(Self { of: of.to_owned(), at_ms: at_ms - ahead_ms, count, ids, filler })
    }
}

/// Selects the requests of an event subscription.
pub fn of<'a>(seen: &'a [Received], name: &str) -> Vec<&'a Received> {
    seen.iter().filter(|one| one.of == name).collect()
}

/// How early an attempt may seem by the local clock: the first one may meet a function that is just being
/// started.
const EARLY: Duration = Duration::from_secs(1);

/// How late SQS, Lambda and a busy machine may make an attempt beside the schedule's own jitter, by the local
/// clock.
pub const SLACK: Duration = Duration::from_secs(5);

/// Selects the first request of each attempt, in order: one that came twice counts once.
pub fn attempts<'a>(seen: &[&'a Received]) -> Vec<&'a Received> {
    let mut by_count: BTreeMap<u32, &Received> = BTreeMap::new();
    for one in seen {
        let first = by_count.entry(one.count.unwrap_or(0)).or_insert(one);
        if one.at_ms < first.at_ms {
            *first = one;
        }
    }
    by_count.into_values().collect()
}

/// Checks that attempts came when they were due, in seconds of a clock that runs `speed` times as fast.
/// Returns how late each was, and a line that says so.
pub fn on_time(
    seen: &[&Received],
    due_s: &[u32],
    speed: u32,
) -> Result<(Vec<Duration>, String), String> {
    let attempts = attempts(seen);
    let first_ms = attempts.first().map_or(0, |first| first.at_ms);
    let offsets: Vec<f64> = attempts
        .iter()
        .map(|one| (one.at_ms - first_ms) as f64 / 1_000.0 * f64::from(speed))
        .collect();
    let came: Vec<_> = offsets.iter().map(|offset| format!("{offset:.1}")).collect();
    let due: Vec<_> = due_s.iter().map(u32::to_string).collect();
    let (came, due) = (came.join(", "), due.join(", "));
    let line = format!("attempts at {came} s, due at {due} s");
    if attempts.len() != due_s.len() {
        return Err(format!("{} attempts, expected {}: {line}", attempts.len(), due_s.len()));
    }
    let (mut late, mut before_s) = (Vec::new(), 0);
    for (index, (offset, due_s)) in offsets.iter().zip(due_s).enumerate() {
        let by = offset - f64::from(*due_s);
        let jitter = f64::from(*due_s - before_s) / 10.0;
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

/// Checks that every event reached every event subscription. Returns how many requests were repetitions.
pub fn fanned_out(seen: &[Received], names: &[String], ids: &[String]) -> Result<usize, String> {
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

/// Receives of a hidden message by its second attempt if each visibility timeout was kept; SQS may hand out
/// a message twice now and then.
const RECEIVES: u32 = 2;

/// Checks that visibility timeouts were kept, by how often the message had been received when its third
/// attempt was made: in a retry queue, received for the second and for the third attempt.
pub fn kept_hidden(receives: u32) -> Result<String, String> {
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

/// Judges visibility timeouts by the third attempt: by the platform, and how often the message had been
/// received by then, as far as dispatch's log says.
pub fn visibility(platform: Platform, receives: Result<Option<u32>, String>) -> Verdict {
    const IN_TIME: &str =
        "its third attempt came when the visibility timeout was over, not after the queue's own";
    let seen = match (&receives, platform) {
        (Ok(Some(receives)), Platform::Aws) => {
            return match kept_hidden(*receives) {
                Ok(line) => Verdict::Shown { seen: vec![line, IN_TIME.to_owned()] },
                Err(why) => Verdict::Failed { why },
            };
        }
        (Ok(Some(receives)), _) => format!("received {receives} times by the third attempt"),
        (Ok(None), _) => "dispatch's log has no line of the third attempt".to_owned(),
        (Err(problem), _) => format!("dispatch's log can't be read: {problem}"),
    };
    Verdict::not_shown(match platform {
        Platform::Aws => {
            format!("{seen}; the attempts came in time, but that alone does not show it")
        }
        Platform::Stack | Platform::Dev => {
            format!("only Lambda's own event source mapping can show it (here: {seen})")
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(of: &str, at_ms: i64, count: u32) -> Received {
        let ids = vec![format!("e-{at_ms}")];
        Received { of: of.to_owned(), at_ms, count: Some(count), ids, filler: None }
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
        let one = |of: &str, id: &str| Received { ids: vec![id.to_owned()], ..seen(of, 0, 0) };
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
        // (platform, receives, what is told of it, whether it is shown or failed)
        let table = [
            (Platform::Aws, Ok(Some(2)), "received 2 times", Some(true)),
            (Platform::Aws, Ok(Some(90)), "received 90 times", Some(false)),
            (Platform::Aws, Ok(None), "no line of the third attempt", None),
            (Platform::Aws, denied(), "denied", None),
            (Platform::Stack, Ok(Some(2)), "received 2 times", None),
            (Platform::Dev, Ok(Some(90)), "only Lambda's own", None),
            (Platform::Dev, denied(), "denied", None),
        ];
        for (platform, receives, part, want) in table {
            let (told, got) = match visibility(platform, receives) {
                Verdict::Shown { seen } => (seen.join("; "), Some(true)),
                Verdict::Failed { why } => (why, Some(false)),
                Verdict::NotShown { why } => (why, None),
            };
            assert_eq!(got, want, "{platform:?}: {told}");
            assert!(told.contains(part), "{platform:?}: {told}");
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
        let want = Received {
            of: "retry".to_owned(),
            at_ms: 1_400,
            count: Some(2),
            ids: vec!["a".to_owned()],
            filler,
        };
        assert_eq!(Received::of_report(&report("/run-1/retry"), "run-1", 100), Some(want));
        for other in [report("/run-2/retry"), report("/retry"), "{}".to_owned(), "no".to_owned()] {
            assert_eq!(Received::of_report(&other, "run-1", 100), None, "{other}");
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
