//! The functions' contexts on the embedded stores, which the programs make on AWS.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use gridpost_core::{
    delivery::resource_check::Finding,
    endpoint::{
        Allowed, AllowedPorts,
        arn::{AllowedResources, ArnPatterns},
        identities::Identities,
    },
    publish::{fan_out::PIECE_DELIVERIES_MAX, origin::OriginSecrets},
    retry::{health::Durations, response_text::ResponseBytes, slow_endpoint::SlowEndpointSettings},
    subscription::Resource,
};
use gridpost_dead_letter as dead_letter;
use gridpost_dispatch::{
    self as dispatch, health::HealthCache, in_flight::InFlight, rate::Rates, resources::NoResources,
};
use gridpost_embedded::{Embedded, Options as StoreOptions, Visibility};
use gridpost_expand as expand;
use gridpost_ingest as ingest;
use gridpost_manage as manage;
use gridpost_ports::{
    Clock, Configuration, Meter, PortError, ResourceChecker, ResourceClient, WithSecrets,
    authentication::{Authenticated, Tokens as OAuthTokens},
    configuration::{ConfigurationCache, Limits},
};
use gridpost_redrive as redrive;
use gridpost_runtime::{
    config::default,
    system::{SystemClock, SystemDice},
};
use gridpost_signing::{Services, Signer};
use gridpost_wake as wake;
use gridpost_webhook::{
    http::{HttpClient, client_for_services},
    keys::PrivateKeys,
};

use crate::{
    Identity, Options, Production, Resources, StartError, Urls,
    clock::DevClock,
    counts::Counts,
    health::Readiness,
    journal::ProcessJournal,
    log::Log,
    mapping::{self, RETRY_QUEUES},
    meter::LogMeter,
    secrets,
    tokens::Tokens,
    totals::Totals,
};

/// How much of a failed response `dev` keeps: developers want to see it, and it never leaves the machine.
const RESPONSE_BYTES: &str = "512";

/// How long configuration is cached, by the machine's clock. Reads are cheap here, and a change is
/// answered after this time.
const CONFIGURATION_KEPT_FOR: Duration = Duration::from_millis(50);

/// A change waits this much longer, for clocks that are read at different moments.
const SLACK: Duration = Duration::from_millis(10);
const CONFIGURATION_BYTES_MAX: usize = 64 * 1_048_576;

/// How long an ended delivery of `dev` waits to share an object, and one in production, as on AWS.
const DEAD_LETTER_DELAY_S: u32 = 5;
const PRODUCTION_DEAD_LETTER_DELAY_S: u32 = 300;

/// The topic of events about dead letters, if it exists.
const DEAD_LETTER_TOPIC: &str = "dead-letters";

/// Invocations that may listen for late responses at once: of first attempts, and of each retry queue,
/// which has 50 in all.
const LISTENERS_MAX: usize = 50;
const RETRY_LISTENERS_MAX: usize = 5;

/// Endpoints of `dev` may be on this machine, besides the public internet.
const NETWORKS: &str = "127.0.0.0/8,::1/128";

/// The refusal of an AWS resource. The SDK would take longer to compile than all else.
const NO_RESOURCES: &str = "which `gridpost dev` delivers to with --allow-aws alone, if it is built with \
    the feature aws. Name a webhook here, or use `gridpost up`, which has resources on an emulator, or \
    a deployment on AWS";

pub(crate) struct Process {
    pub(crate) clock: Arc<DevClock>,
    pub(crate) store: Embedded,
    pub(crate) counts: Counts,
    pub(crate) totals: Totals,
    pub(crate) tokens: Tokens,
    pub(crate) readiness: Readiness,
    pub(crate) ingest: ingest::Context,
    pub(crate) expand: expand::Context,
    pub(crate) dispatch: dispatch::Context,
    pub(crate) dead_letter: dead_letter::Context,
    pub(crate) redrive: redrive::Context,
    pub(crate) manage: manage::Context,
    pub(crate) wake: wake::Context,
}

struct Parts {
    clock: Arc<DevClock>,
    store: Embedded,
    log: Log,
    counts: Counts,
    totals: Totals,
    allowed: Allowed,
    client: HttpClient,
    tokens: Arc<OAuthTokens>,
    latency_metrics: bool,
    resources: Arc<dyn ResourceClient>,
    is_production: bool,
}

impl Process {
    pub(crate) fn open(options: &Options, urls: &Urls) -> Result<Self, StartError> {
        // From here on this process owns the folder, with the clock's file in it.
        let waiting = Embedded::prepare(store_options(options))?;
        let (data, last_seen) = (options.data.as_deref(), waiting.last_seen());
        let clock = Arc::new(DevClock::open(data, options.speed, last_seen));
        let store = waiting.open(Arc::clone(&clock) as _)?;
        clock.begin().map_err(StartError::Clock)?;
        let production = options.production.as_ref();
        let mut allowed = allowed(options.resources.is_some(), production);
        let identity = options.identity.as_ref();
        allowed.identities = identity.map(|it| it.named.clone()).unwrap_or_default();
        let client = HttpClient::with_connections(
            options.connections.endpoints,
            allowed.clone(),
            Arc::clone(&clock) as _,
        );
        let client = client.map_err(StartError::Certificates)?;
        let client = client.reading(Arc::new(secrets::Environment));
        let resources = options.resources.as_ref().map(|Resources(clients)| Arc::clone(clients));
        let resources = resources.unwrap_or_else(|| Arc::new(NoResources));
        let parts = Parts {
            tokens: tokens(&client, &allowed, &clock, identity),
            clock,
            store,
            log: options.log.clone(),
            counts: Counts::default(),
            totals: Totals::default(),
            is_production: production.is_some(),
            allowed,
            client,
            latency_metrics: options.latency_metrics,
            resources,
        };
        Ok(Self {
            ingest: parts.ingest(),
            expand: parts.expand(),
            dispatch: parts.dispatch(),
            dead_letter: parts.dead_letter(),
            redrive: parts.redrive(),
            manage: parts.manage(urls),
            wake: parts.wake(),
            tokens: Tokens::open(parts.store.tables()).map_err(StartError::Tokens)?,
            readiness: Readiness::default(),
            clock: parts.clock,
            store: parts.store,
            counts: parts.counts,
            totals: parts.totals,
        })
    }

    /// Saves the clock's time, and closes the stores: another process may open the folder then.
    pub(crate) async fn stop(&self) {
        self.clock.stop();
        self.store.close().await;
    }
}

fn tokens(
    client: &HttpClient,
    allowed: &Allowed,
    clock: &Arc<DevClock>,
    identity: Option<&Identity>,
) -> Arc<OAuthTokens> {
    let tokens = OAuthTokens::new(
        Arc::new(client.clone()),
        Arc::new(secrets::Environment),
        allowed.secrets.clone(),
        Arc::clone(clock) as _,
    );
    let tokens = tokens.signing(Arc::new(PrivateKeys), Arc::new(SystemDice));
    let Some(identity) = identity else { return Arc::new(tokens) };
    // By real time: AWS accepts no signature of another.
    let now: Arc<dyn Clock> = Arc::new(SystemClock);
    let make_client = Box::new(client_for_services(&now));
    let (own, at) = (Some(identity.credentials.clone()), identity.endpoint_url.clone());
    let services = Arc::new(Services::new(own, at, now, make_client));
    let signer = Signer::new(services, identity.region.as_str());
    Arc::new(tokens.proving(Arc::new(signer), identity.named.clone()))
}

fn store_options(options: &Options) -> StoreOptions {
    // By the machine's time: an attempt does not run faster with the clock.
    let hidden =
        |timeout: Duration| options.speed.pace().to_clock(timeout + mapping::VISIBLE_AFTER);
    StoreOptions {
        folder: options.data.clone(),
        sync: options.sync,
        retry_queues: RETRY_QUEUES,
        visibility: Visibility {
            delivery: hidden(mapping::DISPATCH_TIMEOUT),
            dead_letter: hidden(mapping::DEAD_LETTER_TIMEOUT),
            fan_out: hidden(mapping::EXPAND_TIMEOUT),
            redrive: hidden(mapping::REDRIVE_TIMEOUT),
        },
        max_receives: options.receives_max,
        message_bytes_max: 1_048_576,
        makes_buckets: true,
        journal_bytes_max: options.journal_max,
        disk_floor: options.disk_floor,
        sealer: options.production.as_ref().map(|it| Arc::new(it.secrets_keys.clone()) as _),
    }
}

fn allowed(resources_too: bool, production: Option<&Production>) -> Allowed {
    let patterns = match resources_too {
        // IAM decides what the credentials allow.
        true => "*".parse().unwrap_or_default(),
        false => ArnPatterns::nothing(NO_RESOURCES),
    };
    Allowed {
        networks: match production {
            Some(production) => production.endpoint_networks.clone(),
            None => NETWORKS.parse().unwrap_or_default(),
        },
        ports: AllowedPorts::default(),
        resources: AllowedResources { region: String::new(), patterns },
        secrets: secrets::of_environment(),
        identities: Identities::default(),
    }
}

impl Parts {
    fn meter(&self, function: &'static str) -> Arc<dyn Meter> {
        Arc::new(LogMeter::of(function, self.log.clone(), self.totals.clone()))
    }

    fn journal(&self) -> Arc<ProcessJournal> {
        let (store, counts) = (self.store.journal(), self.counts.clone());
        let (totals, log) = (self.totals.clone(), self.log.clone());
        Arc::new(ProcessJournal { store, counts, totals, log })
    }

    /// How much of a failed response is kept.
    fn response_bytes(&self) -> ResponseBytes {
        let bytes = if self.is_production { "0" } else { RESPONSE_BYTES };
        bytes.parse().expect("in range")
    }

    fn clock(&self) -> Arc<dyn Clock> {
        Arc::clone(&self.clock) as _
    }

    fn authenticated(&self, client: HttpClient) -> Authenticated<HttpClient> {
        Authenticated::new(client, Arc::clone(&self.tokens))
    }

    fn cache(&self, tables: Arc<dyn Configuration>) -> ConfigurationCache {
        let pace = self.clock.pace();
        let limits = Limits {
            fresh_for: pace.to_clock(CONFIGURATION_KEPT_FOR),
            stale_for: pace.to_clock(default::CONFIGURATION_STALE_FOR),
            bytes_max: CONFIGURATION_BYTES_MAX,
        };
        ConfigurationCache::new(tables, self.clock(), Arc::new(SystemDice), limits)
    }

    fn ingest(&self) -> ingest::Context {
        ingest::Context {
            clock: self.clock(),
            dice: Arc::new(SystemDice),
            configuration: self.cache(self.store.tables()).with_keys(self.store.tables()),
            sender: self.store.queues(),
            payloads: self.store.payloads_of_publishes(),
            records: self.store.tables(),
            meter: self.meter("ingest"),
            journal: self.journal(),
            latency_metrics: self.latency_metrics,
            authorization: ingest::Authorization::Keys,
            origin_secrets: OriginSecrets::default(),
            queue_message_bytes_max: default::QUEUE_MESSAGE_BYTES_MAX,
            inline_fan_out: default::INLINE_FAN_OUT,
            piece_deliveries_max: PIECE_DELIVERIES_MAX,
        }
    }

    fn expand(&self) -> expand::Context {
        expand::Context {
            clock: self.clock(),
            sender: self.store.queues(),
            payloads: self.store.payloads(),
            meter: self.meter("expand"),
            queue_message_bytes_max: default::QUEUE_MESSAGE_BYTES_MAX,
        }
    }

    fn dispatch(&self) -> dispatch::Context {
        let tables = self.store.tables();
        dispatch::Context {
            clock: self.clock(),
            dice: Arc::new(SystemDice),
            sender: self.store.queues(),
            receiver: self.store.queues(),
            states: Arc::clone(&tables) as _,
            in_flight: InFlight::new(self.store.queues()),
            parking: Arc::clone(&tables) as _,
            payloads: self.store.payloads(),
            healths: HealthCache::new(Arc::clone(&tables) as _, Arc::new(SystemDice)),
            rates: Rates::new(Arc::clone(&tables) as _),
            configuration: self.cache(Arc::new(WithSecrets(Arc::clone(&tables)))),
            listeners: tables,
            client: Arc::new(
                self.authenticated(self.client.clone().keeping(self.response_bytes())),
            ),
            resources: Arc::clone(&self.resources),
            meter: self.meter("dispatch"),
            journal: self.journal(),
            settings: dispatch::Settings {
                probation: Durations::default(),
                retry_shards: RETRY_QUEUES,
                sends_to_slow: false,
                lanes: SlowEndpointSettings::default().at_pace(self.clock.pace()),
                first_listeners_max: LISTENERS_MAX,
                retry_listeners_max: RETRY_LISTENERS_MAX,
                slow_listeners_max: 0,
                // Every long wait is parked, so that it can be seen.
                retry_in_flight_limit: 0,
                queue_message_bytes_max: default::QUEUE_MESSAGE_BYTES_MAX,
                dead_letter_delay_s: match self.is_production {
                    true => PRODUCTION_DEAD_LETTER_DELAY_S,
                    false => DEAD_LETTER_DELAY_S,
                },
                latency_metrics: self.latency_metrics,
                origin: default::VALIDATION_ORIGIN.to_owned(),
            },
        }
    }

    fn dead_letter(&self) -> dead_letter::Context {
        dead_letter::Context {
            clock: self.clock(),
            sender: self.store.queues(),
            receiver: self.store.queues(),
            bucket: self.store.letters(),
            payloads: self.store.payloads(),
            meter: self.meter("dead-letter"),
            journal: self.journal(),
            notifier: Some(dead_letter::notify::Notifier {
                topic: DEAD_LETTER_TOPIC.to_owned(),
                configuration: self.cache(self.store.tables()),
                queue_message_bytes_max: default::QUEUE_MESSAGE_BYTES_MAX,
                has_complained: Default::default(),
            }),
            give_up_after: default::DEAD_LETTER_GIVE_UP_AFTER,
        }
    }

    fn redrive(&self) -> redrive::Context {
        redrive::Context {
            clock: self.clock(),
            sender: self.store.queues(),
            receiver: self.store.queues(),
            letters: self.store.letters(),
            redrives: self.store.tables(),
            configuration: self.store.tables(),
            payloads: self.store.payloads(),
            meter: self.meter("redrive"),
            journal: self.journal(),
            queue_message_bytes_max: default::QUEUE_MESSAGE_BYTES_MAX,
        }
    }

    fn manage(&self, urls: &Urls) -> manage::Context {
        let (tables, queues) = (self.store.tables(), self.store.queues());
        manage::Context {
            configuration: Arc::new(WithSecrets(Arc::clone(&tables))),
            without_secrets: Arc::clone(&tables) as _,
            keys: Arc::clone(&tables) as _,
            topics: Arc::clone(&tables) as _,
            subscriptions: Arc::clone(&tables) as _,
            deliveries: Arc::clone(&tables) as _,
            handshakes: Arc::new(self.authenticated(self.client.clone())),
            endpoints: Arc::new(
                self.authenticated(self.client.clone().keeping(self.response_bytes())),
            ),
            checker: Arc::new(Checker(Arc::clone(&self.resources))),
            poison: Arc::clone(&queues) as _,
            receiver: Arc::clone(&queues) as _,
            sender: queues,
            parked: Arc::clone(&tables) as _,
            parking: Arc::clone(&tables) as _,
            states: Arc::clone(&tables) as _,
            healths: Arc::clone(&tables) as _,
            dead_letters: self.store.letters(),
            payloads: self.store.payloads(),
            redrives: tables,
            journal_reader: self.store.journal(),
            meter: self.meter("manage"),
            journal: self.journal(),
            clock: self.clock(),
            dice: Arc::new(SystemDice),
            settings: manage::Settings {
                allowed: self.allowed.clone(),
                validation_origin: default::VALIDATION_ORIGIN.to_owned(),
                publish_url: urls.publish.clone(),
                manage_url: urls.manage.clone(),
                // The manage API may be out of their reach.
                validation_url: urls.publish.clone(),
                configuration_kept_for: CONFIGURATION_KEPT_FOR + SLACK,
                dispatch_keeps_configuration: CONFIGURATION_KEPT_FOR + SLACK,
                account: "000000000000".to_owned(),
                retry_shards: RETRY_QUEUES,
                has_slow_queue: false,
                queue_message_bytes_max: default::QUEUE_MESSAGE_BYTES_MAX,
                authorization: match self.is_production {
                    true => manage::Authorization::Tokens,
                    false => manage::Authorization::None,
                },
            },
        }
    }

    fn wake(&self) -> wake::Context {
        let tables = self.store.tables();
        wake::Context {
            clock: self.clock(),
            sender: self.store.queues(),
            parking: Arc::clone(&tables) as _,
            due: Arc::clone(&tables) as _,
            cursor: Arc::clone(&tables) as _,
            configuration: tables,
            payloads: self.store.payloads(),
            meter: self.meter("wake"),
            settings: wake::Settings {
                configuration_kept_for: CONFIGURATION_KEPT_FOR + SLACK,
                configuration_stale_for: default::CONFIGURATION_STALE_FOR,
                retry_shards: RETRY_QUEUES,
                queue_message_bytes_max: default::QUEUE_MESSAGE_BYTES_MAX,
            },
        }
    }
}

struct Checker(Arc<dyn ResourceClient>);

#[async_trait]
impl ResourceChecker for Checker {
    async fn check(&self, resource: &Resource) -> Result<Finding, PortError> {
        Ok(self.0.check(resource).await)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_may_be_on_this_machine_and_resources_where_they_are_asked_for() {
        let allowed = super::allowed(false, None);
        for address in ["127.0.0.1", "::1"] {
            assert!(allowed.networks.contains(address.parse().expect("an address")), "{address}");
        }
        assert!(!allowed.networks.contains("10.0.0.1".parse().expect("an address")));
        let queue = "arn:aws:sqs:eu-north-1:111122223333:orders".parse().expect("an ARN");
        assert!(!allowed.resources.patterns.has(&queue));
        assert_eq!(allowed.resources.patterns.because(), Some(NO_RESOURCES));
        assert!(super::allowed(true, None).resources.patterns.has(&queue));
    }
}
