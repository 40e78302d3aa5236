//! `properties.retryPolicy`: limits, own schedule, own rows of the status table.

use std::collections::BTreeMap;

use gridpost_core::retry::{
    outcome::Outcome,
    policy::{self, StatusRules},
    profile::{ProfileName, Rule},
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::ToSchema;

use crate::{
    document::{At, Code, quoted, read_at},
    schema::stand_in,
};

/// When to try again, and when to end. The topic's delivery profile determines which two limits
/// there are.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RetryPolicy {
    /// Attempts, the first included.
    #[schema(minimum = 1, maximum = 30, default = 30)]
    pub max_delivery_attempts: Option<u32>,
    #[schema(minimum = 1, maximum = 1_440, default = 1_440)]
    pub event_time_to_live_in_minutes: Option<u32>,
    /// Attempts, the first included: of the profile namespace.
    #[schema(minimum = 1, maximum = 10, default = 10)]
    pub max_delivery_count: Option<u32>,
    /// ISO 8601 duration, PT1M to P7D: of the profile namespace.
    pub event_time_to_live: Option<String>,
    /// Offsets from the first attempt in seconds, rising; after the last, its last gap repeats.
    #[schema(value_type = Option<Vec<stand_in::ScheduleStep>>, min_items = 1, max_items = 30)]
    pub schedule: Option<Vec<u32>>,
    /// Own rules: by a status that fails, a class of statuses (4xx) or an outcome.
    #[schema(value_type = Option<BTreeMap<String, StatusRule>>)]
    pub status_rules: Option<BTreeMap<String, Value>>,
}

/// The rule for a failure: the event ends, or is tried again no sooner than this.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(untagged)]
pub enum StatusRule {
    End(EndRule),
    Retry(RetryRule),
}

/// The event ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub enum EndRule {
    DeadLetter,
}

/// The event is tried again.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RetryRule {
    /// 0 to 86400 seconds.
    #[schema(required = true, minimum = 0, maximum = 86_400)]
    pub retry_after_seconds: Option<u32>,
}

impl RetryPolicy {
    /// Returns what is stored of it. Problems have paths below `path`.
    pub(super) fn read(self, profile: ProfileName, at: &mut At<'_>) -> policy::RetryPolicy {
        let mut policy = policy::RetryPolicy::default_of(profile);
        let basic = [
            ("maxDeliveryAttempts", self.max_delivery_attempts.is_some()),
            ("eventTimeToLiveInMinutes", self.event_time_to_live_in_minutes.is_some()),
        ];
        let namespace = [
            ("maxDeliveryCount", self.max_delivery_count.is_some()),
            ("eventTimeToLive", self.event_time_to_live.is_some()),
        ];
        let is_namespace = profile == ProfileName::Namespace;
        let (own, others) = if is_namespace { (namespace, basic) } else { (basic, namespace) };
        for ((theirs, is_given), (ours, _)) in others.into_iter().zip(own) {
            if is_given {
                let rule = format!("does not apply to this topic's delivery profile; write {ours}");
                at.member(theirs).add(Code::UnknownMember, rule);
            }
        }
        if is_namespace {
            policy.max_attempts = self.max_delivery_count.unwrap_or(policy.max_attempts);
            if let Some(text) = self.event_time_to_live {
                let at = &mut at.member("eventTimeToLive");
                let most = policy.time_to_live_minutes;
                policy.time_to_live_minutes = time_to_live(&text, most, at);
            }
        } else {
            policy.max_attempts = self.max_delivery_attempts.unwrap_or(policy.max_attempts);
            policy.time_to_live_minutes =
                self.event_time_to_live_in_minutes.unwrap_or(policy.time_to_live_minutes);
        }
        policy.schedule_s = self.schedule;
        if let Some(steps) = &policy.schedule_s {
            check_schedule(steps, policy.time_to_live_minutes, &mut at.member("schedule"));
        }
        let rows = self.status_rules.unwrap_or_default();
        policy.status_rules = status_rules(rows, &mut at.member("statusRules"));
        policy
    }

    pub(super) fn of(policy: &policy::RetryPolicy, profile: ProfileName) -> Self {
        let attempts = Some(policy.max_attempts);
        let minutes = policy.time_to_live_minutes;
        let is_namespace = profile == ProfileName::Namespace;
        let rules = &policy.status_rules;
        let others = Self {
            schedule: policy.schedule_s.clone(),
            status_rules: (!rules.is_empty()).then(|| rules_of(rules)),
            ..Self::default()
        };
        if is_namespace {
            let event_time_to_live = Some(write_duration(minutes));
            return Self { max_delivery_count: attempts, event_time_to_live, ..others };
        }
        let event_time_to_live_in_minutes = Some(minutes);
        Self { max_delivery_attempts: attempts, event_time_to_live_in_minutes, ..others }
    }
}

fn time_to_live(text: &str, most: u32, at: &mut At<'_>) -> u32 {
    parse_duration(text).filter(|minutes| (1..=most).contains(minutes)).unwrap_or_else(|| {
        let longest = write_duration(most);
        let rule = format!(
            "must be an ISO 8601 duration in whole minutes from PT1M to {longest} (default \
             {longest}), such as PT1H30M, but is {}",
            quoted(text)
        );
        at.add(Code::OutOfRange, rule);
        most
    })
}

/// Reads an ISO 8601 duration of days, hours and minutes, and of no seconds: `P1DT2H30M`,
/// `P1DT0H0M0S`. In minutes.
pub fn parse_duration(text: &str) -> Option<u32> {
    let text = text.strip_prefix('P')?;
    let (days, time) = match text.split_once('T') {
        Some((days, time)) if !time.is_empty() => (days, time),
        Some(_) => return None,
        None if text.is_empty() => return None,
        None => (text, ""),
    };
    let mut minutes: u32 = 0;
    let mut rest = days;
    for (unit, unit_minutes) in [('D', 24 * 60), ('T', 0), ('H', 60), ('M', 1), ('S', 0)] {
        if unit == 'T' {
            // No days may be left when the time begins.
            if !rest.is_empty() {
                return None;
            }
            rest = time;
            continue;
        }
        if let Some((count, after)) = rest.split_once(unit) {
            let of_digits = !count.is_empty() && count.bytes().all(|byte| byte.is_ascii_digit());
            let count: u32 = count.parse().ok().filter(|_| of_digits)?;
            if unit == 'S' && count > 0 {
                return None;
            }
            minutes = minutes.checked_add(count.checked_mul(unit_minutes)?)?;
            rest = after;
        }
    }
    rest.is_empty().then_some(minutes)
}

/// Writes minutes as an ISO 8601 duration: `P1DT2H30M`.
pub fn write_duration(minutes: u32) -> String {
    let (days, hours, rest) = (minutes / (24 * 60), minutes / 60 % 24, minutes % 60);
    let part = |count: u32, unit: char| match count {
        0 => String::new(),
        count => format!("{count}{unit}"),
    };
    let time = part(hours, 'H') + &part(rest, 'M');
    match (days, time.is_empty()) {
        (0, true) => "PT0M".to_owned(),
        (_, true) => format!("P{days}D"),
        _ => format!("P{}T{time}", part(days, 'D')),
    }
}

/// Checks that steps rise, and that none is beyond time-to-live.
fn check_schedule(steps: &[u32], minutes: u32, at: &mut At<'_>) {
    let longest_s = minutes * 60;
    let mut before = None;
    for (index, step) in steps.iter().enumerate() {
        let mut at = at.element(index);
        if *step > longest_s {
            let rule = format!(
                "must be a whole number from 1 to {longest_s} (seconds since the first attempt; the \
                 longest is time-to-live), but is {step}"
            );
            at.add(Code::OutOfRange, rule);
        } else if let Some(before) = before.filter(|before| *before >= step) {
            let rule = format!("must be greater than the step before it, {before}, but is {step}");
            at.invalid(rule);
        }
        before = Some(step);
    }
}

/// The key of a custom row.
enum Key {
    Status(u16),
    Class(u8),
    Outcome(Outcome),
}

fn status_rules(rows: BTreeMap<String, Value>, at: &mut At<'_>) -> StatusRules {
    let mut rules = StatusRules::default();
    for (name, value) in rows {
        let at = &mut at.member(&name);
        let key = match key(&name) {
            Ok(key) => key,
            Err(rule) => {
                at.invalid(rule);
                continue;
            }
        };
        let Some(rule) = rule(&value, at) else { continue };
        match key {
            Key::Status(status) => rules.statuses.insert(status, rule),
            Key::Class(class) => rules.classes.insert(class, rule),
            Key::Outcome(outcome) => rules.outcomes.insert(outcome, rule),
        };
    }
    rules
}

/// Reads a row's name: a status, a class of statuses, or an outcome. Only failures have rules.
fn key(name: &str) -> Result<Key, String> {
    const RULE: &str = "is no row: rows are named by a status that fails (205 to 599), by a class \
                        (2xx to 5xx) or by an outcome (such as SocketError)";
    let digits = name.len() == 3 && name.bytes().all(|byte| byte.is_ascii_digit());
    if digits {
        return match name.parse() {
            Ok(200..=204) => Err(format!("can't have a rule: {name} is a success")),
            Ok(status @ 205..=599) => Ok(Key::Status(status)),
            _ => Err(RULE.to_owned()),
        };
    }
    match name {
        "2xx" => return Ok(Key::Class(2)),
        "3xx" => return Ok(Key::Class(3)),
        "4xx" => return Ok(Key::Class(4)),
        "5xx" => return Ok(Key::Class(5)),
        _ => {}
    }
    match name.parse::<Outcome>() {
        Ok(Outcome::Delivered) => Err("can't have a rule: Delivered is a success".to_owned()),
        Ok(Outcome::Probation) => {
            Err("can't have a rule: Probation is no attempt; write probationPolicy".to_owned())
        }
        Ok(outcome) => Ok(Key::Outcome(outcome)),
        Err(_) => Err(RULE.to_owned()),
    }
}

fn rule(value: &Value, at: &mut At<'_>) -> Option<Rule> {
    const END: &str = "deadLetter";
    const FORM: &str = "must be \"deadLetter\" or {\"retryAfterSeconds\": 0 to 86400}";
    match value {
        Value::Object(_) => {
            let RetryRule { retry_after_seconds } = read_at(value, at);
            retry_after_seconds.map(|min_s| Rule::Retry { min_s })
        }
        Value::String(end) if end.eq_ignore_ascii_case(END) => Some(Rule::End),
        Value::String(other) => {
            at.invalid(format!("{FORM}, but is {}", quoted(other)));
            None
        }
        _ => {
            at.add(Code::WrongType, FORM);
            None
        }
    }
}

fn rules_of(rules: &StatusRules) -> BTreeMap<String, Value> {
    let value = |rule: &Rule| match rule {
        Rule::End => json!("deadLetter"),
        Rule::Retry { min_s } => json!({"retryAfterSeconds": min_s}),
    };
    let statuses = rules.statuses.iter().map(|(status, rule)| (status.to_string(), rule));
    let classes = rules.classes.iter().map(|(class, rule)| (format!("{class}xx"), rule));
    let outcomes = rules.outcomes.iter().map(|(outcome, rule)| (outcome.to_string(), rule));
    let rows = statuses.chain(classes).chain(outcomes);
    rows.map(|(name, rule)| (name, value(rule))).collect()
}
