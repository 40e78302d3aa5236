//! Dead letters of an event subscription: which there are, how many, one of them, and away with them.
//!
//! They are found where the event subscription has its dead letters stored now. Who looks for some of
//! them reads their objects, so a request ends after so many or so long, and says where the next one
//! goes on.

use std::{collections::BTreeMap, time::Duration};

use gridpost_api::{
    dead_letter::{
        DeadLetter, DeadLetterContent, DeadLetterCount, DeadLetterRecord, DeadLetterShown,
        DeadLettersPurged,
    },
    document::{Code, Problems, quoted},
    error::ErrorCode,
    requests::PurgeDeadLettersInput,
    schema::List,
};
use gridpost_core::{
    delivery::{
        dead_letter::{folder_path, position::Position},
        redrive::{Found, Job, JobStatus, RedriveFilter},
    },
    error::chain,
    subscription::SubscriptionKey,
    time::Timestamp,
};
use gridpost_ports::{
    BucketError,
    dead_letter_walk::{Item, Source, Walk},
};
use serde_json::Value;

use super::{Answer, subscriptions};
use crate::{
    Context, Reply,
    page::{Form, Page},
};

const FROM: &str = "from";
const TO: &str = "to";
const REASON: &str = "reason";
const EVENT_TYPE: &str = "eventType";
const EVENT_ID: &str = "eventId";
const REDRIVEN: &str = "redriven";

/// What the query of a list or a count may have.
pub(super) const LIST: Form = Form {
    filters: &[FROM, TO, REASON, EVENT_TYPE, EVENT_ID, REDRIVEN],
    is_token: Some(|text| Position::parse(text).is_some()),
};

/// What the query of a request that purges may have.
pub(super) const PURGE: Form = Form { filters: &[], ..LIST };

/// How long one request looks: API Gateway waits 30 s for its answer.
const LOOK_MAX: Duration = Duration::from_secs(10);

/// Characters of an id, a type or a reason that are shown: a page of letters, and a count, fit an
/// answer of Lambda's (6 MB) whatever their publishers have written.
const TEXT_CHARS_MAX: usize = 400;

/// Bytes of an event in Lambda's answer. What 1 MiB of JSON becomes takes 4.2 MB of them at most; a text
/// that is nearly all quotes or control characters may take more. Source: AWS Lambda, "Quotas": 6 MB
/// (6,291,556 bytes) for the answer, of which some are left to what else is said of the letter.
const EVENT_BYTES_MAX: usize = 6_000_000;

fn position_of(page: &Page) -> Option<Position> {
    page.after.as_deref().and_then(Position::parse)
}

/// Which dead letters are meant, and what is known of them beside themselves.
struct Choice {
    wanted: RedriveFilter,
    /// Only those that a redrive has sent, or only those that none has.
    redriven: Option<bool>,
    source: Source,
    jobs: Vec<Job>,
}

impl Choice {
    async fn of(
        context: &Context,
        key: &SubscriptionKey,
        wanted: RedriveFilter,
        redriven: Option<bool>,
    ) -> Result<Self, Reply> {
        let source = source(context, key).await?;
        let jobs = context.redrives.jobs(key).await?;
        Ok(Self { wanted, redriven, source, jobs })
    }

    fn has(&self, found: &Found) -> bool {
        self.wanted.has(&found.letter)
            && self.redriven.is_none_or(|wanted| wanted == self.is_redriven(found))
    }

    /// Whether a letter that can't be read is meant: nothing chooses by what it says.
    fn has_unreadable(&self) -> bool {
        self.wanted.has_unreadable() && self.redriven.is_none()
    }

    /// Whether a redrive has sent it again.
    fn is_redriven(&self, found: &Found) -> bool {
        let Source { bucket, folder, .. } = &self.source;
        self.jobs.iter().any(|job| job.has_sent(found, bucket, folder))
    }
}

/// A look through dead letters that ends in time.
struct Look<'l> {
    context: &'l Context,
    walk: Walk<'l>,
    until: Timestamp,
    /// The letter that was given last.
    given: Option<Position>,
}

impl<'l> Look<'l> {
    fn new(context: &'l Context, choice: &'l Choice, from: Option<Position>) -> Self {
        let walk = Walk::from(&*context.dead_letters, &choice.source, &choice.wanted, from);
        Self { context, walk, until: context.clock.after(LOOK_MAX), given: None }
    }

    /// The next letter; none at the end of them, or of the time.
    async fn next(&mut self) -> Result<Option<Item>, BucketError> {
        loop {
            if let Some(item) = self.walk.at_hand() {
                self.given = Some(item.position);
                return Ok(Some(item));
            }
            if self.is_late() || !self.walk.look().await? {
                return Ok(None);
            }
        }
    }

    /// Whether the time is over, and it is known where another request goes on.
    fn is_late(&self) -> bool {
        self.context.clock.now() >= self.until && self.place().is_some()
    }

    /// Where another request goes on, as far as that is known: at what has not been given, or behind
    /// objects that were passed over. The object of the letter given last would be given twice.
    fn place(&self) -> Option<Position> {
        let passed_over = || {
            let given = self.given.map(|given| given.at(0));
            self.walk.reached().filter(|place| given.is_none_or(|given| given.is_before(place)))
        };
        self.walk.position().or_else(passed_over)
    }

    /// Where the next request goes on; none at the end.
    async fn position(&mut self) -> Result<Option<Position>, BucketError> {
        while self.walk.position().is_none() && !self.is_late() {
            if !self.walk.look().await? {
                return Ok(None);
            }
        }
        Ok(self.place())
    }
}

pub(super) async fn list(context: &Context, key: &SubscriptionKey, page: &Page) -> Answer {
    let (wanted, redriven) = wanted_by(page)?;
    let choice = Choice::of(context, key, wanted, redriven).await?;
    let mut look = Look::new(context, &choice, position_of(page));
    let mut found = Vec::new();
    while found.len() < page.most() {
        let Some(item) = look.next().await? else { break };
        match &item.found {
            Ok(one) if choice.has(one) => found.push(document(&choice, one)),
            Ok(_) => {}
            Err(problem) => found.push(unreadable(&choice.source, &item.position, problem)),
        }
    }
    // The one that the next page begins with need not be one that is meant.
    let next = look.position().await?;
    let next_link = next_link(context, key, "deadLetters", page, next);
    Ok(Reply::ok(List { value: found, next_link }))
}

pub(super) async fn count(context: &Context, key: &SubscriptionKey, page: &Page) -> Answer {
    let (wanted, redriven) = wanted_by(page)?;
    let choice = Choice::of(context, key, wanted, redriven).await?;
    let mut look = Look::new(context, &choice, position_of(page));
    let mut count = DeadLetterCount::default();
    while let Some(item) = look.next().await? {
        match item.found {
            Ok(one) if choice.has(&one) => {
                count.events += 1;
                count.redriven_events += u64::from(choice.is_redriven(&one));
                add_one(&mut count.by_reason, &one.letter.reason);
                add_one(&mut count.by_event_type, &one.letter.event_type);
            }
            Ok(_) => {}
            Err(_) => count.unreadable += 1,
        }
    }
    let next = look.position().await?;
    count.next_link = next_link(context, key, "deadLetters:count", page, next);
    Ok(Reply::ok(count))
}

/// Most kinds that a count tells apart. The rest are counted together.
const KINDS_MAX: usize = 1_000;

/// How that rest is called.
const OTHER_KINDS: &str = "(others)";

fn add_one(kinds: &mut BTreeMap<String, u64>, kind: &str) {
    let kind = cut(kind);
    let kind = match kinds.len() < KINDS_MAX || kinds.contains_key(&kind) {
        true => kind,
        false => OTHER_KINDS.to_owned(),
    };
    *kinds.entry(kind).or_default() += 1;
}

/// A publisher's text, as far as an answer has room for it.
fn cut(text: &str) -> String {
    text.chars().take(TEXT_CHARS_MAX).collect()
}

pub(super) async fn show(context: &Context, key: &SubscriptionKey, id: &str) -> Answer {
    let position = Position::parse(id).ok_or_else(|| {
        let rule = "must be the id of a dead letter, as a list gives it, but is";
        Reply::from_id(format!("{rule} {}", quoted(id)))
    })?;
    let choice = Choice::of(context, key, RedriveFilter::default(), None).await?;
    let Choice { wanted, source, .. } = &choice;
    let mut walk = Walk::from(&*context.dead_letters, source, wanted, Some(position));
    // Where it is not there, or somebody else's, what comes next is none of ours.
    let item = if walk.look().await? { walk.at_hand() } else { None };
    let item = item.filter(|item| item.position == position);
    let Some(item) = item else {
        let message = format!("'{key}' has no dead letter {}.", quoted(id));
        return Err(Reply::error(404, ErrorCode::ResourceNotFound, message));
    };
    Ok(Reply::ok(match &item.found {
        Ok(one) => {
            // As text: a JSON value would change its numbers.
            let event = beginning(&one.letter.event);
            let is_event_cut = Some(event.len() < one.letter.event.len());
            DeadLetterShown { letter: document(&choice, one), event: Some(event), is_event_cut }
        }
        Err(problem) => DeadLetterShown {
            letter: unreadable(source, &position, problem),
            event: None,
            is_event_cut: None,
        },
    }))
}

/// As much of an event as an answer has room for.
fn beginning(event: &str) -> String {
    let mut bytes = 0;
    let fits = event.chars().take_while(|character| {
        bytes += bytes_in_answer(*character);
        bytes <= EVENT_BYTES_MAX
    });
    fits.collect()
}

/// Bytes of a character of an event in Lambda's answer. The event is a string in a document, and the
/// document a string in that answer: what is escaped in the one is escaped once more in the other.
fn bytes_in_answer(character: char) -> usize {
    match character {
        '"' | '\\' => r#"\\\""#.len(),
        '\n' | '\r' | '\t' | '\u{8}' | '\u{c}' => r"\\n".len(),
        '\0'..' ' => r"\\u0000".len(),
        other => other.len_utf8(),
    }
}

/// What a purge has done.
#[derive(Default)]
struct Purged {
    events: u64,
    objects: u64,
    left: u64,
    /// Those of `left` in the object that was looked at last: a request that begins with it counts
    /// them again.
    left_last: u64,
}

/// Deletes objects all of whose dead letters are meant. An object that has others too stays as it is.
pub(super) async fn purge(
    context: &Context,
    key: &SubscriptionKey,
    page: &Page,
    input: &Value,
) -> Answer {
    let input = PurgeDeadLettersInput::read(input)?;
    let (wanted, redriven) = (input.filter(), input.redriven);
    let choice = Choice::of(context, key, wanted, redriven).await?;
    if let Some(job) = choice.jobs.iter().find(|job| job.status == JobStatus::Running) {
        let message = format!("The redrive {} of '{key}' is running. Cancel it or wait.", job.id);
        return Err(Reply::conflict("redrive", message));
    }
    // It begins with a whole object: the position may be one within, where a list ended.
    let from = position_of(page).map(|position| position.at(0));
    let mut look = Look::new(context, &choice, from);
    let mut purged = Purged::default();
    let ended = delete(&mut look, &choice, &mut purged).await;
    let next = match (ended, look.given) {
        (Ok(next), _) => next,
        // What is gone is told. The next request meets the failure before it deletes anything.
        (Err(error), Some(given)) if purged.objects > 0 => {
            tracing::warn!(subscription = %key, error = %chain(&error), "a purge ended early");
            purged.left -= purged.left_last;
            Some(given.at(0))
        }
        (Err(error), _) => return Err(error.into()),
    };
    let Purged { events, objects, left, .. } = purged;
    tracing::info!(subscription = %key, events, objects, left, "dead letters purged");
    Ok(Reply::ok(DeadLettersPurged {
        purged_events: events,
        purged_objects: objects,
        left_events: left,
        next_link: next_link(context, key, "deadLetters:purge", page, next),
    }))
}

/// Deletes object by object, and says where the next request goes on; none at the end.
async fn delete(
    look: &mut Look<'_>,
    choice: &Choice,
    purged: &mut Purged,
) -> Result<Option<Position>, BucketError> {
    let (mut meant, mut others) = (0, 0);
    while let Some(item) = look.next().await? {
        purged.left_last = 0;
        let is_meant = match &item.found {
            Ok(one) => choice.has(one),
            Err(_) => choice.has_unreadable(),
        };
        *(if is_meant { &mut meant } else { &mut others }) += 1;
        if !item.is_last {
            continue;
        }
        if others == 0 {
            let name = item.position.name(&choice.source.folder);
            look.context.dead_letters.delete(&choice.source.bucket, &name).await?;
            purged.events += meant;
            purged.objects += 1;
        } else {
            purged.left += meant;
            purged.left_last = meant;
        }
        (meant, others) = (0, 0);
    }
    look.position().await
}

/// Where the event subscription's dead letters lie.
pub(super) async fn source(context: &Context, key: &SubscriptionKey) -> Result<Source, Reply> {
    let (topic, subscription) = subscriptions::existing(context, key).await?;
    let Some(destination) = &subscription.dead_letter else {
        let message = format!(
            "'{key}' has no dead-letter destination, so what ended was dropped. Give it one \
             (properties.deadLetterDestination). Earlier dead letters stay where they are."
        );
        return Err(Reply::conflict("properties.deadLetterDestination", message));
    };
    Ok(Source {
        subscription: subscription.key.clone(),
        bucket: destination.bucket.clone(),
        folder: folder_path(destination, &subscription.key, topic.delivery_profile),
        schema: subscription.delivery_schema,
    })
}

fn wanted_by(page: &Page) -> Result<(RedriveFilter, Option<bool>), Reply> {
    let mut problems = Problems::default();
    let mut time = |name| page.filter(name).and_then(|text| time_of(text, name, &mut problems));
    let (from, to) = (time(FROM), time(TO));
    let text = |name| page.filter(name).map(str::to_owned);
    let (reason, event_type, event_id) = (text(REASON), text(EVENT_TYPE), text(EVENT_ID));
    let wanted = RedriveFilter { from, to, reason, event_type, event_id };
    let redriven = page.filter(REDRIVEN).and_then(|text| match text {
        "true" | "false" => Some(text == "true"),
        _ => {
            let rule = format!("must be true or false, but is {}", quoted(text));
            problems.add(Code::InvalidValue, REDRIVEN, rule);
            None
        }
    });
    problems.or(Some((wanted, redriven))).map_err(Reply::from_query)
}

fn time_of(text: &str, name: &str, problems: &mut Problems) -> Option<Timestamp> {
    let time = Timestamp::parse_rfc_3339(text);
    if time.is_none() {
        let rule = format!(
            "must be a date and time such as 2026-01-31T08:00:00Z, but is {}",
            quoted(text)
        );
        problems.add(Code::InvalidValue, name, rule);
    }
    time
}

fn document(choice: &Choice, found: &Found) -> DeadLetter {
    let Found { position, written_at, letter, .. } = found;
    DeadLetter {
        id: position.to_string(),
        object_name: position.name(&choice.source.folder),
        content: DeadLetterContent::Record(DeadLetterRecord {
            written_time: (*written_at).into(),
            is_redriven: choice.is_redriven(found),
            event_id: cut(&letter.event_id),
            event_type: cut(&letter.event_type),
            dead_letter_reason: cut(&letter.reason),
            delivery_attempts: letter.attempts,
            publish_time: letter.published_at.into(),
            redrive_count: letter.redriven,
            last_delivery_outcome: letter.last_outcome.clone(),
            last_http_status_code: letter.last_status,
            last_delivery_attempt_time: letter.last_attempt_at.map(Into::into),
        }),
    }
}

fn unreadable(source: &Source, position: &Position, problem: &str) -> DeadLetter {
    DeadLetter {
        id: position.to_string(),
        object_name: position.name(&source.folder),
        content: DeadLetterContent::Unreadable { problem: problem.to_owned() },
    }
}

fn next_link(
    context: &Context,
    key: &SubscriptionKey,
    path: &str,
    page: &Page,
    next: Option<Position>,
) -> Option<String> {
    let SubscriptionKey { topic, name } = key;
    let base = &context.settings.manage_url;
    let url = format!("{base}/topics/{topic}/eventSubscriptions/{name}/{path}");
    next.map(|next| page.next_link(&url, &next.to_string()))
}
