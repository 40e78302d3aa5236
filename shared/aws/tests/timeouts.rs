//! A connection that swallows requests ends the call, in time and with an error.

use std::{net::Ipv4Addr, time::Duration};

use aws_credential_types::Credentials;
use gridpost_aws::{
    Clients, Timeouts,
    parking::ParkingTable,
    sqs::{QueueUrls, SqsQueues},
};
use gridpost_core::delivery::queue::Queue;
use gridpost_ports::{Outgoing, PortError, QueueSender, WakeCursor};
use tokio::net::TcpListener;

const SHORT: Timeouts =
    Timeouts { attempt: Duration::from_millis(20), operation: Duration::from_millis(200) };

const LONG: Duration = Duration::from_secs(30);

async fn clients_of_silence() -> Clients {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    tokio::spawn(async move {
        let mut held = Vec::new();
        while let Ok((stream, _)) = listener.accept().await {
            held.push(stream);
        }
    });
    let credentials = Credentials::new("key", "secret", None, None, "a test");
    Clients::new(credentials, "us-east-1".to_owned(), Some(url)).within(SHORT)
}

async fn fails<T>(call: impl Future<Output = Result<T, PortError>>) {
    let ended = tokio::time::timeout(LONG, call).await.expect("it ends by itself");
    let error = ended.map(|_| ()).expect_err("silence is no success");
    assert!(error.reason.contains("timeout"), "{error}");
}

#[tokio::test]
async fn a_call_to_dynamodb_that_is_never_answered_ends() {
    let clients = clients_of_silence().await;
    let table = ParkingTable::new(clients.dynamodb(), "table".to_owned());
    fails(WakeCursor::load(&table)).await;
    fails(table.save(1)).await;
}

#[tokio::test]
async fn a_call_to_sqs_that_is_never_answered_ends() {
    let clients = clients_of_silence().await;
    let dispatch = "http://127.0.0.1/0/dispatch".to_owned();
    let queues = SqsQueues::new(clients.sqs(), QueueUrls { dispatch, ..QueueUrls::default() });
    let message = Outgoing::new("{}".to_owned(), "g".to_owned(), 0);
    let sent = async { queues.send(Queue::Dispatch, vec![message]).await.remove(0) };
    fails(sent).await;
}

#[cfg(feature = "s3")]
#[tokio::test]
async fn a_call_to_s3_that_is_never_answered_ends() {
    use gridpost_aws::s3::PayloadBucket;
    use gridpost_ports::Payloads;

    let bucket = PayloadBucket::new(clients_of_silence().await, "bucket".to_owned());
    fails(bucket.get("key")).await;
    fails(bucket.put("key", vec![1])).await;
}
