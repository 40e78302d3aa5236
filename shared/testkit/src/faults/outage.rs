//! Times in which a service of AWS fails nearly every call, of everything at once.

use std::ops::Range;

use gridpost_core::time::Timestamp;

use super::{Fault, Injector, Plan};
use crate::{
    bucket::Buckets, consent::Consents, dice::SeededDice, payloads::PayloadBucket, queue::Queues,
    table::Tables,
};

/// Who answers a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Service {
    /// Queues.
    Sqs,
    /// Tables.
    DynamoDb,
    /// Buckets.
    S3,
    /// No service of AWS.
    None,
}

/// A time in which services hardly answer.
#[derive(Clone, Debug)]
pub struct Outage {
    /// Which of them; several go down together.
    pub of: Vec<Service>,
    /// From and until when.
    pub during: Range<Timestamp>,
}

/// A fake of something that is called.
pub trait Served {
    /// Who answers its calls.
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
    /// What an outage does to a call of that service now.
    pub(super) fn outage(&self, by: Service, plan: &Plan) -> Option<Fault> {
        let now = gridpost_ports::Clock::now(&self.clock);
        let is_down = |outage: &Outage| outage.of.contains(&by) && outage.during.contains(&now);
        plan.outages.iter().any(is_down).then(|| in_outage(&self.dice))
    }
}

/// One call in ten gets through; of the others some take effect, and some are never answered.
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
