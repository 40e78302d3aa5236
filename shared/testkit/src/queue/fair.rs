//! Fair queues: while a group has more than its share of the messages in flight, other groups go
//! first.
//!
//! Source: Amazon SQS developer guide, "How Amazon SQS fair queues work". Of its two measures this
//! is the share of messages in flight; the share of processing time and the delays are left out.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use gridpost_core::time::Timestamp;

/// A group with fewer messages in flight is quiet.
const NOISY_FROM: usize = 30;

/// A group with no more than this share of all messages in flight is quiet: one in so many.
const SHARE: usize = 10;

/// A group that has sent nothing for so long is quiet again.
const QUIET_AFTER: Duration = Duration::from_secs(300);

/// When a message becomes visible, and its id.
type Place = (Timestamp, u64);

#[derive(Debug, Default)]
struct Group {
    places: BTreeSet<Place>,
    in_flight: usize,
    sent_at: Timestamp,
    noisy: bool,
}

/// The groups of a queue.
#[derive(Debug, Default)]
pub(super) struct Groups(BTreeMap<Arc<str>, Group>);

impl Groups {
    fn of(&mut self, name: &Arc<str>) -> &mut Group {
        self.0.entry(Arc::clone(name)).or_default()
    }

    /// A message of the group was sent.
    pub(super) fn sent(&mut self, name: &Arc<str>, at: Timestamp) {
        self.of(name).sent_at = at;
    }

    /// A message of the group becomes visible then.
    pub(super) fn show(&mut self, name: &Arc<str>, place: Place) {
        self.of(name).places.insert(place);
    }

    pub(super) fn hide(&mut self, name: &Arc<str>, place: Place) {
        self.of(name).places.remove(&place);
    }

    /// One more of the group is in flight.
    pub(super) fn took_off(&mut self, name: &Arc<str>) {
        self.of(name).in_flight += 1;
    }

    pub(super) fn landed(&mut self, name: &Arc<str>) {
        let group = self.of(name);
        group.in_flight = group.in_flight.saturating_sub(1);
    }

    /// Visible messages in the order of their groups: the oldest of quiet ones, and then those of noisy
    /// ones, the least noisy first; at most so many of each.
    pub(super) fn visible(
        &mut self,
        now: Timestamp,
        in_flight: usize,
        most: usize,
    ) -> (Vec<u64>, Vec<u64>) {
        // A group that is removed here comes back with its next message.
        self.0.retain(|_, group| !group.places.is_empty());
        let mut quiet = Vec::new();
        let mut noisy = Vec::new();
        for group in self.0.values_mut() {
            group.listen(now, in_flight);
            match group.noisy {
                true => noisy.push(&*group),
                false => quiet.extend(group.oldest(now, most)),
            }
        }
        quiet.sort_unstable();
        quiet.truncate(most);
        noisy.sort_by_key(|group| group.in_flight);
        let mut later: Vec<_> = noisy.iter().flat_map(|group| group.oldest(now, most)).collect();
        later.truncate(most);
        let ids = |places: Vec<Place>| places.into_iter().map(|(_, id)| id).collect();
        (ids(quiet), ids(later))
    }
}

impl Group {
    /// Finds out whether it is noisy.
    fn listen(&mut self, now: Timestamp, in_flight: usize) {
        let too_many = self.in_flight >= NOISY_FROM && self.in_flight * SHARE > in_flight;
        let has_backlog = self.places.first().is_some_and(|(at, _)| *at <= now);
        let sends = now.since(self.sent_at) < QUIET_AFTER;
        self.noisy = (self.noisy || too_many) && has_backlog && sends;
    }

    fn oldest(&self, now: Timestamp, most: usize) -> Vec<Place> {
        self.places.range(..=(now, u64::MAX)).take(most).copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_millis(second * 1_000)
    }

    /// Groups with so many messages, of which so many are in flight; the others are visible at 0.
    fn groups(all: &[(&str, u64, usize)]) -> Groups {
        let mut groups = Groups::default();
        for (number, (name, count, in_flight)) in all.iter().enumerate() {
            let name = Arc::from(*name);
            groups.sent(&name, at(0));
            for id in 0..*count {
                let id = number as u64 * 1_000 + id;
                let hidden = (id % 1_000) < *in_flight as u64;
                groups.show(&name, (at(if hidden { 600 } else { 0 }), id));
                (0..u64::from(hidden)).for_each(|_| groups.took_off(&name));
            }
        }
        groups
    }

    fn seen(groups: &mut Groups, second: i64, in_flight: usize) -> (Vec<u64>, Vec<u64>) {
        groups.visible(at(second), in_flight, 2)
    }

    #[test]
    fn noisy_groups_go_last_and_the_least_noisy_of_them_first() {
        // (groups: messages and in flight of them; quiet, later)
        type Row = (&'static [(&'static str, u64, usize)], &'static [u64], &'static [u64]);
        let rows: [Row; 5] = [
            (&[("a", 50, 30), ("b", 1, 0)], &[1_000], &[30, 31]),
            (&[("a", 50, 29), ("b", 1, 0)], &[29, 30], &[]),
            // Exactly a tenth of all is not more than a tenth.
            (&[("a", 50, 30), ("b", 270, 270)], &[30, 31], &[]),
            (&[("a", 50, 40), ("b", 50, 30)], &[], &[1_030, 1_031]),
            (&[("a", 41, 40), ("b", 2, 1)], &[1_001], &[40]),
        ];
        for (row, quiet, later) in rows {
            let mut groups = groups(row);
            let in_flight = row.iter().map(|(_, _, count)| count).sum();
            assert_eq!(
                seen(&mut groups, 1, in_flight),
                (quiet.to_vec(), later.to_vec()),
                "{row:?}"
            );
        }
    }

    #[test]
    fn a_group_is_noisy_until_its_backlog_is_gone_or_it_sends_no_more() {
        let name = Arc::from("a");
        let mut waits = groups(&[("a", 50, 30)]);
        assert_eq!(seen(&mut waits, 1, 30).1, [30, 31]);
        (0..30).for_each(|_| waits.landed(&name));
        assert_eq!(seen(&mut waits, 2, 0).1, [30, 31], "it has a backlog");
        assert_eq!(seen(&mut waits, 300, 0).0, [30, 31], "it has sent nothing for 5 min");

        let mut ends = groups(&[("a", 32, 30)]);
        assert_eq!(seen(&mut ends, 1, 30).1, [30, 31]);
        (30..32).for_each(|id| ends.hide(&name, (at(0), id)));
        assert_eq!(seen(&mut ends, 2, 30), (vec![], vec![]));
        (0..30).for_each(|_| ends.landed(&name));
        ends.show(&name, (at(3), 99));
        assert_eq!(seen(&mut ends, 3, 0).0, [99], "its backlog was gone");
    }
}
