//! Bugs in pauses, for the tests of the packages that they are in to notice.

use super::Mutation;

const PAUSE: &str = "shared/core/src/subscription/pause.rs";
const LOT: &str = "functions/wake/src/lot.rs";

/// Those in the rules.
pub(super) const CORE: &[Mutation] = &[
    Mutation {
        name: "a pause counts for those, too, whose life was over",
        file: PAUSE,
        old: "            if span.from >= end {\n",
        new: "            if false {\n",
    },
    Mutation {
        name: "a delivery that was published during a pause is given all of it",
        file: PAUSE,
        old: "            end = end + span.until.since(span.from.max(start));\n",
        new: "            end = end + span.until.since(span.from);\n",
    },
    Mutation {
        name: "pauses are forgotten while deliveries live that they delayed",
        file: PAUSE,
        old: "self.expires_at(span.until, LIFE_MAX) > now;",
        new: "span.until + LIFE_MAX / 8 > now;",
    },
    Mutation {
        name: "a state is forgotten while its delivery is held by a pause",
        file: "shared/core/src/delivery/state.rs",
        old: "due.max(self.ttl_starts_at() + LIFE_MAX + PAUSE_MAX)",
        new: "due.max(self.ttl_starts_at() + LIFE_MAX)",
    },
    Mutation {
        name: "an operator's request for an attempt goes before a pause",
        file: "shared/core/src/delivery/plan.rs",
        old: "    if let Some(until) = subscription.held_until {\n",
        new: "    if let Some(until) = subscription.held_until.filter(|_| !facts.resend_requested) {\n",
    },
];

/// Those in wake.
pub(super) const WAKE: &[Mutation] = &[
    Mutation {
        name: "a lot is let go while its pause holds",
        file: LOT,
        old: "    let from = (!is_paused).then_some(heard_at);\n",
        new: "    let from = Some(heard_at);\n",
    },
    Mutation {
        name: "what is let go comes before dispatch has heard of it",
        file: LOT,
        old: "soonest.max(at + pace.to_clock(kept_for))",
        new: "soonest.max(at)",
    },
    Mutation {
        name: "a lot is watched no longer than its pause",
        file: LOT,
        old: "    if lot.is_empty && lot.is_closed {\n",
        new: "    if lot.is_empty && lot.from.is_some() {\n",
    },
    Mutation {
        name: "a watch goes while deliveries are held",
        file: LOT,
        old: "    if lot.is_empty && lot.is_closed {\n",
        new: "    if lot.is_closed {\n",
    },
    Mutation {
        name: "what leaves a lot comes before it is surely removed",
        file: LOT,
        old: "lot.from.unwrap_or(held.due).max(soonest), count)",
        new: "lot.from.unwrap_or(held.due), count)",
    },
    Mutation {
        name: "what is removed late from a lot may be held there again",
        file: LOT,
        old: "saturating_sub(GIVEN_UP_FOR);",
        new: "max(Duration::from_secs(60));",
    },
    Mutation {
        name: "a pause that ends by itself lets all go at once",
        file: LOT,
        old: "lot.paused_until.is_none_or(|until| due < until);",
        new: "lot.paused_until.is_none_or(|_| true);",
    },
    Mutation {
        name: "a call that hangs keeps what others sent from a lot",
        file: "functions/wake/src/send.rs",
        old: "tokio::time::timeout(context.clock.left(at), call)",
        new: "tokio::time::timeout(10 * context.clock.left(at), call)",
    },
    Mutation {
        name: "a lot takes what another one holds",
        file: LOT,
        old: "held.lot == Some(lot.uid) || held.lot == unreadable",
        new: "held.lot.is_some() || held.lot == unreadable",
    },
    Mutation {
        name: "four large lots hold up the fifth",
        file: "functions/wake/src/lib.rs",
        old: "            Ok((lot, true)) => self.lots.push_back(lot),\n",
        new: "            Ok((lot, true)) => self.lots.push_front(lot),\n",
    },
    Mutation {
        name: "a copy of a watch is removed before another one is parked",
        file: LOT,
        old: "    let mut lot = None;\n",
        new: "    all_kept().watches.insert(parked.id);\n    let mut lot = None;\n",
    },
    Mutation {
        name: "each change of a pause is watched for ever",
        file: LOT,
        old: "            all_kept().paused.insert(uid);\n",
        new: "",
    },
    Mutation {
        name: "a change of a pause that is not seen yet is not watched",
        file: LOT,
        old: ".is_some_and(|lot| lot.paused_until.is_some()) {",
        new: ".is_some() {",
    },
    Mutation {
        name: "what comes with a pause's end comes at once where it is not known",
        file: LOT,
        old: "        let due = parking::released_at(lot.from.unwrap_or(held.due).max(soonest), count);\n",
        new: "        let due = lot.from.map_or(held.due, |from| parking::released_at(from, count)).max(soonest);\n",
    },
    Mutation {
        name: "a partition that fails holds up the others of its lot",
        file: LOT,
        old: "        lot.failed.get_or_insert(error);\n",
        new: "        return Err(error);\n",
    },
    Mutation {
        name: "what ends during a pause leaves as slowly as what is resumed",
        file: LOT,
        old: "lot.from.is_some() && lot.sent >= RELEASED_PER_RUN",
        new: "lot.sent >= RELEASED_PER_RUN",
    },
    Mutation {
        name: "each copy of a watch is parked again",
        file: LOT,
        old: "self.watches.contains(&watch) ||",
        new: "",
    },
    Mutation {
        name: "a watch is removed before it is parked again",
        file: LOT,
        old: "    if !is_kept {\n",
        new: "    let _ = context.parking.remove(&parked).await;\n    if !is_kept {\n",
    },
];

/// Those in dispatch.
pub(super) const DISPATCH: &[Mutation] = &[Mutation {
    name: "what a pause holds is parked under its minute, where no resumption finds it",
    file: "functions/dispatch/src/settle/hold.rs",
    old: "    let lot = Some(hand.delivery.subscription_uid);\n",
    new: "    let lot = None;\n",
}];

/// Those in manage.
pub(super) const MANAGE: &[Mutation] = &[
    Mutation {
        name: "a change of its document resumes an event subscription",
        file: "functions/manage/src/routes/subscriptions.rs",
        old: "        let subscription = EventSubscription { pauses, ..subscription };\n",
        new: "        let subscription = EventSubscription { pauses: Default::default(), ..subscription };\n        let _ = pauses;\n",
    },
    Mutation {
        name: "a pause without a watch",
        file: "functions/manage/src/routes/pauses.rs",
        old: "        context.parking.park(&Parked::watch(key, subscription.uid, etag, now)).await?;\n",
        new: "        let _ = Parked::watch(key, subscription.uid, etag, now);\n",
    },
];
