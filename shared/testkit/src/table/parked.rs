//! Parked deliveries as an operator finds them: by a scan of the table that holds the states of failing
//! deliveries too, or by their minute.

use async_trait::async_trait;
use gridpost_core::delivery::parking::Parked;
use gridpost_ports::{ParkedCursor, ParkedDeliveries, ParkedPage, PortError};
use uuid::Uuid;

use super::{Items, Tables};

/// Items that one scan looks at: few, so that pages end everywhere, and some hold nothing parked.
const LOOKED_AT: usize = 3;

impl Items {
    /// Every item of the state table by its key, with the parked delivery that it is.
    fn scanned(&self) -> Vec<((String, String), Option<&Parked>)> {
        let states =
            self.states.keys().map(|id| ((format!("DELIVERY#{id}"), "-".to_owned()), None));
        let parked = self.parked.iter().map(|((minute, id), parked)| {
            ((format!("PARKED#{minute}#0"), id.to_string()), Some(parked))
        });
        let mut all: Vec<_> = states.chain(parked).collect();
        all.sort_unstable_by(|one, other| one.0.cmp(&other.0));
        all
    }
}

#[async_trait]
impl ParkedDeliveries for Tables {
    async fn list_after(&self, place: Option<&ParkedCursor>) -> Result<ParkedPage, PortError> {
        let items = self.items();
        let is_behind = |(partition, sort): &(String, String)| {
            place.is_none_or(|at| (partition, sort) > (&at.partition, &at.sort))
        };
        let behind = items.scanned().into_iter().filter(|(key, _)| is_behind(key));
        let looked_at = behind
            .take(LOOKED_AT)
            .map(|((partition, sort), parked)| (ParkedCursor { partition, sort }, parked.cloned()));
        let looked_at: Vec<_> = looked_at.collect();
        let last = looked_at.last().filter(|_| looked_at.len() == LOOKED_AT);
        let next = last.map(|(place, _)| place.clone());
        let found = looked_at.into_iter().filter_map(|(place, parked)| Some((place, parked?)));
        Ok(ParkedPage { found: found.collect(), next })
    }

    async fn find(&self, id: Uuid, minute: i64) -> Result<Option<Parked>, PortError> {
        Ok(self.items().parked.get(&(minute, id)).cloned())
    }
}
