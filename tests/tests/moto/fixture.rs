//! Queues, tables and buckets on moto, with names that no other test has.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use async_trait::async_trait;
use aws_sdk_dynamodb::types::{
    AttributeDefinition, BillingMode, GlobalSecondaryIndex, KeySchemaElement, KeyType, Projection,
    ProjectionType, ScalarAttributeType,
};
use aws_sdk_sqs::{
    config::Credentials,
    types::{MessageSystemAttributeName, QueueAttributeName as Attribute},
};
use gridpost_aws::{
    Clients, Timeouts,
    sqs::{QueueUrls, SqsQueues},
};
use gridpost_core::{delivery::queue::Queue, time::Timestamp};
use gridpost_testkit::{
    contract::{Difference, OF_MOTO, queues::QueueFixture},
    stores::Handed,
};

use super::server;

const REGION: &str = "us-east-1";

/// The account that moto puts everything into.
const ACCOUNT: &str = "123456789012";

/// Long enough that nothing comes back while a test looks at what is hidden.
const VISIBILITY: Duration = Duration::from_secs(6);

/// AWS allows no less than a minute; moto takes any.
const RETENTION: Duration = Duration::from_secs(3);

/// The time that a wait lasts longer than it says, so that moto's clock has passed it.
const SLACK: Duration = Duration::from_millis(50);

/// A machine that is busy, or the first call of a service, may take long.
const PATIENT: Timeouts =
    Timeouts { attempt: Duration::from_secs(60), operation: Duration::from_secs(120) };

/// Clients of moto.
pub(super) async fn clients() -> Clients {
    let credentials = Credentials::new("key", "secret", None, None, "a test");
    let url = server::url().await.to_owned();
    Clients::new(credentials, REGION.to_owned(), Some(url)).within(PATIENT)
}

/// A table with the keys that `infra/tables.tf` gives it, and the index of the state table.
pub(super) async fn table(clients: &Clients, name: &str) -> String {
    let attribute = |name: &str| {
        let attribute = AttributeDefinition::builder().attribute_name(name);
        attribute.attribute_type(ScalarAttributeType::S).build().expect("name and type are set")
    };
    let key = |name: &str, kind| {
        let key = KeySchemaElement::builder().attribute_name(name).key_type(kind);
        key.build().expect("name and type are set")
    };
    let keys_only = Projection::builder().projection_type(ProjectionType::KeysOnly).build();
    let waiting = GlobalSecondaryIndex::builder()
        .index_name("waiting")
        .key_schema(key("waitingFor", KeyType::Hash))
        .key_schema(key("waitingPlace", KeyType::Range))
        .projection(keys_only)
        .build()
        .expect("name and keys are set");
    let names = ["pk", "sk", "waitingFor", "waitingPlace"];
    let create = clients
        .dynamodb()
        .create_table()
        .table_name(name)
        .set_attribute_definitions(Some(names.into_iter().map(attribute).collect()))
        .key_schema(key("pk", KeyType::Hash))
        .key_schema(key("sk", KeyType::Range))
        .global_secondary_indexes(waiting)
        .billing_mode(BillingMode::PayPerRequest);
    create.send().await.expect("a table");
    name.to_owned()
}

/// Queues on moto, in real time.
pub(super) struct Fixture {
    client: aws_sdk_sqs::Client,
    urls: QueueUrls,
    queues: Arc<SqsQueues>,
}

impl Fixture {
    /// Empty ones.
    pub(super) async fn new(name: &str) -> Self {
        Self::giving_up_after(name, 1_000).await
    }

    /// Makes a deployment whose dispatch queue moves a message to the poison queue after this many
    /// receives.
    pub(super) async fn giving_up_after(name: &str, receives: u32) -> Self {
        let client = clients().await.sqs();
        let poison = format!("arn:aws:sqs:{REGION}:{ACCOUNT}:{name}-poison");
        let policy =
            format!(r#"{{"deadLetterTargetArn":"{poison}","maxReceiveCount":{receives}}}"#);
        let visibility = || (Attribute::VisibilityTimeout, VISIBILITY.as_secs().to_string());
        let retention = (Attribute::MessageRetentionPeriod, RETENTION.as_secs().to_string());
        let make = async |queue: Queue, own: Vec<(Attribute, String)>| {
            let bytes = (Attribute::MaximumMessageSize, Self::MESSAGE_BYTES_MAX.to_string());
            let attributes = own.into_iter().chain([visibility(), bytes]).collect();
            let create = client.create_queue().queue_name(format!("{name}-{queue}"));
            let created = create.set_attributes(Some(attributes)).send().await.expect("a queue");
            created.queue_url.expect("its URL")
        };
        let urls = QueueUrls {
            // First: another one names it.
            poison: make(Queue::Poison, vec![]).await,
            dispatch: make(Queue::Dispatch, vec![(Attribute::RedrivePolicy, policy)]).await,
            retry: vec![make(Queue::Retry(0), vec![]).await],
            redrive: make(Queue::Redrive, vec![retention]).await,
            ..QueueUrls::default()
        };
        let queues = Arc::new(SqsQueues::new(client.clone(), urls.clone()));
        Self { client, urls, queues }
    }

    fn url(&self, queue: Queue) -> &str {
        match queue {
            Queue::Dispatch => &self.urls.dispatch,
            Queue::Retry(shard) => &self.urls.retry[shard],
            Queue::Redrive => &self.urls.redrive,
            Queue::Poison => &self.urls.poison,
            Queue::DeadLetter | Queue::FanOut | Queue::Slow => {
                panic!("no test has a queue {queue}")
            }
        }
    }
}

#[async_trait]
impl QueueFixture for Fixture {
    type Queues = SqsQueues;

    const DIFFERS: &'static [Difference] = OF_MOTO;

    const MESSAGE_BYTES_MAX: usize = 262_144;

    fn queues(&self) -> Arc<SqsQueues> {
        Arc::clone(&self.queues)
    }

    fn now(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970");
        Timestamp::from_millis(i64::try_from(since.as_millis()).expect("not that late"))
    }

    fn visibility(&self) -> Duration {
        VISIBILITY
    }

    fn retention(&self) -> Duration {
        RETENTION
    }

    async fn receive(&self, queue: Queue, most: usize) -> Vec<Handed> {
        let receive = self
            .client
            .receive_message()
            .queue_url(self.url(queue))
            .max_number_of_messages(i32::try_from(most).expect("at most ten"))
            .message_system_attribute_names(MessageSystemAttributeName::All);
        let received = receive.send().await.expect("messages").messages.unwrap_or_default();
        let handed = received.into_iter().map(|message| {
            let attributes = message.attributes.expect("they were asked for");
            let count = &attributes[&MessageSystemAttributeName::ApproximateReceiveCount];
            Handed {
                message_id: message.message_id.expect("an id"),
                receipt: message.receipt_handle.expect("a receipt"),
                body: message.body.expect("a body"),
                count: count.parse().expect("a number"),
            }
        });
        handed.collect()
    }

    async fn pass(&self, time: Duration) {
        tokio::time::sleep(time + SLACK).await;
    }
}
