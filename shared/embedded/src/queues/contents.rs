//! The contents of one queue, and the order of receipt. A million messages take some 150 MB.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, btree_map::Entry},
    sync::Arc,
};

use gridpost_core::time::Timestamp;

/// How many messages of a group a turn receives: neighbours may share a request.
const TURN: u32 = 10;

/// Messages are counted one by one up to this.
const COUNTED_MAX: usize = 10_000;

/// The visibility of a released crash suspect: before all other messages.
pub(super) const RELEASED: Timestamp = Timestamp::from_millis(0);

#[derive(Clone, Debug)]
pub(super) struct Message {
    pub(super) sent_at: Timestamp,
    pub(super) visible_at: Timestamp,
    pub(super) receives: u32,
    pub(super) in_flight: bool,
    pub(super) group: Arc<str>,
}

/// What was received: the id, the message as it was before, but for its count of receives, and its body if it was in
/// memory.
pub(super) type Taken = (i64, Message, Option<Box<str>>);

/// Groups take turns, like those of a fair queue in SQS: the backlog of one holds up no other.
#[derive(Debug, Default)]
pub(super) struct Contents {
    messages: BTreeMap<i64, Message>,
    bodies: HashMap<i64, Box<str>>,
    /// Those with messages.
    groups: HashMap<Arc<str>, Group>,
    /// Groups whose turn can come, by turn, with the visibility of their first message.
    ready: BTreeSet<(u64, Timestamp, Arc<str>)>,
    /// All other groups, by the visibility of their first message.
    later: BTreeSet<(Timestamp, Arc<str>)>,
    /// The latest turn, and groups that have had some of it and have no messages any more: their turns, and how
    /// many messages they have received in them.
    turn: u64,
    emptied: HashMap<Arc<str>, (u64, u32)>,
    /// How many messages are in flight until each second; the first ones may be over.
    in_flight: BTreeMap<i64, usize>,
}

#[derive(Debug, Default)]
struct Group {
    /// Its messages, by visibility, then in the order they were sent.
    by_visibility: BTreeSet<(Timestamp, i64)>,
    turn: u64,
    /// How many messages it has received in its turn.
    taken: u32,
}

impl Group {
    fn first(&self) -> Option<Timestamp> {
        self.by_visibility.first().map(|(at, _)| *at)
    }
}

/// The reason why a receipt has no effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReceiptError {
    Gone,
    Stale,
    Visible,
}

impl ReceiptError {
    pub(super) fn reason(self) -> &'static str {
        match self {
            Self::Gone => "the message is gone",
            Self::Stale => "the message was received again",
            Self::Visible => "the message is not in flight",
        }
    }
}

/// Returns the end of its second.
fn second(at: Timestamp) -> i64 {
    at.as_millis().saturating_add(999).div_euclid(1_000)
}

impl Contents {
    pub(super) fn add(&mut self, id: i64, mut message: Message, body: Option<Box<str>>) {
        if let Some((name, _)) = self.groups.get_key_value(&message.group) {
            message.group = Arc::clone(name);
        }
        self.order(&message.group, |group| group.insert((message.visible_at, id)));
        self.messages.insert(id, message);
        if let Some(body) = body {
            self.bodies.insert(id, body);
        }
    }

    /// Changes the order of a group's messages, and with it when its turn comes.
    fn order(
        &mut self,
        name: &Arc<str>,
        change: impl FnOnce(&mut BTreeSet<(Timestamp, i64)>) -> bool,
    ) {
        let group = self.groups.entry(Arc::clone(name)).or_insert_with(|| {
            let (turn, taken) = self.emptied.get(name).copied().unwrap_or((self.turn, 0));
            Group { by_visibility: BTreeSet::new(), turn, taken }
        });
        let before = group.first();
        change(&mut group.by_visibility);
        let first = group.first();
        if first == before {
            return;
        }
        if let Some(before) = before
            && !self.later.remove(&(before, Arc::clone(name)))
        {
            self.ready.remove(&(group.turn, before, Arc::clone(name)));
        }
        if let Some(first) = first {
            self.later.insert((first, Arc::clone(name)));
            return;
        }
        if (group.turn, group.taken) > (self.turn, 0) {
            self.emptied.insert(Arc::clone(name), (group.turn, group.taken));
        }
        self.groups.remove(name);
    }

    /// Returns the message to receive next, if one is visible. After [`TURN`] of them it is the next group's turn.
    fn next_in_turn(&mut self, visible_since: Timestamp) -> Option<i64> {
        while self.later.first().is_some_and(|(at, _)| *at <= visible_since) {
            let (at, name) = self.later.pop_first()?;
            let group = self.groups.get_mut(&name)?;
            if group.turn < self.turn {
                (group.turn, group.taken) = (self.turn, 0);
            }
            self.ready.insert((group.turn, at, name));
        }
        self.ready.first().filter(|(_, at, _)| *at <= visible_since)?;
        let (turn, at, name) = self.ready.pop_first()?;
        if turn > self.turn {
            self.turn = turn;
            self.emptied.clear();
        }
        let group = self.groups.get_mut(&name)?;
        group.taken += 1;
        if group.taken == TURN {
            (group.turn, group.taken) = (turn + 1, 0);
        }
        self.later.insert((at, name));
        group.by_visibility.first().map(|(_, id)| *id)
    }

    /// Receives up to `most` messages that are visible at `visible_since`, and hides them until `until`.
    /// Also returns, hidden too, the messages that were received too often.
    pub(super) fn take(
        &mut self,
        now: Timestamp,
        visible_since: Timestamp,
        until: Timestamp,
        most: usize,
        max_receives: u32,
    ) -> (Vec<Taken>, Vec<i64>) {
        let (mut taken, mut worn_out) = (Vec::new(), Vec::new());
        // Otherwise the same message could be taken twice.
        let until = until.max(now + std::time::Duration::from_millis(1));
        while taken.len() < most {
            let Some(id) = self.next_in_turn(visible_since) else { break };
            let visible_at = self.messages.get(&id).map(|message| message.visible_at);
            self.show_at(id, until, true);
            let Some(message) = self.messages.get_mut(&id) else { continue };
            if message.receives >= max_receives {
                worn_out.push(id);
                continue;
            }
            message.receives += 1;
            let message = Message { visible_at: visible_at.unwrap_or(until), ..message.clone() };
            taken.push((id, message, self.bodies.remove(&id)));
        }
        (taken, worn_out)
    }

    /// Undoes a receive: the message becomes visible at `visible_at`.
    /// Returns its body if it was deleted, or received again, meanwhile.
    pub(super) fn give_back(
        &mut self,
        (id, taken, body): Taken,
        visible_at: Timestamp,
    ) -> Option<Box<str>> {
        let same = self.messages.get_mut(&id).filter(|one| one.receives == taken.receives);
        let Some(message) = same else { return body };
        message.receives -= 1;
        self.show_at(id, visible_at, false);
        self.bodies.extend(body.map(|body| (id, body)));
        None
    }

    /// Hides a message until it is [released](Self::release). Returns whether it was not hidden that way.
    pub(super) fn withhold(&mut self, id: i64) -> bool {
        self.messages.get(&id).is_some_and(|it| it.visible_at != Timestamp::MAX)
            && self.show_at(id, Timestamp::MAX, false)
    }

    pub(super) fn release(&mut self, id: i64) {
        if self.messages.get(&id).is_some_and(|it| it.visible_at == Timestamp::MAX) {
            self.show_at(id, RELEASED, false);
        }
    }

    /// Changes when a message is visible, and whether it is in flight until then.
    fn show_at(&mut self, id: i64, visible_at: Timestamp, in_flight: bool) -> bool {
        let Some(message) = self.messages.get_mut(&id) else { return false };
        let before = message.clone();
        (message.visible_at, message.in_flight) = (visible_at, in_flight);
        self.end_flight(&before);
        if in_flight {
            *self.in_flight.entry(second(visible_at)).or_default() += 1;
        }
        self.order(&before.group, |group| {
            group.remove(&(before.visible_at, id)) && group.insert((visible_at, id))
        });
        true
    }

    /// Counts a message as not in flight.
    fn end_flight(&mut self, message: &Message) {
        if message.in_flight
            && let Entry::Occupied(mut count) = self.in_flight.entry(second(message.visible_at))
        {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
    }

    pub(super) fn has(&self, id: i64) -> bool {
        self.messages.contains_key(&id)
    }

    /// Checks that a receipt is the latest, and that its message is in flight.
    pub(super) fn check(&self, id: i64, receives: u32, now: Timestamp) -> Result<(), ReceiptError> {
        let message = self.messages.get(&id).ok_or(ReceiptError::Gone)?;
        if message.receives != receives {
            return Err(ReceiptError::Stale);
        }
        if message.visible_at <= now {
            return Err(ReceiptError::Visible);
        }
        Ok(())
    }

    pub(super) fn is_newest(&self, id: i64, receives: u32) -> bool {
        self.messages.get(&id).is_some_and(|message| message.receives == receives)
    }

    /// Changes when a received message is visible, unless it was received again.
    pub(super) fn hide(
        &mut self,
        id: i64,
        receives: u32,
        until: Timestamp,
    ) -> Result<(), ReceiptError> {
        let message = self.messages.get(&id).ok_or(ReceiptError::Gone)?;
        if message.receives != receives {
            return Err(ReceiptError::Stale);
        }
        self.show_at(id, until, true);
        Ok(())
    }

    /// Returns it with its body, if that is in memory.
    pub(super) fn remove(&mut self, id: i64) -> Option<(Message, Option<Box<str>>)> {
        let message = self.messages.remove(&id)?;
        self.order(&message.group, |group| group.remove(&(message.visible_at, id)));
        self.end_flight(&message);
        Some((message, self.bodies.remove(&id)))
    }

    /// Returns when the first message is or was visible.
    pub(super) fn next(&self) -> Option<Timestamp> {
        let ready = self.ready.first().map(|(_, at, _)| *at);
        let later = self.later.first().map(|(at, _)| *at);
        ready.into_iter().chain(later).min()
    }

    pub(super) fn len(&self) -> usize {
        self.messages.len()
    }

    /// Counts messages in flight, for up to a second too long.
    pub(super) fn in_flight(&mut self, now: Timestamp) -> usize {
        self.in_flight = self.in_flight.split_off(&(now.as_millis().div_euclid(1_000) + 1));
        self.in_flight.values().sum()
    }

    /// Counts visible messages. Above [`COUNTED_MAX`], delayed ones count too.
    pub(super) fn visible(&mut self, now: Timestamp) -> usize {
        let ready = self.ready.iter().map(|(_, _, name)| name);
        let later = self.later.iter().take_while(|(at, _)| *at <= now).map(|(_, name)| name);
        let groups = ready.chain(later).filter_map(|name| self.groups.get(name));
        let visible = groups.flat_map(|group| group.by_visibility.range(..=(now, i64::MAX)));
        let visible = visible.take(COUNTED_MAX).count();
        match visible {
            COUNTED_MAX => self.len() - self.in_flight(now),
            _ => visible,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{ops::Range, time::Duration};

    use super::*;

    const NOW: Timestamp = Timestamp::from_millis(1_000_000);

    fn add(contents: &mut Contents, ids: Range<i64>, group: &str, visible_after_ms: u64) {
        let visible_at = NOW + Duration::from_millis(visible_after_ms);
        for id in ids {
            let group = Arc::from(group);
            contents.add(
                id,
                Message { sent_at: NOW, visible_at, receives: 0, in_flight: false, group },
                None,
            );
        }
    }

    /// Receives at so many milliseconds.
    fn ids(contents: &mut Contents, at_ms: u64, most: usize) -> Vec<i64> {
        let now = NOW + Duration::from_millis(at_ms);
        let until = now + Duration::from_secs(60);
        let (taken, worn_out) = contents.take(now, now, until, most, 9);
        assert_eq!(worn_out, [0; 0]);
        taken.into_iter().map(|(id, ..)| id).collect()
    }

    #[test]
    fn groups_take_turns_of_neighbours() {
        let mut contents = Contents::default();
        add(&mut contents, 0..100, "busy", 0);
        add(&mut contents, 100..102, "quiet", 0);
        add(&mut contents, 102..103, "later", 10);
        let busy = |from| (from..from + 10).collect::<Vec<_>>();
        assert_eq!(ids(&mut contents, 0, 10), busy(0));
        assert_eq!(ids(&mut contents, 0, 4), [100, 101, 10, 11]);
        assert_eq!(contents.visible(NOW), 88);
        // One that has just come waits for a turn of each other group at most.
        let turn = [(12..20).collect(), vec![102, 20]].concat();
        assert_eq!(ids(&mut contents, 10, 10), turn);
        assert_eq!((contents.next(), contents.in_flight(NOW)), (Some(NOW), 24));
        assert_eq!(ids(&mut contents, 10, 200), (21..100).collect::<Vec<_>>());
        assert_eq!(contents.next(), Some(NOW + Duration::from_secs(60)));
        assert_eq!(contents.visible(NOW), 0);
        (0..103).for_each(|id| drop(contents.remove(id)));
        assert!(
            contents.groups.is_empty() && contents.ready.is_empty() && contents.later.is_empty()
        );
        assert_eq!((contents.next(), contents.in_flight.len()), (None, 0));
    }

    /// Each publishes as many again once they are delivered.
    #[test]
    fn groups_that_empty_and_come_again_leave_turns_to_a_backlog() {
        for (groups, of_each, takes) in [(4, 10, 50), (20, 1, 150), (7, 3, 50)] {
            let mut contents = Contents::default();
            add(&mut contents, 0..100, "backlog", 0);
            let mut next = 1_000;
            let mut publish = |contents: &mut Contents, group: &str, count| {
                add(contents, next..next + count, group, 0);
                next += count;
            };
            for number in 0..groups {
                publish(&mut contents, &format!("loop-{number}"), of_each);
            }
            let mut of_backlog = 0;
            for _ in 0..takes {
                let taken = ids(&mut contents, 0, 10);
                let removed: Vec<_> = taken.iter().filter_map(|id| contents.remove(*id)).collect();
                for (message, _) in removed {
                    match &*message.group {
                        "backlog" => of_backlog += 1,
                        again => publish(&mut contents, again, 1),
                    }
                }
            }
            let fair = takes * 10 / (groups + 1);
            assert!(of_backlog >= fair.min(100) - 20, "{groups} of {of_each}: {of_backlog}");
        }
    }

    /// As with bodies that are larger than a batch: most of what is taken is given back.
    #[test]
    fn what_is_given_back_is_received_before_what_has_waited_less() {
        let mut contents = Contents::default();
        for (group, first) in ["a", "b", "c", "d", "e"].into_iter().zip((0..).step_by(100)) {
            (0..100)
                .for_each(|at| add(&mut contents, first + at..first + at + 1, group, at as u64));
        }
        let now = NOW + Duration::from_secs(1);
        let until = now + Duration::from_secs(60);
        let mut of_group = [0; 5];
        for _ in 0..20 {
            let (mut taken, _) = contents.take(now, now, until, 100, 9);
            for (id, message, body) in taken.split_off(24) {
                let visible_at = message.visible_at;
                contents.give_back((id, message, body), visible_at);
            }
            for (id, ..) in taken {
                assert_eq!(id % 100, of_group[id as usize / 100], "the one that waits longest");
                of_group[id as usize / 100] += 1;
                contents.remove(id);
            }
        }
        assert!(of_group.iter().all(|count| *count >= 80), "{of_group:?}");
    }

    /// Groups with names that never come again are forgotten.
    #[test]
    fn groups_that_empty_are_forgotten_once_their_turn_is_over() {
        let mut contents = Contents::default();
        add(&mut contents, 0..100, "backlog", 0);
        for at in 1_000..2_000 {
            add(&mut contents, at..at + 1, &format!("once-{at}"), 0);
        }
        ids(&mut contents, 0, 1_010).iter().for_each(|id| drop(contents.remove(*id)));
        assert!(contents.emptied.len() >= 1_000, "{}", contents.emptied.len());
        ids(&mut contents, 0, 1);
        assert_eq!(contents.emptied.len(), 0);
    }

    #[test]
    fn what_is_hidden_or_given_back_keeps_its_group_in_order() {
        let mut contents = Contents::default();
        add(&mut contents, 1..3, "a", 0);
        add(&mut contents, 3..4, "b", 0);
        let (mut taken, _) = contents.take(NOW, NOW, NOW + Duration::from_secs(60), 9, 9);
        assert_eq!(taken.iter().map(|(id, ..)| *id).collect::<Vec<_>>(), [1, 2, 3]);
        let (id, message, _) = taken.remove(0);
        let body = || Some(Box::from("body"));
        assert_eq!(contents.give_back((id, message.clone(), body()), NOW), None);
        assert_eq!(contents.give_back((9, message, body()), NOW), body(), "it was deleted");
        assert_eq!(contents.hide(3, 1, NOW), Ok(()));
        assert_eq!(contents.hide(3, 7, NOW), Err(ReceiptError::Stale));
        assert!(contents.withhold(2) && !contents.withhold(2));
        assert_eq!(ids(&mut contents, 0, 9), [1, 3]);
        contents.release(2);
        assert_eq!(contents.next(), Some(RELEASED));
        assert_eq!(ids(&mut contents, 0, 9), [2]);
    }
}
