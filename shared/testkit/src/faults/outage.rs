//! Outages, in which an AWS service fails nearly every call.

use std::ops::Range;

use gridpost_core::time::Timestamp;

use super::{Fault, Injector, Plan};
use crate::{
    bucket::Buckets, consent::Consents, dice::SeededDice, payloads::PayloadBucket, queue::Queues,
    table::Tables,
};

/// The service that answers a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Service {
    Sqs,
    DynamoDb,
    S3,
    /// No service of AWS.
    None,
}

/// An outage of some services.
#[derive(Clone, Debug)]
pub struct Outage {
    /// The services, which go down together.
    pub of: Vec<Service>,
    /// From and until when.
    pub during: Range<Timestamp>,
}

/// A fake of a called service.
pub trait Served {
    const BY: Service;
}

impl Served for Queues {
    const BY: Service = Service::Sqs;
}

impl Served for Tables {
    const BY: Service = Service::DynamoDb;
}

impl Served for Buckets {
    const BY: Service = Service::S3;
}

impl Served for PayloadBucket {
    const BY: Service = Service::S3;
}

impl Served for Consents {
    const BY: Service = Service::None;
}

impl Injector {
    /// The effect of an outage on a call to that service now.
    pub(super) fn outage(&self, by: Service, plan: &Plan) -> Option<Fault> {
        let now = gridpost_ports::Clock::now(&self.clock);
        let is_down = |outage: &Outage| outage.of.contains(&by) && outage.during.contains(&now);
        plan.outages.iter().any(is_down).then(|| in_outage(&self.dice))
    }
}

/// One call in ten succeeds; of the others, some take effect, and some are never answered.
fn in_outage(dice: &SeededDice) -> Fault {
    use Fault::{FailsAfter, FailsBefore, HangsAfter, HangsBefore, None};
    dice.choose(&[
        None,
        FailsBefore,
        FailsBefore,
        FailsBefore,
        FailsBefore,
        FailsBefore,
        FailsBefore,
        FailsAfter,
        HangsBefore,
        HangsAfter,
    ])
}
