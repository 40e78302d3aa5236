//! `gridpost explain`: what became of an event, and what will. Who wants it and who does not, each
//! attempt, and what comes next.

mod delivery;
#[cfg(any(test, feature = "fixtures"))]
mod testkit;

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Context;
use futures::stream::{self, StreamExt, TryStreamExt};
use gridpost_api::{
    health::{Health, NamedHealth, NewEvents},
    journal::{
        JournalEntry, JournalQuery,
        query::{AttemptsQuery, JournalQueryInput},
    },
    requests::PurgeDeadLettersInput,
    subscription::EventSubscription,
    trial::{ExplainedSubscription, SubscriptionState},
};
use gridpost_core::{name, subscription::ProvisioningState, time::Timestamp};
use serde::Serialize;
use serde_json::{Value, value::RawValue};

pub use self::delivery::EventDelivery;
use crate::{
    attempt_lines::AttemptLine,
    failure::{Refusal, Unfinished, chain},
    given::TimeSpan,
    journal::Journal,
    lookup::{if_there, named, spelled, wait_is_over},
    manage_api::ManageApi,
    output::{self, or_dash},
    schedule::hours,
    subscription::pause,
    target::{Target, before},
};

/// The event to explain.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Question {
    #[serde(rename = "event")]
    pub id: String,
    pub topic: String,
    /// How far back attempts are looked for.
    #[serde(skip)]
    pub since: TimeSpan,
    /// The most that the journal's answer may cost, in U.S. dollars; $0.10 by default.
    #[serde(skip)]
    pub max_dollars: Option<f64>,
    #[serde(skip)]
    pub budget: Budget,
}

/// The most that is read to explain an event; without bounds by default.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    /// Entries of the journal, about.
    pub entries: usize,
    pub topics: usize,
    pub deliveries: usize,
    /// Requests for dead letters.
    pub letter_pages: usize,
}

impl Default for Budget {
    fn default() -> Self {
        let most = usize::MAX;
        Self { entries: most, topics: most, deliveries: most, letter_pages: most }
    }
}

impl Budget {
    /// Returns the part of each of so many topics.
    fn shared(self, topics: usize) -> Self {
        let part = |of: usize| of.div_ceil(topics.max(1));
        let (deliveries, letter_pages) = (part(self.deliveries), part(self.letter_pages));
        Self { deliveries, letter_pages, ..self }
    }
}

/// All that is known of an event; `--json` prints it.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    #[serde(flatten)]
    question: Question,
    given_event_id: Option<String>,
    pub verdicts: Option<Vec<ExplainedSubscription>>,
    /// The event that the verdicts are about.
    #[serde(skip)]
    pub event: Option<EventText>,
    /// Reasons why not everything that may be about the event was looked at.
    notes: Vec<String>,
    pub deliveries: Vec<EventDelivery>,
    pub holding_back: Vec<HoldingBack>,
    /// All of the topic.
    #[serde(skip)]
    pub subscriptions: Vec<EventSubscription>,
    /// The gaps of the journal's answer, in words.
    #[serde(rename = "leavesOut")]
    pub left_out: Vec<String>,
    /// Whether successes may be among them.
    #[serde(skip)]
    lacks_successes: bool,
}

/// An event as JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventText {
    pub json: String,
    /// The event subscription whose dead letter has it; `None` if it was given.
    pub letter_of: Option<String>,
}

/// An event subscription of which no delivery is known and whose endpoint gets nothing at present.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HoldingBack {
    pub event_subscription: String,
    pub health: Health,
}

/// Finds out all that is known of an event; `event` is the event as it was published, if that was given.
pub async fn look_up(
    target: &Target,
    mut question: Question,
    event: Option<Box<RawValue>>,
) -> anyhow::Result<Explanation> {
    let api = target.manage_api().await?;
    question.topic = spelled(&api, &question.topic).await;
    let (now, mut answer) = asked(target, &api, &question).await?;
    let entries = answer.attempts.take().unwrap_or_default();
    of_topic(&api, question, (now, &answer, entries), event).await
}

/// Healths that are read each by its own request; more of them a page at a time.
const ONE_BY_ONE_MAX: usize = 4;

/// Topics that are looked into, and deliveries that are read, at once.
const AT_ONCE: usize = 4;

/// The same in all topics: those that the journal names, else all of them. Returns those where anything is
/// known, and those that can't be looked into.
pub async fn look_everywhere(
    target: &Target,
    question: Question,
) -> anyhow::Result<Vec<(String, anyhow::Result<Explanation>)>> {
    let api = target.manage_api().await?;
    let (now, mut answer) = asked(target, &api, &question).await?;
    let mut topics: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for entry in answer.attempts.take().unwrap_or_default() {
        topics.entry(entry.topic.clone()).or_default().push(entry);
    }
    // A dead letter may have an event that no entry names.
    if topics.is_empty() {
        topics = api.topics().await?.into_iter().map(|topic| (topic.name, Vec::new())).collect();
    }
    let (all, most) = (topics.len(), question.budget.topics);
    let budget = question.budget.shared(all.min(most));
    let looks = topics.into_iter().take(most).map(|(topic, entries)| {
        let question = Question { topic: topic.clone(), budget, ..question.clone() };
        let (api, answer) = (&api, &answer);
        async move { (topic, of_topic(api, question, (now, answer, entries), None).await) }
    });
    let mut found: Vec<_> = stream::iter(looks).buffered(AT_ONCE).collect().await;
    let is_nothing = |told: &anyhow::Result<Explanation>| {
        told.as_ref().is_ok_and(|told| told.outcome().is_err())
    };
    let mut notes = Vec::new();
    if all > most {
        notes.push(format!("only {most} of {all} topics were looked at: name the event's"));
    }
    let told = found.iter_mut().filter_map(|(_, told)| told.as_mut().ok());
    told.filter(|told| told.outcome().is_err()).for_each(|told| notes.append(&mut told.notes));
    // Where nothing is known at all, one topic says what the journal lacks.
    match found.iter().all(|(_, told)| is_nothing(told)) {
        true => found.truncate(1),
        false => found.retain(|(_, told)| !is_nothing(told)),
    }
    if let Some(first) = found.iter_mut().find_map(|(_, told)| told.as_mut().ok()) {
        first.notes.extend(notes);
    }
    Ok(found)
}

async fn asked(
    target: &Target,
    api: &ManageApi,
    question: &Question,
) -> anyhow::Result<(Timestamp, JournalQuery)> {
    let now = target.now().await?;
    let journal = Journal::of(api.clone(), question.max_dollars);
    let since = before(now, question.since);
    Ok((now, journal.ask(question.of_the_journal(since), question.budget.entries).await?))
}

async fn of_topic(
    api: &ManageApi,
    question: Question,
    (now, answer, entries): (Timestamp, &JournalQuery, Vec<JournalEntry>),
    given: Option<Box<RawValue>>,
) -> anyhow::Result<Explanation> {
    let since = before(now, question.since);
    let (deliveries, is_whole) = read_deliveries(api, &question, entries).await?;
    let subscriptions = api.subscriptions(&question.topic).await;
    let subscriptions = match deliveries.is_empty() {
        true => named(api, (&question.topic, None), subscriptions).await?,
        // The journal keeps the history of a deleted topic.
        false => if_there(subscriptions)?.unwrap_or_default(),
    };
    let given = given.map(one_event);
    let given_event_id = given.as_deref().and_then(id_of);
    let (known, mut notes) = match given {
        Some(event) => {
            let explained = api.explain(&question.topic, &event).await;
            let explained = named(api, (&question.topic, None), explained).await?;
            let event = EventText { json: event.get().to_owned(), letter_of: None };
            (Some((explained.value, event)), Vec::new())
        }
        None => {
            let names = may_have_dead_letter(&deliveries, &subscriptions);
            verdicts_on_dead_letter(api, &question, since, names).await?
        }
    };
    if !is_whole || answer.next_link.is_some() {
        notes.push("it has more attempts than were looked at: the newest".to_owned());
    }
    let (verdicts, event) = known.unzip();
    let names = subscriptions.iter().map(|one| one.name.as_str());
    let may_wait = may_wait(names, &deliveries, verdicts.as_deref());
    let holding_back = read_holding_back(api, &question.topic, may_wait, now).await?;
    Ok(Explanation {
        question,
        given_event_id,
        verdicts,
        event,
        notes,
        deliveries,
        holding_back,
        subscriptions,
        left_out: answer.gaps(),
        lacks_successes: !answer.leaves_out.is_empty(),
    })
}

impl Question {
    fn of_the_journal(&self, since: Timestamp) -> JournalQueryInput {
        let attempts = AttemptsQuery {
            topic: Some(self.topic.clone()).filter(|topic| !topic.is_empty()),
            event_id: Some(self.id.clone()),
            from: Some(since.into()),
            ..AttemptsQuery::default()
        };
        JournalQueryInput { attempts: Some(attempts), ..JournalQueryInput::default() }
    }
}

/// Describes what an event subscription wants, as far as it chooses, and whether its state lets it have
/// any.
fn describe_wants(subscription: &EventSubscription) -> String {
    let properties = &subscription.properties;
    let filter = serde_json::to_value(&properties.settings.filter).unwrap_or_default();
    let is_set = |value: &Value| match value {
        Value::Null | Value::Bool(false) => false,
        Value::String(text) => !text.is_empty(),
        Value::Array(elements) => !elements.is_empty() && *elements != ["All"],
        _ => true,
    };
    let parts = filter.as_object().into_iter().flatten().filter(|(_, value)| is_set(value));
    let parts: Vec<_> = parts.map(|(name, value)| format!("{name} {value}")).collect();
    let wants = if parts.is_empty() { "wants every event".to_owned() } else { parts.join(", ") };
    match properties.provisioning_state {
        ProvisioningState::Succeeded => wants,
        state => format!("{wants}, but gets none: it is {state}"),
    }
}

fn is_known(name: &str, deliveries: &[EventDelivery]) -> bool {
    deliveries.iter().any(|delivery| name::is_same(&delivery.name, name))
}

/// Returns event subscriptions that may have the event without a sign of it: no delivery is known, and
/// nothing says that they do not want it.
fn may_wait<'a>(
    names: impl Iterator<Item = &'a str>,
    deliveries: &[EventDelivery],
    verdicts: Option<&[ExplainedSubscription]>,
) -> Vec<&'a str> {
    let is_refused = |name: &str| {
        let mut all = verdicts.into_iter().flatten();
        all.any(|one| one.event_subscription == name && !one.verdict.matches)
    };
    names.filter(|name| !is_known(name, deliveries) && !is_refused(name)).collect()
}

/// Reads which of them get nothing at present: an event that is held back before its first attempt is in no
/// log and has no state.
async fn read_holding_back(
    api: &ManageApi,
    topic: &str,
    names: Vec<&str>,
    now: Timestamp,
) -> anyhow::Result<Vec<HoldingBack>> {
    let mut healths = Vec::new();
    if names.len() > ONE_BY_ONE_MAX {
        healths = if_there(api.healths(topic).await)?.unwrap_or_default();
        healths.retain(|one| names.contains(&one.name.as_str()));
    } else {
        for name in names {
            // 404: it was deleted just now.
            let health = if_there(api.health(topic, name).await)?;
            healths.extend(health.map(|health| NamedHealth { name: name.to_owned(), health }));
        }
    }
    let held = healths.into_iter().filter(|one| is_held_back(&one.health, now));
    Ok(held.map(|one| HoldingBack { event_subscription: one.name, health: one.health }).collect())
}

/// Whether new events wait for a time to come. Once it is past, the next one is the probe.
fn is_held_back(health: &Health, now: Timestamp) -> bool {
    match health.new_events {
        NewEvents::Held => true,
        NewEvents::Waits => !wait_is_over(health, now),
        _ => false,
    }
}

/// Returns the event of a file, which may be a publish with it alone.
fn one_event(events: Box<RawValue>) -> Box<RawValue> {
    match serde_json::from_str::<[Box<RawValue>; 1]>(events.get()) {
        Ok([event]) => event,
        Err(_) => events,
    }
}

/// Returns an event's `id`, in the schemas of Event Grid and CloudEvents.
fn id_of(event: &RawValue) -> Option<String> {
    let event: Value = serde_json::from_str(event.get()).ok()?;
    event.get("id")?.as_str().map(str::to_owned)
}

/// Reads the states of deliveries that entries name, the newest first; one that has not failed has none. Returns
/// whether these are all.
async fn read_deliveries(
    api: &ManageApi,
    question: &Question,
    entries: Vec<JournalEntry>,
) -> anyhow::Result<(Vec<EventDelivery>, bool)> {
    let mut all: BTreeMap<_, Vec<AttemptLine>> = BTreeMap::new();
    let mut is_whole = true;
    for entry in entries {
        let key = (entry.event_subscription.clone(), entry.delivery_id.to_string());
        if all.len() < question.budget.deliveries || all.contains_key(&key) {
            all.entry(key).or_default().push(AttemptLine(entry));
        } else {
            is_whole = false;
        }
    }
    let reads = all.into_iter().map(async |((name, id), mut lines)| {
        lines.reverse();
        let state = if_there(api.delivery(&question.topic, &name, &id).await)?;
        anyhow::Ok(EventDelivery::new(id, name, state, lines))
    });
    let mut found: Vec<_> = stream::iter(reads).buffered(AT_ONCE).try_collect().await?;
    // A redrive is a delivery of its own: it comes after the one whose dead letter it sends.
    found.sort_by_key(|one| (one.name.clone(), one.log.first().map(|line| line.time)));
    Ok((found, is_whole))
}

/// Returns event subscriptions whose dead letters may have the event: those that it was seen to end in, or,
/// if no entry names it, all that have a destination.
fn may_have_dead_letter<'a>(
    deliveries: &'a [EventDelivery],
    subscriptions: &'a [EventSubscription],
) -> BTreeSet<&'a str> {
    if !deliveries.is_empty() {
        let ended = deliveries.iter().filter(|delivery| delivery.has_ended());
        return ended.map(|delivery| delivery.name.as_str()).collect();
    }
    let stores =
        |one: &&EventSubscription| one.properties.settings.dead_letter_destination.is_some();
    subscriptions.iter().filter(stores).map(|one| one.name.as_str()).collect()
}

/// The verdicts on an event, and the event.
type Known = (Vec<ExplainedSubscription>, EventText);

/// Explains the event as a dead letter has it, if one has it in the schema in which it was published. Returns
/// a note of each event subscription whose dead letters were refused until then; the others are still read.
async fn verdicts_on_dead_letter(
    api: &ManageApi,
    question: &Question,
    since: Timestamp,
    names: BTreeSet<&str>,
) -> anyhow::Result<(Option<Known>, Vec<String>)> {
    let chosen = PurgeDeadLettersInput {
        from: Some(since.into()),
        event_id: Some(question.id.clone()),
        ..PurgeDeadLettersInput::default()
    };
    let (mut notes, mut pages) = (Vec::new(), Some(question.budget.letter_pages));
    for name in names {
        match verdicts_on_letter_of(api, &question.topic, name, &chosen, &mut pages).await {
            Ok(None) if pages.is_none() => {
                notes.push(format!("not all dead letters of {} were looked at", question.topic));
                break;
            }
            Ok(None) => {}
            Ok(known) => return Ok((known, notes)),
            Err(error) if error.is::<Refusal>() => notes.push(chain(&error)),
            Err(error) => return Err(error),
        }
    }
    Ok((None, notes))
}

async fn verdicts_on_letter_of(
    api: &ManageApi,
    topic: &str,
    name: &str,
    chosen: &PurgeDeadLettersInput,
    pages: &mut Option<usize>,
) -> anyhow::Result<Option<Known>> {
    let unread = || format!("the dead letters of {name} can't be read");
    let mut after = None;
    let letter = loop {
        *pages = pages.and_then(|left| left.checked_sub(1));
        if pages.is_none() {
            return Ok(None);
        }
        // 404: it was deleted. 409: without a dead-letter destination, what ended was dropped.
        let page = api.dead_letters_page(topic, name, chosen, after.as_deref()).await;
        let Some(page) = unless(&[404, 409], page).with_context(unread)? else { return Ok(None) };
        if let Some(letter) = page.items.into_iter().next() {
            break letter;
        }
        let Some(next) = page.next else { return Ok(None) };
        after = Some(next);
    };
    // It may have been purged just now.
    let letter = if_there(api.dead_letter(topic, name, &letter.id).await);
    let event = letter.with_context(unread)?.and_then(|letter| letter.event).unwrap_or_default();
    let Ok(event) = serde_json::from_str::<Box<RawValue>>(&event) else { return Ok(None) };
    // 400: it was converted for this event subscription.
    let explained = unless(&[400], api.explain(topic, &event).await);
    let explained = explained
        .with_context(|| format!("the filters can't be asked about a dead letter of {name}"))?;
    let event = EventText { json: event.get().to_owned(), letter_of: Some(name.to_owned()) };
    Ok(explained.map(|explained| (explained.value, event)))
}

/// Returns `None` for an answer with one of these statuses.
fn unless<T>(statuses: &[u16], answer: anyhow::Result<T>) -> anyhow::Result<Option<T>> {
    let is_expected = |refusal: &Refusal| statuses.contains(&refusal.status);
    match answer {
        Err(error) if error.downcast_ref().is_some_and(is_expected) => Ok(None),
        answer => answer.map(Some),
    }
}

impl Explanation {
    /// Returns the topic.
    pub fn topic(&self) -> &str {
        &self.question.topic
    }

    /// Returns the id of the event that was given, if it is another one's.
    pub fn other_id(&self) -> Option<&str> {
        self.given_event_id.as_deref().filter(|given| *given != self.question.id)
    }

    /// Returns why not everything that may be about the event was looked at.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Fails with [`Unfinished`] if nothing at all is known of the event: it may be under way, delivered
    /// without a log line, or misspelt.
    pub fn outcome(&self) -> anyhow::Result<()> {
        let Self { question: Question { id, topic, .. }, verdicts, deliveries, .. } = self;
        if verdicts.is_some() || !deliveries.is_empty() {
            return Ok(());
        }
        let paused = self.holding_back.iter().filter(|one| one.health.pause.is_some());
        let paused: Vec<_> = paused.map(|one| one.event_subscription.as_str()).collect();
        let left_out: String =
            self.left_out.iter().map(|left_out| format!(", and {left_out}")).collect();
        if !paused.is_empty() {
            let paused = paused.join(", ");
            let message = format!(
                "no attempt for an event `{id}` of topic {topic} is known so far{left_out}: it may \
                 be held by a pause ({paused}), and what a pause holds is in no journal before its \
                 first attempt. To see which event subscriptions want it, give the event (--event \
                 FILE). If those don't, check the id, or look further back (--since 7d)"
            );
            return Err(Unfinished(message).into());
        }
        let (known, delivered) = match self.lacks_successes {
            true => ("no failure", " have been delivered by it,"),
            false => ("nothing", ""),
        };
        let message = format!(
            "{known} is known of an event `{id}` of topic {topic} so far{left_out}: it may wait for its first \
             attempt,{delivered} or be wanted by no filter. To see who wants it, give the event (--event FILE); \
             else check the id, or look further back (--since 7d)"
        );
        Err(Unfinished(message).into())
    }

    /// Describes it for people.
    pub fn text(&self) -> String {
        let Question { id, topic, since, .. } = &self.question;
        let mut text = format!("event {id} of topic {topic}\n\n");
        if let Some(given) = self.other_id() {
            text.push_str(&format!(
                "! the event that was given has the id {given}: what event subscriptions make of an event \
                 is told of that one\n\n"
            ));
        }
        for note in &self.notes {
            text.push_str(&format!("! {note}\n\n"));
        }
        match &self.verdicts {
            Some(verdicts) => text.push_str(&verdict_table(verdicts)),
            None => text.push_str(&self.without_verdicts()),
        }
        let mut before = None;
        for delivery in &self.deliveries {
            let again = delivery.describe_redrive(before).unwrap_or_default();
            text.push_str(&format!("\n\n{}: {again}{}", delivery.name, delivery.describe()));
            before = Some(delivery);
        }
        for held in &self.holding_back {
            text.push_str(&format!("\n\n{}: {}", held.event_subscription, held.describe()));
        }
        if self.deliveries.is_empty() {
            let since = hours(since.0);
            text.push_str(&format!(
                "\n\nNo attempt for it is known of the last {since}. {OWN_SCHEMA}"
            ));
        }
        for left_out in &self.left_out {
            text.push_str(&format!("\n\n! {left_out}"));
        }
        text
    }

    /// Describes what is known without the event itself.
    fn without_verdicts(&self) -> String {
        let matched: BTreeSet<_> = self.deliveries.iter().map(|one| one.name.as_str()).collect();
        let list = |names: Vec<&str>| match names.is_empty() {
            true => "(none)".to_owned(),
            false => names.join(", "),
        };
        let is_other = |one: &&EventSubscription| !is_known(&one.name, &self.deliveries);
        let others = || self.subscriptions.iter().filter(is_other);
        let wants = |one: &EventSubscription| format!("\n  {}: {}", one.name, describe_wants(one));
        let wants: String = others().map(wants).collect();
        let read = if self.notes.is_empty() { "" } else { " that can be read" };
        format!(
            "matched, by the journal:  {}\nNo attempts known for:    {}{wants}\n(what they want is as their \
             filters are now, and a filter may not have wanted the event. No dead letter{read} has it: give it \
             by --event FILE to see which event subscriptions of {} do not want it, and why)",
            list(matched.into_iter().collect()),
            list(others().map(|one| one.name.as_str()).collect()),
            self.question.topic
        )
    }
}

impl HoldingBack {
    /// Says why the event subscription attempts nothing, and until when.
    fn describe(&self) -> String {
        let Health { pause, until, state, cause, .. } = &self.health;
        let waits = "If it wants the event, the event waits";
        let Some(pause) = pause else {
            let (until, outcome) = (or_dash(*until), or_dash(cause.as_ref().map(|it| &it.outcome)));
            return format!("attempts nothing until {until} ({state}, {outcome}). {waits}.");
        };
        let meanwhile = match pause.time_to_live_runs {
            true => " The event ends undelivered if its time-to-live is over before.",
            false => "",
        };
        let (told, until) = (pause::told(pause), pause.until);
        format!(
            "paused {told}. {waits} until it is resumed, or until {until}, when the pause ends by itself.{meanwhile}"
        )
    }
}

const OWN_SCHEMA: &str = "An event of a schema of your own has no id there.";

fn verdict_table(verdicts: &[ExplainedSubscription]) -> String {
    let mut rows = vec![["EVENT SUBSCRIPTION", "MATCHES", "WHY NOT"].map(str::to_owned)];
    for ExplainedSubscription { event_subscription, state, verdict } in verdicts {
        let matches = if verdict.matches { "yes" } else { "no" };
        let is_active = *state == SubscriptionState::Active;
        let state = (!is_active).then(|| format!("it is {state}"));
        let parts = verdict.refused_by.iter();
        let parts = parts.map(|part| format!("{}: {}", part.path, part.message));
        let mut why = state.into_iter().chain(parts);
        let first = why.next().unwrap_or_default();
        rows.push([event_subscription.clone(), matches.to_owned(), first]);
        rows.extend(why.map(|why| [String::new(), String::new(), why]));
    }
    output::columns(&rows)
}

#[cfg(test)]
mod tests;
