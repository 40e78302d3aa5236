//! Receivers: they answer by script, slowly, late, or not at all. AWS resources are in
//! [`resource`].

mod naming;
mod resource;

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    hash::{DefaultHasher, Hash, Hasher},
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use async_trait::async_trait;
use gridpost_core::{
    delivery::{partial_results::ResponseBody, request::Request as Sent},
    retry::outcome::{Answer, LATE_RESPONSE_WAIT, Outcome, RESPONSE_WAIT},
    subscription::SubscriptionKey,
    time::Timestamp,
};
use gridpost_ports::{Attempted, Clock, EndpointClient};
use serde::Deserialize;
use serde_json::value::RawValue;
use uuid::Uuid;

use crate::{
    bucket::subscription_of,
    clock::{BEGINNING, VirtualClock},
    dice::SeededDice,
    event,
    history::{History, Request},
};

/// A secret header, and the member of a URL's query: what changes together, URL and secrets, arrives
/// together.
pub const GENERATION: &str = "x-generation";

/// One answer of an endpoint.
#[derive(Clone, Copy, Debug)]
pub struct Reaction {
    pub after: Duration,
    /// The answer; `None`: never.
    pub answer: Option<Answer>,
}

impl Reaction {
    pub fn status(status: u16) -> Self {
        Self { after: Duration::ZERO, answer: Some(Answer::of_status(status, None)) }
    }

    #[must_use]
    pub fn after(self, after: Duration) -> Self {
        Self { after, ..self }
    }

    #[must_use]
    pub fn delayed(self, by: Duration) -> Self {
        Self { after: self.after + by, ..self }
    }

    /// Adds `Retry-After`.
    #[must_use]
    pub fn with_retry_after(self, seconds: u64) -> Self {
        let asked = Some(Duration::from_secs(seconds));
        let answer = self.answer.map(|answer| Answer { retry_after: asked, ..answer });
        Self { answer, ..self }
    }

    pub fn failing(outcome: Outcome) -> Self {
        let after = Duration::from_millis(20);
        Self { after, answer: Some(Answer::without_status(outcome)) }
    }

    /// An answer that never comes.
    pub const NEVER: Self = Self { after: Duration::from_secs(600), answer: None };
}

/// How an endpoint behaves.
#[derive(Clone, Debug)]
pub enum Script {
    /// One answer after the other, by request; the last repeats.
    Answers(Vec<Reaction>),
    /// Every other request, the first included, gets this; the others succeed.
    EveryOther(Reaction),
    /// One answer in those windows, success otherwise.
    Outage {
        /// From and until when, in seconds since the beginning.
        windows: Vec<(u64, u64)>,
        reaction: Reaction,
    },
    /// Success, but one of those at this rate.
    Flaky { rate: f64, reactions: Vec<Reaction> },
    /// At most this many requests in a second; the others get 429.
    Limited {
        per_second: usize,
        /// The wait that `Retry-After` asks for.
        retry_after: Option<Duration>,
    },
    /// Some events are always refused with that status, chosen by their ids.
    Picky { one_in: u64, status: u16 },
    /// A resource refuses events at this rate, with one of those, and takes the others.
    Partly { rate: f64, answers: Vec<Answer> },
    /// Accepts every request, and names some of its events, at this rate, where it is listened to:
    /// to be sent again, or to end. Some of its bodies can't be understood, at the other rate.
    Naming { rate: f64, garbled: f64 },
    /// Answers after a random time up to `seconds_max`, with that status.
    Slow { seconds_max: u64, status: u16 },
}

/// All endpoints of one fixture, behind the client's port.
pub struct Endpoints {
    scripts: Mutex<BTreeMap<SubscriptionKey, Script>>,
    had: Mutex<BTreeMap<SubscriptionKey, ReceivedRequests>>,
    /// Event subscriptions whose deliveries may end in parts: the outcome of each event is
    /// recorded.
    in_parts: Mutex<BTreeSet<SubscriptionKey>>,
    clock: VirtualClock,
    dice: SeededDice,
    /// How long it takes at most to connect, and what chooses that.
    dials: (Duration, SeededDice),
    history: Arc<Mutex<History>>,
}

/// A request that has arrived.
struct Arrived {
    /// Its index.
    request: usize,
    reaction: Reaction,
    /// The body of its response, if that is read.
    body: Option<ResponseBody>,
}

/// The requests that an endpoint has had.
#[derive(Default)]
struct ReceivedRequests {
    count: usize,
    /// When those of the last second came.
    recent: VecDeque<Timestamp>,
}

/// The members of an event that the endpoint reads.
#[derive(Clone, Deserialize)]
struct Event {
    id: String,
    /// An event of its publisher's own schema has another member for it.
    #[serde(default, alias = "whose")]
    subject: Option<String>,
    /// The topic, if the event names it: as `topic`, or as `source` of a CloudEvent.
    #[serde(default, alias = "source")]
    topic: Option<String>,
    #[serde(skip)]
    text: String,
}

impl Event {
    /// The event subscription that it was published for: simulated events have it as their subject;
    /// dead-letter events have the subject of the events in them.
    fn published_to(&self) -> Option<SubscriptionKey> {
        let subject = self.subject.as_deref()?;
        if !subject.starts_with('/') {
            return subscription_of(subject);
        }
        let topic = self.topic.as_deref()?.strip_prefix("/topics/")?.to_owned();
        Some(SubscriptionKey { topic, name: String::new() })
    }
}

/// The events of a request's body: an array of them, or one.
fn events(body: &[u8]) -> serde_json::Result<Vec<Event>> {
    let texts: Vec<&RawValue> = match body.first() {
        Some(b'[') => serde_json::from_slice(body)?,
        _ => vec![serde_json::from_slice(body)?],
    };
    let read = |text: &RawValue| {
        let event: Event = serde_json::from_str(text.get())?;
        Ok(Event { id: event::name(text.get())?, text: text.get().to_owned(), ..event })
    };
    texts.into_iter().map(read).collect()
}

/// Whether the path of a request's URL, its query and its secret header are of different generations, if
/// they have some.
fn mixes_generations(sent: &Sent) -> bool {
    let (path, query) = sent.url.expose().split_once('?').unwrap_or_default();
    let in_query = query.strip_prefix(GENERATION).and_then(|rest| rest.strip_prefix('='));
    let header = sent.attributes.iter().find(|(name, _)| name == GENERATION);
    let in_header = header.map(|(_, value)| value.expose());
    let in_path = in_query.is_none_or(|generation| path.ends_with(&format!("/{generation}")));
    in_query != in_header || !in_path
}

/// Whether a picky endpoint refuses an event.
fn is_picked(event: &Event, one_in: u64) -> bool {
    let sum: u64 = event.id.bytes().map(u64::from).sum();
    (sum + event.id.len() as u64).is_multiple_of(one_in)
}

impl Endpoints {
    /// Endpoints with those scripts; the others always succeed.
    pub fn new(
        scripts: BTreeMap<SubscriptionKey, Script>,
        clock: VirtualClock,
        dice: SeededDice,
        history: Arc<Mutex<History>>,
    ) -> Self {
        let dials = (Duration::ZERO, SeededDice::new(0));
        Self {
            scripts: Mutex::new(scripts),
            had: Mutex::default(),
            in_parts: Mutex::default(),
            clock,
            dice,
            dials,
            history,
        }
    }

    /// With a limit on the time to connect to them.
    #[must_use]
    pub fn with_dials_of(self, most: Duration, dice: SeededDice) -> Self {
        Self { dials: (most, dice), ..self }
    }

    async fn dial(&self) {
        let (most, dice) = &self.dials;
        if !most.is_zero() {
            tokio::time::sleep(dice.millis(0..most.as_millis() as u64 + 1)).await;
        }
    }

    /// Sets the script of a subscription's endpoint from now on.
    pub fn behave(&self, subscription: SubscriptionKey, script: Script) {
        self.scripts().insert(subscription, script);
    }

    /// Records what each event has met at this event subscription's endpoint.
    pub fn ends_in_parts(&self, subscription: SubscriptionKey) {
        self.in_parts.lock().expect("no panic while held").insert(subscription);
    }

    fn scripts(&self) -> MutexGuard<'_, BTreeMap<SubscriptionKey, Script>> {
        self.scripts.lock().expect("no panic while held")
    }

    /// Records a request that has arrived. Returns its index, the endpoint's reaction, and the body
    /// of its response if that is read.
    fn arrive(&self, in_hand: &[Uuid], sent: &Sent) -> Result<Arrived, String> {
        if mixes_generations(sent) {
            return Err("the secrets of another endpoint".to_owned());
        }
        let events = events(&sent.body).map_err(|error| error.to_string())?;
        let published_to = events.first().and_then(Event::published_to).ok_or("a strange event")?;
        let header = |name| sent.headers.iter().find(|(found, _)| *found == name);
        let (_, name) = header("aeg-subscription-name").ok_or("no aeg-subscription-name")?;
        let subscription = SubscriptionKey { name: name.to_ascii_lowercase(), ..published_to };
        let now = self.clock.now();
        let mut history = self.history.lock().expect("no panic while held");
        let mut deliveries = Vec::new();
        let mut carriers = Vec::new();
        let mut events_bytes = 0;
        for event in &events {
            let said = |delivery: &Uuid| said_of(&history, &deliveries, delivery);
            let delivery = history.carrier_in(&subscription, &event.id, in_hand, said);
            let delivery = delivery.ok_or("another's event")?;
            history.note_twins(&subscription, &event.id, in_hand);
            // Two copies of a delivery may go out together.
            let begins = history.accepted[&delivery].events.first() == Some(&event.id);
            if begins || deliveries.last() != Some(&delivery) {
                deliveries.push(delivery);
            }
            carriers.push(delivery);
            events_bytes += event.text.len();
            if let Some(wrong) = history.wrong_with(delivery, &event.id, &event.text) {
                return Err(wrong);
            }
        }
        let count = header("aeg-delivery-count").and_then(|(_, count)| count.parse().ok());
        let made: u32 = count.ok_or("no aeg-delivery-count")?;
        let reaction = self.react(&subscription, &events, now);
        let body = self.body(&subscription, &events, reaction, sent.reads_results);
        let met = self.met_by_each(&subscription, reaction, &body, (&events, &carriers));
        history.trace(now, || format!("request {subscription} {} {deliveries:?}", made + 1));
        history.requests.push(Request {
            subscription,
            url: sent.url.expose().to_owned(),
            deliveries,
            events: events.len(),
            events_bytes,
            body_hash: hash_of([&*sent.body]),
            number: made + 1,
            began_at: now,
            answered: reaction.answer.map(|answer| {
                let after = self.clock.pace().to_clock(reaction.after);
                (now + after, answer)
            }),
            heard: None,
            heard_late: None,
            met,
        });
        Ok(Arrived { request: history.requests.len() - 1, reaction, body })
    }

    /// Records a request. Returns how many came before, ever and within a second.
    fn note(&self, subscription: &SubscriptionKey, now: Timestamp) -> (usize, usize) {
        let mut all = self.had.lock().expect("no panic while held");
        if !all.contains_key(subscription) {
            all.insert(subscription.clone(), ReceivedRequests::default());
        }
        let had = all.get_mut(subscription).expect("it is there now");
        let is_old = |at: &Timestamp| now.since(*at) >= Duration::from_secs(1);
        while had.recent.front().is_some_and(is_old) {
            had.recent.pop_front();
        }
        let before = (had.count, had.recent.len());
        had.count += 1;
        had.recent.push_back(now);
        before
    }

    fn react(&self, subscription: &SubscriptionKey, events: &[Event], now: Timestamp) -> Reaction {
        let quick = || self.dice.millis(5..200);
        let success = || Reaction::status(200).after(quick());
        let (before, recent) = self.note(subscription, now);
        match self.scripts().get(subscription) {
            None | Some(Script::Partly { .. } | Script::Naming { .. }) => success(),
            Some(Script::Answers(answers)) => answers[before.min(answers.len() - 1)],
            Some(Script::EveryOther(reaction)) if before % 2 == 0 => *reaction,
            Some(Script::EveryOther(_)) => success(),
            Some(Script::Outage { windows, reaction }) => {
                let second = now.since(BEGINNING).as_secs();
                let down = windows.iter().any(|(from, until)| (*from..*until).contains(&second));
                if down { *reaction } else { success() }
            }
            Some(Script::Flaky { rate, reactions }) => {
                if self.dice.chance(*rate) {
                    self.dice.choose(reactions)
                } else {
                    success()
                }
            }
            Some(Script::Limited { per_second, retry_after }) => {
                if recent < *per_second {
                    return success();
                }
                let answer = Answer::of_status(429, *retry_after);
                Reaction { after: quick(), answer: Some(answer) }
            }
            Some(Script::Picky { one_in, status }) => {
                if events.iter().any(|event| is_picked(event, *one_in)) {
                    Reaction::status(*status).after(quick())
                } else {
                    success()
                }
            }
            Some(Script::Slow { seconds_max, status }) => {
                Reaction::status(*status).after(self.dice.millis(0..seconds_max * 1_000 + 1))
            }
        }
    }

    fn hear(&self, index: usize, answer: Answer) -> Answer {
        let now = self.clock.now();
        let mut history = self.history.lock().expect("no panic while held");
        history.requests[index].heard = Some((now, answer));
        history.trace(now, || format!("answer {answer:?}"));
        answer
    }
}

/// How often a delivery was sent, this time included.
fn said_of(history: &History, now: &[Uuid], delivery: &Uuid) -> usize {
    let before = history.requests.iter().filter(|made| made.deliveries.contains(delivery));
    before.count() + usize::from(now.contains(delivery))
}

/// A hash of texts, to be compared within one run.
fn hash_of<'b>(bodies: impl IntoIterator<Item = &'b [u8]>) -> u64 {
    let mut hasher = DefaultHasher::new();
    bodies.into_iter().for_each(|body| body.hash(&mut hasher));
    hasher.finish()
}

#[async_trait]
impl EndpointClient for Endpoints {
    async fn attempt(&self, request: Sent) -> Attempted {
        self.attempt_by(&[], request).await
    }
}

impl Endpoints {
    /// An attempt of a caller that has these deliveries in hand.
    pub(crate) async fn attempt_by(&self, in_hand: &[Uuid], request: Sent) -> Attempted {
        self.dial().await;
        let Arrived { request: index, reaction, body } = match self.arrive(in_hand, &request) {
            Ok(arrived) => arrived,
            Err(strange) => {
                let mut history = self.history.lock().expect("no panic while held");
                history.violation(self.clock.now(), format!("a request with {strange}"));
                return Answer::of_status(400, None).into();
            }
        };
        if let Some(answer) = reaction.answer.filter(|_| reaction.after < RESPONSE_WAIT) {
            tokio::time::sleep(reaction.after).await;
            let answer = self.hear(index, answer);
            let body = body.map(Box::new);
            return Attempted::Answered { answer, response_text: None, body };
        }
        tokio::time::sleep(RESPONSE_WAIT).await;
        let timed_out = Answer::without_status(Outcome::TimedOut);
        self.hear(index, timed_out);
        {
            let mut history = self.history.lock().expect("no panic while held");
            history.requests[index].met.iter_mut().for_each(|met| met.answer = timed_out);
        }
        let (clock, history) = (self.clock, Arc::clone(&self.history));
        let late = async move {
            let rest = reaction.after.min(LATE_RESPONSE_WAIT) - RESPONSE_WAIT;
            tokio::time::sleep(rest).await;
            let answer = reaction.answer.filter(|_| reaction.after < LATE_RESPONSE_WAIT)?;
            if answer.outcome == Outcome::Delivered {
                let now = clock.now();
                let mut history = history.lock().expect("no panic while held");
                history.requests[index].heard_late = Some(now);
                history.trace(now, || format!("late success of request {index}"));
            }
            Some(answer)
        };
        Attempted::TimedOut { late: Box::pin(late) }
    }
}
