//! `gridpost schedule`: the timeline of a retry policy, before it is saved, or of one that is. Works
//! offline, by the same decisions that deliver.

pub(crate) mod delayed;

use std::{collections::BTreeMap, time::Duration};

use clap::{Args, ValueEnum};
use gridpost_core::{
    retry::{
        Rules,
        health::{Durations, ProbationPolicy},
        outcome::{Answer, Outcome},
        policy::RetryPolicy,
        profile::{EndpointKind, ProfileName},
        timeline::{End, Question, Timeline, play},
    },
    subscription::resource,
};
use gridpost_ports::Dice;
use gridpost_runtime::system::SystemDice;
use serde_json::{Value, json};

use crate::attempt_lines::because_of;
use crate::document::{TimeToLive, retry_limits};
use crate::failure::Misuse;
use crate::output::{self, Output};
use crate::target::TargetArguments;

/// The policy, and what the endpoint would answer.
#[derive(Args, Debug)]
pub struct ScheduleArguments {
    /// The topic's delivery profile
    #[arg(long, value_enum, default_value_t = ProfileArgument::Basic)]
    profile: ProfileArgument,

    /// Which column of the status table applies
    #[arg(long, value_enum, default_value_t = EndpointArgument::Webhook)]
    endpoint: EndpointArgument,

    /// Time-to-live in whole minutes: 30m, 24h, 7d (default: the profile's maximum)
    #[arg(long, value_name = "TIME")]
    ttl: Option<TimeToLive>,

    /// Most attempts, including the first (default: the profile's maximum)
    #[arg(long, value_name = "COUNT")]
    max_attempts: Option<u32>,

    /// Custom schedule: offsets from the first attempt in seconds, ascending
    #[arg(long, value_name = "SECONDS,…", value_delimiter = ',')]
    schedule: Option<Vec<u32>>,

    /// Custom row of the status table: 404=60 (seconds), 404=deadLetter, 5xx=10, SocketError=10; may be given
    /// several times
    #[arg(long = "status-rule", value_name = "ROW=RULE")]
    status_rules: Vec<StatusRule>,

    /// What the endpoint answers, in order; the last one repeats: 500,408,200, or an outcome such as
    /// TimedOut, SocketError, ResolutionError
    #[arg(long, value_name = "ANSWER,…", value_delimiter = ',', default_value = "500")]
    responses: Vec<Response>,

    /// Wait for the end of a probation instead of ending at one caused by a client error
    #[arg(long)]
    delay_on_probation: bool,

    /// Seconds of probation after an outcome, where the deployment has its own (Terraform variable
    /// probation_seconds): Busy=20, TimedOut=0; may be given several times
    #[arg(long = "probation", value_name = "OUTCOME=SECONDS")]
    probations: Vec<ProbationSeconds>,

    /// Draw jitter as a delivery would: up to a tenth of each wait, at most 5 minutes
    #[arg(long)]
    jitter: bool,

    /// The timeline of a saved event subscription of this topic
    #[arg(long, requires = "name",
        conflicts_with_all = ["profile", "endpoint", "ttl", "max_attempts", "schedule", "status_rules", "delay_on_probation"])]
    topic: Option<String>,

    /// That event subscription
    #[arg(long, alias = "subscription", requires = "topic")]
    name: Option<String>,
}

/// A row of the deployment's own probation durations.
#[derive(Clone, Copy, Debug)]
struct ProbationSeconds {
    outcome: Outcome,
    seconds: u32,
}

/// What the Terraform variable takes at most.
const PROBATION_MAX_S: u32 = 86_400;

impl std::str::FromStr for ProbationSeconds {
    type Err = String;

    fn from_str(given: &str) -> Result<Self, String> {
        let refused = || {
            format!(
                "`{given}` is no probation: write an outcome that leads to one and 0 to \
                 {PROBATION_MAX_S} seconds, as in Busy=20"
            )
        };
        let (outcome, seconds) = given.split_once('=').ok_or_else(refused)?;
        let outcome = outcome.parse::<Outcome>().map_err(|_| refused())?;
        let seconds = seconds.parse().ok().filter(|seconds| *seconds <= PROBATION_MAX_S);
        match (Durations::default().of(outcome), seconds) {
            (Some(_), Some(seconds)) => Ok(Self { outcome, seconds }),
            _ => Err(refused()),
        }
    }
}

/// Whose timeline it is.
struct Subject {
    profile: ProfileName,
    kind: EndpointKind,
    /// The policy as a document.
    policy: Value,
    delays_on_probation: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum ProfileArgument {
    Basic,
    Basic2021,
    Namespace,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum EndpointArgument {
    Webhook,
    Resource,
}

#[derive(Clone, Debug)]
struct StatusRule {
    row: String,
    rule: Value,
}

impl std::str::FromStr for StatusRule {
    type Err = String;

    fn from_str(given: &str) -> Result<Self, String> {
        let refused = || format!("`{given}` is no rule: write 404=60, 404=deadLetter or 5xx=10");
        let (row, rule) = given.split_once('=').ok_or_else(refused)?;
        let rule = match rule.parse::<u32>() {
            Ok(seconds) => json!({ "retryAfterSeconds": seconds }),
            Err(_) if rule == "deadLetter" => json!(rule),
            Err(_) => return Err(refused()),
        };
        Ok(Self { row: row.to_owned(), rule })
    }
}

/// An answer of the endpoint, as it was written.
#[derive(Clone, Debug)]
struct Response {
    text: String,
    answer: Answer,
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

/// Prints the timeline.
///
/// # Errors
///
/// A setting is outside its range: all of them are named with their ranges.
pub async fn run(
    arguments: &ScheduleArguments,
    target: &TargetArguments,
    output: Output,
) -> anyhow::Result<()> {
    let subject = match arguments.topic.as_deref().zip(arguments.name.as_deref()) {
        Some((topic, name)) => {
            let api = target.resolve()?.manage_api().await?;
            saved(&api.topic(topic).await?, &api.subscription(topic, name).await?)
        }
        None => given(arguments),
    };
    let Subject { profile, kind, policy, delays_on_probation } = subject;
    let policy = checked(policy, profile)?;
    let rules = Rules { profile, kind, policy: &policy };
    let answers: Vec<_> = arguments.responses.iter().map(|response| response.answer).collect();
    let dice = if arguments.jitter { SystemDice.roll() } else { 0.0 };
    let probation = Probation::of(delays_on_probation).with(&arguments.probations);
    let timeline = timeline(rules, &probation, &answers, dice);
    let is_named = arguments.max_attempts.is_some() || has_own_attempts(rules);
    let warnings = warnings(rules, &probation, &timeline, is_named);
    let document = result(&timeline, &policy, &arguments.responses, &warnings);
    output.print(&document, text);
    Ok(())
}

/// The timeline of an event subscription's policy, or of another one in its place, as JSON.
///
/// # Errors
///
/// [`Misuse`] names every setting, or answer, that is outside its range.
pub(crate) fn preview(
    topic: &Value,
    subscription: &Value,
    policy: Option<Value>,
    answers: &str,
) -> Result<Value, Misuse> {
    let Subject { profile, kind, policy: own, delays_on_probation } = saved(topic, subscription);
    let answers = answers.split(',').map(|answer| answer.trim().parse::<Response>());
    let answers: Vec<_> = answers.collect::<Result<_, _>>().map_err(Misuse)?;
    let policy = checked(policy.unwrap_or(own), profile)?;
    let rules = Rules { profile, kind, policy: &policy };
    let given: Vec<_> = answers.iter().map(|response| response.answer).collect();
    let probation = Probation::of(delays_on_probation);
    let timeline = timeline(rules, &probation, &given, 0.0);
    let warnings = warnings(rules, &probation, &timeline, has_own_attempts(rules));
    Ok(result(&timeline, &policy, &answers, &warnings))
}

/// A policy, or all that is wrong with its document.
fn checked(policy: Value, profile: ProfileName) -> Result<RetryPolicy, Misuse> {
    resource::read_retry_policy(policy, profile).map_err(|problems| {
        let lines: Vec<_> = problems.iter().map(ToString::to_string).collect();
        Misuse(lines.join("\n"))
    })
}

/// What the flags say.
fn given(arguments: &ScheduleArguments) -> Subject {
    let profile = match arguments.profile {
        ProfileArgument::Basic => ProfileName::Basic,
        ProfileArgument::Basic2021 => ProfileName::Basic2021,
        ProfileArgument::Namespace => ProfileName::Namespace,
    };
    let kind = match arguments.endpoint {
        EndpointArgument::Webhook => EndpointKind::Webhook,
        EndpointArgument::Resource => EndpointKind::Resource,
    };
    let policy = document(arguments, profile);
    Subject { profile, kind, policy, delays_on_probation: arguments.delay_on_probation }
}

/// What a saved event subscription says, and its topic.
fn saved(topic: &Value, subscription: &Value) -> Subject {
    let properties = &subscription["properties"];
    let profile = serde_json::from_value(topic["properties"]["deliveryProfile"].clone());
    let kind = match output::text_at(subscription, "/properties/destination/endpointType") {
        "WebHook" => EndpointKind::Webhook,
        _ => EndpointKind::Resource,
    };
    Subject {
        profile: profile.unwrap_or(ProfileName::Basic),
        kind,
        policy: properties["retryPolicy"].clone(),
        delays_on_probation: properties["probationPolicy"] == "Delay",
    }
}

/// The policy as the document in which it would be saved, so that the same rules check it.
fn document(arguments: &ScheduleArguments, profile: ProfileName) -> Value {
    let mut document = retry_limits(profile, arguments.max_attempts, arguments.ttl);
    if let Some(steps) = &arguments.schedule {
        document.insert("schedule".to_owned(), json!(steps));
    }
    if !arguments.status_rules.is_empty() {
        let rules = arguments.status_rules.iter().map(|rule| (rule.row.clone(), rule.rule.clone()));
        document.insert("statusRules".to_owned(), Value::Object(rules.collect()));
    }
    Value::Object(document)
}

/// What a failure does to the endpoint, and what that does to the delivery.
struct Probation {
    policy: ProbationPolicy,
    durations: Durations,
}

impl Probation {
    /// With the durations that a deployment has by default.
    fn of(delays: bool) -> Self {
        let policy = if delays { ProbationPolicy::Delay } else { ProbationPolicy::EventGrid };
        Self { policy, durations: Durations::default() }
    }

    /// With the deployment's own.
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
    unreachable.into_iter().chain(delayed::warning(rules.policy)).collect()
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

fn result(
    timeline: &Timeline,
    policy: &RetryPolicy,
    responses: &[Response],
    warnings: &[String],
) -> Value {
    let text_of = |position: usize| {
        responses.get(position).or(responses.last()).map_or("200", |response| &response.text)
    };
    let attempts = timeline.attempts.iter().enumerate().map(|(position, attempt)| {
        json!({
            "number": attempt.number,
            "atSeconds": seconds(attempt.at),
            "response": text_of(position),
            "waitBecause": attempt.because,
        })
    });
    let reason = match timeline.end {
        End::Delivered => "Delivered".to_owned(),
        End::Undelivered(reason) => reason.to_string(),
    };
    let mut document = json!({
        "attempts": attempts.collect::<Vec<_>>(),
        "end": {"atSeconds": seconds(timeline.ends_at), "reason": reason},
        "timeToLiveSeconds": u64::from(policy.time_to_live_minutes) * 60,
    });
    if !warnings.is_empty() {
        document["warnings"] = json!(warnings);
    }
    document
}

/// Whole seconds as a whole number.
fn seconds(offset: Duration) -> Value {
    if offset.subsec_millis() == 0 { json!(offset.as_secs()) } else { json!(offset.as_secs_f64()) }
}

fn text(document: &Value) -> String {
    let mut rows = vec![["attempt", "at", "answer", "waited for"].map(str::to_owned)];
    let attempts = document["attempts"].as_array();
    for attempt in attempts.into_iter().flatten() {
        rows.push([
            attempt["number"].to_string(),
            at(&attempt["atSeconds"]),
            output::text_at(attempt, "/response").to_owned(),
            attempt["waitBecause"].as_str().map(because_of).unwrap_or_default().to_owned(),
        ]);
    }
    let (ends, lives) = (&document["end"]["atSeconds"], &document["timeToLiveSeconds"]);
    let late = match ends.as_f64() > lives.as_f64() && document["end"]["reason"] == EXPIRED {
        true => {
            format!(" (its time-to-live ended at {}; this attempt was due after it)", at(lives))
        }
        false => String::new(),
    };
    let end = format!("ends at {}: {}{late}", at(ends), output::text_at(document, "/end/reason"));
    let warnings = document["warnings"].as_array().into_iter().flatten();
    let warnings = warnings.filter_map(Value::as_str).map(|text| format!("\nwarning: {text}"));
    format!("{}\n{end}{}", output::columns(&rows), warnings.collect::<String>())
}

/// The reason that a time-to-live ends by.
const EXPIRED: &str = "TimeToLiveExceeded";

fn at(seconds: &Value) -> String {
    hours(Duration::from_secs_f64(seconds.as_f64().unwrap_or(0.0)))
}

/// An offset as people write it: `0 s`, `12.8 s`, `1 min 30 s`, `1 h 30 min`. Parts of a second are told of
/// less than a minute alone.
pub(crate) fn hours(offset: Duration) -> String {
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

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        arguments: ScheduleArguments,
    }

    fn played(line: &str) -> Value {
        let words = std::iter::once("schedule").chain(line.split_whitespace());
        let arguments = Line::try_parse_from(words).expect("a line").arguments;
        let profile = ProfileName::Basic;
        let policy = resource::read_retry_policy(document(&arguments, profile), profile);
        let policy = policy.expect("in range");
        let rules = Rules { profile, kind: EndpointKind::Webhook, policy: &policy };
        let answers: Vec<_> = arguments.responses.iter().map(|response| response.answer).collect();
        let probation = Probation::of(arguments.delay_on_probation).with(&arguments.probations);
        let timeline = timeline(rules, &probation, &answers, 0.0);
        let warnings = warnings(rules, &probation, &timeline, true);
        result(&timeline, &policy, &arguments.responses, &warnings)
    }

    #[test]
    fn the_documented_example() {
        let document = played("--ttl 30m --max-attempts 10 --responses 500,500,408,500");
        let at: Vec<_> = document["attempts"]
            .as_array()
            .expect("attempts")
            .iter()
            .map(|attempt| (attempt["atSeconds"].clone(), attempt["response"].clone()))
            .collect();
        let want = [(0, "500"), (10, "500"), (30, "408"), (150, "500"), (300, "500"), (600, "500")];
        assert_eq!(at, want.map(|(at, response)| (json!(at), json!(response))));
        assert_eq!(document["end"], json!({"atSeconds": 1800, "reason": "TimeToLiveExceeded"}));
    }

    #[test]
    fn limits_that_can_not_be_reached_are_named() {
        let document = played("--responses 200");
        let warning = document["warnings"][0].as_str().expect("a warning");
        assert!(warning.contains("30 attempts") && warning.contains("room for 11"), "{warning}");
        assert!(played("--schedule 1,2,3 --max-attempts 9").get("warnings").is_none());
        let fewer = played("--max-attempts 9 --ttl 2h --responses 404");
        let warning = fewer["warnings"][0].as_str().expect("a warning");
        let shown = fewer["attempts"].as_array().expect("attempts").len();
        assert!(warning.contains(&format!("({shown} with these answers)")), "{warning}");
    }

    #[test]
    fn a_deployments_own_probation_counts() {
        let second = |line: &str| played(line)["attempts"][1]["atSeconds"].clone();
        assert_eq!(second("--responses 429,200"), json!(10));
        assert_eq!(
            second("--responses 429,200 --probation Busy=40 --probation NotFound=7"),
            json!(40)
        );
        assert_eq!(second("--responses 404,200 --delay-on-probation"), json!(300));
        for wrong in ["Busy", "Busy=-1", "Busy=86401", "Delivered=5", "BadRequest=5", "busy=5"] {
            let line = ["schedule", "--probation", wrong];
            let refused = Line::try_parse_from(line).map(|_| ()).expect_err(wrong).to_string();
            assert!(refused.contains("is no probation"), "{wrong}: {refused}");
        }
    }

    /// Attempts by default are not scolded, but a life that a wait outlasts is said in any case.
    #[test]
    fn a_short_life_is_said_whatever_the_attempts() {
        let profile = ProfileName::Basic;
        let policy = json!({"eventTimeToLiveInMinutes": 60});
        let policy = resource::read_retry_policy(policy, profile).expect("in range");
        let rules = Rules { profile, kind: EndpointKind::Webhook, policy: &policy };
        let probation = Probation::of(false);
        let shown = timeline(rules, &probation, &[], 0.0);
        let told = |names_attempts| warnings(rules, &probation, &shown, names_attempts).join("; ");
        assert!(!told(false).contains("can never be made"), "{}", told(false));
        assert!(told(false).contains("delayed delivery"), "{}", told(false));
        assert!(told(true).contains("can never be made"), "{}", told(true));
    }

    #[test]
    fn every_wait_says_what_for_and_an_end_after_its_time_says_so() {
        let document = played("--ttl 24h --responses 500 --delay-on-probation");
        let told = text(&document);
        assert!(told.contains("the next step of its schedule"), "{told}");
        let delayed =
            played("--schedule 1,2,3,4,5,6,7,8,9,10,11 --max-attempts 12 --delay-on-probation");
        assert!(
            text(&delayed).contains("probation or delayed delivery ends"),
            "{}",
            text(&delayed)
        );
        let late = json!({"attempts": [], "timeToLiveSeconds": 7_200,
            "end": {"atSeconds": 10_800, "reason": "TimeToLiveExceeded"}});
        let told = text(&late);
        assert!(
            told.contains("ends at 3 h: TimeToLiveExceeded (its time-to-live ended at 2 h"),
            "{told}"
        );
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
        let topic = json!({"properties": {"deliveryProfile": "namespace"}});
        let subscription = json!({"properties": {
            "destination": {"endpointType": "SqsQueue"}, "probationPolicy": "Delay",
            "retryPolicy": {"maxDeliveryCount": 3}}});
        let subject = saved(&topic, &subscription);
        assert_eq!(
            (subject.profile, subject.kind),
            (ProfileName::Namespace, EndpointKind::Resource)
        );
        assert!(subject.delays_on_probation);
        assert_eq!(subject.policy, json!({"maxDeliveryCount": 3}));
    }

    #[test]
    fn what_a_saved_policy_has_by_default_is_not_scolded() {
        let topic = json!({"properties": {"deliveryProfile": "basic"}});
        // (attempts that are saved, whether they are too many to be made)
        for (attempts, want) in [(30, false), (29, true), (3, false)] {
            let subscription = json!({"properties": {
                "destination": {"endpointType": "WebHook"},
                "retryPolicy": {"maxDeliveryAttempts": attempts, "eventTimeToLiveInMinutes": 1440}}});
            let document = preview(&topic, &subscription, None, "500").expect("in range");
            assert_eq!(document.get("warnings").is_some(), want, "{attempts}: {document}");
        }
    }

    #[test]
    fn own_rows_and_outcomes() {
        let document = played("--status-rule 404=deadLetter --responses SocketError,404");
        assert_eq!(document["attempts"][1]["atSeconds"], json!(30));
        assert_eq!(document["end"]["reason"], json!("UndeliverableDueToHttpNotFound"));
    }
}
