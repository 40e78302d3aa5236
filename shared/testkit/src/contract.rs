//! What any implementation of the ports must do, as functions that a test calls with one: the fakes, the
//! stores of one machine, and the adapters of AWS with recorded responses and on an emulation.
//!
//! Each says which world it needs: an empty table, a queue that refuses certain entries. How that world
//! is made is the test's own affair. Where an implementation does otherwise than AWS, that is a
//! [`Difference`], and it is asserted, too.

pub mod configuration;
pub mod objects;
pub mod parking;
pub mod poison;
pub mod queues;
pub mod tables;

use gridpost_core::{
    delivery::{
        parking::Parked,
        redrive::{Counts, Job, Phase, RedriveFilter, Status},
        state::{DeliveryState, DeliveryStatus},
    },
    event::DeliverySchema,
    retry::{attempts::Attempts, outcome::Outcome},
    subscription::SubscriptionKey,
    time::Timestamp,
};
use gridpost_ports::Outgoing;
use uuid::Uuid;

/// The dead-letter bucket of these tests.
pub const BUCKET: &str = "letters";

/// What an implementation does otherwise than AWS. No handler may rely on AWS's way, or its test does not
/// show that it works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Difference {
    /// One message that is too large makes its whole call fail. SQS answers for each entry.
    FailsWholeCall,
    /// A message whose time is over is hidden all the same. SQS: `MessageNotInflight`.
    HidesWhatIsVisible,
    /// A message may be hidden for 12 hours from now, however long ago it was received. SQS counts
    /// from the receive, and refuses.
    HidesForLonger,
    /// A queue keeps its messages until they are deleted. SQS forgets them after its retention period.
    KeepsMessages,
    /// A message of the poison queue does not say which queue it was in. SQS names that.
    ForgetsWhereItWas,
    /// A message that is moved to the poison queue becomes a new one. SQS leaves it its id, when it was
    /// sent, how often it was received, and its group.
    MovesAsNew,
    /// An item is there for ever. DynamoDB deletes it some time within two days after it expired.
    KeepsItems,
}

/// Where the fakes differ from AWS.
pub const OF_FAKES: &[Difference] = &[Difference::MovesAsNew];

/// Where the stores of one machine do.
pub const OF_EMBEDDED: &[Difference] = &[Difference::HidesForLonger, Difference::KeepsMessages];

/// Where moto, a second emulation of AWS, does.
pub const OF_MOTO: &[Difference] = &[
    Difference::FailsWholeCall,
    Difference::HidesWhatIsVisible,
    Difference::ForgetsWhereItWas,
    Difference::KeepsItems,
];

impl Difference {
    /// Asserts that something is as with AWS, or otherwise where that is listed: a list that is out of
    /// date fails.
    fn holds(self, listed: &[Self], is_as_with_aws: bool) {
        let is_listed = listed.contains(&self);
        assert_eq!(!is_as_with_aws, is_listed, "{self:?}: is it a difference, and is it listed?");
    }
}

/// A delivery that has failed once and waits.
pub fn state(number: u128) -> DeliveryState {
    let at = Timestamp::from_millis(1_000);
    DeliveryState {
        id: Uuid::from_u128(number),
        subscription: key(),
        subscription_uid: Uuid::from_u128(5),
        publish_time: at,
        redriven_at: None,
        events: 1,
        done: Default::default(),
        attempts: Attempts::default().with(at, Outcome::Busy, Some(503)),
        standing: DeliveryStatus::Waiting { due: Timestamp::from_millis(90_000) },
        past: Vec::new(),
        receipt: None,
        resend: None,
        revision: 0,
    }
}

/// The event subscription that everything here is of.
pub fn key() -> SubscriptionKey {
    SubscriptionKey { topic: "t".to_owned(), name: "s".to_owned() }
}

/// Messages whose bodies are their numbers, from 0.
pub fn messages(count: usize) -> Vec<Outgoing> {
    (0..count).map(|number| message(&number.to_string(), 0)).collect()
}

/// A message of that body and delay.
pub fn message(body: &str, delay_s: u32) -> Outgoing {
    Outgoing { body: body.to_owned(), group: "t/s".to_owned(), delay_s }
}

/// A parked delivery that is due in minute 1.
pub fn parked(number: u128) -> Parked {
    Parked {
        id: Uuid::from_u128(number),
        due: Timestamp::from_millis(90_000),
        shard: 0,
        group: "t/s".to_owned(),
        postponed: 0,
        body: "{}".to_owned(),
    }
}

/// A redrive job that was never written.
pub fn job(number: u128) -> Job {
    let at = Timestamp::default();
    Job {
        id: Uuid::from_u128(number),
        subscription: key(),
        bucket: BUCKET.to_owned(),
        folder: "dead/S".to_owned(),
        wanted: RedriveFilter::default(),
        to: key(),
        to_uid: Uuid::from_u128(5),
        schema: DeliverySchema::EventGridSchema,
        source_schema: None,
        events_per_second: 10,
        max_redrives: 3,
        send_again: false,
        dry_run: false,
        created_at: at,
        updated_at: at,
        status: Status::Running,
        phase: Phase::Counting,
        next: None,
        counts: Counts::default(),
        total: None,
        problem: None,
        lease: None,
        revision: 0,
    }
}
