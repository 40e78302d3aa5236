//! The timeline of a retry policy, before it is saved, or of one that is. Works
//! offline, by the same decisions that deliver.

use std::{collections::BTreeMap, time::Duration};

use gridpost_api::{
    delivery::AttemptReason,
    settings::Document,
    subscription::{self, Destination, EventSubscription, EventSubscriptionInput},
    topic::Topic,
};
use gridpost_core::retry::{
    Rules,
    health::{DELAYED_WAITS_S, Durations, ProbationPolicy, UNHEALTHY_AFTER},
    outcome::{Answer, Outcome},
    policy::RetryPolicy,
    profile::{EndpointKind, ProfileName},
    timeline::{End, Question, Timeline, play},
};
use serde::{Serialize, Serializer};
use serde_json::Value;

use crate::{failure::Misuse, given::whole_seconds};

/// A row of the deployment's own probation durations.
#[derive(Clone, Copy, Debug)]
pub struct ProbationSeconds {
    outcome: Outcome,
    seconds: u32,
}

/// The most that the Terraform variable takes.
const PROBATION_MAX_S: u32 = 86_400;

impl std::str::FromStr for ProbationSeconds {
    type Err = String;

    fn from_str(given: &str) -> Result<Self, String> {
        let refused = || {
            format!(
                "`{given}` is no probation: write an outcome that leads to one and 0 to \
                 {PROBATION_MAX_S} seconds, as in Busy=20s"
            )
        };
        let (outcome, seconds) = given.split_once('=').ok_or_else(refused)?;
        let outcome = outcome.parse::<Outcome>().map_err(|_| refused())?;
        let seconds = whole_seconds(seconds).ok().filter(|seconds| *seconds <= PROBATION_MAX_S);
        match (Durations::default().of(outcome), seconds) {
            (Some(_), Some(seconds)) => Ok(Self { outcome, seconds }),
            _ => Err(refused()),
        }
    }
}

/// The policy whose timeline is played, and what else determines it.
pub struct Subject {
    pub profile: ProfileName,
    pub kind: EndpointKind,
    /// As a document has it, which may break its rules.
    pub policy: Value,
    /// Whether events wait for the end of a probation instead of ending at once.
    pub delays_on_probation: bool,
}

/// A row of the status table of an event subscription's own.
#[derive(Clone, Debug)]
pub struct StatusRule {
    row: String,
    /// The least wait in seconds before the next attempt; none ends the delivery.
    wait: Option<u32>,
}

impl StatusRule {
    /// Adds it to the policy of a document.
    pub fn add(&self, document: &mut Document) {
        let Self { row, wait } = self;
        let seconds = wait.map(|seconds| seconds.to_string()).unwrap_or_default();
        let members: &[(&str, &str)] = match wait {
            Some(_) => &[("which", row), ("action", "retry"), ("seconds", &seconds)],
            None => &[("which", row), ("action", "deadLetter")],
        };
        document.add("retryPolicy.statusRules", members);
    }
}

impl std::str::FromStr for StatusRule {
    type Err = String;

    fn from_str(given: &str) -> Result<Self, String> {
        let refused = || format!("`{given}` is no rule: write 404=1m, 404=deadLetter or 5xx=10s");
        let (row, rule) = given.split_once('=').ok_or_else(refused)?;
        let wait = match rule {
            "deadLetter" => None,
            time => Some(whole_seconds(time).map_err(|_| refused())?),
        };
        Ok(Self { row: row.to_owned(), wait })
    }
}

/// An answer of the endpoint, as it was written.
#[derive(Clone, Debug)]
pub struct Response {
    text: String,
    answer: Answer,
}

impl Response {
    /// Adds `Retry-After`, if the answer can carry one.
    #[must_use]
    pub fn with_retry_after(mut self, wait: Option<Duration>) -> Self {
        self.answer.retry_after = wait.filter(|_| self.answer.status.is_some());
        self
    }
}

impl std::str::FromStr for Response {
    type Err = String;

    fn from_str(given: &str) -> Result<Self, String> {
        let answer = match given.parse::<u16>() {
            Ok(status @ 200..=599) => Answer::of_status(status, None),
            Ok(_) => return Err(format!("{given} is no final HTTP status: write 200 to 599")),
            Err(_) => match given.parse::<Outcome>() {
                Ok(Outcome::Delivered) => Answer::of_status(200, None),
                Ok(outcome) => Answer::without_status(outcome),
                Err(error) => return Err(error.to_string()),
            },
        };
        Ok(Self { text: given.to_owned(), answer })
    }
}

/// The circumstances of a timeline.
#[derive(Clone, Copy, Debug, Default)]
pub struct Circumstances<'c> {
    pub probations: &'c [ProbationSeconds],
    /// The random number that jitter draws, 0 to 1.
    pub dice: f64,
    /// Whether the number of attempts was asked for, and is not the profile's.
    pub names_attempts: bool,
}

/// The timeline of a policy, with what is to be said about it.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Preview {
    pub attempts: Vec<PreviewedAttempt>,
    pub end: PreviewedEnd,
    pub time_to_live_seconds: u64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// An attempt of a [`Preview`].
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PreviewedAttempt {
    pub number: u32,
    /// Since the publish.
    #[serde(rename = "atSeconds", serialize_with = "seconds")]
    pub at: Duration,
    /// The endpoint's answer, as it was written.
    pub response: String,
    /// The reason for the wait before it, if any.
    pub wait_because: Option<AttemptReason>,
}

/// The end of a [`Preview`].
#[derive(Clone, Debug, Serialize)]
pub struct PreviewedEnd {
    /// Since the publish.
    #[serde(rename = "atSeconds", serialize_with = "seconds")]
    pub at: Duration,
    /// `Delivered`, or an [`EndReason`](gridpost_core::retry::EndReason).
    pub reason: String,
}

/// Plays a policy with these answers. Fails with [`Misuse`], which names every setting that is outside
/// its range.
pub fn played(
    subject: Subject,
    responses: &[Response],
    circumstances: Circumstances<'_>,
) -> Result<Preview, Misuse> {
    let Subject { profile, kind, policy, delays_on_probation } = subject;
    let Circumstances { probations, dice, names_attempts } = circumstances;
    let policy = checked(policy, profile)?;
    let rules = Rules { profile, kind, policy: &policy };
    let answers: Vec<_> = responses.iter().map(|response| response.answer).collect();
    let probation = Probation::of(delays_on_probation).with(probations);
    let timeline = timeline(rules, &probation, &answers, dice);
    let is_named = names_attempts || has_own_attempts(rules);
    let warnings = warnings(rules, &probation, &timeline, is_named);
    let text_of = |position: usize| {
        responses.get(position).or(responses.last()).map_or("200", |response| &response.text)
    };
    let attempts =
        timeline.attempts.iter().enumerate().map(|(position, attempt)| PreviewedAttempt {
            number: attempt.number,
            at: attempt.at,
            response: text_of(position).to_owned(),
            wait_because: attempt.because.map(Into::into),
        });
    let reason = match timeline.end {
        End::Delivered => "Delivered".to_owned(),
        End::Undelivered(reason) => reason.to_string(),
    };
    Ok(Preview {
        attempts: attempts.collect(),
        end: PreviewedEnd { at: timeline.ends_at, reason },
        time_to_live_seconds: u64::from(policy.time_to_live_minutes) * 60,
        warnings,
    })
}

/// Plays the policy of an event subscription, or another one in its place, like [`played`]. Also fails for
/// an invalid answer.
pub fn preview(
    topic: &Topic,
    subscription: &EventSubscription,
    policy: Option<Value>,
    answers: &str,
) -> Result<Preview, Misuse> {
    let mut subject = saved(topic, subscription);
    let answers = answers.split(',').map(|answer| answer.trim().parse::<Response>());
    let answers: Vec<_> = answers.collect::<Result<_, _>>().map_err(Misuse)?;
    subject.policy = policy.unwrap_or(subject.policy);
    played(subject, &answers, Circumstances::default())
}

fn checked(policy: Value, profile: ProfileName) -> Result<RetryPolicy, Misuse> {
    subscription::read_retry_policy(&policy, profile).map_err(|problems| {
        let lines: Vec<_> = problems.iter().map(ToString::to_string).collect();
        Misuse(lines.join("\n"))
    })
}

/// Returns the subject that a saved event subscription and its topic describe.
pub fn saved(topic: &Topic, subscription: &EventSubscription) -> Subject {
    let settings = &subscription.properties.settings;
    let profile = topic.properties.settings.delivery_profile;
    let kind = match &settings.destination {
        Some(Destination::WebHook(_)) => EndpointKind::Webhook,
        _ => EndpointKind::Resource,
    };
    Subject {
        profile: profile.unwrap_or(ProfileName::Basic),
        kind,
        policy: serde_json::to_value(&settings.retry_policy).unwrap_or_default(),
        delays_on_probation: settings.probation_policy == Some(ProbationPolicy::Delay),
    }
}

/// How long failures keep an endpoint from being attempted, and what becomes of events meanwhile.
struct Probation {
    policy: ProbationPolicy,
    durations: Durations,
}

impl Probation {
    /// Returns a deployment's defaults.
    fn of(delays: bool) -> Self {
        let policy = if delays { ProbationPolicy::Delay } else { ProbationPolicy::EventGrid };
        Self { policy, durations: Durations::default() }
    }

    fn with(self, own: &[ProbationSeconds]) -> Self {
        let own = own.iter().map(|one| (one.outcome, one.seconds));
        let durations = self.durations.with(own.collect::<BTreeMap<_, _>>());
        Self { durations, ..self }
    }
}

fn timeline(rules: Rules<'_>, probation: &Probation, answers: &[Answer], dice: f64) -> Timeline {
    let Probation { policy: probation_policy, durations } = probation;
    play(&Question { rules, probation_policy: *probation_policy, durations, answers, dice })
}

/// Whether a policy has other attempts than the profile's most. Those are the default, which is not to
/// blame, and a saved policy names them, too.
fn has_own_attempts(rules: Rules<'_>) -> bool {
    rules.policy.max_attempts != RetryPolicy::default_of(rules.profile).max_attempts
}

/// Says which limits can never be reached, as even an endpoint that always fails with the shortest waits
/// ends by the other limit; and where events may end without an attempt.
fn warnings(
    rules: Rules<'_>,
    probation: &Probation,
    shown: &Timeline,
    names_attempts: bool,
) -> Vec<String> {
    let unreachable = names_attempts.then(|| unreachable_limit(rules, probation, shown)).flatten();
    unreachable.into_iter().chain(delay_warning(rules.policy)).collect()
}

fn unreachable_limit(rules: Rules<'_>, probation: &Probation, shown: &Timeline) -> Option<String> {
    let RetryPolicy { max_attempts, time_to_live_minutes, .. } = rules.policy;
    let always_fails = [Answer::of_status(500, None)];
    let Probation { durations, .. } = probation;
    let delaying = Probation { policy: ProbationPolicy::Delay, durations: durations.clone() };
    let fastest = timeline(rules, &delaying, &always_fails, 0.0);
    let made = fastest.attempts.len();
    if made >= *max_attempts as usize {
        return None;
    }
    let these = match shown.attempts.len() {
        count if count == made => String::new(),
        count => format!(" ({count} with these answers)"),
    };
    Some(format!(
        "{max_attempts} attempts can never be made: the schedule has room for {made}{these} within a \
         time-to-live of {}. Lower the attempts, or give an own schedule.",
        hours(Duration::from_secs(u64::from(*time_to_live_minutes) * 60)),
    ))
}

/// Writes whole seconds as a whole number.
fn seconds<S: Serializer>(offset: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    match offset.subsec_millis() {
        0 => serializer.serialize_u64(offset.as_secs()),
        _ => serializer.serialize_f64(offset.as_secs_f64()),
    }
}

/// Writes an offset as people do: `0 s`, `12.8 s`, `1 min 30 s`, `1 h 30 min`. Below a minute it has parts of
/// a second.
pub fn hours(offset: Duration) -> String {
    if offset.subsec_millis() != 0 && offset.as_secs() < 60 {
        return format!("{:.1} s", offset.as_secs_f64());
    }
    let whole = offset.as_secs();
    let (h, min, s) = (whole / 3_600, whole / 60 % 60, whole % 60);
    let parts = [(h, "h"), (min, "min"), (s, "s")];
    let parts: Vec<_> = parts
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, unit)| format!("{count} {unit}"))
        .collect();
    if parts.is_empty() { "0 s".to_owned() } else { parts.join(" ") }
}

/// Warns of a time-to-live that is shorter than a wait of delayed delivery.
fn delay_warning(policy: &RetryPolicy) -> Option<String> {
    let lives = Duration::from_secs(u64::from(policy.time_to_live_minutes) * 60);
    let waits = DELAYED_WAITS_S.map(|seconds| Duration::from_secs(u64::from(seconds)));
    let over = waits.iter().position(|wait| *wait > lives)?;
    let longest = waits[waits.len() - 1];
    let probes = match over {
        0 => String::new(),
        1 => " and a failed probe".to_owned(),
        probes => format!(" and {probes} failed probes"),
    };
    let later = match waits[over] == longest {
        true => String::new(),
        false => format!(", later up to {}", hours(longest)),
    };
    Some(format!(
        "a time-to-live of {} is shorter than a wait of delayed delivery: after {UNHEALTHY_AFTER} failures in a \
         row{probes} the endpoint is not asked for {}{later}, and an event that is published meanwhile may end \
         without an attempt",
        hours(lives),
        hours(waits[over]),
    ))
}

/// Says the same of an event subscription's document, stored or not; `None` if it has no policy that can be
/// read.
pub fn delay_warning_of(subscription: &impl Serialize) -> Option<String> {
    let document = serde_json::to_value(subscription).ok()?;
    let document = serde_json::from_value::<EventSubscriptionInput>(document).ok()?;
    let policy = document.properties?.retry_policy?;
    let is_namespace = policy.max_delivery_count.is_some() || policy.event_time_to_live.is_some();
    let profile = if is_namespace { ProfileName::Namespace } else { ProfileName::Basic };
    delay_warning(&checked(serde_json::to_value(policy).ok()?, profile).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testkit::documents;
    use serde_json::json;

    /// Attempts by default are not scolded, but a life that a wait outlasts is said in any case.
    #[test]
    fn a_short_life_is_said_whatever_the_attempts() {
        let profile = ProfileName::Basic;
        let policy = json!({"eventTimeToLiveInMinutes": 60});
        let policy = subscription::read_retry_policy(&policy, profile).expect("in range");
        let rules = Rules { profile, kind: EndpointKind::Webhook, policy: &policy };
        let probation = Probation::of(false);
        let shown = timeline(rules, &probation, &[], 0.0);
        let told = |names_attempts| warnings(rules, &probation, &shown, names_attempts).join("; ");
        assert!(!told(false).contains("can never be made"), "{}", told(false));
        assert!(told(false).contains("delayed delivery"), "{}", told(false));
        assert!(told(true).contains("can never be made"), "{}", told(true));
    }

    #[test]
    fn offsets_are_written_in_one_way() {
        let table = [
            (0, "0 s"),
            (12_800, "12.8 s"),
            (90_000, "1 min 30 s"),
            (1_912_800, "31 min 52 s"),
            (3_720_500, "1 h 2 min"),
        ];
        for (ms, want) in table {
            assert_eq!(hours(Duration::from_millis(ms)), want);
        }
    }

    #[test]
    fn a_saved_event_subscription_has_its_own_rules() {
        let topic = topic("namespace");
        let queue = json!({"endpointType": "SqsQueue", "properties": {"resourceId": "arn:q"}});
        let subscription = subscription(&json!({"properties": {"destination": queue,
            "probationPolicy": "Delay", "retryPolicy": {"maxDeliveryCount": 3}}}));
        let subject = saved(&topic, &subscription);
        assert_eq!(
            (subject.profile, subject.kind),
            (ProfileName::Namespace, EndpointKind::Resource)
        );
        assert!(subject.delays_on_probation);
        assert_eq!(subject.policy["maxDeliveryCount"], 3);
    }

    fn topic(profile: &str) -> Topic {
        let patch = json!({"properties": {"deliveryProfile": profile}});
        serde_json::from_value(documents::topic("t", &patch)).expect("whole")
    }

    fn subscription(patch: &Value) -> EventSubscription {
        serde_json::from_value(documents::subscription("s", patch)).expect("whole")
    }

    #[test]
    fn what_a_saved_policy_has_by_default_is_not_scolded() {
        let topic = topic("basic");
        // (attempts that are saved, whether they are too many to be made)
        for (attempts, want) in [(30, false), (29, true), (3, false)] {
            let policy = json!({"maxDeliveryAttempts": attempts, "eventTimeToLiveInMinutes": 1440});
            let subscription = subscription(&json!({"properties": { "retryPolicy": policy }}));
            let preview = preview(&topic, &subscription, None, "500").expect("in range");
            assert_eq!(!preview.warnings.is_empty(), want, "{attempts}: {preview:?}");
        }
    }

    #[test]
    fn a_time_to_live_that_is_shorter_than_a_wait_is_told_with_both() {
        let of = |policy: Value| delay_warning_of(&json!({"properties": {"retryPolicy": policy}}));
        let minutes = |minutes: u32| of(json!({"eventTimeToLiveInMinutes": minutes}));
        let table = [
            (minutes(1), Some(["1 min is", "a failed probe", "for 5 min, later up to 3 h"])),
            (minutes(30), Some(["30 min is", "4 failed probes", "for 1 h, later up to 3 h"])),
            (minutes(179), Some(["2 h 59 min is", "5 failed probes", "for 3 h, and"])),
            (minutes(180), None),
            (of(json!({})), None),
            (of(json!({"eventTimeToLive": "PT2H"})), Some(["2 h is", "5 failed", "for 3 h, and"])),
            (of(json!({"eventTimeToLive": "P7D"})), None),
            (delay_warning_of(&json!({"properties": {}})), None),
        ];
        for (told, want) in table {
            match (&told, want) {
                (None, None) => {}
                (Some(told), Some(parts)) => {
                    assert!(parts.iter().all(|part| told.contains(part)), "{parts:?}: {told}");
                }
                (told, want) => panic!("{told:?} in place of {want:?}"),
            }
        }
    }
}
