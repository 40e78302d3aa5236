//! Creates copies of the functions with their ports.

use std::{
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};

use gridpost_core::{
    endpoint::Allowed,
    intake::Source,
    publish::origin::OriginSecrets,
    retry::{health::Durations, slow_endpoint::SlowEndpointSettings},
};
use gridpost_dead_letter::notify::Notifier;
use gridpost_dispatch::{Settings, health::HealthCache, in_flight::InFlight, rate::Rates};
use gridpost_ports::{
    Clock, Configuration, WithSecrets,
    configuration::{ConfigurationCache, Limits},
};
use gridpost_testkit::faults::{Faulty, Instance};

use super::{CONFIGURATION_KEPT_FOR, Simulation, meter::CountingMeter};
use crate::scenario::{DEAD_LETTER_DELAY_S, GIVE_UP_AFTER, Settings as Tuned};

/// How long dispatch caches configuration, as deployed. It reads again sooner if a delivery was
/// matched under a newer revision.
const DISPATCH_KEEPS_CONFIGURATION: Duration = Duration::from_secs(10);

/// How long one machine caches configuration, as in `server/src/process.rs`.
const MACHINE_KEEPS_CONFIGURATION: Duration = Duration::from_millis(50);

impl Simulation {
    pub fn ingest(&self, instance: &Arc<Instance>) -> gridpost_ingest::Context {
        let clock: Arc<dyn Clock> = Arc::new(instance.clock(self.clock));
        let configuration: Arc<dyn Configuration> = self.faulty(instance, &self.tables);
        let meter = self.meter("ingest");
        gridpost_ingest::Context {
            clock: Arc::clone(&clock),
            dice: Arc::clone(&self.handlers_dice),
            configuration: self
                .cache(instance, configuration, CONFIGURATION_KEPT_FOR)
                .with_keys(self.faulty(instance, &self.tables)),
            sender: self.faulty(instance, &self.queues),
            meter: Arc::clone(&meter) as _,
            journal: meter,
            authorization: gridpost_ingest::Authorization::Keys,
            origin_secrets: OriginSecrets::default(),
            records: self.faulty(instance, &self.tables),
            payloads: self.faulty(instance, &self.payloads),
            queue_message_bytes_max: self.settings().message_bytes_max,
            latency_metrics: true,
            inline_fan_out: self.scenario.inline_fan_out,
            piece_deliveries_max: self.scenario.piece_deliveries_max,
        }
    }

    /// A fresh copy of a source's intake.
    pub fn intake(&self, instance: &Arc<Instance>, source: Source) -> gridpost_intake::Context {
        let configuration: Arc<dyn Configuration> = self.faulty(instance, &self.tables);
        let meter = self.meter("intake");
        gridpost_intake::Context {
            source,
            clock: Arc::new(instance.clock(self.clock)),
            dice: Arc::clone(&self.handlers_dice),
            configuration: self.cache(instance, configuration, CONFIGURATION_KEPT_FOR),
            sender: self.faulty(instance, &self.queues),
            payloads: self.faulty(instance, &self.payloads),
            meter: Arc::clone(&meter) as _,
            journal: meter,
            queue_message_bytes_max: self.settings().message_bytes_max,
            inline_fan_out: self.scenario.inline_fan_out,
            piece_deliveries_max: self.scenario.piece_deliveries_max,
        }
    }

    /// A fresh copy of expand.
    pub fn expand(&self, instance: &Arc<Instance>) -> gridpost_expand::Context {
        gridpost_expand::Context {
            clock: Arc::new(instance.clock(self.clock)),
            sender: self.faulty(instance, &self.queues),
            payloads: self.faulty(instance, &self.payloads),
            meter: self.meter("expand"),
            queue_message_bytes_max: self.settings().message_bytes_max,
        }
    }

    /// Returns how long configuration is cached, in real time.
    fn kept_for(&self, deployed: Duration) -> Duration {
        if self.scenario.speed == 1 { deployed } else { MACHINE_KEEPS_CONFIGURATION }
    }

    /// The counts and the journal of a fresh copy of a function.
    fn meter(&self, function: &'static str) -> Arc<CountingMeter> {
        let kept = self.embedded.as_ref().map(|stores| stores.journal());
        CountingMeter::of(function, &self.history, kept, self.logs.clone())
    }

    /// How many retry queues there are for a copy that is started now.
    fn retry_shards(&self) -> usize {
        let now = self.clock.now();
        let mut changes = self.scenario.retry_shards_from.iter();
        let last = changes.rfind(|(from, _)| *from <= now);
        last.map_or(self.scenario.queues.retry_shards, |(_, shards)| *shards)
    }

    /// The settings of a copy that is started now.
    fn settings(&self) -> Tuned {
        let now = self.clock.now();
        let mut changes = self.scenario.settings_from.iter();
        let first = Tuned {
            retry_in_flight_limit: self.scenario.retry_in_flight_limit,
            message_bytes_max: self.scenario.queues.message_bytes_max,
        };
        changes.rfind(|(from, _)| *from <= now).map_or(first, |(_, settings)| *settings)
    }

    /// A copy's own memory of the configuration.
    fn cache(
        &self,
        instance: &Instance,
        source: Arc<dyn Configuration>,
        fresh_for: Duration,
    ) -> ConfigurationCache {
        let clock = Arc::new(instance.clock(self.clock));
        let dice = Arc::clone(&self.handlers_dice);
        let Limits { stale_for, bytes_max, .. } = Limits::default();
        let limits = Limits {
            fresh_for: self.clock.pace().to_clock(self.kept_for(fresh_for)),
            stale_for: self.clock.pace().to_clock(stale_for),
            bytes_max,
        };
        ConfigurationCache::new(source, clock, dice, limits)
    }

    fn faulty<T: ?Sized>(&self, instance: &Arc<Instance>, inner: &Arc<T>) -> Arc<Faulty<T>> {
        Arc::new(Faulty {
            injector: Arc::clone(&self.injector),
            instance: Arc::clone(instance),
            inner: Arc::clone(inner),
        })
    }

    pub fn dispatch(&self, instance: &Arc<Instance>) -> gridpost_dispatch::Context {
        let (queues, tables) =
            (self.faulty(instance, &self.queues), self.faulty(instance, &self.tables));
        let clock: Arc<dyn Clock> = Arc::new(instance.clock(self.clock));
        let configuration = Arc::new(WithSecrets(Arc::clone(&tables)));
        let meter = self.meter("dispatch");
        gridpost_dispatch::Context {
            clock: Arc::clone(&clock),
            dice: Arc::clone(&self.handlers_dice),
            sender: Arc::clone(&queues) as _,
            in_flight: InFlight::new(Arc::clone(&queues) as _),
            receiver: queues,
            states: Arc::clone(&tables) as _,
            parking: Arc::clone(&tables) as _,
            healths: HealthCache::new(Arc::clone(&tables) as _, Arc::clone(&self.handlers_dice)),
            rates: Rates::new(Arc::clone(&tables) as _),
            listeners: tables,
            configuration: self.cache(instance, configuration, DISPATCH_KEEPS_CONFIGURATION),
            payloads: self.faulty(instance, &self.payloads),
            client: self.faulty(instance, &self.endpoints),
            resources: self.faulty(instance, &self.endpoints),
            meter: Arc::clone(&meter) as _,
            journal: meter,
            settings: Settings {
                probation: Durations::default(),
                retry_shards: self.retry_shards(),
                sends_to_slow: self.slow().is_some(),
                lanes: SlowEndpointSettings::default().at_pace(self.clock.pace()),
                first_listeners_max: self.scenario.readings.dispatch.concurrency.div_ceil(10),
                retry_listeners_max: self.scenario.readings.retry.concurrency.div_ceil(10),
                slow_listeners_max: self.slow().map_or(0, |slow| slow.concurrency / 10),
                retry_in_flight_limit: self.settings().retry_in_flight_limit,
                queue_message_bytes_max: self.settings().message_bytes_max,
                dead_letter_delay_s: DEAD_LETTER_DELAY_S,
                latency_metrics: true,
                origin: "gridpost.example".to_owned(),
            },
        }
    }

    pub fn dead_letter(&self, instance: &Arc<Instance>) -> gridpost_dead_letter::Context {
        let queues = self.faulty(instance, &self.queues);
        let meter = self.meter("dead-letter");
        gridpost_dead_letter::Context {
            clock: Arc::new(instance.clock(self.clock)),
            sender: Arc::clone(&queues) as _,
            receiver: queues,
            bucket: self.faulty(instance, &self.buckets),
            payloads: self.faulty(instance, &self.payloads),
            meter: Arc::clone(&meter) as _,
            journal: meter,
            notifier: self.notifier(instance),
            give_up_after: GIVE_UP_AFTER,
        }
    }

    /// The notifier for dead-letter events, if a topic is configured.
    fn notifier(&self, instance: &Arc<Instance>) -> Option<Notifier> {
        let topic = self.scenario.told.clone()?;
        let configuration: Arc<dyn Configuration> = self.faulty(instance, &self.tables);
        Some(Notifier {
            topic,
            configuration: self.cache(instance, configuration, CONFIGURATION_KEPT_FOR),
            queue_message_bytes_max: self.settings().message_bytes_max,
            has_complained: AtomicBool::new(false),
        })
    }

    /// A fresh copy of redrive.
    pub fn redrive(&self, instance: &Arc<Instance>) -> gridpost_redrive::Context {
        let (queues, tables) =
            (self.faulty(instance, &self.queues), self.faulty(instance, &self.tables));
        let meter = self.meter("redrive");
        gridpost_redrive::Context {
            clock: Arc::new(instance.clock(self.clock)),
            sender: Arc::clone(&queues) as _,
            receiver: queues,
            letters: self.faulty(instance, &self.buckets),
            redrives: Arc::clone(&tables) as _,
            configuration: tables,
            payloads: self.faulty(instance, &self.payloads),
            meter: Arc::clone(&meter) as _,
            journal: meter,
            queue_message_bytes_max: self.settings().message_bytes_max,
        }
    }

    pub fn manage(&self, instance: &Arc<Instance>) -> gridpost_manage::Context {
        let (queues, tables) =
            (self.faulty(instance, &self.queues), self.faulty(instance, &self.tables));
        let consents = self.faulty(instance, &self.consents);
        let meter = self.meter("manage");
        gridpost_manage::Context {
            configuration: Arc::new(WithSecrets(Arc::clone(&tables))),
            without_secrets: Arc::clone(&tables) as _,
            keys: Arc::clone(&tables) as _,
            topics: Arc::clone(&tables) as _,
            subscriptions: Arc::clone(&tables) as _,
            deliveries: Arc::clone(&tables) as _,
            handshakes: Arc::clone(&consents) as _,
            endpoints: self.faulty(instance, &self.endpoints),
            checker: consents,
            poison: Arc::clone(&queues) as _,
            receiver: Arc::clone(&queues) as _,
            sender: queues,
            parked: Arc::clone(&tables) as _,
            parking: Arc::clone(&tables) as _,
            states: Arc::clone(&tables) as _,
            healths: Arc::clone(&tables) as _,
            dead_letters: self.faulty(instance, &self.buckets),
            payloads: self.faulty(instance, &self.payloads),
            redrives: tables,
            journal_reader: Arc::new(gridpost_manage::NoJournal),
            meter: Arc::clone(&meter) as _,
            journal: meter,
            clock: Arc::new(instance.clock(self.clock)),
            dice: Arc::clone(&self.handlers_dice),
            settings: gridpost_manage::Settings {
                allowed: Allowed::default(),
                validation_origin: "gridpost.example".to_owned(),
                publish_url: "https://publish.example".to_owned(),
                manage_url: "https://manage.example".to_owned(),
                validation_url: "https://manage.example".to_owned(),
                configuration_kept_for: self.kept_for(DISPATCH_KEEPS_CONFIGURATION),
                dispatch_keeps_configuration: self.kept_for(DISPATCH_KEEPS_CONFIGURATION),
                account: "123456789012".to_owned(),
                retry_shards: self.retry_shards(),
                has_slow_queue: self.slow().is_some(),
                queue_message_bytes_max: self.settings().message_bytes_max,
                authorization: gridpost_manage::Authorization::None,
            },
        }
    }

    pub fn wake(&self, instance: &Arc<Instance>) -> gridpost_wake::Context {
        let tables = self.faulty(instance, &self.tables);
        gridpost_wake::Context {
            clock: Arc::new(instance.clock(self.clock)),
            sender: self.faulty(instance, &self.queues),
            parking: Arc::clone(&tables) as _,
            due: Arc::clone(&tables) as _,
            cursor: Arc::clone(&tables) as _,
            configuration: tables,
            payloads: self.faulty(instance, &self.payloads),
            meter: self.meter("wake"),
            settings: gridpost_wake::Settings {
                configuration_kept_for: self.kept_for(DISPATCH_KEEPS_CONFIGURATION),
                configuration_stale_for: Limits::default().stale_for,
                retry_shards: self.retry_shards(),
                queue_message_bytes_max: self.settings().message_bytes_max,
            },
        }
    }
}
