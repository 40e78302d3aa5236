//! Lists, releases and cancels parked deliveries.
//!
//! They are stored by their due minutes, so a search scans the table. A request ends at a limit of
//! deliveries or time, and returns where the next one continues.

use std::{collections::BTreeSet, time::Duration};

use futures::{StreamExt, stream};
use gridpost_api::{
    delivery::WaitingDelivery,
    requests::{ParkedInput, choice},
    schema::List,
    waiting::{
        self, HandledDelivery, HandledDeliveryList, ParkedDelivery, ParkedList, ParkedResult,
        UnreadableDelivery,
    },
};
use gridpost_core::{
    access::Scope,
    delivery::{
        Delivery,
        parking::{self, Parked},
        state::{DeliveryState, DeliveryStatus},
    },
    error::chain,
    name,
    retry::EndReason,
};
use gridpost_ports::{Outgoing, ParkedCursor, PortError, Saved};
use serde::Serialize;

use super::{Answer, InContext, openapi::*, send_back, sent::Sent};
use crate::{
    Context, Reply, TRIES_MAX,
    page::{Form, Page},
};

const TOPIC: &str = "topic";
const SUBSCRIPTION: &str = "eventSubscription";

/// How long a sent message is delayed, so that its removal from the parking lot, up to 6 s, comes
/// before: dispatch may park it again under the same key, and that copy must stay.
const REMOVED_WITHIN: Duration = Duration::from_secs(10);

/// The delay of a parked delivery that is sent back, in seconds.
pub(super) fn delay_s(context: &Context) -> u32 {
    parking::delay_s(context.clock.pace().to_clock(REMOVED_WITHIN))
}

pub(super) const LIST: Form =
    Form { filters: &[TOPIC, SUBSCRIPTION], is_token: Some(|text| place_of(text).is_some()) };

pub(super) const CHANGE: Form = Form { filters: &[], ..LIST };

/// How long one request scans: API Gateway waits 30 s for its answer, and the deliveries are handled
/// after the scan.
const SEARCH_MAX: Duration = Duration::from_secs(10);

/// Deliveries handled concurrently.
const AT_ONCE_MAX: usize = 16;

/// Separates the keys in a token. No key has it.
const PLACE_SEPARATOR: char = '\n';

fn is_chosen(by: &ParkedInput, one: &One) -> bool {
    let is = |wanted: &Option<String>, found: &str| {
        wanted.as_deref().is_none_or(|wanted| name::is_same(wanted, found))
    };
    by.ids.as_ref().is_none_or(|ids| ids.contains(&one.parked.id.to_string()))
        && is(&by.topic, &one.topic)
        && is(&by.event_subscription, &one.subscription)
}

/// A parked delivery, decoded if possible.
struct One {
    parked: Parked,
    delivery: Result<Box<Delivery>, String>,
    topic: String,
    subscription: String,
}

impl One {
    fn of(parked: Parked) -> Self {
        let delivery = Delivery::decode(&parked.body).map(Box::new);
        let delivery = delivery.map_err(|error| chain(&error));
        let (topic, subscription) = match &delivery {
            Ok(delivery) => {
                (delivery.subscription.topic.clone(), delivery.subscription.name.clone())
            }
            Err(_) => {
                let (topic, name) = parked.group.split_once('/').unwrap_or_default();
                (topic.to_owned(), name.to_owned())
            }
        };
        Self { parked, delivery, topic, subscription }
    }

    fn document(&self) -> waiting::Parked {
        let due = self.parked.due.into();
        match &self.delivery {
            Ok(delivery) => {
                let problem = (self.parked.postponed > 0).then(|| {
                    format!(
                        "it could not be sent back, {} times so far; wake tries again when it is due, \
                         and its log says why",
                        self.parked.postponed,
                    )
                });
                waiting::Parked::Delivery(ParkedDelivery {
                    delivery: WaitingDelivery { due: Some(due), ..(&**delivery).into() },
                    is_paused: self.parked.lot.map(|_| true),
                    problem,
                })
            }
            Err(problem) => waiting::Parked::Unreadable(UnreadableDelivery {
                id: self.parked.id,
                topic: self.topic.clone(),
                event_subscription: self.subscription.clone(),
                due,
                problem: problem.clone(),
            }),
        }
    }
}

/// Parked deliveries, in no order
#[utoipa::path(
    get,
    path = "/parked",
    operation_id = "listParked",
    params(Paging, OfParked),
    responses(
        (status = 200, description = "Some of them; more behind nextLink.", body = ParkedList),
        Refused
    )
)]
pub(super) async fn list(context: InContext, sent: Sent) -> Answer {
    let (context, page) = (&context, &sent.page_of(LIST)?);
    let filter = |name| page.filter(name).map(str::to_owned);
    let chosen = ParkedInput {
        topic: filter(TOPIC),
        event_subscription: filter(SUBSCRIPTION),
        ..ParkedInput::default()
    };
    let (found, next) = search(context, page, (&chosen, &sent.scope)).await?;
    let documents: Vec<_> = found.iter().map(One::document).collect();
    Ok(answer(context, "/parked", page, documents, next.as_ref()))
}

/// Send parked deliveries to their retry queues now
#[utoipa::path(
    post,
    path = "/parked:release",
    operation_id = "releaseParked",
    params(Paging),
    request_body = choice::ParkedInput,
    responses(
        (status = 200, body = HandledDeliveryList,
            description = "What became of each; the same request to nextLink goes on."),
        Refused, NotDocument
    )
)]
pub(super) async fn release(context: InContext, sent: Sent) -> Answer {
    change(&context, "/parked:release", &sent, Action::Release).await
}

/// End parked deliveries: they become dead letters or are dropped
#[utoipa::path(
    post,
    path = "/parked:cancel",
    operation_id = "cancelParked",
    params(Paging),
    request_body = choice::ParkedInput,
    responses(
        (status = 200, body = HandledDeliveryList,
            description = "What became of each; the same request to nextLink goes on."),
        Refused, NotDocument
    )
)]
pub(super) async fn cancel(context: InContext, sent: Sent) -> Answer {
    change(&context, "/parked:cancel", &sent, Action::Cancel).await
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Release,
    Cancel,
}

async fn change(context: &Context, path: &str, sent: &Sent, action: Action) -> Answer {
    let page = &sent.page_of(CHANGE)?;
    let chosen = ParkedInput::read(&sent.document()?)?;
    let (found, next) = search(context, page, (&chosen, &sent.scope)).await?;
    let handled = stream::iter(found).map(|one| handle(context, one, action));
    let handled: Vec<_> = handled.buffered(AT_ONCE_MAX).collect().await;
    Ok(answer(context, path, page, handled, next.as_ref()))
}

/// Finds the chosen deliveries in scope after the page's place, up to a page, and where to continue.
async fn search(
    context: &Context,
    page: &Page,
    (chosen, scope): (&ParkedInput, &Scope),
) -> Result<(Vec<One>, Option<ParkedCursor>), PortError> {
    let until = context.clock.after(SEARCH_MAX);
    let mut place = page.after.as_deref().and_then(place_of);
    let mut found = Vec::new();
    loop {
        let some = context.parked.list_after(place.as_ref()).await?;
        let deliveries = some.found.into_iter().filter(|(_, parked)| parked.watch.is_none());
        for (at, parked) in deliveries {
            let one = One::of(parked);
            if is_chosen(chosen, &one) && scope.has(&one.topic) {
                found.push(one);
            }
            if found.len() >= page.most() {
                return Ok((found, Some(at)));
            }
        }
        // A delivery may be parked twice.
        let named: BTreeSet<_> = found.iter().map(|one| one.parked.id).collect();
        let all_named = chosen.ids.as_ref().is_some_and(|ids| named.len() >= ids.len());
        place = some.next;
        if place.is_none() || all_named {
            return Ok((found, None));
        }
        if context.clock.now() >= until {
            return Ok((found, place));
        }
    }
}

fn answer<T: Serialize>(
    context: &Context,
    path: &str,
    page: &Page,
    value: Vec<T>,
    next: Option<&ParkedCursor>,
) -> Reply {
    let next_link = next.map(|ParkedCursor { partition, sort }| {
        let url = format!("{}{path}", context.settings.manage_url);
        page.next_link(&url, &format!("{partition}{PLACE_SEPARATOR}{sort}"))
    });
    Reply::ok(List { value, next_link })
}

fn place_of(text: &str) -> Option<ParkedCursor> {
    let (partition, sort) = text.split_once(PLACE_SEPARATOR)?;
    // DynamoDB: a partition key has 1 to 2,048 bytes, a sort key 1 to 1,024.
    let fits = (1..=2_048).contains(&partition.len()) && (1..=1_024).contains(&sort.len());
    fits.then(|| ParkedCursor { partition: partition.to_owned(), sort: sort.to_owned() })
}

async fn handle(context: &Context, one: One, action: Action) -> HandledDelivery {
    let id = one.parked.id;
    if let (Action::Cancel, Err(problem)) = (action, &one.delivery) {
        let message = format!(
            "it can't be read ({problem}), so nothing says where its dead letter would go; release \
             it, and dispatch moves it to the poison queue"
        );
        return HandledDelivery { id, result: ParkedResult::Refused, message: Some(message) };
    }
    match carry_out(context, &one, action).await {
        Ok(status) => {
            let (result, message) = result_of(action, status);
            tracing::info!(
                delivery.id = %id,
                subscription = %one.parked.group,
                %result,
                "a parked delivery was sent to its retry queue",
            );
            HandledDelivery { id, result, message }
        }
        Err(error) => {
            tracing::warn!(delivery.id = %id, error = %chain(&error), "{action:?} failed");
            let message = Some(format!("{} failed. Try again.", error.call));
            HandledDelivery { id, result: ParkedResult::Failed, message }
        }
    }
}

/// Returns the result for a delivery's status, and why it is not the requested one.
fn result_of(action: Action, status: DeliveryStatus) -> (ParkedResult, Option<String>) {
    use DeliveryStatus::{Delivered, Ended, Ending};
    use ParkedResult::{AlreadyDelivered, AlreadyEnded, Canceled, Released};
    match (action, status) {
        (Action::Release, _) => (Released, None),
        (Action::Cancel, Delivered) => {
            let why = "its events were delivered before";
            (AlreadyDelivered, Some(why.to_owned()))
        }
        (Action::Cancel, Ended) => {
            let why = "it had ended before, as a dead letter or a drop";
            (AlreadyEnded, Some(why.to_owned()))
        }
        // An earlier request that failed midway may have canceled it.
        (Action::Cancel, Ending { reason, .. }) if reason != EndReason::CanceledByOperator => {
            (AlreadyEnded, Some(format!("its end was decided before ({reason})")))
        }
        (Action::Cancel, _) => (Canceled, None),
    }
}

/// Writes the state first, which tells dispatch what to do; then sends the message, and last removes
/// the parked delivery. After a crash before that, wake sends it again, and the copies share the
/// state. Returns the delivery's status.
async fn carry_out(
    context: &Context,
    one: &One,
    action: Action,
) -> Result<DeliveryStatus, PortError> {
    let now = context.clock.now();
    let wanted = match action {
        Action::Release => DeliveryStatus::Waiting { due: now },
        Action::Cancel => DeliveryStatus::Ending { reason: EndReason::CanceledByOperator, at: now },
    };
    let (body, status) = match &one.delivery {
        Ok(delivery) => {
            let status = write_status(context, delivery, wanted).await?;
            (delivery.due_at(now).encode(), status)
        }
        Err(_) => (one.parked.body.clone(), wanted),
    };
    let outgoing = Outgoing::new(body, one.parked.group.clone(), delay_s(context));
    send_back(context, super::retry_queue(context, &one.parked)?, outgoing).await?;
    context.parking.remove(&one.parked).await?;
    Ok(status)
}

/// Writes the status of a waiting delivery, and returns the status in force: an end stays. A delivery
/// without a state was never attempted; its message has the due time, and only an end needs a state.
async fn write_status(
    context: &Context,
    delivery: &Delivery,
    status: DeliveryStatus,
) -> Result<DeliveryStatus, PortError> {
    for _ in 0..TRIES_MAX {
        let next = match context.states.load(delivery.id).await? {
            Some(state) if matches!(state.status, DeliveryStatus::Waiting { .. }) => {
                DeliveryState { status, ..state }
            }
            None if !matches!(status, DeliveryStatus::Waiting { .. }) => {
                super::first_state(delivery, status)
            }
            Some(state) => return Ok(state.status),
            None => return Ok(status),
        };
        if context.states.save(&next).await? == Saved::Written {
            return Ok(status);
        }
        context.back_off().await;
    }
    Err(PortError::new("writing a delivery's state", "others wrote at the same time"))
}
