//! The contract of the ports, as functions that tests call with an implementation: the fakes, the
//! stores of one machine, and the AWS adapters with recorded responses and on an emulator.
//!
//! Each function says which fixture it needs: an empty table, a queue that refuses certain entries.
//! Each test prepares its own. Where an implementation differs from AWS, that is a [`Difference`],
//! which is asserted too.

pub mod configuration;
pub mod journal;
pub mod objects;
pub mod parking;
pub mod poison;
pub mod publishes;
pub mod queues;
pub mod tables;

use gridpost_core::{
    delivery::{
        parking::Parked,
        redrive::{Counts, Job, JobPhase, JobStatus, RedriveFilter},
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

/// A difference between an implementation and AWS. No handler may rely on AWS's behaviour there, or
/// tests with that implementation prove nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Difference {
    /// One message that is too large makes its whole call fail. SQS answers for each entry.
    FailsWholeCall,
    /// A visible message can be hidden. SQS: `MessageNotInflight`.
    HidesWhatIsVisible,
    /// A message may be hidden for 12 hours from now, however long ago it was received. SQS counts
    /// from the receive, and refuses.
    HidesForLonger,
    /// A queue keeps its messages until they are deleted. SQS drops them after its retention
    /// period.
    KeepsMessages,
    /// A message of the poison queue does not name the queue it came from. SQS does.
    ForgetsWhereItWas,
    /// A message moved to the poison queue becomes a new one. SQS keeps its id, its send time, its
    /// receive count and its group.
    MovesAsNew,
    /// Removing a parked delivery keeps it if it was parked again since it was read. DynamoDB deletes
    /// by key.
    KeepsWhatIsParkedAgain,
    /// Items are kept for ever. DynamoDB deletes them within two days after they expire.
    KeepsItems,
}

/// The differences of the fakes.
pub const OF_FAKES: &[Difference] = &[Difference::MovesAsNew];

/// The differences of the stores of one machine.
pub const OF_EMBEDDED: &[Difference] =
    &[Difference::HidesForLonger, Difference::KeepsMessages, Difference::KeepsWhatIsParkedAgain];

/// The differences of moto, a second AWS emulator.
pub const OF_MOTO: &[Difference] = &[
    Difference::FailsWholeCall,
    Difference::HidesWhatIsVisible,
    Difference::ForgetsWhereItWas,
    Difference::KeepsItems,
];

impl Difference {
    /// Asserts that something is as on AWS unless it is listed as a difference: an outdated list
    /// fails.
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
        status: DeliveryStatus::Waiting { due: Timestamp::from_millis(90_000) },
        past: Vec::new(),
        receipt: None,
        copies_until: None,
        resend: None,
        revision: 0,
    }
}

/// The event subscription of everything here.
pub fn key() -> SubscriptionKey {
    SubscriptionKey { topic: "t".to_owned(), name: "s".to_owned() }
}

/// Messages whose bodies are their numbers, from 0.
pub fn messages(count: usize) -> Vec<Outgoing> {
    (0..count).map(|number| message(&number.to_string(), 0)).collect()
}

/// A message of that body and delay.
pub fn message(body: &str, delay_s: u32) -> Outgoing {
    Outgoing::new(body.to_owned(), "t/s".to_owned(), delay_s)
}

/// A parked delivery that is due in minute 1.
pub fn parked(number: u128) -> Parked {
    Parked {
        id: Uuid::from_u128(number),
        due: Timestamp::from_millis(90_000),
        shard: 0,
        group: "t/s".to_owned(),
        postponed: 0,
        lot: None,
        parked_at: Timestamp::default(),
        watch: None,
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
        status: JobStatus::Running,
        phase: JobPhase::Counting,
        next: None,
        counts: Counts::default(),
        unread: Vec::new(),
        total: None,
        problem: None,
        lease: None,
        revision: 0,
    }
}
