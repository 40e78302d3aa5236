//! manage on fakes in which every call succeeds, for tests of more than one function.

use std::{sync::Arc, time::Duration};

use gridpost_core::endpoint::Allowed;
use gridpost_manage as manage;
use gridpost_ports::WithSecrets;
use gridpost_testkit::deployment::Deployment;

/// The number of retry queues that the deployment has to be made with.
pub(crate) const RETRY_SHARDS: usize = 4;

/// Configuration is read anew at each request, and requests need no signature.
pub(crate) fn manage_context(deployment: &Deployment) -> manage::Context {
    let tables = deployment.of(&deployment.tables);
    let queues = deployment.of(&deployment.queues);
    let consents = deployment.of(&deployment.consents);
    manage::Context {
        configuration: Arc::new(WithSecrets(Arc::clone(&tables))),
        without_secrets: Arc::clone(&tables) as _,
        keys: Arc::clone(&tables) as _,
        topics: Arc::clone(&tables) as _,
        subscriptions: Arc::clone(&tables) as _,
        deliveries: Arc::clone(&tables) as _,
        handshakes: Arc::clone(&consents) as _,
        endpoints: Arc::clone(&deployment.endpoints) as _,
        checker: consents,
        poison: Arc::clone(&queues) as _,
        receiver: Arc::clone(&queues) as _,
        sender: queues,
        parked: Arc::clone(&tables) as _,
        parking: Arc::clone(&tables) as _,
        states: Arc::clone(&tables) as _,
        healths: Arc::clone(&tables) as _,
        dead_letters: Arc::clone(&deployment.buckets) as _,
        payloads: Arc::clone(&deployment.payloads) as _,
        redrives: tables,
        journal_reader: Arc::new(manage::NoJournal),
        meter: Arc::clone(&deployment.meter) as _,
        journal: Arc::clone(&deployment.meter) as _,
        clock: Arc::clone(&deployment.clock) as _,
        dice: Arc::clone(&deployment.dice) as _,
        settings: manage::Settings {
            allowed: Allowed::default(),
            validation_origin: "eventgrid.azure.net".to_owned(),
            publish_url: "https://publish.example".to_owned(),
            manage_url: "https://manage.example".to_owned(),
            validation_url: "https://manage.example".to_owned(),
            configuration_kept_for: Duration::ZERO,
            dispatch_keeps_configuration: Duration::ZERO,
            account: "123456789012".to_owned(),
            retry_shards: RETRY_SHARDS,
            has_slow_queue: false,
            queue_message_bytes_max: 262_144,
            authorization: manage::Authorization::None,
        },
    }
}
