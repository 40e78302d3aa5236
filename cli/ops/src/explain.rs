//! `gridpost explain`: what became of an event, and what will. Who wants it and who does not, each
//! attempt, and what comes next.

mod dead_letters;
mod found;
#[cfg(any(test, feature = "fixtures"))]
mod testkit;

use std::collections::{BTreeMap, BTreeSet};

use gridpost_core::{name, time::Timestamp};
use serde_json::{Value, json, value::RawValue};

use self::dead_letters::{may_have_dead_letter, verdicts_on_dead_letter};
use self::found::Found;
use crate::{
    attempt_lines::{AttemptLine, AttemptLog},
    failure::Unfinished,
    given::TimeSpan,
    lookup::{if_there, spelled, wait_is_over},
    manage_api::ManageApi,
    output::{self, text_at},
    schedule::hours,
    subscription::pause,
    target::{Target, before},
};

/// Which event.
#[derive(Clone, Debug)]
pub struct Question {
    pub id: String,
    pub topic: String,
    /// In how long a time attempts are looked for.
    pub since: TimeSpan,
}

/// Finds out all that is known of an event; as it was published, where that was given.
pub async fn look_up(
    target: &Target,
    mut arguments: Question,
    event: Option<Box<RawValue>>,
) -> anyhow::Result<Told> {
    let api = target.manage_api().await?;
    arguments.topic = spelled(&api, &arguments.topic).await;
    let log = AttemptLog::connect(target).await?;
    let now = target.now().await?;
    let since = before(now, arguments.since);
    let lines = log.read(since.as_millis(), Some(&arguments.id)).await?;
    let deliveries = deliveries(&api, &arguments, lines).await?;
    let subscriptions = api.subscriptions(&arguments.topic).await?;
    let names: Vec<_> = subscriptions.iter().map(|one| text_at(one, "/name").to_owned()).collect();
    let event = event.map(one_event);
    let given_id = event.as_deref().and_then(id_of);
    let (verdicts, notes) = match event {
        Some(event) => (Some(api.explain(&arguments.topic, &event).await?), Vec::new()),
        None => {
            let of = may_have_dead_letter(&deliveries, &subscriptions);
            verdicts_on_dead_letter(&api, &arguments, since, of).await?
        }
    };
    let may_wait = may_wait(&names, &deliveries, verdicts.as_ref());
    let holding = holding_back(&api, &arguments.topic, may_wait, now).await?;
    let filters = filters(&subscriptions);
    let logs_successes = target.is_dev();
    Ok(Told {
        arguments,
        given_id,
        verdicts,
        notes,
        deliveries,
        names,
        filters,
        holding,
        logs_successes,
    })
}

/// What each event subscription wants, as far as it chooses, and whether its state lets it have
/// any.
fn filters(subscriptions: &[Value]) -> BTreeMap<String, String> {
    let chosen = |subscription: &Value| {
        let filter = subscription.pointer("/properties/filter").and_then(Value::as_object);
        let is_set = |value: &Value| match value {
            Value::Null | Value::Bool(false) => false,
            Value::String(text) => !text.is_empty(),
            Value::Array(elements) => !elements.is_empty() && *value != json!(["All"]),
            _ => true,
        };
        let parts = filter.into_iter().flatten().filter(|(_, value)| is_set(value));
        let parts: Vec<_> = parts.map(|(name, value)| format!("{name} {value}")).collect();
        let wants =
            if parts.is_empty() { "wants every event".to_owned() } else { parts.join(", ") };
        match text_at(subscription, "/properties/provisioningState") {
            "Succeeded" | "-" => wants,
            state => format!("{wants}, but gets none: it is {state}"),
        }
    };
    let one = |it: &Value| (text_at(it, "/name").to_owned(), chosen(it));
    subscriptions.iter().map(one).collect()
}

/// All that is to be told.
pub struct Told {
    arguments: Question,
    given_id: Option<String>,
    verdicts: Option<Value>,
    /// Why dead letters that may have the event could not be looked into.
    notes: Vec<String>,
    deliveries: Vec<Found>,
    names: Vec<String>,
    filters: BTreeMap<String, String>,
    /// Event subscriptions of which no delivery is known and whose endpoints get nothing at present, with
    /// these endpoints' healths.
    holding: Vec<(String, Value)>,
    /// Whether attempts that succeed at once are logged for certain: `gridpost dev` logs all.
    logs_successes: bool,
}

/// Event subscriptions that may have the event without a sign of it: no delivery is known, and
/// nothing says that they do not want it.
fn may_wait<'a>(
    names: &'a [String],
    deliveries: &[Found],
    verdicts: Option<&Value>,
) -> Vec<&'a str> {
    let verdicts = verdicts.and_then(|verdicts| verdicts["value"].as_array());
    let is_refused = |name: &str| {
        let mut all = verdicts.into_iter().flatten();
        all.any(|one| one["eventSubscription"] == name && one["matches"] == false)
    };
    let is_known = |name: &str| deliveries.iter().any(|found| name::is_same(&found.name, name));
    let names = names.iter().map(String::as_str);
    names.filter(|name| !is_known(name) && !is_refused(name)).collect()
}

/// Those of them whose endpoints get nothing at present: what was held back before its first
/// attempt is in no log and has no state.
async fn holding_back(
    api: &ManageApi,
    topic: &str,
    names: Vec<&str>,
    now: Timestamp,
) -> anyhow::Result<Vec<(String, Value)>> {
    let mut found = Vec::new();
    for name in names {
        // 404: it was deleted just now.
        let health = if_there(api.health(topic, name).await)?;
        let health = health.filter(|health| is_held_back(health, now));
        found.extend(health.map(|health| (name.to_owned(), health)));
    }
    Ok(found)
}

/// Whether new events wait for a time to come. Once it is past, the next one is the probe.
fn is_held_back(health: &Value, now: Timestamp) -> bool {
    match text_at(health, "/newEvents") {
        "Held" => true,
        "Waits" => !wait_is_over(health, now),
        _ => false,
    }
}

/// The event of a file, which may be a publish with it alone.
fn one_event(events: Box<RawValue>) -> Box<RawValue> {
    match serde_json::from_str::<[Box<RawValue>; 1]>(events.get()) {
        Ok([event]) => event,
        Err(_) => events,
    }
}

/// An event's `id`, in the schemas of Event Grid and CloudEvents.
fn id_of(event: &RawValue) -> Option<String> {
    let event: Value = serde_json::from_str(event.get()).ok()?;
    event.get("id")?.as_str().map(str::to_owned)
}

/// The deliveries that lines name, with their states where they have failed.
async fn deliveries(
    api: &ManageApi,
    arguments: &Question,
    lines: Vec<AttemptLine>,
) -> anyhow::Result<Vec<Found>> {
    let mut found = Vec::new();
    for ((name, id), lines) in by_delivery(arguments, lines) {
        let state = if_there(api.delivery(&arguments.topic, &name, &id).await)?;
        found.push(Found { id, name, state, lines });
    }
    // A redrive is a delivery of its own: it comes after the one whose dead letter it sends.
    found.sort_by_key(|one| (one.name.clone(), one.lines.first().map(|line| line.at_ms)));
    Ok(found)
}

/// Lines about the event by event subscription and delivery.
fn by_delivery(
    arguments: &Question,
    lines: Vec<AttemptLine>,
) -> BTreeMap<(String, String), Vec<AttemptLine>> {
    let mut found: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for line in lines {
        let key = match (line.subscription(), line.text("delivery.id")) {
            (Some((topic, name)), Some(id))
                if name::is_same(topic, &arguments.topic) && line.has_event(&arguments.id) =>
            {
                (name.to_owned(), id.to_owned())
            }
            _ => continue,
        };
        found.entry(key).or_default().push(line);
    }
    found
}

impl Told {
    /// What the event subscriptions want that no log line tells of, by their names.
    pub fn others(&self) -> impl Iterator<Item = (&str, &str)> {
        let is_known =
            |name: &str| self.deliveries.iter().any(|found| name::is_same(&found.name, name));
        let others = self.names.iter().filter(move |name| !is_known(name));
        others.filter_map(|name| Some((name.as_str(), self.filters.get(name)?.as_str())))
    }

    /// Why dead letters that may have the event could not be looked into.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// An event of which nothing at all is known may be under way, or delivered without a log line, or a
    /// misspelt one: neither done nor failed.
    pub fn outcome(&self) -> anyhow::Result<()> {
        let Self { arguments: Question { id, topic, .. }, verdicts, deliveries, .. } = self;
        if verdicts.is_some() || !deliveries.is_empty() {
            return Ok(());
        }
        let is_paused = |(_, health): &&(String, Value)| health["pause"].is_object();
        let paused = self.holding.iter().filter(is_paused).map(|(name, _)| name.as_str());
        let paused = paused.collect::<Vec<_>>().join(", ");
        if !paused.is_empty() {
            let message = format!(
                "no log line tells of an event `{id}` of topic {topic} so far: it may be held by a pause \
                 ({paused}), and what a pause holds has no line before its first attempt. To see which event \
                 subscriptions want it, give the event (--event FILE). If those don't, check the id, or look \
                 further back (--since 7d)"
            );
            return Err(Unfinished(message).into());
        }
        let may_be = match self.logs_successes {
            true => "it may wait for its first attempt. If it can't",
            false => {
                "it may wait for its first attempt, or have been delivered by it, which is logged only \
                 where log_successful_attempts is set. If neither can be"
            }
        };
        let message = format!(
            "nothing is known of an event `{id}` of topic {topic} so far: {may_be}, check the id, look \
             further back (--since 7d), or give the event (--event FILE)"
        );
        Err(Unfinished(message).into())
    }

    /// It as JSON.
    pub fn document(&self) -> Value {
        let delivery = |found: &Found| {
            let lines: Vec<_> = found.lines.iter().map(|line| &line.line).collect();
            json!({
                "id": found.id, "eventSubscription": found.name, "state": found.state, "log": lines,
                "isDivided": found.is_divided(), "eventStanding": found.event_standing(),
            })
        };
        let holding =
            |(name, health): &(String, Value)| json!({"eventSubscription": name, "health": health});
        json!({
            "event": self.arguments.id,
            "topic": self.arguments.topic,
            "givenEventId": self.given_id,
            "verdicts": self.verdicts.as_ref().map(|verdicts| &verdicts["value"]),
            "notes": self.notes,
            "deliveries": self.deliveries.iter().map(delivery).collect::<Value>(),
            "holdingBack": self.holding.iter().map(holding).collect::<Value>(),
        })
    }

    pub fn text(&self) -> String {
        let Self { arguments, verdicts, deliveries, holding, logs_successes, .. } = self;
        let mut text = format!("event {} of topic {}\n\n", arguments.id, arguments.topic);
        if let Some(given) = self.given_id.as_ref().filter(|given| **given != arguments.id) {
            text.push_str(&format!(
                "! the event that was given has the id {given}: what event subscriptions make of an event \
                 is told of that one\n\n"
            ));
        }
        for note in &self.notes {
            text.push_str(&format!("! {note}\n\n"));
        }
        match verdicts {
            Some(verdicts) => text.push_str(&verdict_table(verdicts)),
            None => text.push_str(&self.without_verdicts()),
        }
        for (index, found) in deliveries.iter().enumerate() {
            let before = index.checked_sub(1).map(|index| &deliveries[index]);
            let again = found.redriven(before).unwrap_or_default();
            text.push_str(&format!("\n\n{}: {again}{}", found.name, found.told()));
        }
        for (name, health) in holding {
            text.push_str(&format!("\n\n{name}: {}", held_back(health)));
        }
        if deliveries.is_empty() {
            let why = if *logs_successes { "" } else { SUCCESSES };
            text.push_str(&format!(
                "\n\nNo attempt for it is in the logs of the last {}. {why}{OWN_SCHEMA}",
                hours(arguments.since.0)
            ));
        }
        text
    }

    /// What is known without the event itself.
    fn without_verdicts(&self) -> String {
        let Self { arguments, notes, deliveries, names, filters, .. } = self;
        let matched: BTreeSet<_> = deliveries.iter().map(|found| found.name.as_str()).collect();
        let others: Vec<_> =
            names.iter().map(String::as_str).filter(|name| !matched.contains(name)).collect();
        let list = |names: Vec<&str>| match names.is_empty() {
            true => "(none)".to_owned(),
            false => names.join(", "),
        };
        let wants = |name: &&str| Some(format!("\n  {name}: {}", filters.get(*name)?));
        let wants: String = others.iter().filter_map(wants).collect();
        let read = if notes.is_empty() { "" } else { " that can be read" };
        format!(
            "matched, by what was logged:  {}\nNo log entries for:           {}{wants}\n(what they want is as \
             their filters are now. No dead letter{read} has the event: give it by --event FILE to see which \
             event subscriptions of {} do not want it, and why)",
            list(matched.into_iter().collect()),
            list(others.clone()),
            arguments.topic
        )
    }
}

/// Why an event subscription attempts nothing, and until when.
fn held_back(health: &Value) -> String {
    let at = |pointer| text_at(health, pointer);
    match health.get("pause") {
        Some(pause) => format!(
            "paused {}. If it wants the event, the event waits until it is resumed (`gridpost subscription \
             resume`), or until {}, when the pause ends by itself{}.",
            pause::told(pause),
            at("/pause/until"),
            ends_meanwhile(pause),
        ),
        None => format!(
            "attempts nothing until {} ({}, {}). If it wants the event, the event waits.",
            at("/until"),
            at("/state"),
            at("/cause/outcome"),
        ),
    }
}

/// What else may become of an event that a pause holds.
pub fn ends_meanwhile(pause: &Value) -> &'static str {
    match pause["timeToLiveRuns"] == json!(true) {
        true => ". The event ends undelivered if its time-to-live is over before",
        false => "",
    }
}

const SUCCESSES: &str = "\
Attempts that succeed at once are logged where the\ndeployment's Terraform variable log_successful_attempts says \
so. ";

const OWN_SCHEMA: &str = "An event of a schema of your own has no id there.";

fn verdict_table(verdicts: &Value) -> String {
    let mut rows = vec![["EVENT SUBSCRIPTION", "MATCHES", "WHY NOT"].map(str::to_owned)];
    for verdict in verdicts["value"].as_array().into_iter().flatten() {
        let matches = if verdict["matches"] == json!(true) { "yes" } else { "no" };
        let mut why: Vec<_> = match text_at(verdict, "/state") {
            "Active" => Vec::new(),
            state => vec![format!("it is {state}")],
        };
        let part =
            |part: &Value| format!("{}: {}", text_at(part, "/path"), text_at(part, "/message"));
        why.extend(verdict["refusedBy"].as_array().into_iter().flatten().map(part));
        let mut why = why.into_iter();
        let name = text_at(verdict, "/eventSubscription").to_owned();
        rows.push([name, matches.to_owned(), why.next().unwrap_or_default()]);
        rows.extend(why.map(|why| [String::new(), String::new(), why]));
    }
    output::columns(&rows)
}

#[cfg(test)]
mod tests;
