//! Events that come from services of AWS, in worlds of their own: copies of intake die, calls fail,
//! queues hand messages over twice, and some messages have no form.

use std::{collections::BTreeSet, sync::Mutex};

use gridpost_simulation::{
    checker,
    scenario::{Form, sourced},
    world::{self, Remains, Stores},
};

use super::seeds::assert_all_keep;

/// Seeds of one run.
const SEEDS: u64 = 400;

/// Counts of what occurred.
#[derive(Debug, Default)]
struct Seen {
    messages: usize,
    /// Messages that were taken in more than once.
    again: usize,
    refused: usize,
    forms: Vec<Form>,
    kinds: BTreeSet<&'static str>,
}

impl Seen {
    fn note(&mut self, seed: u64, remains: &Remains) {
        let history = &remains.history;
        for (_, message) in history.sourced.messages() {
            self.messages += 1;
            self.again += usize::from(message.handed > 1);
        }
        self.refused += remains.refused.len();
        self.forms.extend(sourced(seed).sources.into_values());
        self.kinds.extend(history.fault_kinds.iter().copied());
    }
}

#[test]
fn every_message_of_a_source_is_taken_in_or_kept() {
    let seen = Mutex::new(Seen::default());
    assert_all_keep("sourced", 1..SEEDS + 1, |seed| {
        let remains = world::run_on(Stores::Fakes, &sourced(seed), seed, false);
        seen.lock().expect("no panic while held").note(seed, &remains);
        checker::check(&remains)
    });
    // A checker proves nothing about what never happens.
    let seen = seen.into_inner().expect("no panic while held");
    assert!(seen.messages > 5_000 && seen.again > 500 && seen.refused > 200, "{seen:?}");
    for form in [Form::Bus, Form::BusBySns, Form::Messages, Form::Objects] {
        assert!(seen.forms.contains(&form), "{form:?}: never");
    }
    for kind in ["the caller died", "a call failed", "a message was not deleted"] {
        assert!(seen.kinds.contains(kind), "{kind}: never");
    }
}
