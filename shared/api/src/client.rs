//! A client of the resource API, over any transport.

use std::{
    fmt::Display,
    future::Future,
    ops::{ControlFlow, Deref},
};

use http::Method;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, value::RawValue};
use url::form_urlencoded::{self, byte_serialize};

use crate::{
    dead_letter::{DeadLetter, DeadLetterCount, DeadLetterShown, DeadLettersPurged},
    delivery::{Delivery, DeliveryCount, DeliveryShown, Resent},
    health::{Health, NamedHealth},
    journal::{JournalQuery, JournalQueryStatus, query::JournalQueryInput},
    redrive::Redrive,
    requests::{
        ParkedInput, PurgeDeadLettersInput, PurgeInput, RedriveInput, ResendInput, ResumeInput,
    },
    schema::List,
    subscription::{
        DeliveryAttributes, EventSubscription, FullUrl, PauseInput, PauseStanding, RotateInput,
        SigningSecrets,
    },
    topic::{AccessKey, KeyName, Keys, Topic},
    trial::{Explained, TestEventSent, TestResult},
    waiting::{Handled, HandledDelivery, Parked, PoisonList, PoisonShown},
};

/// Resources on a page.
const TOP: u32 = 50;

/// Pages that are followed in one list: a server that never ends is an error, not a hang.
const PAGES_MAX: usize = 100_000;

/// A request of the resource API.
#[derive(Clone, Debug)]
pub struct Request {
    pub method: Method,
    pub url: String,
    /// A JSON document.
    pub body: Option<String>,
    pub condition: Option<Condition>,
}

/// The state that a resource must have to be changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    /// It must not exist (`If-None-Match: *`). Goes with `PUT` alone.
    IsNew,
    /// It must have this `ETag` (`If-Match`).
    Is(String),
}

/// An answer with a status of 200 to 299.
#[derive(Clone, Debug, Default)]
pub struct Answer {
    pub status: u16,
    /// Names this state of the resource.
    pub etag: Option<String>,
    pub body: String,
}

/// Sends requests. A refusal of the API is an error.
pub trait Transport: Sync {
    type Error: From<ClientError> + Send;

    fn send(&self, request: Request) -> impl Future<Output = Result<Answer, Self::Error>> + Send;
}

/// Why a call failed, where the API did not refuse it.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    #[error("`{0}` is not a name: names are letters, digits and hyphens")]
    Name(String),
    #[error(
        "{method} {url} answered {status} with another document than is expected. The deployment may be of \
         another version than this command line: compare `gridpost --version` with the release that was deployed"
    )]
    Document { method: Method, url: String, status: u16, source: serde_json::Error },
    #[error("{method} {url} answered {status} with no JSON: is it the URL of a manage API?")]
    NotJson { method: Method, url: String, status: u16, source: serde_json::Error },
    /// The deployment is newer.
    #[error(
        "{url} has members that this command line does not know: {members}. What it writes would lack them: \
         use the command line of the release that was deployed"
    )]
    Unknown { url: String, members: String },
    /// A signature would go with the request.
    #[error("the next page is at {link}, outside {base_url}")]
    Elsewhere { link: String, base_url: String },
    #[error("{path} did not end within {PAGES_MAX} requests; repeat it to go on")]
    NoEnd { path: String },
}

/// A document with what names its state.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Tagged<D> {
    #[serde(flatten)]
    pub document: D,
    /// Whether it was created.
    #[serde(skip)]
    pub is_new: bool,
    pub etag: Option<String>,
}

impl<D> Deref for Tagged<D> {
    type Target = D;

    fn deref(&self) -> &D {
        &self.document
    }
}

/// A page of a list.
#[derive(Clone, Debug, PartialEq)]
pub struct Page<D> {
    pub items: Vec<D>,
    /// The token of the next page.
    pub next: Option<String>,
}

/// The resource API of one deployment.
#[derive(Clone, Debug)]
pub struct Client<T> {
    /// Without a slash at its end.
    base_url: String,
    transport: T,
    condition: Option<Condition>,
    is_strict: bool,
}

/// Calls that answer one document, made by that method.
macro_rules! calls {
    ($call:ident: $($(#[$doc:meta])* $name:ident($($arg:ident),*) $([$input:ident: $type:ty])? -> $answer:ty
        = $method:ident $path:literal;)*) => {$(
        $(#[$doc])*
        pub async fn $name(
            &self,
            $($arg: &str,)*
            $($input: &$type,)?
        ) -> Result<$answer, T::Error> {
            $(let $arg = segment($arg)?;)*
            let body = None$(.or(Some(text(&$input))))?;
            self.$call(Method::$method, &format!($path), body).await
        }
    )*};
}

/// Lists: all of it, and a page of it.
macro_rules! lists {
    ($($(#[$doc:meta])* $all:ident, $page:ident($($arg:ident),*) -> $item:ty = $path:literal;)*) => {$(
        $(#[$doc])*
        pub async fn $all(&self, $($arg: &str),*) -> Result<Vec<$item>, T::Error> {
            $(let $arg = segment($arg)?;)*
            self.all(&format!($path)).await
        }

        /// Reads a page of the same; the first without a token.
        pub async fn $page(
            &self,
            $($arg: &str,)*
            after: Option<&str>,
        ) -> Result<Page<$item>, T::Error> {
            $(let $arg = segment($arg)?;)*
            self.page(&format!($path), after).await
        }
    )*};
}

impl<T: Transport> Client<T> {
    /// Makes a client of the API at that URL.
    pub fn new(base_url: &str, transport: T) -> Self {
        Self {
            base_url: base_url.trim_end_matches('/').to_owned(),
            transport,
            condition: None,
            is_strict: false,
        }
    }

    /// Makes changes fail unless the resource meets this condition.
    #[must_use]
    pub fn only_if(mut self, condition: Option<Condition>) -> Self {
        self.condition = condition;
        self
    }

    /// Refuses answers with members that the types lack: what is written from such an answer would lose
    /// settings of a newer deployment.
    #[must_use]
    pub fn strict(mut self) -> Self {
        self.is_strict = true;
        self
    }

    /// The base URL, without a slash at its end.
    pub fn base_url(&self) -> &str {
        &self.base_url
    }

    /// Returns what sends its requests.
    pub fn transport(&self) -> &T {
        &self.transport
    }

    /// Returns what sends its requests, to set it up.
    pub fn transport_mut(&mut self) -> &mut T {
        &mut self.transport
    }

    /// Makes a request.
    pub fn request(&self, method: Method, url: String, body: Option<String>) -> Request {
        let condition = self.condition.clone().filter(|condition| match condition {
            Condition::IsNew => method == Method::PUT,
            Condition::Is(_) => method != Method::GET,
        });
        Request { method, url, body, condition }
    }

    calls! {
        call:
        /// Reads the access keys of a topic.
        keys(topic) -> Keys = POST "/topics/{topic}/listKeys";
        /// Reads the health of an event subscription's endpoint.
        health(topic, name) -> Health = GET "/topics/{topic}/eventSubscriptions/{name}/health";
        /// Ends what keeps the endpoint from being attempted.
        reset_health(topic, name) -> Health
            = POST "/topics/{topic}/eventSubscriptions/{name}/health:reset";
        /// Reads a delivery that has failed, with its attempts.
        delivery(topic, name, id) -> DeliveryShown
            = GET "/topics/{topic}/eventSubscriptions/{name}/deliveries/{id}";
        /// Has a waiting delivery attempted now.
        resend(topic, name, id) -> Resent
            = POST "/topics/{topic}/eventSubscriptions/{name}/deliveries/{id}/resend";
        /// Reads a dead letter with its event.
        dead_letter(topic, name, id) -> DeadLetterShown
            = GET "/topics/{topic}/eventSubscriptions/{name}/deadLetters/{id}";
        /// Begins a redrive job. Refused with 409 while one is running.
        redrive(topic, name) [input: RedriveInput] -> Redrive
            = POST "/topics/{topic}/eventSubscriptions/{name}/deadLetters:redrive";
        /// Reads a redrive job.
        redrive_job(topic, name, id) -> Redrive
            = GET "/topics/{topic}/eventSubscriptions/{name}/redrives/{id}";
        /// Stops a redrive job.
        cancel_redrive(topic, name, id) -> Redrive
            = POST "/topics/{topic}/eventSubscriptions/{name}/redrives/{id}/cancel";
        /// Has a redrive job go on.
        resume_redrive(topic, name, id) [input: ResumeInput] -> Redrive
            = POST "/topics/{topic}/eventSubscriptions/{name}/redrives/{id}/resume";
        /// Resumes an event subscription.
        resume(topic, name) -> PauseStanding
            = POST "/topics/{topic}/eventSubscriptions/{name}/resume";
        /// Reads the URL of a webhook, query included.
        full_url(topic, name) -> FullUrl
            = POST "/topics/{topic}/eventSubscriptions/{name}/getFullUrl";
        /// Reads delivery attributes, secret values included.
        delivery_attributes(topic, name) -> DeliveryAttributes
            = POST "/topics/{topic}/eventSubscriptions/{name}/getDeliveryAttributes";
        /// Reads the secrets that sign requests.
        signing_secrets(topic, name) -> SigningSecrets
            = POST "/topics/{topic}/eventSubscriptions/{name}/getSigningSecrets";
        /// Replaces the signing secret; the one until now stays valid for a time.
        rotate_signing_secret(topic, name) [input: RotateInput] -> SigningSecrets
            = POST "/topics/{topic}/eventSubscriptions/{name}/rotateSigningSecret";
        /// Reads a poison message with its body.
        poison_message(id) -> PoisonShown = GET "/poison/{id}";
        /// Sends poison messages back.
        resend_poison() [input: ResendInput] -> Handled = POST "/poison:resend";
        /// Removes poison messages.
        purge_poison() [input: PurgeInput] -> Handled = POST "/poison:purge";
    }

    /// Asks the journal. While the answer takes its time, it looks again after each `pause`. Reads page after
    /// page until there are `most` entries, or no more: then there is no `next_link`.
    pub async fn ask_journal<F: Future<Output = ()> + Send>(
        &self,
        input: &JournalQueryInput,
        most: usize,
        mut pause: impl FnMut(&JournalQuery) -> F + Send,
    ) -> Result<JournalQuery, T::Error> {
        let path = "/journalQueries";
        let (mut method, mut body) = (Method::POST, Some(text(input)));
        let mut url = format!("{}{path}", self.base_url);
        let mut pages: Option<JournalQuery> = None;
        for _ in 0..PAGES_MAX {
            let (page, _) = self.read::<JournalQuery>(method, url.clone(), body).await?;
            (method, body) = (Method::GET, None);
            if page.status == JournalQueryStatus::Running {
                pause(&page).await;
                if pages.is_none() {
                    url = format!("{}{path}/{}", self.base_url, page.id);
                }
                continue;
            }
            let answer = match pages.take() {
                Some(mut before) => {
                    before.extend(page);
                    before
                }
                None => page,
            };
            match &answer.next_link {
                Some(link) if answer.entries() < most => url = self.resolve(link.clone())?,
                _ => return Ok(answer),
            }
            pages = Some(answer);
        }
        Err(ClientError::NoEnd { path: path.to_owned() }.into())
    }

    calls! {
        tagged:
        /// Creates or replaces a topic.
        put_topic(topic) [document: impl Serialize] -> Tagged<Topic> = PUT "/topics/{topic}";
        /// Changes what a patch names of a topic.
        patch_topic(topic) [patch: impl Serialize] -> Tagged<Topic> = PATCH "/topics/{topic}";
        /// Reads a topic.
        topic(topic) -> Tagged<Topic> = GET "/topics/{topic}";
        /// Creates or replaces an event subscription; a new endpoint is asked for its consent.
        put_subscription(topic, name) [document: impl Serialize] -> Tagged<EventSubscription>
            = PUT "/topics/{topic}/eventSubscriptions/{name}";
        /// Changes what a patch names of an event subscription.
        patch_subscription(topic, name) [patch: impl Serialize] -> Tagged<EventSubscription>
            = PATCH "/topics/{topic}/eventSubscriptions/{name}";
        /// Reads an event subscription.
        subscription(topic, name) -> Tagged<EventSubscription>
            = GET "/topics/{topic}/eventSubscriptions/{name}";
    }

    lists! {
        /// Lists every topic.
        topics, topics_page() -> Topic = "/topics";
        /// Lists every event subscription of a topic.
        subscriptions, subscriptions_page(topic) -> EventSubscription
            = "/topics/{topic}/eventSubscriptions";
        /// Lists the health of each event subscription of a topic.
        healths, healths_page(topic) -> NamedHealth = "/topics/{topic}/healths";
        /// Lists every delivery that has failed and not ended.
        deliveries, deliveries_page(topic, name) -> Delivery
            = "/topics/{topic}/eventSubscriptions/{name}/deliveries";
        /// Lists the redrive jobs of an event subscription, the newest first.
        redrives, redrives_page(topic, name) -> Redrive
            = "/topics/{topic}/eventSubscriptions/{name}/redrives";
    }

    /// Deletes a topic and its event subscriptions. Returns whether it was there.
    pub async fn delete_topic(&self, topic: &str) -> Result<bool, T::Error> {
        self.delete(&topic_path(topic)?).await
    }

    /// Replaces one access key by a new one.
    pub async fn regenerate_key(&self, topic: &str, key: AccessKey) -> Result<Keys, T::Error> {
        let path = format!("{}/regenerateKey", topic_path(topic)?);
        self.call(Method::POST, &path, Some(text(&KeyName { key_name: Some(key) }))).await
    }

    /// Deletes an event subscription. Returns whether it was there.
    pub async fn delete_subscription(&self, topic: &str, name: &str) -> Result<bool, T::Error> {
        self.delete(&subscription_path(topic, name)?).await
    }

    /// Pauses an event subscription.
    pub async fn pause(
        &self,
        topic: &str,
        name: &str,
        time_to_live_runs: bool,
    ) -> Result<PauseStanding, T::Error> {
        let path = format!("{}/pause", subscription_path(topic, name)?);
        let input = PauseInput { time_to_live_runs: Some(time_to_live_runs) };
        self.call(Method::POST, &path, Some(text(&input))).await
    }

    /// Takes deliveries that have failed and not ended, one by one, as long as `take` says that it goes on.
    /// Returns whether there was no more to take.
    pub async fn each_delivery(
        &self,
        topic: &str,
        name: &str,
        mut take: impl FnMut(Delivery) -> ControlFlow<()> + Send,
    ) -> Result<bool, T::Error> {
        let path = format!("{}/deliveries", subscription_path(topic, name)?);
        let take = |page: List<Delivery>| {
            let flow = page.value.into_iter().try_for_each(&mut take);
            (flow, page.next_link)
        };
        self.each(Method::GET, &path, None, take).await
    }

    /// Counts the same by the hour of their publish; takes the answer of each request.
    pub async fn count_deliveries(
        &self,
        topic: &str,
        name: &str,
        mut take: impl FnMut(&DeliveryCount) -> ControlFlow<()> + Send,
    ) -> Result<bool, T::Error> {
        let path = format!("{}/deliveries:count", subscription_path(topic, name)?);
        let take = |count: DeliveryCount| (take(&count), count.next_link);
        self.each(Method::GET, &path, None, take).await
    }

    /// Reads the first `most` dead letters of an event subscription. Of `chosen`, `all` does not count.
    pub async fn dead_letters(
        &self,
        topic: &str,
        name: &str,
        chosen: &PurgeDeadLettersInput,
        most: usize,
    ) -> Result<Vec<DeadLetter>, T::Error> {
        let mut found = Vec::new();
        let take = |page: List<DeadLetter>| {
            found.extend(page.value);
            let has_enough = found.len() >= most;
            let flow = if has_enough { ControlFlow::Break(()) } else { ControlFlow::Continue(()) };
            (flow, page.next_link)
        };
        self.each(Method::GET, &letters_path(topic, name, "", chosen)?, None, take).await?;
        found.truncate(most);
        Ok(found)
    }

    /// Reads a page of the same; the first without a token.
    pub async fn dead_letters_page(
        &self,
        topic: &str,
        name: &str,
        chosen: &PurgeDeadLettersInput,
        after: Option<&str>,
    ) -> Result<Page<DeadLetter>, T::Error> {
        self.page(&letters_path(topic, name, "", chosen)?, after).await
    }

    /// Counts dead letters; takes the answer of each request. Of `chosen`, `all` does not count.
    pub async fn count_dead_letters(
        &self,
        topic: &str,
        name: &str,
        chosen: &PurgeDeadLettersInput,
        mut take: impl FnMut(&DeadLetterCount) -> ControlFlow<()> + Send,
    ) -> Result<bool, T::Error> {
        let path = letters_path(topic, name, ":count", chosen)?;
        let take = |count: DeadLetterCount| (take(&count), count.next_link);
        self.each(Method::GET, &path, None, take).await
    }

    /// Deletes objects all of whose dead letters are chosen; takes the answer of each request.
    pub async fn purge_dead_letters(
        &self,
        topic: &str,
        name: &str,
        input: &PurgeDeadLettersInput,
        mut take: impl FnMut(&DeadLettersPurged) + Send,
    ) -> Result<bool, T::Error> {
        let path = format!("{}/deadLetters:purge", subscription_path(topic, name)?);
        let take = |purged: DeadLettersPurged| {
            take(&purged);
            (ControlFlow::Continue(()), purged.next_link)
        };
        self.each(Method::POST, &path, Some(text(input)), take).await
    }

    /// Reads up to `most` messages of the poison queue.
    pub async fn poison(&self, most: u32) -> Result<PoisonList, T::Error> {
        self.call(Method::GET, &format!("/poison?$top={most}"), None).await
    }

    /// Lists parked deliveries, in no order. Of `chosen`, topic and name count.
    pub async fn parked(&self, chosen: &ParkedInput) -> Result<Vec<Parked>, T::Error> {
        self.all(&parked_path(chosen)).await
    }

    /// Reads a page of the same; the first without a token.
    pub async fn parked_page(
        &self,
        chosen: &ParkedInput,
        after: Option<&str>,
    ) -> Result<Page<Parked>, T::Error> {
        self.page(&parked_path(chosen), after).await
    }

    /// Releases parked deliveries to their retry queues, or cancels them (`release`, `cancel`); takes what
    /// became of those of each request.
    pub async fn change_parked(
        &self,
        action: &str,
        chosen: &ParkedInput,
        mut take: impl FnMut(Vec<HandledDelivery>) + Send,
    ) -> Result<bool, T::Error> {
        let take = |handled: List<HandledDelivery>| {
            take(handled.value);
            (ControlFlow::Continue(()), handled.next_link)
        };
        self.each(Method::POST, &format!("/parked:{action}"), Some(text(chosen)), take).await
    }

    /// Tests sample events, an array or one by itself, against a filter: an object with `name` or
    /// `properties`. Events go as the texts that they are: a value would have lost what makes a publish
    /// refuse an event, or take it.
    pub async fn test_subscription(
        &self,
        topic: &str,
        filter: &impl Serialize,
        events: &RawValue,
    ) -> Result<TestResult, T::Error> {
        let path = format!("{}/eventSubscriptions:test", topic_path(topic)?);
        self.call(Method::POST, &path, Some(with_text(&text(filter), "events", events))).await
    }

    /// Asks which event subscriptions of a topic an event matches, and why not the others.
    pub async fn explain(&self, topic: &str, event: &RawValue) -> Result<Explained, T::Error> {
        let path = format!("{}/explain", topic_path(topic)?);
        self.call(Method::POST, &path, Some(with_text("{}", "event", event))).await
    }

    /// Sends one event to an event subscription alone.
    pub async fn send_test_event(
        &self,
        topic: &str,
        name: &str,
        event: &RawValue,
    ) -> Result<TestEventSent, T::Error> {
        let path = format!("{}/sendTestEvent", subscription_path(topic, name)?);
        self.call(Method::POST, &path, Some(with_text("{}", "event", event))).await
    }

    async fn call<D: DeserializeOwned + Serialize>(
        &self,
        method: Method,
        path: &str,
        body: Option<String>,
    ) -> Result<D, T::Error> {
        Ok(self.read(method, format!("{}{path}", self.base_url), body).await?.0)
    }

    async fn read<D: DeserializeOwned + Serialize>(
        &self,
        method: Method,
        url: String,
        body: Option<String>,
    ) -> Result<(D, Answer), T::Error> {
        let request = self.request(method.clone(), url.clone(), body);
        let answer = self.transport.send(request).await?;
        match serde_json::from_str(&answer.body) {
            Ok(document) => {
                let members =
                    if self.is_strict { unknown(&answer.body, &document) } else { vec![] };
                match members.is_empty() {
                    true => Ok((document, answer)),
                    false => Err(ClientError::Unknown { url, members: members.join(", ") }.into()),
                }
            }
            Err(source) => {
                let status = answer.status;
                Err(match source.is_data() {
                    true => ClientError::Document { method, url, status, source },
                    false => ClientError::NotJson { method, url, status, source },
                }
                .into())
            }
        }
    }

    async fn tagged<D: DeserializeOwned + Serialize>(
        &self,
        method: Method,
        path: &str,
        body: Option<String>,
    ) -> Result<Tagged<D>, T::Error> {
        let (document, answer) =
            self.read(method, format!("{}{path}", self.base_url), body).await?;
        Ok(Tagged { document, is_new: answer.status == 201, etag: answer.etag })
    }

    async fn delete(&self, path: &str) -> Result<bool, T::Error> {
        let url = format!("{}{path}", self.base_url);
        let request = self.request(Method::DELETE, url, None);
        Ok(self.transport.send(request).await?.status != 204)
    }

    async fn all<D: DeserializeOwned + Serialize + Send>(
        &self,
        path: &str,
    ) -> Result<Vec<D>, T::Error> {
        let mut found = Vec::new();
        let take = |page: List<D>| {
            found.extend(page.value);
            (ControlFlow::Continue(()), page.next_link)
        };
        self.each(Method::GET, path, None, take).await?;
        Ok(found)
    }

    /// Repeats a request as long as its answer says where it goes on, and `take` that it does. Returns
    /// whether it came to the end.
    async fn each<D: DeserializeOwned + Serialize>(
        &self,
        method: Method,
        path: &str,
        body: Option<String>,
        mut take: impl FnMut(D) -> (ControlFlow<()>, Option<String>),
    ) -> Result<bool, T::Error> {
        let mut next = format!("{}{path}", self.base_url);
        for _ in 0..PAGES_MAX {
            let (document, _) = self.read(method.clone(), next, body.clone()).await?;
            match take(document) {
                (ControlFlow::Break(()), _) => return Ok(false),
                (ControlFlow::Continue(()), None) => return Ok(true),
                (ControlFlow::Continue(()), Some(link)) => next = self.resolve(link)?,
            }
        }
        Err(ClientError::NoEnd { path: path.to_owned() }.into())
    }

    async fn page<D: DeserializeOwned + Serialize>(
        &self,
        path: &str,
        after: Option<&str>,
    ) -> Result<Page<D>, T::Error> {
        let mark = if path.contains('?') { '&' } else { '?' };
        let mut path = format!("{path}{mark}$top={TOP}");
        if let Some(after) = after {
            path.push_str("&$skiptoken=");
            path.extend(byte_serialize(after.as_bytes()));
        }
        let List { value, next_link } = self.call(Method::GET, &path, None).await?;
        Ok(Page { items: value, next: next_link.as_deref().and_then(token) })
    }

    /// Returns a `nextLink` as a whole URL. One that leads elsewhere is refused.
    fn resolve(&self, link: String) -> Result<String, ClientError> {
        if link.starts_with('/') {
            return Ok(format!("{}{link}", self.base_url));
        }
        match link.strip_prefix(&self.base_url) {
            Some(rest) if rest.starts_with('/') => Ok(link),
            _ => Err(ClientError::Elsewhere { link, base_url: self.base_url.clone() }),
        }
    }
}

/// Lists the members of an answer that its document lacks.
fn unknown(answer: &str, document: &impl Serialize) -> Vec<String> {
    let mut found = Vec::new();
    if let (Ok(given), Ok(known)) = (serde_json::from_str(answer), serde_json::to_value(document)) {
        compare("", &given, &known, &mut found);
    }
    found
}

fn compare(path: &str, given: &Value, known: &Value, found: &mut Vec<String>) {
    match (given, known) {
        (Value::Object(given), Value::Object(known)) => {
            for (name, value) in given.iter().filter(|(_, value)| !value.is_null()) {
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                match known.get(name) {
                    Some(known) => compare(&path, value, known, found),
                    None => found.push(path),
                }
            }
        }
        (Value::Array(given), Value::Array(known)) => {
            for (index, (given, known)) in given.iter().zip(known).enumerate() {
                compare(&format!("{path}[{index}]"), given, known, found);
            }
        }
        _ => {}
    }
}

fn topic_path(topic: &str) -> Result<String, ClientError> {
    Ok(format!("/topics/{}", segment(topic)?))
}

fn subscription_path(topic: &str, name: &str) -> Result<String, ClientError> {
    Ok(format!("{}/eventSubscriptions/{}", topic_path(topic)?, segment(name)?))
}

fn letters_path(
    topic: &str,
    name: &str,
    action: &str,
    chosen: &PurgeDeadLettersInput,
) -> Result<String, ClientError> {
    let PurgeDeadLettersInput { from, to, reason, event_type, event_id, redriven, all: _ } = chosen;
    let parameters = [
        ("from", from.map(|from| from.to_string())),
        ("to", to.map(|to| to.to_string())),
        ("reason", reason.clone()),
        ("eventType", event_type.clone()),
        ("eventId", event_id.clone()),
        ("redriven", redriven.map(|redriven| redriven.to_string())),
    ];
    let path = subscription_path(topic, name)?;
    Ok(format!("{path}/deadLetters{action}{}", query(parameters)))
}

fn parked_path(ParkedInput { topic, event_subscription, .. }: &ParkedInput) -> String {
    let parameters = [("topic", topic.clone()), ("eventSubscription", event_subscription.clone())];
    format!("/parked{}", query(parameters))
}

/// Returns a name as it may stand in a path. Its length is for the server to judge.
fn segment(name: &str) -> Result<&str, ClientError> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    let is_name = !name.is_empty() && name.bytes().all(fits);
    if is_name { Ok(name) } else { Err(ClientError::Name(name.to_owned())) }
}

fn text(document: &impl Serialize) -> String {
    serde_json::to_string(document).unwrap_or_default()
}

/// Returns an object with one more member, whose JSON text stays as it is.
pub fn with_text(object: &str, member: &str, value: impl Display) -> String {
    let others = object.strip_suffix('}').unwrap_or("{");
    let comma = if others.len() > 1 { "," } else { "" };
    format!("{others}{comma}\"{member}\":{value}}}")
}

/// Returns a query of the parameters that have a value, with its question mark; empty without any.
fn query<const N: usize>(parameters: [(&str, Option<String>); N]) -> String {
    let given = parameters.into_iter().filter_map(|(name, value)| Some((name, value?)));
    match form_urlencoded::Serializer::new(String::new()).extend_pairs(given).finish() {
        none if none.is_empty() => none,
        query => format!("?{query}"),
    }
}

/// Returns the token of a `nextLink`.
fn token(link: &str) -> Option<String> {
    let mut pairs = form_urlencoded::parse(link.split_once('?')?.1.as_bytes());
    pairs.find(|(name, _)| name == "$skiptoken").map(|(_, token)| token.into_owned())
}

#[cfg(test)]
mod tests;
