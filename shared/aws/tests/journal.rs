//! The journal on CloudWatch Logs, against a fake with the service's limits, in virtual time.

#![cfg(feature = "journal")]

#[path = "journal/fixture.rs"]
mod fixture;

use std::{cell::Cell, sync::Arc, time::Duration};

use gridpost_aws::journal::{LoggedDeployment, LoggedJournal, RunStore};
use gridpost_core::{
    journal::{
        Answer, AttemptsQuestion, By, Count, Counted, Entry, EntryKind, Known, LedgerQuestion,
        Owner, Question, Series, SeriesQuestion, Step,
    },
    ledger::{Account, Intake, Ledger},
    retry::{DelayReason, outcome::Outcome},
    subscription::SubscriptionKey,
    time::Timestamp,
};
use gridpost_ports::{Journal, JournalError, JournalReader, Progress, journal::log};
use gridpost_testkit::{clock::BEGINNING, cloud_logs::CloudLogs, contract, logs};
use serde_json::json;
use tokio::time::{Instant, sleep};

use fixture::{
    DAY, Fixture, HOUR, MINUTE, at, attempts, count, counted, entries, failed, group, ledger,
    ledgers, reader,
};

fn key(topic: &str, name: &str) -> SubscriptionKey {
    SubscriptionKey { topic: topic.to_owned(), name: name.to_owned() }
}

fn topic(name: &str) -> Owner {
    Owner::Topic(name.to_owned())
}

fn of(topic: &str, name: &str) -> Owner {
    Owner::Subscription(key(topic, name))
}

/// The lines that the functions log in some minutes of the day.
fn log_some(fixture: &Fixture) {
    let (orders, stock) = (of("orders", "billing"), of("stock", "audit"));
    for minute in [0, 1, 59, 60, 61, 700] {
        let published = at(minute);
        let accepted = counted(published, |meter| {
            count(meter, &topic("orders"), published, Counted::Accepted, 5);
            count(meter, &orders, published, Counted::Matched, 5);
            count(meter, &stock, published, Counted::Matched, 2);
        });
        fixture.log("ingest", minute, &accepted, 1);
        let delivered = counted(published, |meter| {
            let took = Duration::from_millis(30);
            count(meter, &orders, published, Counted::Delivered { took }, 2);
            count(meter, &orders, published, Counted::Delivered { took: HOUR * 2 }, 1);
            count(meter, &orders, published, Counted::Failed(Outcome::Busy), 1);
            count(meter, &stock, published, Counted::Failed(Outcome::TimedOut), 1);
        });
        fixture.log("dispatch", minute, &delivered, 1);
        fixture.log("dispatch", minute, &failed(minute).to_string(), 1);
        let ended = counted(published, |meter| {
            let stored = Counted::DeadLettered("TimeToLiveExceeded".to_owned());
            count(meter, &stock, published, stored, 1);
            let lost = Counted::Dropped("DeadLetterDestinationNotFound".to_owned());
            count(meter, &stock, published, lost, 1);
        });
        fixture.log("dead-letter", minute, &ended, 1);
    }
    fixture.log("dead-letter", 701, r#"{"message":"events dropped","delivery.id":"cut"#, 1);
}

fn questions() -> Vec<Question> {
    let one = || (Some("ORDERS".to_owned()), Some("Billing".to_owned()));
    let series = || SeriesQuestion { from: at(0), to: BEGINNING, ..SeriesQuestion::default() };
    let cuts = vec![at(1), at(60) + Duration::from_millis(1), at(800)];
    vec![
        Question::Ledger(ledger()),
        Question::Ledger(LedgerQuestion { cuts, ..ledger() }),
        Question::Ledger(LedgerQuestion { from: at(61), topic: one().0, ..ledger() }),
        Question::Ledger(LedgerQuestion { topic: one().0, subscription: one().1, ..ledger() }),
        Question::Series(series()),
        Question::Series(SeriesQuestion {
            topic: one().0,
            subscription: one().1,
            to: at(180),
            step: Step::Minute,
            ..series()
        }),
        Question::Attempts(attempts()),
        Question::Attempts(AttemptsQuestion { event_id: Some("e-60".to_owned()), ..attempts() }),
        Question::Attempts(AttemptsQuestion {
            outcomes: vec![Outcome::Busy],
            failed: true,
            topic: one().0,
            ..attempts()
        }),
    ]
}

#[tokio::test(start_paused = true)]
async fn a_large_log_gives_the_answers_of_a_small_one() {
    let (small, large) = (Fixture::new(), Fixture::new());
    log_some(&small);
    log_some(&large);
    large.fill("ingest");
    large.fill("dispatch");
    for question in &questions() {
        let known = small.answer(question).await.expect("an answer").known;
        let before = large.queries();
        let same = large.answer(question).await.expect("an answer").known;
        assert_eq!(same, known, "{question:?}");
        assert!(large.queries() > before, "{question:?}");
    }
    assert_eq!(small.queries(), 0);
    let Question::Series(all) = &questions()[4] else { unreachable!() };
    let sums = small.answer(&Question::Series(all.clone())).await.expect("an answer").known;
    let Known::Series(series) = sums else { panic!("{sums:?}") };
    let flow = &series.flows[&(at(0), Some(of("orders", "billing")))];
    assert_eq!((flow.account.matched, flow.account.delivered), (15, 9));
    assert_eq!(flow.failed.get("Busy"), Some(&3));
    assert_eq!(series.flows[&(at(660), Some(topic("orders")))].accepted, 5);
}

#[tokio::test(start_paused = true)]
async fn counts_are_divided_where_they_were_logged() {
    let fixture = Fixture::new();
    log_some(&fixture);
    let cuts = vec![at(1), at(61)];
    let answer = fixture.answer(&Question::Ledger(LedgerQuestion { cuts, ..ledger() })).await;
    let divided = ledgers(answer.expect("an answer"));
    let matched = |ledger: &Ledger| {
        ledger.totals().get(&key("orders", "billing")).map(|account| account.matched)
    };
    assert_eq!(divided.iter().map(matched).collect::<Vec<_>>(), [Some(5), Some(15), Some(10)]);
}

/// Ten million events of a day: over 9,000 pages of lines.
fn log_a_busy_day(fixture: &Fixture) -> Ledger {
    const TIMES: u64 = 7_100;
    let (mut ledger, orders) = (Ledger::default(), of("orders", "billing"));
    for minute in 0..1_440 {
        let (published, took) = (at(minute), Duration::from_millis(70));
        let accepted = counted(published, |meter| {
            count(meter, &topic("orders"), published, Counted::Accepted, 1);
            count(meter, &orders, published, Counted::Matched, 1);
        });
        fixture.log("ingest", minute, &accepted, TIMES);
        let delivered = counted(published, |meter| {
            count(meter, &orders, published, Counted::Delivered { took }, 1);
        });
        fixture.log("dispatch", minute, &delivered, TIMES);
        let intake = ledger.intakes.entry(("orders".to_owned(), published.hour())).or_default();
        *intake = Intake { accepted: intake.accepted + TIMES, unmatched: 0 };
        let mut account = Account { matched: TIMES, ..Account::default() };
        account.count(&Counted::Delivered { took }, TIMES);
        ledger
            .accounts
            .entry((key("orders", "billing"), published.hour()))
            .or_default()
            .add(&account);
    }
    ledger
}

#[tokio::test(start_paused = true)]
async fn an_audit_of_ten_million_events_says_its_price_and_takes_less_than_a_minute() {
    let fixture = Fixture::new();
    let want = log_a_busy_day(&fixture);
    let pages = fixture.logs.pages();
    assert!(pages >= 9_000, "{pages} pages");
    let question = Question::Ledger(ledger());
    let began = Instant::now();
    let dear = fixture.ask(&question, Some(0.01)).await.expect("a reply");
    assert_eq!((&dear.progress, fixture.queries()), (&Progress::TooDear, 0));
    let gigabytes = pages as f64 / 1_000.0;
    let is_near = |one: f64, other: f64| (one / other - 1.0).abs() < 0.1;
    assert!(is_near(dear.reads.gigabytes, gigabytes), "{:?} of {gigabytes}", dear.reads);
    assert!((dear.reads.dollars / dear.reads.gigabytes - 0.005).abs() < 1e-9);
    let forgotten = fixture.ask(&question, None).await;
    assert!(matches!(forgotten, Err(JournalError::Forgotten)), "{forgotten:?}");
    let asked_at = fixture.now().as_millis();
    let answer = fixture.answer(&question).await.expect("an answer");
    let took = began.elapsed();
    let calls = fixture.logs.calls();
    println!("{pages} pages: {took:?}, {:?} before, calls {calls:?}", dear.reads);
    assert!(took <= MINUTE, "{took:?}");
    assert_eq!(answer.known_until.as_millis(), asked_at - 60_000);
    assert!(answer.lacks_first_successes && answer.begins.is_none());
    assert_eq!(ledgers(answer), [want]);
    let again = fixture.ask(&question, Some(0.0)).await.expect("the answer that is there");
    assert!(matches!(again.progress, Progress::Answered(_)) && fixture.queries() == 1);
    assert!(is_near(again.reads.gigabytes, gigabytes), "{:?}", again.reads);
}

#[tokio::test(start_paused = true)]
async fn entries_are_paged_newest_first_each_once() {
    let fixture = Fixture::new();
    for number in 0..50 {
        // Five in the same millisecond.
        fixture.log("dispatch", number / 5 * 100, &failed(number).to_string(), 1);
    }
    let question = |most| Question::Attempts(AttemptsQuestion { most, ..attempts() });
    let all = entries(fixture.answer(&question(100)).await.expect("an answer"));
    assert_eq!(all.len(), 50);
    assert!(all.windows(2).all(|pair| pair[0].1.at >= pair[1].1.at), "newest first");
    let (mut paged, mut page) = (Vec::new(), None);
    loop {
        let answer = fixture.paged(&question(3), page.as_deref()).await.expect("a page");
        page = answer.next.clone();
        paged.extend(entries(answer));
        if page.is_none() {
            break;
        }
    }
    assert_eq!(paged, all);
    let entry = &all[49].1;
    assert_eq!(
        (entry.kind, entry.attempt, entry.outcome),
        (EntryKind::Failure, 1, Some(Outcome::Busy))
    );
    assert_eq!((entry.status, entry.because), (Some(503), Some(DelayReason::Schedule)));
    assert_eq!((entry.due, entry.publish_time), (Some(BEGINNING), at(0)));
    assert!(entry.trace_parent.is_some() && entry.event_ids.starts_with("[\"e-"));
}

#[tokio::test(start_paused = true)]
async fn a_token_of_another_answer_is_refused() {
    let fixture = Fixture::new();
    log_some(&fixture);
    let question = |topic: Option<&str>, most| {
        let topic = topic.map(str::to_owned);
        Question::Attempts(AttemptsQuestion { topic, most, ..attempts() })
    };
    let answer = fixture.answer(&question(None, 2)).await.expect("an answer");
    let token = answer.next.expect("a next page");
    assert!(fixture.paged(&question(None, 5), Some(&token)).await.is_ok(), "of any length");
    let hostile = ["", ".", "..", "1..", "x.y.z", "9223372036854775807..0", "query-0"];
    let hostile = hostile.map(str::to_owned).into_iter().chain([
        format!("{token}0"),
        token.replacen('.', ".g", 1),
        format!("1{token}"),
    ]);
    for page in hostile {
        let refused = fixture.paged(&question(None, 2), Some(&page)).await;
        assert!(matches!(refused, Err(JournalError::Page)), "{page}: {refused:?}");
    }
    for other in [question(Some("orders"), 2), Question::Ledger(ledger())] {
        let refused = fixture.paged(&other, Some(&token)).await;
        assert!(matches!(refused, Err(JournalError::Page)), "{other:?}: {refused:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn entries_are_read_as_they_were_logged() {
    logs::watch();
    for is_large in [false, true] {
        let fixture = Fixture::new();
        let mut logged = Vec::new();
        let kinds = [
            EntryKind::Success,
            EntryKind::LateSuccess,
            EntryKind::SuccessAfterEnd,
            EntryKind::Failure,
            EntryKind::Ending,
            EntryKind::Dropped,
        ];
        for (minute, kind) in (0..).zip(kinds) {
            let mut entry = Entry { at: at(minute), ..contract::journal::entry(minute, kind) };
            if kind.is_end() {
                entry.reason = Some("TimeToLiveExceeded".to_owned());
                (entry.took, entry.receives) = (None, None);
            }
            match kind {
                EntryKind::Failure => {
                    (entry.due, entry.because) = (Some(at(90)), Some(DelayReason::Schedule));
                    entry.response = Some("busy \"\u{1f600}\"".to_owned());
                    let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
                    entry.trace_parent = parent.parse().ok();
                }
                EntryKind::LateSuccess => entry.attempt = 0,
                _ => {}
            }
            log(&entry);
            let function = ["dispatch", "dead-letter", "manage"][minute as usize % 3];
            for line in logs::take() {
                fixture.log(function, minute, &line.to_string(), 1);
            }
            logged.insert(0, entry);
        }
        if is_large {
            fixture.fill("dispatch");
        }
        for failed in [false, true] {
            let question = Question::Attempts(AttemptsQuestion { failed, ..attempts() });
            let found = entries(fixture.answer(&question).await.expect("an answer"));
            let found: Vec<_> = found.into_iter().map(|(_, entry)| entry).collect();
            assert_eq!(found, logged, "failed alone: {failed}");
            logged.retain(|entry| entry.kind != EntryKind::Success);
        }
    }
}

/// A question of many pages costs as many calls as one of one page, as long as one copy of manage answers.
#[tokio::test(start_paused = true)]
async fn further_pages_of_counts_do_not_read_the_log_again() {
    let fixture = Fixture::new();
    log_some(&fixture);
    let question = Question::Ledger(ledger());
    let first = fixture.ask(&question, Some(1.0)).await.expect("a reply");
    let calls = fixture.logs.calls();
    assert_eq!(
        calls.iter().map(|(call, times)| (*call, *times)).collect::<Vec<_>>(),
        [("logs:DescribeLogGroups", 1), ("logs:FilterLogEvents", 5)]
    );
    let next = fixture.ask(&question, None).await.expect("a reply");
    assert_eq!((&next, fixture.logs.calls()), (&first, calls));
    let anew = [Some(1.0), None];
    for (round, max_dollars) in (2..).zip(anew) {
        sleep(MINUTE * 11).await;
        fixture.ask(&question, max_dollars).await.expect("a reply");
        assert_eq!(fixture.logs.calls()["logs:DescribeLogGroups"], round, "{max_dollars:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn further_pages_of_entries_are_those_that_were_read_with_the_first() {
    let fixture = Fixture::new();
    for number in 0..50 {
        fixture.log("dispatch", number, &failed(number).to_string(), 1);
    }
    let question = |most| Question::Attempts(AttemptsQuestion { most, ..attempts() });
    let first = fixture.paged(&question(20), None).await.expect("an answer");
    let calls = fixture.logs.calls();
    let token = first.next.clone().expect("a next page");
    let second = fixture.look(&question(20), &token).await;
    let last = second.next.clone().expect("a last page");
    let third = fixture.look(&question(20), &last).await;
    assert_eq!(calls, fixture.logs.calls());
    let all = [&first, &second, &third].map(|answer| entries(answer.clone()));
    assert_eq!(all.concat().len(), 50);
    // Another reader, who does not have what comes before its first page.
    let other = reader(&fixture.logs, &fixture.runs, fixture.clock);
    for (page, want) in [(&last, third), (&token, second)] {
        let reply = other.ask(&question(20), Some(page), None).await.expect("a reply");
        let Progress::Answered(answer) = reply.progress else { panic!("{:?}", reply.progress) };
        assert_eq!(answer.next, want.next);
        assert_eq!(entries(answer), entries(want));
    }
}

/// Hours without an entry, whose pages a question reads for itself.
#[tokio::test(start_paused = true)]
async fn pages_go_on_over_a_time_without_entries() {
    let fixture = Fixture::new();
    fixture.fill("dispatch");
    for minute in [1_300, 1_439] {
        fixture.log("dispatch", minute, &failed(minute).to_string(), 1);
    }
    let asked = AttemptsQuestion { from: at(1_290), ..attempts() };
    let (question, mut all, mut pages) = (Question::Attempts(asked), Vec::new(), 0);
    let mut page: Option<String> = None;
    loop {
        let answer = match &page {
            None => fixture.paged(&question, None).await.expect("an answer"),
            Some(token) => fixture.look(&question, token).await,
        };
        page = answer.next.clone();
        all.extend(entries(answer).into_iter().map(|(_, entry)| entry.delivery.as_u128()));
        pages += 1;
        if page.is_none() {
            break;
        }
    }
    assert_eq!((all, fixture.queries()), (vec![1_439, 1_300], 0));
    assert!(pages > 2, "{pages}");
}

/// All that a day has was logged within a minute.
#[tokio::test(start_paused = true)]
async fn the_newest_entries_of_a_burst_are_free() {
    let fixture = Fixture::new();
    for number in 0..600 {
        let line = failed(number).to_string();
        let logged_at = at(1_439) + Duration::from_millis(100 * u64::from(number));
        fixture.logs.log(&group("dispatch"), logged_at, &line, 100);
    }
    let question = Question::Attempts(attempts());
    let reply = fixture.ask(&question, Some(0.0)).await.expect("a reply");
    let Progress::Answered(answer) = reply.progress else { panic!("{reply:?}") };
    let numbers: Vec<_> = entries(answer).iter().map(|(_, it)| it.delivery.as_u128()).collect();
    assert!(!numbers.is_empty() && numbers.len() <= 100);
    assert!((0..600).rev().zip(&numbers).all(|(want, number)| want == *number), "{numbers:?}");
    assert_eq!(fixture.queries(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_time_without_a_log_is_empty() {
    let fixture = Fixture::new();
    log_some(&fixture);
    for (from, to) in [(at(0), at(0)), (Timestamp::default(), at(0)), (at(60), at(60))] {
        let counts = Question::Ledger(LedgerQuestion { from, to, ..ledger() });
        let known = fixture.answer(&counts).await.expect("an answer");
        assert_eq!(ledgers(known), [Ledger::default()], "{from} to {to}");
        let question = Question::Attempts(AttemptsQuestion { from, to, ..attempts() });
        let known = fixture.answer(&question).await.expect("an answer");
        assert_eq!(entries(known), [], "{from} to {to}");
        sleep(Duration::from_secs(1)).await;
    }
}

/// 24,000 entries of one event, 20 in a minute.
fn log_many(fixture: &Fixture, most: usize) -> Question {
    for number in 0..24_000 {
        let mut line = failed(number);
        line["event_ids"] = json!(json!(["same"]).to_string());
        fixture.log("dispatch", number / 20, &line.to_string(), 1);
    }
    fixture.fill("dispatch");
    let event_id = Some("same".to_owned());
    Question::Attempts(AttemptsQuestion { event_id, most, ..attempts() })
}

#[tokio::test(start_paused = true)]
async fn entries_beyond_ten_thousand_rows_are_asked_for_in_halves_once_a_page_needs_them() {
    let fixture = Fixture::new();
    let question = log_many(&fixture, 6_000);
    let answer = fixture.answer(&question).await.expect("an answer");
    assert_eq!((answer.begins, fixture.queries()), (None, 1));
    let mut page = answer.next.clone();
    let mut all = entries(answer);
    while let Some(token) = page {
        let answer = fixture.paged(&question, Some(&token)).await.expect("a page");
        page = answer.next.clone();
        all.extend(entries(answer));
    }
    assert_eq!(all.len(), 24_000);
    assert!(fixture.queries() > 1, "{}", fixture.queries());
    assert!(all.windows(2).all(|pair| pair[0].1.at >= pair[1].1.at), "newest first");
}

#[tokio::test(start_paused = true)]
async fn entries_beyond_ten_thousand_rows_that_no_money_is_for_are_said_to_be_left_out() {
    let fixture = Fixture::new();
    let question = log_many(&fixture, 10_000);
    let price = fixture.ask(&question, Some(0.0)).await.expect("a reply").reads.dollars;
    fixture.ask(&question, Some(price)).await.expect("a reply");
    sleep(MINUTE).await;
    let reply = fixture.ask(&question, None).await.expect("a reply");
    let Progress::Answered(answer) = reply.progress else { panic!("{reply:?}") };
    // 10,000 rows are 500 minutes, and others of the oldest one may have been left out.
    assert_eq!(answer.begins, Some(at(700) + Duration::from_millis(1)));
    assert_eq!((entries(answer).len(), fixture.queries()), (9_980, 1));
}

#[tokio::test(start_paused = true)]
async fn the_newest_entries_of_a_busy_log_are_free() {
    let fixture = Fixture::new();
    fixture.fill("dispatch");
    for minute in 1_400..1_440 {
        fixture.log("dispatch", minute, &failed(minute).to_string(), 1);
    }
    let question = Question::Attempts(AttemptsQuestion { most: 7, ..attempts() });
    let (mut all, mut page) = (Vec::new(), None);
    while all.len() < 40 {
        let reply = fixture.journal.ask(&question, page.as_deref(), None).await.expect("a reply");
        let Progress::Answered(answer) = reply.progress else { panic!("{:?}", reply.progress) };
        assert_eq!(reply.reads.dollars, 0.0);
        page = answer.next.clone();
        all.extend(entries(answer));
        sleep(Duration::from_secs(1)).await;
    }
    let numbers = all.iter().map(|(_, entry)| entry.delivery.as_u128()).collect::<Vec<_>>();
    assert_eq!(numbers, (1_400..1_440).rev().collect::<Vec<_>>());
    assert_eq!(fixture.queries(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_quiet_month_is_free() {
    for logged in 0..2 {
        let fixture = Fixture::new();
        (0..logged).for_each(|_| fixture.log("dispatch", 0, &failed(1).to_string(), 1));
        sleep(29 * DAY).await;
        let to = fixture.now();
        let question = Question::Attempts(AttemptsQuestion { to, ..attempts() });
        let reply = fixture.ask(&question, None).await.expect("a reply");
        let Progress::Answered(answer) = reply.progress else { panic!("{:?}", reply.progress) };
        assert_eq!((entries(answer).len(), fixture.queries()), (logged, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn counts_beyond_ten_thousand_rows_are_asked_for_in_halves_or_refused() {
    let fixture = Fixture::new();
    let log = |minute: u32, names: u32| {
        for number in 0..names {
            let subscription = of("orders", &format!("s-{number}"));
            let line = counted(at(minute), |meter| {
                count(meter, &subscription, at(minute), Counted::Matched, 1);
            });
            fixture.log("ingest", minute, &line, 1);
        }
    };
    log(10, 6_000);
    log(1_400, 6_000);
    fixture.fill("ingest");
    let question = Question::Ledger(ledger());
    let all = ledgers(fixture.answer(&question).await.expect("an answer"));
    assert_eq!((all[0].accounts.len(), fixture.queries()), (12_000, 3));
    let fixture = Fixture::new();
    let line = |number: u32| {
        let subscription = of("orders", &format!("s-{number}"));
        counted(at(10), |meter| {
            count(meter, &subscription, at(10), Counted::Matched, 1);
        })
    };
    for number in 0..11_000 {
        fixture.log("ingest", 10, &line(number), 1);
    }
    fixture.fill("ingest");
    let refused = fixture.answer(&question).await.expect_err("too many");
    let JournalError::TooMuch(said) = &refused else { panic!("{refused}") };
    assert!(said.contains("name a topic or an event subscription"), "{said}");
    assert!(fixture.queries() < 40, "{}", fixture.queries());
}

#[tokio::test(start_paused = true)]
async fn minutes_of_a_large_log_are_had_of_one_owner() {
    let fixture = Fixture::new();
    fixture.fill("ingest");
    let (topic, name) = (|| Some("orders".to_owned()), || Some("billing".to_owned()));
    // By, topic, event subscription, total, whether there is an answer.
    let table = [
        (By::EventSubscription, topic(), name(), false, true),
        (By::EventSubscription, topic(), None, false, false),
        (By::EventSubscription, None, name(), false, false),
        (By::EventSubscription, None, None, true, true),
        (By::Topic, topic(), None, false, true),
        (By::Topic, None, None, false, false),
        (By::Topic, None, None, true, true),
        (By::All, None, None, false, true),
    ];
    for step in [Step::Minute, Step::FiveMinutes, Step::HalfHour, Step::Hour, Step::ThreeHours] {
        for (by, topic, subscription, total, is_small) in table.clone() {
            let question = Question::Series(SeriesQuestion {
                topic,
                subscription,
                from: at(0),
                to: BEGINNING,
                step,
                by,
                total,
            });
            let asked = fixture.ask(&question, Some(1.0)).await;
            sleep(MINUTE).await;
            if is_small || matches!(step, Step::Hour | Step::ThreeHours) {
                assert!(asked.is_ok(), "{question:?}: {asked:?}");
                continue;
            }
            let Err(JournalError::TooMuch(said)) = &asked else {
                panic!("{question:?}: {asked:?}")
            };
            assert!(said.contains(&format!("{step} goes with one event subscription")), "{said}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn sums_of_series_do_not_depend_on_steps_and_owners() {
    for is_large in [false, true] {
        let fixture = Fixture::new();
        let log = async |at, counts: Vec<Count>| {
            let lines = counted(at, |meter| meter.count_sent(&counts));
            lines.lines().for_each(|line| fixture.logs.log(&group("ingest"), at, line, 1));
        };
        let answered = Cell::new(0);
        let ask = async |question| {
            sleep(Duration::from_secs(1)).await;
            match fixture.answer(&Question::Series(question)).await {
                Ok(Answer { known: Known::Series(series), .. }) => {
                    answered.set(answered.get() + 1);
                    Some(series)
                }
                Err(JournalError::TooMuch(_)) => None,
                other => panic!("{other:?}"),
            }
        };
        if is_large {
            fixture.fill("dispatch");
        }
        let sums = contract::journal::sums_of_series_do_not_depend_on_steps_and_owners;
        sums(at(0), log, ask).await;
        assert!(answered.get() > 250, "{}", answered.get());
        assert_eq!(fixture.queries() > 100, is_large);
    }
}

#[tokio::test(start_paused = true)]
async fn a_busy_service_is_told() {
    let fixture = Fixture::new();
    log_some(&fixture);
    let question = Question::Ledger(ledger());
    fixture.logs.keep_busy(MINUTE);
    let busy = fixture.ask(&question, Some(1.0)).await;
    assert!(matches!(busy, Err(JournalError::Busy)), "{busy:?}");
    sleep(MINUTE).await;
    assert!(fixture.ask(&question, Some(1.0)).await.is_ok());

    // One query at a time: the others wait for it, and none is started twice.
    fixture.fill("ingest");
    fixture.logs.allow_queries(1);
    let cuts = vec![at(100), at(200)];
    let question = Question::Ledger(LedgerQuestion { cuts, ..ledger() });
    let reply = fixture.ask(&question, Some(1.0)).await.expect("a reply");
    assert_eq!((reply.progress, fixture.queries()), (Progress::Running, 1));
    let other = Question::Ledger(LedgerQuestion { from: at(60), ..ledger() });
    let busy = fixture.ask(&other, Some(1.0)).await;
    assert!(matches!(busy, Err(JournalError::Busy)), "{busy:?}");
    assert_eq!(ledgers(fixture.answer(&question).await.expect("an answer")).len(), 3);
    assert_eq!(fixture.queries(), 3);
    assert_eq!(ledgers(fixture.answer(&other).await.expect("an answer")).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_permission_that_lacks_is_named() {
    let (counts, entries) = (Question::Ledger(ledger()), Question::Attempts(attempts()));
    // (permission, group, is large, question)
    let table = [
        ("logs:FilterLogEvents", "g-dead-letter", false, &entries),
        ("logs:FilterLogEvents", "g-redrive", false, &counts),
        ("logs:DescribeLogGroups", "", false, &counts),
        ("logs:StartQuery", "g-manage", true, &counts),
    ];
    for (permission, part, is_large, question) in table {
        let fixture = Fixture::new();
        log_some(&fixture);
        if is_large {
            fixture.fill("ingest");
        }
        fixture.logs.deny(permission, part);
        let refused = fixture.answer(question).await.expect_err("denied");
        let JournalError::Denied(said) = &refused else { panic!("{permission}: {refused}") };
        let role = "the role of the function g-manage";
        assert!(said.contains(permission) && said.contains(role), "{said}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_query_that_fails_is_an_error_once() {
    let fixture = Fixture::new();
    fixture.fill("ingest");
    fixture.logs.fail_next_query();
    let question = Question::Ledger(ledger());
    let failed = fixture.answer(&question).await.expect_err("a failure");
    assert!(failed.to_string().contains("ended as Failed"), "{failed}");
    let forgotten = fixture.ask(&question, None).await;
    assert!(matches!(forgotten, Err(JournalError::Forgotten)), "{forgotten:?}");
    assert!(fixture.answer(&question).await.is_ok());
    assert_eq!(fixture.queries(), 2);
}

#[tokio::test(start_paused = true)]
async fn equal_questions_share_a_run_for_an_hour() {
    let fixture = Fixture::new();
    fixture.fill("ingest");
    let ask = |topic: &str| {
        let topic = Some(topic.to_owned());
        Question::Ledger(LedgerQuestion { topic, ..ledger() })
    };
    let (one, same) = (ask("orders"), ask("ORDERS"));
    let (first, second) = tokio::join!(fixture.ask(&one, Some(1.0)), fixture.ask(&same, Some(1.0)));
    assert_eq!(first.expect("a reply").progress, Progress::Running);
    assert_eq!(second.expect("a reply").progress, Progress::Running);
    assert_eq!(fixture.queries(), 1);
    sleep(HOUR - MINUTE).await;
    assert!(fixture.ask(&same, None).await.is_ok());
    sleep(MINUTE).await;
    let forgotten = fixture.ask(&same, None).await;
    assert!(matches!(forgotten, Err(JournalError::Forgotten)), "{forgotten:?}");
    assert!(fixture.answer(&same).await.is_ok());
    assert_eq!(fixture.queries(), 2);
}

/// A caller that ended after it had written the run.
#[tokio::test(start_paused = true)]
async fn a_run_that_was_not_started_is_started_by_the_next_look() {
    let fixture = Fixture::new();
    fixture.fill("ingest");
    let question = Question::Ledger(ledger());
    let ask = fixture.ask(&question, Some(1.0));
    // Describing the groups takes 100 ms, starting the query as long.
    let cut = tokio::time::timeout(Duration::from_millis(150), ask).await;
    assert!(cut.is_err() && fixture.queries() == 0);
    let reply = fixture.ask(&question, None).await.expect("a reply");
    assert_eq!((reply.progress, fixture.queries()), (Progress::Running, 0));
    sleep(MINUTE).await;
    fixture.answer(&question).await.expect("an answer");
    assert_eq!(fixture.queries(), 1);
}

#[tokio::test(start_paused = true)]
async fn no_event_id_changes_the_query() {
    // The longest ones that are logged.
    let long = "long-".repeat(800);
    let hostile = [
        &long,
        "\" | filter 1 = 1 | limit 1 #",
        "a\\\" or ispresent(Topic)",
        "e-1\\",
        "/.*/",
        "`x`",
        "e|1",
        "%",
        "\u{1b}\n\u{0}",
        "é",
        "🦀 crab",
        "'; drop",
        "e-1",
    ];
    for is_large in [false, true] {
        let fixture = Fixture::new();
        for (number, id) in hostile.iter().enumerate() {
            let mut line = failed(number as u32);
            line["event_ids"] = json!(json!([id]).to_string());
            fixture.log("dispatch", number as u32, &line.to_string(), 1);
        }
        let line = counted(at(1), |meter| count(meter, &topic("t"), at(1), Counted::Accepted, 1));
        fixture.log("ingest", 1, &line, 1);
        if is_large {
            fixture.fill("dispatch");
        }
        for id in hostile {
            let event_id = Some(id.to_owned());
            let question = AttemptsQuestion { event_id, ..attempts() };
            let answer = fixture.answer(&Question::Attempts(question)).await;
            let found = entries(answer.expect("an answer"));
            assert_eq!(found.len(), 1, "{id}: {:?}", fixture.logs.queries());
            assert_eq!(found[0].1.event_ids, json!([id]).to_string());
        }
        for name in hostile {
            let topic = Some(name.to_owned());
            let question = Question::Ledger(LedgerQuestion { topic, ..ledger() });
            let none = ledgers(fixture.answer(&question).await.expect("an answer"));
            assert_eq!(none, [Ledger::default()], "{name}");
            let (topic, by, total) = (Some(name.to_owned()), By::All, true);
            let (from, to) = (at(0), BEGINNING);
            let question =
                SeriesQuestion { topic, from, to, by, total, ..SeriesQuestion::default() };
            let answer = fixture.answer(&Question::Series(question)).await.expect("an answer");
            assert_eq!(answer.known, Known::Series(Series::of(By::All)), "{name}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_no_longer_kept_is_said() {
    let fixture = Fixture::new();
    fixture.logs.create_group(&group("dispatch"), at(0), Some(1));
    // Of a deployment whose name begins with the same words.
    fixture.logs.create_group(&format!("{}-ingest", group("ingest")), at(0), Some(1));
    sleep(HOUR + MINUTE).await;
    let asked_at = fixture.now().as_millis();
    let answer = fixture.answer(&Question::Ledger(ledger())).await.expect("an answer");
    assert_eq!(answer.begins, Some(at(120)));
    assert_eq!(answer.known_until.as_millis(), asked_at - 60_000);
    let later = LedgerQuestion { from: at(120), ..ledger() };
    let answer = fixture.answer(&Question::Ledger(later)).await.expect("an answer");
    assert_eq!(answer.begins, None);
}

#[tokio::test(start_paused = true)]
async fn a_deployment_without_logs_is_an_error() {
    let fixture = Fixture::new();
    let logs = Arc::<CloudLogs>::default();
    let deployment = LoggedDeployment { name_prefix: "g".to_owned(), logs_first_successes: true };
    let clock = Arc::new(fixture.clock);
    let runs = Arc::clone(&fixture.runs) as Arc<dyn RunStore>;
    let journal = LoggedJournal::new(logs, runs, clock, deployment);
    let question = Question::Ledger(ledger());
    let asked = journal.ask(&question, None, Some(1.0));
    let failed = asked.await.expect_err("no group").to_string();
    assert!(failed.contains("/aws/lambda/g-dispatch"), "{failed}");
}
