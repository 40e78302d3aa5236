//! Lists, counts, shows and purges dead letters of an event subscription.
//!
//! It looks in the event subscription's present destination. Filters read the objects, so a request
//! ends at a limit of letters or time, and returns where the next one continues.

use std::{collections::BTreeMap, time::Duration};

use gridpost_api::{
    dead_letter::{
        DeadLetter, DeadLetterContent, DeadLetterCount, DeadLetterList, DeadLetterRecord,
        DeadLetterShown, DeadLettersPurged,
    },
    document::{Code, Problems, quoted},
    error::ErrorCode,
    requests::{PurgeDeadLettersInput, choice},
    schema::List,
};
use gridpost_core::{
    delivery::{
        dead_letter::{folder_path, position::Position},
        redrive::{Job, JobStatus, LocatedLetter, RedriveFilter},
    },
    error::chain,
    subscription::SubscriptionKey,
    time::Timestamp,
};
use gridpost_ports::{
    BucketError,
    dead_letter_walk::{Item, Source, Walk},
};

use super::{Answer, InContext, openapi::*, sent::Sent, subscriptions};
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

pub(super) const LIST: Form = Form {
    filters: &[FROM, TO, REASON, EVENT_TYPE, EVENT_ID, REDRIVEN],
    is_token: Some(|text| Position::parse(text).is_some()),
};

pub(super) const PURGE: Form = Form { filters: &[], ..LIST };

/// How long one request reads: API Gateway waits 30 s for its answer.
const LOOK_MAX: Duration = Duration::from_secs(10);

/// Characters shown of an id, a type or a reason, so that a page and a count always fit Lambda's
/// answer (6 MB).
const TEXT_CHARS_MAX: usize = 400;

/// Bytes of an event in Lambda's answer, with room for the rest of the letter. Usual JSON of 1 MiB
/// takes 4.2 MB; text of nearly only quotes or control characters may take more.
/// Source: AWS Lambda, "Quotas": 6 MB (6,291,556 bytes) for the answer.
const EVENT_BYTES_MAX: usize = 6_000_000;

fn position_of(page: &Page) -> Option<Position> {
    page.after.as_deref().and_then(Position::parse)
}

/// The chosen dead letters, and the jobs that may have redriven them.
struct Choice {
    wanted: RedriveFilter,
    /// Whether a redrive must have sent them, or must not.
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

    fn has(&self, found: &LocatedLetter) -> bool {
        self.wanted.has(&found.letter)
            && self.redriven.is_none_or(|wanted| wanted == self.is_redriven(found))
    }

    /// Whether unreadable letters are chosen: only if no filter needs their content.
    fn has_unreadable(&self) -> bool {
        self.wanted.has_unreadable() && self.redriven.is_none()
    }

    fn is_redriven(&self, found: &LocatedLetter) -> bool {
        let Source { bucket, folder, .. } = &self.source;
        self.jobs.iter().any(|job| job.has_sent(found, bucket, folder))
    }
}

/// Reads dead letters until a time limit.
struct Search<'l> {
    context: &'l Context,
    walk: Walk<'l>,
    until: Timestamp,
    /// The last letter returned.
    given: Option<Position>,
}

impl<'l> Search<'l> {
    fn new(context: &'l Context, choice: &'l Choice, from: Option<Position>) -> Self {
        let walk = Walk::from(&*context.dead_letters, &choice.source, &choice.wanted, from);
        Self { context, walk, until: context.clock.after(LOOK_MAX), given: None }
    }

    /// Returns the next letter, or `None` at the end or after the time limit.
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

    /// Whether the time is over, and it is known where another request continues.
    fn is_late(&self) -> bool {
        self.context.clock.now() >= self.until && self.place().is_some()
    }

    /// Where another request continues, if known: at the first letter not returned, or after skipped
    /// objects, but not at the object of the last letter, which would be returned twice.
    fn place(&self) -> Option<Position> {
        let passed_over = || {
            let given = self.given.map(|given| given.at(0));
            self.walk.reached().filter(|place| given.is_none_or(|given| given.is_before(place)))
        };
        self.walk.position().or_else(passed_over)
    }

    /// Where the next request continues; `None` at the end.
    async fn position(&mut self) -> Result<Option<Position>, BucketError> {
        while self.walk.position().is_none() && !self.is_late() {
            if !self.walk.look().await? {
                return Ok(None);
            }
        }
        Ok(self.place())
    }
}

/// A page of its dead letters, without their events, by the names of their objects
#[utoipa::path(
    get,
    path = "/topics/{topic}/eventSubscriptions/{name}/deadLetters",
    operation_id = "listDeadLetters",
    params(InSubscription, Paging, OfDeadLetters),
    responses(
        (status = 200, body = DeadLetterList,
            description = "Some of them, perhaps none; more behind nextLink."),
        Refused, Missing, Conflicts
    )
)]
pub(super) async fn list(context: InContext, sent: Sent) -> Answer {
    let (context, key, page) = (&context, &sent.key()?, &sent.page_of(LIST)?);
    let (wanted, redriven) = wanted_by(page)?;
    let choice = Choice::of(context, key, wanted, redriven).await?;
    let mut search = Search::new(context, &choice, position_of(page));
    let mut found = Vec::new();
    while found.len() < page.most() {
        let Some(item) = search.next().await? else { break };
        match &item.found {
            Ok(one) if choice.has(one) => found.push(document(&choice, one)),
            Ok(_) => {}
            Err(problem) => found.push(unreadable(&choice.source, &item.position, problem)),
        }
    }
    // The next page may begin with a letter that is not chosen.
    let next = search.position().await?;
    let next_link = next_link(context, key, "deadLetters", page, next);
    Ok(Reply::ok(List { value: found, next_link }))
}

/// How many dead letters there are, by reason and event type
#[utoipa::path(
    get,
    path = "/topics/{topic}/eventSubscriptions/{name}/deadLetters:count",
    operation_id = "countDeadLetters",
    params(InSubscription, Paging, OfDeadLetters),
    responses(
        (status = 200, body = DeadLetterCount,
            description = "The counts of those that one request gets through; to be added to those \
                behind nextLink."),
        Refused, Missing, Conflicts
    )
)]
pub(super) async fn count(context: InContext, sent: Sent) -> Answer {
    let (context, key, page) = (&context, &sent.key()?, &sent.page_of(LIST)?);
    let (wanted, redriven) = wanted_by(page)?;
    let choice = Choice::of(context, key, wanted, redriven).await?;
    let mut search = Search::new(context, &choice, position_of(page));
    let mut count = DeadLetterCount::default();
    while let Some(item) = search.next().await? {
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
    let next = search.position().await?;
    count.next_link = next_link(context, key, "deadLetters:count", page, next);
    Ok(Reply::ok(count))
}

/// The most kinds in a count. The rest are counted together.
const KINDS_MAX: usize = 1_000;

/// The name of that rest.
const OTHER_KINDS: &str = "(others)";

fn add_one(kinds: &mut BTreeMap<String, u64>, kind: &str) {
    let kind = cut(kind);
    let kind = match kinds.len() < KINDS_MAX || kinds.contains_key(&kind) {
        true => kind,
        false => OTHER_KINDS.to_owned(),
    };
    *kinds.entry(kind).or_default() += 1;
}

fn cut(text: &str) -> String {
    text.chars().take(TEXT_CHARS_MAX).collect()
}

/// One dead letter with its event
#[utoipa::path(
    get,
    path = "/topics/{topic}/eventSubscriptions/{name}/deadLetters/{id}",
    operation_id = "getDeadLetter",
    params(InSubscription, OfDeadLetter),
    responses(
        (status = 200, description = "The dead letter.", body = DeadLetterShown),
        Refused, Missing, Conflicts
    )
)]
pub(super) async fn show(context: InContext, sent: Sent) -> Answer {
    let (context, key, id) = (&context, &sent.key()?, &sent.id()?);
    let position = Position::parse(id).ok_or_else(|| Reply::no_id("a dead letter", id))?;
    let choice = Choice::of(context, key, RedriveFilter::default(), None).await?;
    let Choice { wanted, source, .. } = &choice;
    let mut walk = Walk::from(&*context.dead_letters, source, wanted, Some(position));
    // If it does not exist, or is another event subscription's, the walk returns a later one.
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

/// Cuts an event to the room in an answer.
fn beginning(event: &str) -> String {
    let mut bytes = 0;
    let fits = event.chars().take_while(|character| {
        bytes += bytes_in_answer(*character);
        bytes <= EVENT_BYTES_MAX
    });
    fits.collect()
}

/// Bytes of an event's character in Lambda's answer: the event is a string in a document, and the
/// document a string in the answer, so it is escaped twice.
fn bytes_in_answer(character: char) -> usize {
    match character {
        '"' | '\\' => r#"\\\""#.len(),
        '\n' | '\r' | '\t' | '\u{8}' | '\u{c}' => r"\\n".len(),
        '\0'..' ' => r"\\u0000".len(),
        other => other.len_utf8(),
    }
}

#[derive(Default)]
struct Purged {
    events: u64,
    objects: u64,
    left: u64,
    /// Those of `left` in the last object: a request that begins with it counts them again.
    left_last: u64,
}

/// Delete objects all of whose dead letters are chosen
#[utoipa::path(
    post,
    path = "/topics/{topic}/eventSubscriptions/{name}/deadLetters:purge",
    operation_id = "purgeDeadLetters",
    params(InSubscription, Paging),
    request_body = choice::PurgeDeadLettersInput,
    responses(
        (status = 200, body = DeadLettersPurged,
            description = "What one request got through; POST the same to nextLink for more."),
        Refused, Missing, Conflicts, NotDocument
    )
)]
pub(super) async fn purge(context: InContext, sent: Sent) -> Answer {
    let (context, key, page, input) =
        (&context, &sent.key()?, &sent.page_of(PURGE)?, &sent.document()?);
    let input = PurgeDeadLettersInput::read(input)?;
    let (wanted, redriven) = (input.filter(), input.redriven);
    let choice = Choice::of(context, key, wanted, redriven).await?;
    if let Some(job) = choice.jobs.iter().find(|job| job.status == JobStatus::Running) {
        let message = format!("The redrive {} of '{key}' is running. Cancel it or wait.", job.id);
        return Err(Reply::conflict("redrive", message));
    }
    // Begin with a whole object: a list may have ended within one.
    let from = position_of(page).map(|position| position.at(0));
    let mut search = Search::new(context, &choice, from);
    let mut purged = Purged::default();
    let ended = delete(&mut search, &choice, &mut purged).await;
    let next = match (ended, search.given) {
        (Ok(next), _) => next,
        // Report what was deleted. The next request fails before it deletes anything.
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

/// Deletes object by object. Returns where the next request continues, or `None` at the end.
async fn delete(
    search: &mut Search<'_>,
    choice: &Choice,
    purged: &mut Purged,
) -> Result<Option<Position>, BucketError> {
    let (mut meant, mut others) = (0, 0);
    while let Some(item) = search.next().await? {
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
            search.context.dead_letters.delete(&choice.source.bucket, &name).await?;
            purged.events += meant;
            purged.objects += 1;
        } else {
            purged.left += meant;
            purged.left_last = meant;
        }
        (meant, others) = (0, 0);
    }
    search.position().await
}

/// Returns where the event subscription's dead letters are.
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

fn document(choice: &Choice, found: &LocatedLetter) -> DeadLetter {
    let LocatedLetter { position, written_at, letter, .. } = found;
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
    next.map(|next| page.next_link(&context.url_of(key, path), &next.to_string()))
}
