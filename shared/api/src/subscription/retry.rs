//! `properties.retryPolicy`: limits, own schedule, own rows of the status table.

use std::ops::RangeInclusive;

use gridpost_core::retry::{
    outcome::Outcome,
    policy::{RetryPolicy, StatusRules},
    profile::{ProfileName, Rule},
};
use serde_json::{Map, Value, json};

use crate::document::{Code, Object, Problems, quoted, whole};

/// The number of steps of a custom schedule.
const STEPS: RangeInclusive<usize> = 1..=30;

/// The longest wait of a custom row: a day.
const RETRY_AFTER_S_MAX: u32 = 86_400;

/// The names of the limits for profiles of the basic tier.
const BASIC: [&str; 2] = ["maxDeliveryAttempts", "eventTimeToLiveInMinutes"];

/// The names of the limits for the namespace profile.
const NAMESPACE: [&str; 2] = ["maxDeliveryCount", "eventTimeToLive"];

pub(super) fn read(
    properties: &mut Object<'_>,
    profile: ProfileName,
    problems: &mut Problems,
) -> RetryPolicy {
    match properties.object("retryPolicy", problems) {
        Some(given) => read_members(given, profile, problems),
        None => RetryPolicy::default_of(profile),
    }
}

/// Reads the members of a retry policy, and finishes the object that holds them.
pub(super) fn read_members(
    mut given: Object<'_>,
    profile: ProfileName,
    problems: &mut Problems,
) -> RetryPolicy {
    let mut policy = RetryPolicy::default_of(profile);
    let (names, other) = match profile {
        ProfileName::Namespace => (NAMESPACE, BASIC),
        ProfileName::Basic | ProfileName::Basic2021 => (BASIC, NAMESPACE),
    };
    for (theirs, ours) in other.iter().zip(names) {
        if given.has(theirs) {
            let rule = format!("does not apply to this topic's delivery profile; write {ours}");
            problems.add(Code::UnknownMember, given.path_of(theirs), rule);
        }
    }
    given.ignore(&other);
    let [attempts, time_to_live] = names;
    policy.max_attempts =
        given.whole(attempts, 1..=policy.max_attempts, policy.max_attempts, problems);
    policy.time_to_live_minutes = match profile {
        ProfileName::Namespace => duration(&mut given, time_to_live, profile, problems),
        ProfileName::Basic | ProfileName::Basic2021 => {
            let most = policy.time_to_live_minutes;
            given.whole(time_to_live, 1..=most, most, problems)
        }
    };
    policy.schedule_s = schedule(&mut given, policy.time_to_live_minutes, problems);
    policy.status_rules = status_rules(&mut given, problems);
    given.finish(problems);
    policy
}

pub(super) fn write(policy: &RetryPolicy, profile: ProfileName) -> Value {
    let minutes = policy.time_to_live_minutes;
    let (names, time_to_live) = match profile {
        ProfileName::Namespace => (NAMESPACE, json!(write_duration(minutes))),
        ProfileName::Basic | ProfileName::Basic2021 => (BASIC, json!(minutes)),
    };
    let mut members = Map::new();
    members.insert(names[0].to_owned(), json!(policy.max_attempts));
    members.insert(names[1].to_owned(), time_to_live);
    if let Some(steps) = &policy.schedule_s {
        members.insert("schedule".to_owned(), json!(steps));
    }
    if !policy.status_rules.is_empty() {
        members.insert("statusRules".to_owned(), write_rules(&policy.status_rules));
    }
    Value::Object(members)
}

fn duration(
    given: &mut Object<'_>,
    name: &'static str,
    profile: ProfileName,
    problems: &mut Problems,
) -> u32 {
    let most = profile.profile().time_to_live_minutes_max;
    let Some(text) = given.text(name, problems) else { return most };
    match parse_duration(text).filter(|minutes| (1..=most).contains(minutes)) {
        Some(minutes) => minutes,
        None => {
            let longest = write_duration(most);
            let rule = format!(
                "must be an ISO 8601 duration in whole minutes from PT1M to {longest} (default \
                 {longest}), such as PT1H30M, but is {}",
                quoted(text)
            );
            problems.add(Code::OutOfRange, given.path_of(name), rule);
            most
        }
    }
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

/// Reads a custom schedule: 1 to 30 offsets in seconds, ascending, none beyond time-to-live.
fn schedule(
    given: &mut Object<'_>,
    time_to_live_minutes: u32,
    problems: &mut Problems,
) -> Option<Vec<u32>> {
    const NAME: &str = "schedule";
    let list_path = given.path_of(NAME);
    let elements = given.list(NAME, problems)?;
    if !STEPS.contains(&elements.len()) {
        let rule = format!(
            "must have 1 to 30 steps, offsets from the first attempt in seconds (default: the \
             delivery profile's), but has {}",
            elements.len()
        );
        problems.add(Code::OutOfRange, list_path, rule);
        return None;
    }
    let longest_s = time_to_live_minutes * 60;
    let note = " (seconds since the first attempt; the longest is time-to-live)";
    let mut steps: Vec<u32> = Vec::with_capacity(elements.len());
    for (path, value) in elements {
        let Some(step) = whole(value, &path, 1..=longest_s, note, problems) else { continue };
        if let Some(before) = steps.last().filter(|before| **before >= step) {
            let rule = format!("must be greater than the step before it, {before}, but is {step}");
            problems.add(Code::InvalidValue, path, rule);
        }
        steps.push(step);
    }
    Some(steps)
}

/// The key of a custom row.
enum Key {
    Status(u16),
    Class(u8),
    Outcome(Outcome),
}

fn status_rules(given: &mut Object<'_>, problems: &mut Problems) -> StatusRules {
    let mut rules = StatusRules::default();
    let Some(rows) = given.object("statusRules", problems) else { return rules };
    for (name, path, value) in rows.entries() {
        let key = match key(name) {
            Ok(key) => key,
            Err(rule) => {
                problems.add(Code::InvalidValue, path, rule);
                continue;
            }
        };
        let Some(rule) = rule(value, &path, problems) else { continue };
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

fn rule(value: &Value, path: &str, problems: &mut Problems) -> Option<Rule> {
    const END: &str = "deadLetter";
    const AFTER: &str = "retryAfterSeconds";
    const FORM: &str = "must be \"deadLetter\" or {\"retryAfterSeconds\": 0 to 86400}";
    match value {
        Value::Object(_) => {
            let mut row = Object::at(path.to_owned(), value, problems)?;
            let seconds = row.required(AFTER, "0 to 86400 seconds", problems);
            let at = row.path_of(AFTER);
            row.finish(problems);
            let min_s = whole(seconds?, &at, 0..=RETRY_AFTER_S_MAX, " seconds", problems)?;
            Some(Rule::Retry { min_s })
        }
        Value::String(end) if end.eq_ignore_ascii_case(END) => Some(Rule::End),
        Value::String(other) => {
            problems.add(Code::InvalidValue, path, format!("{FORM}, but is {}", quoted(other)));
            None
        }
        _ => {
            problems.add(Code::WrongType, path, FORM);
            None
        }
    }
}

fn write_rules(rules: &StatusRules) -> Value {
    let mut rows = Map::new();
    let mut write = |name: String, rule: &Rule| {
        let rule = match rule {
            Rule::End => json!("deadLetter"),
            Rule::Retry { min_s } => json!({"retryAfterSeconds": min_s}),
        };
        rows.insert(name, rule);
    };
    for (status, rule) in &rules.statuses {
        write(status.to_string(), rule);
    }
    for (class, rule) in &rules.classes {
        write(format!("{class}xx"), rule);
    }
    for (outcome, rule) in &rules.outcomes {
        write(outcome.to_string(), rule);
    }
    Value::Object(rows)
}
