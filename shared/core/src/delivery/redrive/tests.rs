use super::*;
use crate::{retry::attempts::Attempts, trace::TraceParent};

const TRACE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

const NOW: Timestamp = Timestamp::from_millis(1_795_248_000_000);

fn key(name: &str) -> SubscriptionKey {
    SubscriptionKey { topic: "t".to_owned(), name: name.to_owned() }
}

fn job(id: u128) -> Job {
    Job {
        id: Uuid::from_u128(id),
        subscription: key("s"),
        bucket: "b".to_owned(),
        folder: "S".to_owned(),
        wanted: RedriveFilter { to: Some(NOW), ..RedriveFilter::default() },
        to: key("s"),
        to_uid: Uuid::from_u128(7),
        schema: DeliverySchema::EventGridSchema,
        events_per_second: 100,
        max_redrives: 3,
        send_again: false,
        dry_run: false,
        source_schema: None,
        created_at: NOW,
        updated_at: NOW,
        status: JobStatus::Running,
        phase: JobPhase::Counting,
        next: None,
        counts: Counts::default(),
        unread: Vec::new(),
        total: None,
        problem: None,
        lease: None,
        revision: 0,
    }
}

fn position(index: usize) -> Position {
    let name = format!("S/2026/11/21/8/{}.json", Uuid::from_u128(9));
    Position::first_of("S", &name).expect("a position").at(index)
}

fn found(index: usize) -> LocatedLetter {
    let letter = Letter {
        event: r#"{"id":"1","n":1.50}"#.to_owned(),
        event_id: "1".to_owned(),
        event_type: "T".to_owned(),
        data_version: "2".to_owned(),
        trace_parent: TraceParent::parse(TRACE),
        reason: "TimeToLiveExceeded".to_owned(),
        attempts: 2,
        last_outcome: None,
        last_status: None,
        published_at: Timestamp::from_millis(5),
        last_attempt_at: None,
        redriven: 0,
    };
    let schema = DeliverySchema::EventGridSchema;
    LocatedLetter { position: position(index), written_at: NOW, schema, letter }
}

#[test]
fn verdict_table() {
    let written = |millis: i64| Timestamp::from_millis(NOW.as_millis() + millis);
    let wanted = |change: &dyn Fn(&mut RedriveFilter)| {
        let mut job = job(1);
        change(&mut job.wanted);
        job
    };
    let redriven = |times| {
        let mut found = found(0);
        found.letter.redriven = times;
        found
    };
    let text = |text: &str| Some(text.to_owned());
    let other = LocatedLetter { schema: DeliverySchema::CloudEventSchemaV1_0, ..found(0) };
    let table = [
        ("plain", job(1), found(0), Verdict::Send),
        ("at the end", job(1), LocatedLetter { written_at: written(0), ..found(0) }, Verdict::Send),
        (
            "too late",
            job(1),
            LocatedLetter { written_at: written(1), ..found(0) },
            Verdict::NotWanted,
        ),
        ("too early", wanted(&|w| w.from = Some(written(1))), found(0), Verdict::NotWanted),
        ("at the start", wanted(&|w| w.from = Some(NOW)), found(0), Verdict::Send),
        ("reason", wanted(&|w| w.reason = text("TimeToLiveExceeded")), found(0), Verdict::Send),
        ("other reason", wanted(&|w| w.reason = text("x")), found(0), Verdict::NotWanted),
        ("type", wanted(&|w| w.event_type = text("T")), found(0), Verdict::Send),
        ("event", wanted(&|w| w.event_id = text("1")), found(0), Verdict::Send),
        ("other event", wanted(&|w| w.event_id = text("2")), found(0), Verdict::NotWanted),
        ("other type", wanted(&|w| w.event_type = text("t")), found(0), Verdict::NotWanted),
        ("redriven", job(1), redriven(2), Verdict::Send),
        ("redriven too often", job(1), redriven(3), Verdict::RedrivenTooOften),
        ("other schema", job(1), other, Verdict::OtherSchema),
    ];
    for (row, job, found, want) in table {
        assert_eq!(job.verdict(&found, &[]), want, "{row}");
    }
}

#[test]
fn what_a_job_has_sent_no_other_one_sends_again() {
    let sending = |next: Option<usize>| Job {
        phase: JobPhase::Sending,
        status: JobStatus::Canceled,
        next: next.map(position),
        ..job(2)
    };
    let completed = || Job { status: JobStatus::Completed, ..sending(None) };
    let filtered = |reason: &str| {
        let wanted = RedriveFilter { reason: Some(reason.to_owned()), ..RedriveFilter::default() };
        Job { wanted, ..completed() }
    };
    let elsewhere = Job { to_uid: Uuid::from_u128(8), ..completed() };
    let table = [
        ("none", vec![], Verdict::Send),
        ("it was here", vec![sending(Some(6))], Verdict::SentBefore),
        ("it was not", vec![sending(Some(5))], Verdict::Send),
        ("it has sent nothing", vec![sending(None)], Verdict::Send),
        ("it only counted", vec![Job { next: Some(position(9)), ..job(2) }], Verdict::Send),
        ("completed", vec![completed()], Verdict::SentBefore),
        ("a dry run", vec![Job { dry_run: true, ..completed() }], Verdict::Send),
        ("of others", vec![filtered("x")], Verdict::Send),
        ("of these", vec![filtered("x"), filtered("TimeToLiveExceeded")], Verdict::SentBefore),
        ("to somebody else", vec![elsewhere], Verdict::Send),
        ("itself", vec![Job { id: Uuid::from_u128(1), ..completed() }], Verdict::Send),
    ];
    for (row, earlier, want) in table {
        assert_eq!(job(1).verdict(&found(5), &earlier), want, "{row}");
        let again = Job { send_again: true, ..job(1) };
        assert_eq!(again.verdict(&found(5), &earlier), Verdict::Send, "{row}");
    }
}

#[test]
fn what_could_not_be_read_was_not_sent() {
    let object = |number: u128| {
        Position::parse(&format!("2026-11-21-8-{}-0", Uuid::from_u128(number))).expect("a position")
    };
    let letter = |number: u128| LocatedLetter { position: object(number).at(7), ..found(0) };
    let mut job = Job { phase: JobPhase::Counting, ..job(1) };
    job.note_unread(object(3), false);
    job.phase = JobPhase::Sending;
    for (number, is_next) in [(5, false), (6, true), (7, true), (9, false)] {
        job.note_unread(object(number), is_next);
    }
    job.status = JobStatus::Completed;
    assert_eq!(job.unread, [(object(5), object(7)), (object(9), object(9))], "in runs");
    let has_sent = |job: &Job, number| job.has_sent(&letter(number), &job.bucket, &job.folder);
    let told = [3, 4, 5, 6, 7, 8, 9, 10].map(|number| has_sent(&job, number));
    assert_eq!(told, [true, true, false, false, false, true, false, true]);
    let text = serde_json::to_string(&job).expect("JSON");
    assert_eq!(serde_json::from_str::<Job>(&text).expect("a job"), job);
    // Two ranges are recorded; everything after the last that fits may be unread.
    let last = 10 + 2 * (UNREAD_MAX as u128 - 2);
    for number in (12..=last + 40).step_by(2) {
        job.note_unread(object(number), false);
    }
    let told = [4, last, last + 1, last + 90].map(|number| has_sent(&job, number));
    assert_eq!((job.unread.len(), told), (UNREAD_MAX, [true, false, false, false]));
}

#[test]
fn phases_follow_each_other() {
    let mut counted = Job { next: Some(position(3)), ..job(1) };
    counted.note(Verdict::Send);
    counted.note(Verdict::RedrivenTooOften);
    counted.note(Verdict::NotWanted);
    let mut dry = Job { dry_run: true, ..counted.clone() };
    dry.end_phase();
    assert_eq!((dry.status, dry.total, dry.counts.sent), (JobStatus::Completed, Some(1), 1));
    counted.end_phase();
    assert_eq!((counted.status, counted.phase), (JobStatus::Running, JobPhase::Sending));
    assert_eq!((counted.total, counted.counts, counted.next), (Some(1), Counts::default(), None));
    counted.note(Verdict::Send);
    counted.end_phase();
    assert_eq!((counted.status, counted.counts.sent), (JobStatus::Completed, 1));
}

#[test]
fn a_redriven_delivery_is_fresh_and_has_the_events_own_data() {
    let mut found = found(0);
    found.letter.redriven = 2;
    let delivery = job(1).delivery(&found, NOW).expect("JSON");
    assert_eq!(delivery.events()[0].get(), r#"{"id":"1","n":1.50}"#);
    assert_eq!(delivery.publish_time, Timestamp::from_millis(5));
    assert_eq!(delivery.ttl_starts_at(), NOW);
    assert_eq!(delivery.traceparent, TraceParent::parse(TRACE));
    assert_eq!(delivery.redriven, Some(Redriven { times: 3, at: NOW }));
    assert!(delivery.attempts == Attempts::default() && delivery.due.is_none());
    let read = Delivery::decode(&delivery.encode()).expect("a delivery");
    assert_eq!((read.redriven, read.id), (delivery.redriven, delivery.id));
    // The same letter and job always give the same delivery.
    let id = |job: Job, index| {
        job.delivery(&super::LocatedLetter { position: position(index), ..found.clone() }, NOW)
            .expect("JSON")
            .id
    };
    assert_eq!(id(job(1), 0), delivery.id);
    assert_ne!(id(job(1), 1), delivery.id);
    assert_ne!(id(job(2), 0), delivery.id);
}

#[test]
fn pace_table() {
    for (events_per_second, batch, millis) in
        [(1, 1, 1_000), (5, 2, 400), (100, 50, 500), (1_000, 100, 100)]
    {
        let job = Job { events_per_second, ..job(1) };
        assert_eq!(job.batch_events_max(), batch, "{events_per_second}");
        assert_eq!(job.pace(batch).as_millis(), millis, "{events_per_second}");
    }
}

#[test]
fn a_job_and_its_tick_are_stored_and_read() {
    let lease = Some(Lease { holder: "m/1".to_owned(), until: NOW });
    let job = Job { next: Some(position(3)), lease, total: Some(9), ..job(1) };
    let json = serde_json::to_string(&job).expect("JSON");
    assert_eq!(serde_json::from_str::<Job>(&json).expect("a job"), job);
    let tick = RedriveMessage::of(&job);
    assert_eq!(RedriveMessage::decode(&tick.encode()), Some(tick.clone()));
    for other in ["", "{}", &tick.encode().replace("\"v\":1", "\"v\":2")] {
        assert_eq!(RedriveMessage::decode(other), None, "{other}");
    }
}

#[test]
fn a_worker_keeps_its_place_and_takes_over_whether_it_goes_on() {
    let lease = |holder: &str| Some(Lease { holder: holder.to_owned(), until: NOW });
    let mut own = Job { next: Some(position(3)), lease: lease("a"), revision: 4, ..job(1) };
    let stored = Job { status: JobStatus::Canceled, lease: lease("a"), revision: 5, ..job(1) };
    assert!(own.take_over(&stored));
    assert_eq!((own.status, own.next, own.revision), (JobStatus::Canceled, Some(position(3)), 5));
    assert!(!own.take_over(&Job { lease: lease("b"), ..job(1) }));
    assert!(!own.take_over(&job(1)));
}

#[test]
fn a_job_begins_when_what_it_sends_can_be_seen() {
    let job = job(1);
    let fast = Pace::times(600);
    for (dry_run, pace, want_s) in [(false, Pace::REAL, 5), (false, fast, 3_000), (true, fast, 0)] {
        let begins_at = Job { dry_run, ..job.clone() }.begins_at(pace);
        assert_eq!(begins_at.since(job.created_at), Duration::from_secs(want_s), "{pace:?}");
    }
}
