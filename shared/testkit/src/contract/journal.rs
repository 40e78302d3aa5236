//! The journal.

use std::{collections::BTreeSet, time::Duration};

use gridpost_core::{
    journal::{
        Answer, AttemptsQuestion, By, Count, Counted, Entry, EntryKind, Known, LedgerQuestion,
        Owner, Question, Series, SeriesQuestion, Step,
    },
    ledger::{Account, Ledger},
    retry::{DelayReason, outcome::Outcome},
    subscription::SubscriptionKey,
    time::Timestamp,
};
use gridpost_ports::{Journal, JournalError, JournalReader, Progress};
use strum::VariantArray as _;
use uuid::Uuid;

use crate::journal_reader::is_of;

/// 2026-01-01.
const BEGIN: Timestamp = Timestamp::from_millis(1_767_225_600_000);

/// An entry of one delivery to `t/s`, which happened that many seconds after the beginning.
pub fn entry(number: u32, kind: EntryKind) -> Entry {
    let is_success = matches!(kind, EntryKind::Success | EntryKind::LateSuccess);
    Entry {
        kind,
        at: BEGIN + Duration::from_secs(u64::from(number)),
        delivery: Uuid::from_u128(u128::from(number) << 64 | 7),
        subscription: super::key(),
        publish_time: BEGIN + Duration::from_secs(u64::from(number / 2)),
        attempt: 1,
        part: 0,
        outcome: Some(if is_success { Outcome::Delivered } else { Outcome::Busy }),
        status: Some(if is_success { 200 } else { 503 }),
        took: Some(Duration::from_millis(12)),
        due: None,
        because: None,
        reason: None,
        receives: Some(1),
        events: 1,
        event_ids: format!(r#"["event-{number}"]"#),
        trace_parent: None,
        response: None,
    }
}

/// A question for all attempts.
pub fn all_attempts() -> AttemptsQuestion {
    AttemptsQuestion { to: Timestamp::MAX, most: 1_000, ..AttemptsQuestion::default() }
}

/// Asks, and expects an answer at once.
pub async fn answer(reader: &dyn JournalReader, question: Question, page: Option<&str>) -> Answer {
    let reply = reader.ask(&question, page, None).await.expect("a reply");
    match reply.progress {
        Progress::Answered(answer) => answer,
        other => panic!("no answer: {other:?}"),
    }
}

/// Reads all pages of attempts.
pub async fn attempts(reader: &dyn JournalReader, question: AttemptsQuestion) -> Vec<Entry> {
    let (mut entries, mut ids) = (Vec::new(), BTreeSet::new());
    for known in pages(reader, Question::Attempts(question)).await {
        let Known::Attempts(some) = known else { panic!("{known:?}") };
        for (id, entry) in some {
            assert!(ids.insert(id), "no id is given twice");
            entries.push(entry);
        }
    }
    entries
}

/// Reads all pages of an undivided ledger.
pub async fn ledger(reader: &dyn JournalReader, question: LedgerQuestion) -> Ledger {
    let mut whole = Ledger::default();
    for known in pages(reader, Question::Ledger(question)).await {
        let Known::Ledger(ledgers) = known else { panic!("{known:?}") };
        for Ledger { intakes, accounts } in ledgers {
            whole.intakes.extend(intakes);
            whole.accounts.extend(accounts);
        }
    }
    whole
}

/// Reads all pages of the series of all time.
pub async fn series(reader: &dyn JournalReader, step: Step) -> Series {
    let question = SeriesQuestion { to: Timestamp::MAX, step, ..SeriesQuestion::default() };
    whole_series(reader, question).await
}

/// Reads all pages of a series.
pub async fn whole_series(reader: &dyn JournalReader, question: SeriesQuestion) -> Series {
    let mut whole = Series::of(question.by);
    for known in pages(reader, Question::Series(question)).await {
        let Known::Series(series) = known else { panic!("{known:?}") };
        for (step, flow) in series.flows {
            assert_eq!(whole.flows.insert(step, flow), None, "each is on one page");
        }
    }
    whole
}

async fn pages(reader: &dyn JournalReader, question: Question) -> Vec<Known> {
    let mut all = Vec::new();
    let mut page: Option<String> = None;
    loop {
        let answer = answer(reader, question.clone(), page.as_deref()).await;
        all.push(answer.known);
        page = answer.next;
        if page.is_none() {
            return all;
        }
    }
}

fn noted() -> Vec<Entry> {
    let kinds = [
        EntryKind::Failure,
        EntryKind::Success,
        EntryKind::LateSuccess,
        EntryKind::SuccessAfterEnd,
        EntryKind::Ending,
        EntryKind::DeadLettered,
        EntryKind::Dropped,
    ];
    let mut entries: Vec<_> = (0..).zip(kinds).map(|(number, kind)| entry(number, kind)).collect();
    entries[0].due = Some(BEGIN + Duration::from_secs(600));
    entries[0].because = Some(DelayReason::Schedule);
    entries[0].response = Some("busy \"\u{1f600}\"".to_owned());
    entries[0].event_ids = r#"["0e2d7f9a-86a4-4a0d-a9a0-3c4f3d3d5b11"]"#.to_owned();
    entries[1].event_ids = r#"["one","[two]","event-2"]"#.to_owned();
    entries[1].events = 3;
    entries[1].trace_parent =
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".parse().ok();
    entries[3].event_ids = r#"["[odd]"]"#.to_owned();
    entries[4].reason = Some("TimeToLiveExceeded".to_owned());
    entries[5].reason = Some("TimeToLiveExceeded".to_owned());
    entries[5].subscription.name = "other".to_owned();
    entries[6].reason = Some("NoDeadLetterDestination".to_owned());
    entries[6].part = 2;
    entries
}

/// An empty journal that commits everything noted when `settle` is called.
pub async fn entries_are_found(
    journal: &dyn Journal,
    reader: &dyn JournalReader,
    settle: impl AsyncFn(),
) {
    assert_eq!(attempts(reader, all_attempts()).await, [], "an empty journal");
    let mut noted = noted();
    noted.iter().for_each(|entry| journal.note(entry.clone(), None));
    settle().await;
    noted.reverse();
    for most in [1, 3, 100] {
        let found = attempts(reader, AttemptsQuestion { most, ..all_attempts() }).await;
        assert_eq!(found, noted, "pages of {most}");
    }
    let at = |second: u64| BEGIN + Duration::from_secs(second);
    let name = |name: &str| Some(name.to_owned());
    let all = all_attempts();
    // The entries that a question finds, by their seconds, newest first.
    let table: [(AttemptsQuestion, &[usize]); 15] = [
        (AttemptsQuestion { event_id: name("event-2"), ..all.clone() }, &[2, 1]),
        (AttemptsQuestion { event_id: name("[odd]"), ..all.clone() }, &[3]),
        (AttemptsQuestion { event_id: name("[two]"), ..all.clone() }, &[1]),
        (
            AttemptsQuestion {
                event_id: name("0e2d7f9a-86a4-4a0d-a9a0-3c4f3d3d5b11"),
                ..all.clone()
            },
            &[0],
        ),
        (
            AttemptsQuestion {
                event_id: name("0E2D7F9A-86A4-4A0D-A9A0-3C4F3D3D5B11"),
                ..all.clone()
            },
            &[],
        ),
        (AttemptsQuestion { event_id: name("event-99"), ..all.clone() }, &[]),
        (AttemptsQuestion { topic: name("T"), ..all.clone() }, &[6, 5, 4, 3, 2, 1, 0]),
        (AttemptsQuestion { topic: name("u"), ..all.clone() }, &[]),
        (AttemptsQuestion { subscription: name("OTHER"), ..all.clone() }, &[5]),
        (AttemptsQuestion { topic: name("t"), subscription: name("none"), ..all.clone() }, &[]),
        (AttemptsQuestion { failed: true, ..all.clone() }, &[6, 5, 4, 3, 2, 0]),
        (AttemptsQuestion { failed: true, subscription: name("other"), ..all.clone() }, &[5]),
        (AttemptsQuestion { outcomes: vec![Outcome::Delivered], ..all.clone() }, &[2, 1]),
        (AttemptsQuestion { outcomes: vec![Outcome::TimedOut], ..all.clone() }, &[]),
        (AttemptsQuestion { from: at(2), to: at(4), ..all.clone() }, &[3, 2]),
    ];
    for (question, want) in table {
        let found = attempts(reader, question.clone()).await;
        let found: Vec<_> = found.iter().map(|entry| entry.at.since(BEGIN).as_secs()).collect();
        let want: Vec<_> = want.iter().map(|second| *second as u64).collect();
        assert_eq!(found, want, "{question:?}");
    }
    let other = reader.ask(&Question::Attempts(all), Some("x"), None).await;
    assert!(matches!(other, Err(JournalError::Page)), "{other:?}");
}

/// An empty journal that keeps first successes and knows repetitions.
pub async fn a_repetition_is_one_entry(
    journal: &dyn Journal,
    reader: &dyn JournalReader,
    settle: impl AsyncFn(),
) {
    let once = Count {
        owner: Owner::Subscription(super::key()),
        publish_time: BEGIN,
        counted: Counted::Matched,
        events: 1,
        once: Some(Uuid::from_u128(3)),
    };
    for _ in 0..2 {
        // Both before a write, and in the next one.
        for _ in 0..2 {
            journal.note(entry(1, EntryKind::Success), None);
            journal.count(once.clone(), None);
        }
        settle().await;
    }
    journal.note(Entry { attempt: 2, ..entry(1, EntryKind::Success) }, None);
    journal.count(Count { counted: Counted::Redriven, ..once }, None);
    settle().await;
    assert_eq!(attempts(reader, all_attempts()).await.len(), 2);
    let question = LedgerQuestion { to: Timestamp::MAX, ..LedgerQuestion::default() };
    let accounts = ledger(reader, question).await.accounts;
    let account = accounts.into_values().next().expect("an account");
    assert_eq!((account.matched, account.redriven, account.delivered), (1, 1, 2));
}

/// An empty journal whose clock stands still while this notes.
pub async fn sums_are_those_of_what_was_noted(
    journal: &dyn Journal,
    reader: &dyn JournalReader,
    now: Timestamp,
    settle: impl AsyncFn(),
) {
    let mut dice = fastrand::Rng::with_seed(7);
    let (mut want, mut minutes, mut hours) =
        (Ledger::default(), Series::default(), Series::default());
    let mut counted = |at: Timestamp, count: &Count| {
        want.count(count);
        minutes.add(Step::Minute.begin(at), count);
        hours.add(Step::Hour.begin(at), count);
    };
    for number in 0..400 {
        let key = SubscriptionKey { topic: "t".to_owned(), name: format!("s{}", dice.u32(0..3)) };
        let publish_time = BEGIN + Duration::from_secs(dice.u64(0..20_000));
        if dice.bool() {
            let kinds = [EntryKind::Success, EntryKind::Failure, EntryKind::Dropped];
            let kind = kinds[dice.usize(0..3)];
            let noted = Entry {
                at: publish_time + Duration::from_millis(dice.u64(0..100_000)),
                publish_time,
                subscription: key,
                events: dice.u32(1..5),
                reason: (kind == EntryKind::Dropped).then(|| "PayloadMissing".to_owned()),
                ..entry(number, kind)
            };
            if let Some(count) = noted.count() {
                counted(noted.at, &count);
            }
            journal.note(noted, None);
        } else {
            let (owner, what) = match dice.u32(0..3) {
                0 => (Owner::Topic("t".to_owned()), Counted::Accepted),
                1 => (Owner::Topic("t".to_owned()), Counted::Unmatched),
                _ => (Owner::Subscription(key), Counted::Matched),
            };
            let events = dice.u64(1..9);
            let count = Count { owner, publish_time, counted: what, events, once: None };
            counted(now, &count);
            journal.count(count, None);
        }
    }
    settle().await;
    let all = LedgerQuestion { to: Timestamp::MAX, ..LedgerQuestion::default() };
    assert_eq!(ledger(reader, all.clone()).await, want);
    assert_eq!(series(reader, Step::Minute).await, minutes);
    assert_eq!(series(reader, Step::Hour).await, hours);
    let one = LedgerQuestion {
        topic: Some("T".to_owned()),
        subscription: Some("S1".to_owned()),
        from: BEGIN + Duration::from_secs(7_300),
        ..all
    };
    let mut some = want.clone();
    some.intakes.clear();
    let is_asked = |(key, hour): &(SubscriptionKey, Timestamp)| {
        key.name == "s1" && *hour >= BEGIN + Duration::from_secs(7_200)
    };
    some.accounts.retain(|at, _| is_asked(at));
    assert!(!some.accounts.is_empty());
    assert_eq!(ledger(reader, one).await, some);
    // The sums of a series are those of the ledger.
    let total = |accounts: Vec<&Account>| {
        let add = |mut sum: Account, one: &Account| {
            sum.add(one);
            sum
        };
        accounts.into_iter().fold(Account::default(), add)
    };
    let of_series = total(minutes.flows.values().map(|flow| &flow.account).collect());
    assert_eq!(of_series, total(want.accounts.values().collect()));
}

fn any_count(dice: &mut fastrand::Rng, publish_time: Timestamp) -> Count {
    let topic = format!("t{}", dice.u32(0..2));
    let counted = match dice.u32(0..9) {
        0 => Counted::Accepted,
        1 => Counted::Unmatched,
        2 => Counted::Matched,
        3 => Counted::Redriven,
        4 => Counted::DeadLettered("TimeToLiveExceeded".to_owned()),
        5 => Counted::Dropped("PayloadMissing".to_owned()),
        6 => Counted::Failed([Outcome::Busy, Outcome::TimedOut][dice.usize(0..2)]),
        _ => Counted::Delivered { took: Duration::from_millis([30, 7_200_000][dice.usize(0..2)]) },
    };
    let owner = match counted {
        Counted::Accepted | Counted::Unmatched => Owner::Topic(topic),
        _ => Owner::Subscription(SubscriptionKey { topic, name: format!("s{}", dice.u32(0..3)) }),
    };
    Count { owner, publish_time, counted, events: dice.u64(1..9), once: None }
}

/// Questions by every step, owner and total, about hours after that time.
fn series_questions(begin: Timestamp) -> Vec<SeriesQuestion> {
    let at = |hour: u64, minute| begin + Duration::from_secs(60 * (60 * hour + minute));
    let spans = [(at(0, 0), at(24, 0)), (at(1, 17), at(7, 43)), (at(4, 0), at(4, 50))];
    let of = |name: &str| Some(name.to_owned());
    let names = [(None, None), (of("T1"), None), (None, of("S0")), (of("t1"), of("s0"))];
    let mut questions = Vec::new();
    for ((from, to), (topic, subscription)) in
        spans.iter().flat_map(|span| names.iter().map(move |names| (span, names)))
    {
        for (step, by) in
            Step::VARIANTS.iter().flat_map(|step| By::VARIANTS.iter().map(move |by| (step, *by)))
        {
            let (topic, subscription) = (topic.clone(), subscription.clone());
            let (from, to, step) = (step.begin(*from), step.begin(*to), *step);
            let one = SeriesQuestion { topic, subscription, from, to, step, by, total: false };
            questions.extend([SeriesQuestion { total: true, ..one.clone() }, one]);
        }
    }
    questions
}

/// An empty journal that begins at 0, 3, ... o'clock. `count` is called with ascending times. `ask` returns `None`
/// for what the journal refuses.
pub async fn sums_of_series_do_not_depend_on_steps_and_owners(
    begin: Timestamp,
    mut count: impl AsyncFnMut(Timestamp, Vec<Count>),
    ask: impl AsyncFn(SeriesQuestion) -> Option<Series>,
) {
    let (mut dice, mut all, mut minute) = (fastrand::Rng::with_seed(9), Vec::new(), 0);
    while minute < 10 * 60 {
        let at = begin + Duration::from_secs(60 * minute + dice.u64(0..60));
        let some: Vec<_> = (0..dice.u32(1..4)).map(|_| any_count(&mut dice, at)).collect();
        all.extend(some.iter().map(|count| (at, count.clone())));
        count(at, some).await;
        minute += dice.u64(1..4);
    }
    for question in series_questions(begin) {
        let mut want = Series::of(question.by);
        for (at, count) in &all {
            let is_of_the_time = (question.from..question.to).contains(at);
            if is_of_the_time && is_of(&count.owner, &question.topic, &question.subscription) {
                want.add(question.begin(*at), count);
            }
        }
        if let Some(series) = ask(question.clone()).await {
            assert_eq!(series, want, "{question:?}");
        }
    }
}
