//! SQS.

use std::time::Duration;

use futures::future::join_all;
use gridpost_aws::sqs::{QueueUrls, SqsQueues};
use gridpost_core::delivery::queue::Queue;
use gridpost_ports::{Outgoing, PoisonQueue, QueueReceiver, QueueSender};
use gridpost_testkit::contract;
use serde_json::{Value, json};

use super::replay::{ATTEMPTS, Answer, RecordedRequest, Replay, error, ok};

const URL: &str = "https://sqs.us-east-1.amazonaws.com/123456789012/gridpost-dispatch";

fn queues(replay: &Replay) -> SqsQueues {
    let urls =
        QueueUrls { dispatch: URL.to_owned(), poison: URL.to_owned(), ..QueueUrls::default() };
    SqsQueues::new(replay.clients().sqs(), urls)
}

/// The answer of batch calls is 200, whatever happened to the entries.
fn batch(good: &[usize], failed: &[(usize, &str)]) -> Answer {
    let good: Vec<_> = good
        .iter()
        .map(|id| json!({"Id": id.to_string(), "MessageId": "m", "MD5OfMessageBody": "x"}))
        .collect();
    let failed: Vec<_> = failed
        .iter()
        .map(|(id, code)| json!({"Id": id.to_string(), "Code": code, "SenderFault": false}))
        .collect();
    let mut answer = json!({});
    for (name, entries) in [("Successful", good), ("Failed", failed)] {
        if !entries.is_empty() {
            answer[name] = Value::from(entries);
        }
    }
    ok(answer)
}

#[tokio::test(start_paused = true)]
async fn an_entry_that_failed_is_a_message_that_was_not_sent() {
    let others = [9, 0, 8, 2, 7, 4, 6, 5];
    let table: [(&str, Vec<Answer>, &[usize]); 6] = [
        ("all sent", vec![batch(&(0..10).collect::<Vec<_>>(), &[]), batch(&[1, 0], &[])], &[]),
        (
            "some failed",
            vec![
                batch(&others, &[(3, "InternalError"), (1, "RequestThrottled")]),
                batch(&[0], &[(1, "InternalError")]),
            ],
            &[1, 3, 11],
        ),
        ("one not answered", vec![batch(&others, &[(3, "X")]), batch(&[0, 1], &[])], &[1, 3]),
        (
            "one call refused",
            vec![error(400, "com.amazonaws.sqs#BatchRequestTooLong"), batch(&[0, 1], &[])],
            &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9],
        ),
        (
            "the other call refused",
            vec![batch(&(0..10).collect::<Vec<_>>(), &[]), error(403, "AccessDenied")],
            &[10, 11],
        ),
        (
            "all failed",
            vec![
                batch(&[], &(0..10).map(|id| (id, "InternalError")).collect::<Vec<_>>()),
                ok(json!({})),
            ],
            &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11],
        ),
    ];
    for (row, answers, refused) in table {
        println!("{row}");
        let replay = Replay::of(answers);
        contract::queues::a_refused_message_fails_alone(&queues(&replay), 12, refused).await;
        assert_eq!(replay.asked().len(), 2, "{row}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_message_is_sent_with_its_group_and_its_delay() {
    let replay = Replay::of([batch(&[0, 1], &[])]);
    let message = |delay_s| Outgoing::new("b".to_owned(), "t/s".to_owned(), delay_s);
    let sent = queues(&replay).send(Queue::Dispatch, vec![message(0), message(900)]).await;
    assert!(sent.iter().all(Result::is_ok), "{sent:?}");
    let asked = replay.asked().remove(0);
    let want = json!({"QueueUrl": URL, "Entries": [
        {"Id": "0", "MessageBody": "b", "MessageGroupId": "t/s"},
        {"Id": "1", "MessageBody": "b", "MessageGroupId": "t/s", "DelaySeconds": 900},
    ]});
    assert_eq!((asked.operation.as_str(), asked.body), ("SendMessageBatch", want));
    // A queue without a URL must not lose messages.
    let sent = queues(&Replay::of([])).send(Queue::Retry(0), vec![message(0)]).await;
    assert!(sent.len() == 1 && sent[0].is_err(), "{sent:?}");
}

#[tokio::test(start_paused = true)]
async fn what_sqs_refuses_has_not_happened() {
    for refusal in [
        error(400, "com.amazonaws.sqs#QueueDoesNotExist"),
        error(403, "AccessDenied"),
        error(400, "com.amazonaws.sqs#RequestThrottled"),
        error(503, "ServiceUnavailable"),
    ] {
        let replay = Replay::always(refusal);
        contract::queues::a_queue_that_refuses_has_done_nothing(&queues(&replay)).await;
        let counted = PoisonQueue::count(&queues(&replay)).await;
        assert!(counted.is_err(), "{counted:?}");
        assert!(queues(&replay).receive(60).await.is_err(), "it is not empty");
    }
}

#[tokio::test(start_paused = true)]
async fn an_entry_that_was_not_deleted_is_an_error() {
    let ten: Vec<_> = (0..10).collect();
    let gone = "ReceiptHandleIsInvalid";
    let table: [(&str, Vec<Answer>, bool); 6] = [
        ("all deleted", vec![batch(&ten, &[]), batch(&[0, 1], &[])], true),
        ("one failed", vec![batch(&ten, &[]), batch(&[0], &[(1, "InternalError")])], false),
        ("one was gone", vec![batch(&ten[1..], &[(0, gone)]), batch(&[0, 1], &[])], true),
        (
            "one was gone, and one failed",
            vec![batch(&ten[2..], &[(0, gone), (1, "InternalError")])],
            false,
        ),
        (
            "the same in the other order",
            vec![batch(&ten[2..], &[(1, "InternalError"), (0, gone)])],
            false,
        ),
        ("a call refused", vec![batch(&ten, &[]), error(403, "AccessDenied")], false),
    ];
    for (row, answers, is_deleted) in table {
        let replay = Replay::of(answers);
        let receipts = (0..12).map(|number| format!("r-{number}")).collect();
        let deleted = queues(&replay).delete(Queue::Dispatch, receipts).await;
        assert_eq!(deleted.is_ok(), is_deleted, "{row}: {deleted:?}");
        let asked = replay.asked();
        assert_eq!(asked[0].body["Entries"][9], json!({"Id": "9", "ReceiptHandle": "r-9"}));
    }
}

#[tokio::test(start_paused = true)]
async fn messages_are_hidden_together_each_for_as_long_as_was_asked_for() {
    let later: Vec<_> = (0..9).collect();
    let replay = Replay::of([batch(&later, &[(9, "MessageNotInflight")]), batch(&[0, 1], &[])]);
    let queues = queues(&replay);
    let all = (0..12).map(|number| {
        let queues = &queues;
        async move { queues.hide(Queue::Dispatch, &format!("r-{number}"), 43_160 + number).await }
    });
    let hidden: Vec<_> = join_all(all).await.iter().map(Result::is_ok).collect();
    let want: Vec<_> = (0..12).map(|number| number != 9).collect();
    assert_eq!(hidden, want, "one was visible already");
    let asked = replay.asked();
    let of = |asked: &RecordedRequest| {
        (asked.operation.clone(), asked.body["Entries"].as_array().map(Vec::len))
    };
    let call = || "ChangeMessageVisibilityBatch".to_owned();
    assert_eq!(asked.iter().map(of).collect::<Vec<_>>(), [(call(), Some(10)), (call(), Some(2))]);
    let want = json!({"Id": "1", "ReceiptHandle": "r-11", "VisibilityTimeout": 43_171});
    assert_eq!(asked[1].body["Entries"][1], want);
}

#[tokio::test(start_paused = true)]
async fn a_message_that_no_answer_names_is_not_hidden() {
    for answer in [batch(&[], &[]), error(403, "AccessDenied")] {
        let replay = Replay::of([answer]);
        queues(&replay).hide(Queue::Dispatch, "r", 60).await.expect_err("it may be visible");
    }
}

/// The caller that began a call may be given up before it is made.
#[tokio::test(start_paused = true)]
async fn a_caller_that_gives_up_leaves_the_others_their_answers() {
    let replay = Replay::of([batch(&[0, 1], &[])]);
    let queues = queues(&replay);
    let given_up = Box::pin(queues.hide(Queue::Dispatch, "r-0", 60));
    let other = queues.hide(Queue::Dispatch, "r-1", 60);
    let (given_up, other) = futures::join!(tokio::time::timeout(Duration::ZERO, given_up), other);
    given_up.expect_err("it had no time");
    other.expect("hidden");
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_throttled_is_made_again() {
    let throttled = error(400, "com.amazonaws.sqs#RequestThrottled");
    let replay = Replay::of([throttled.clone(), throttled, batch(&[0, 1, 2], &[])]);
    contract::queues::a_refused_message_fails_alone(&queues(&replay), 3, &[]).await;
    assert_eq!(replay.asked().len(), ATTEMPTS);
}

/// SQS counts in three numbers, and each question needs its own.
#[tokio::test(start_paused = true)]
async fn a_queue_is_counted_by_the_numbers_that_were_asked_for() {
    let names = [
        "ApproximateNumberOfMessages",
        "ApproximateNumberOfMessagesNotVisible",
        "ApproximateNumberOfMessagesDelayed",
    ];
    let all = json!({names[0]: "7", names[1]: "20", names[2]: "100"});
    let answers = || Replay::always(ok(json!({"Attributes": all.clone()})));
    let queue = Queue::Dispatch;
    for (row, want, asked) in [
        ("backlog", 127, &names[..]),
        ("visible", 7, &names[..1]),
        ("in flight", 20, &names[1..2]),
        ("poison", 127, &names[..]),
    ] {
        let replay = answers();
        let queues = queues(&replay);
        let counted = match row {
            "backlog" => queues.backlog(queue).await,
            "visible" => queues.visible(queue).await,
            "in flight" => queues.in_flight(queue).await,
            _ => PoisonQueue::count(&queues).await,
        };
        assert_eq!(counted.expect("a number"), want, "{row}");
        assert_eq!(replay.asked()[0].body["AttributeNames"], json!(asked), "{row}");
    }
    // A missing number is not zero.
    for lacking in [json!({}), json!({"Attributes": {names[0]: "7", names[1]: "20"}})] {
        let counted = queues(&Replay::always(ok(lacking))).backlog(queue).await;
        assert!(counted.is_err(), "{counted:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_poison_queue_is_asked_for_all_that_is_read_of_it() {
    let attributes = json!({"SentTimestamp": "1500", "ApproximateReceiveCount": "1001",
        "DeadLetterQueueSourceArn": "arn:aws:sqs:us-east-1:123456789012:gridpost-retry-1"});
    let message = json!({"MessageId": "m", "ReceiptHandle": "r", "Body": "b",
        "Attributes": attributes});
    let replay = Replay::of([ok(json!({"Messages": [message]})), ok(json!({}))]);
    let queues = queues(&replay);
    let found = queues.receive(30).await.expect("an answer");
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].receive_count, found[0].sent_at.as_millis()), (1_001, 1_500));
    assert_eq!(queues.receive(30).await.expect("an answer").len(), 0, "it is empty");
    let asked = replay.asked().remove(0).body;
    assert_eq!(asked["MessageSystemAttributeNames"], json!(["All"]));
    assert_eq!(
        (&asked["VisibilityTimeout"], &asked["MaxNumberOfMessages"]),
        (&json!(30), &json!(10))
    );
}
