//! Finds waiting deliveries by the index of the state table.

use std::collections::HashMap;

use async_trait::async_trait;
use aws_sdk_dynamodb::types::{KeysAndAttributes, Select};
use futures::{StreamExt, TryStreamExt, future::try_join_all, stream};
use uuid::Uuid;

use super::{ALONE, StateTable};
use crate::{
    port_error,
    table::{Item, document, text},
};
use gridpost_core::delivery::state::{DeliveryState, DeliveryStatus};
use gridpost_ports::{PortError, WaitingDeliveries, WaitingTally};

/// The index of deliveries that have failed and not ended: by the uid of their event subscription,
/// spread over [`WAITING_KEYS`], and their [place](DeliveryState::place). It holds only keys, so a
/// further failure writes nothing to it.
const WAITING_INDEX: &str = "waiting";
const WAITING_FOR: &str = "waitingFor";
const WAITING_PLACE: &str = "waitingPlace";

/// The number of index keys for the waiting deliveries of one event subscription. Each key takes
/// 1,000 writes per second, and an index at its limit throttles its table. Source: Amazon DynamoDB
/// developer guide, "partition limits" and "back-pressure of global secondary indexes".
const WAITING_KEYS: u128 = 16;

/// Most items that one call reads. Source: DynamoDB API reference, `BatchGetItem`.
const READ_AT_ONCE_MAX: usize = 100;

/// Calls made at once when states are counted.
const READS_AT_ONCE: usize = 8;

/// How often unprocessed keys are requested again.
const READ_TRIES: u32 = 4;

/// Returns the index keys of a waiting delivery, which do not change while it waits. A delivery that
/// has ended has none, and leaves the index.
pub(super) fn keys(state: &DeliveryState) -> Option<Item> {
    let waits =
        matches!(state.status, DeliveryStatus::Waiting { .. } | DeliveryStatus::Ending { .. });
    waits.then(|| {
        let uid = text(waiting_key(state.subscription_uid, state.id.as_u128() % WAITING_KEYS));
        let place = text(state.place());
        HashMap::from([(WAITING_FOR.to_owned(), uid), (WAITING_PLACE.to_owned(), place)])
    })
}

fn waiting_key(uid: Uuid, number: u128) -> String {
    format!("{uid}#{number}")
}

/// An entry of the index.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct IndexEntry {
    place: String,
    pk: String,
}

impl IndexEntry {
    fn of(item: &Item) -> Option<Self> {
        let text = |name: &str| item.get(name)?.as_s().ok().cloned();
        Some(Self { place: text(WAITING_PLACE)?, pk: text("pk")? })
    }
}

/// Merges the sorted entries of several keys. Returns the first `most`, and whether there may be
/// more.
fn first_of(keys: Vec<Vec<IndexEntry>>, most: usize) -> (Vec<IndexEntry>, bool) {
    let is_cut = keys.iter().any(|named| named.len() >= most);
    let mut all: Vec<_> = keys.into_iter().flatten().collect();
    all.sort_unstable();
    let is_cut = is_cut || all.len() > most;
    all.truncate(most);
    (all, is_cut)
}

/// Returns, of the first `limit` entries of each key, those before which every key was read, unsorted;
/// and the last place of them, unless they are all.
fn complete_until(keys: Vec<Vec<IndexEntry>>, limit: usize) -> (Vec<IndexEntry>, Option<String>) {
    let cut = keys.iter().filter(|named| named.len() >= limit);
    let until = cut.filter_map(|named| named.last()).map(|last| last.place.clone()).min();
    let is_before = |one: &IndexEntry| until.as_ref().is_none_or(|until| one.place <= *until);
    (keys.into_iter().flatten().filter(is_before).collect(), until)
}

impl StateTable {
    async fn named(
        &self,
        key: String,
        after: &str,
        most: usize,
    ) -> Result<Vec<IndexEntry>, PortError> {
        const CALL: &str = "dynamodb:Query";
        let mut items = self
            .table
            .client
            .query()
            .table_name(&self.table.name)
            .index_name(WAITING_INDEX)
            .key_condition_expression("#for = :key AND #place > :after")
            .expression_attribute_names("#for", WAITING_FOR)
            .expression_attribute_names("#place", WAITING_PLACE)
            .expression_attribute_values(":key", text(key))
            .expression_attribute_values(":after", text(after))
            .limit(i32::try_from(most).unwrap_or(i32::MAX))
            .into_paginator()
            .items()
            .send();
        let mut found = Vec::new();
        while found.len() < most {
            let Some(item) = items.next().await else { break };
            found.extend(IndexEntry::of(&item.map_err(|error| port_error(CALL, error))?));
        }
        Ok(found)
    }

    /// Reads the states of at most [`READ_AT_ONCE_MAX`] deliveries, unsorted, without missing ones.
    async fn states_of(&self, named: &[IndexEntry]) -> Result<Vec<DeliveryState>, PortError> {
        const CALL: &str = "dynamodb:BatchGetItem";
        let key = |named: &IndexEntry| {
            HashMap::from([("pk".to_owned(), text(&named.pk)), ("sk".to_owned(), text(ALONE))])
        };
        let name = &self.table.name;
        let mut keys: Vec<_> = named.iter().map(key).collect();
        let mut found = Vec::new();
        for _ in 0..READ_TRIES {
            let asked = KeysAndAttributes::builder().set_keys(Some(keys)).build();
            let asked = asked.map_err(|error| PortError::new(CALL, error))?;
            let get = self.table.client.batch_get_item().request_items(name, asked);
            let got = get.send().await.map_err(|error| port_error(CALL, error))?;
            for item in got.responses.iter().filter_map(|all| all.get(name)).flatten() {
                let (state, revision) = document::<DeliveryState>(item)?;
                found.push(DeliveryState { revision, ..state });
            }
            let left = got.unprocessed_keys.and_then(|mut left| left.remove(name));
            keys = left.map(|left| left.keys).unwrap_or_default();
            if keys.is_empty() {
                return Ok(found);
            }
        }
        Err(PortError::new(CALL, format!("{} items were throttled each time", keys.len())))
    }

    async fn count_of(&self, key: String, most: usize) -> Result<usize, PortError> {
        const CALL: &str = "dynamodb:Query";
        let mut pages = self
            .table
            .client
            .query()
            .table_name(&self.table.name)
            .index_name(WAITING_INDEX)
            .select(Select::Count)
            .key_condition_expression("#for = :key")
            .expression_attribute_names("#for", WAITING_FOR)
            .expression_attribute_values(":key", text(key))
            .into_paginator()
            .send();
        let mut count = 0;
        while count < most {
            let Some(page) = pages.next().await else { break };
            let page = page.map_err(|error| port_error(CALL, error))?;
            count += usize::try_from(page.count()).unwrap_or(0);
        }
        Ok(count)
    }
}

#[async_trait]
impl WaitingDeliveries for StateTable {
    async fn waiting(
        &self,
        uid: Uuid,
        after: Option<&str>,
        most: usize,
    ) -> Result<Vec<DeliveryState>, PortError> {
        // Every place comes after this one.
        let mut after = after.unwrap_or("0").to_owned();
        let mut found = Vec::new();
        loop {
            let left = (most - found.len()).min(READ_AT_ONCE_MAX);
            let of_keys =
                (0..WAITING_KEYS).map(|key| self.named(waiting_key(uid, key), &after, left));
            let (named, is_cut) = first_of(try_join_all(of_keys).await?, left);
            let Some(last) = named.last() else { return Ok(found) };
            let mut states = self.states_of(&named).await?;
            after = last.place.clone();
            // A delivery that has ended since will leave the index in a moment.
            states.retain(|state| keys(state).is_some());
            states.sort_by_cached_key(DeliveryState::place);
            found.append(&mut states);
            if found.len() >= most || !is_cut {
                return Ok(found);
            }
        }
    }

    async fn count(&self, uid: Uuid, most: usize) -> Result<usize, PortError> {
        let keys = (0..WAITING_KEYS).map(|key| self.count_of(waiting_key(uid, key), most));
        Ok(try_join_all(keys).await?.into_iter().sum())
    }

    async fn tally(
        &self,
        uid: Uuid,
        after: Option<&str>,
        most: usize,
    ) -> Result<WaitingTally, PortError> {
        // Ids are spread evenly over the keys, so few entries are read in vain.
        let limit = (most / WAITING_KEYS as usize).max(1);
        let after = after.unwrap_or("0");
        let of_keys = (0..WAITING_KEYS).map(|key| self.named(waiting_key(uid, key), after, limit));
        let (named, next) = complete_until(try_join_all(of_keys).await?, limit);
        let reads: Vec<_> =
            named.chunks(READ_AT_ONCE_MAX).map(|some| self.states_of(some)).collect();
        let mut reads = stream::iter(reads).buffered(READS_AT_ONCE);
        let mut tally = WaitingTally { next, ..WaitingTally::default() };
        while let Some(states) = reads.try_next().await? {
            // As in `waiting`, ended deliveries are left out.
            states.iter().filter(|state| keys(state).is_some()).for_each(|state| tally.add(state));
        }
        Ok(tally)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(places: &[&str]) -> Vec<IndexEntry> {
        places
            .iter()
            .map(|place| IndexEntry { place: (*place).to_owned(), pk: "p".to_owned() })
            .collect()
    }

    #[test]
    fn what_several_keys_name_is_one_list_in_the_order_of_places() {
        type Row = (&'static [&'static [&'static str]], usize, &'static [&'static str], bool);
        let table: [Row; 6] = [
            (&[&[], &[]], 2, &[], false),
            (&[&["1", "4"], &["2", "3"]], 10, &["1", "2", "3", "4"], false),
            (&[&["1", "4"], &["2", "3"]], 2, &["1", "2"], true),
            // A key that returned as many as requested may have more, but only after its last one.
            (&[&["1", "9"], &["2"]], 2, &["1", "2"], true),
            (&[&["8", "9"], &["2"]], 2, &["2", "8"], true),
            (&[&["1"], &["2"], &["3"]], 3, &["1", "2", "3"], false),
        ];
        for (keys, most, want, is_cut) in table {
            let keys = keys.iter().map(|places| named(places)).collect();
            assert_eq!(first_of(keys, most), (named(want), is_cut), "{want:?} of {most}");
        }
    }

    #[test]
    fn what_is_counted_has_nothing_uncounted_before_it() {
        type Row =
            (&'static [&'static [&'static str]], &'static [&'static str], Option<&'static str>);
        let table: [Row; 4] = [
            (&[&[], &[]], &[], None),
            (&[&["1"], &["2"]], &["1", "2"], None),
            // The first key may have more behind 4, before the second one's 9.
            (&[&["1", "4"], &["3"]], &["1", "4", "3"], Some("4")),
            (&[&["1", "4"], &["2", "9"]], &["1", "4", "2"], Some("4")),
        ];
        for (keys, want, next) in table {
            let keys = keys.iter().map(|places| named(places)).collect();
            assert_eq!(complete_until(keys, 2), (named(want), next.map(str::to_owned)), "{want:?}");
        }
    }
}
