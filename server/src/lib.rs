//! All of Gridpost in one process: the functions' real handlers on embedded stores, for one machine.
//!
//! [`Dev`] wires the handlers to SQLite and files as the functions' programs wire them to AWS ([`world`]).
//! [`poll`] reads the queues in Lambda's place, as [`mapping`] says, and [`functions`] invokes the handlers;
//! [`http`] hands requests over as API Gateway would. One [`clock`] drives everything and may run faster
//! than the machine's. [`log`] keeps what the functions log, [`counts`] what became of events, and
//! [`emulated`] answers the few calls of CloudWatch Logs and SQS that the command line makes, so that its
//! commands work here as they do on AWS. [`tls`] is for clients that insist on https.

pub mod clock;
mod counts;
mod emulated;
mod functions;
mod http;
pub mod log;
mod mapping;
mod meter;
mod poll;
mod secrets;
mod tasks;
pub mod tls;
mod world;

use std::{
    fmt, io,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
};

use gridpost_core::{delivery::queue::POISON_RECEIVES, endpoint::identities::Identities};
use gridpost_embedded::OpenError;
use gridpost_ports::ResourceClient;
use gridpost_signing::SharedCredentialsProvider;
use tokio::{net::TcpListener, sync::Mutex, task::JoinSet};

use clock::{DevClock, Speed};
use log::Log;
use tasks::guarded;
use tls::{Tls, TlsError};
use world::World;

pub use gridpost_embedded::Sync;
pub use tasks::Ended;

/// The bucket that `gridpost dev` names for dead letters. Any other name is a folder beside it.
pub const DEAD_LETTER_BUCKET: &str = "gridpost";

/// How a process is set.
#[derive(Clone, Debug)]
pub struct Options {
    /// The port on 127.0.0.1; 0: a free one.
    pub port: u16,
    /// The folder that keeps everything; `None`: memory does, and the end of the process is the end of it.
    pub data: Option<PathBuf>,
    /// When a publish counts as stored.
    pub sync: Sync,
    pub speed: Speed,
    /// The folder of the CA by which both APIs are https instead of http.
    pub tls: Option<PathBuf>,
    pub log: Log,
    /// How often a message is received before it goes to the poison queue: 1 to 1,000.
    pub receives_max: u32,
    /// Whether the log has the metrics of how long things took.
    pub latency_metrics: bool,
    /// What delivers to AWS resources; `None`: event subscriptions that name one are refused.
    pub resources: Option<Resources>,
    /// The identity of AWS that requests to endpoints may prove; `None`: event subscriptions that ask
    /// for one are refused.
    pub identity: Option<Identity>,
}

/// An identity of AWS, and to whom it may be proven.
#[derive(Clone, Debug)]
pub struct Identity {
    pub named: Identities,
    pub credentials: SharedCredentialsProvider,
    /// Whose Security Token Service is asked.
    pub region: String,
    /// Where that service is, if not at AWS.
    pub endpoint_url: Option<String>,
}

/// Clients of the services whose resources may be endpoints.
#[derive(Clone)]
pub struct Resources(pub Arc<dyn ResourceClient>);

impl fmt::Debug for Resources {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Resources")
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            port: 0,
            data: None,
            sync: Sync::Normal,
            speed: Speed::REAL,
            tls: None,
            log: Log::nowhere(),
            receives_max: POISON_RECEIVES,
            latency_metrics: false,
            resources: None,
            identity: None,
        }
    }
}

/// Why a process did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The port is taken, or may not be used.
    #[error("127.0.0.1:{port} cannot be listened on: {reason}")]
    Port { port: u16, reason: io::Error },
    #[error("the data cannot be opened")]
    Data(#[from] OpenError),
    /// The clock's file can't be written.
    #[error("the clock's state cannot be kept: {0}")]
    Clock(io::Error),
    /// The system's trusted certificates can't be read.
    #[error("the system's trusted certificates cannot be read: {0}")]
    Certificates(io::Error),
    #[error("https can't be offered")]
    Tls(#[from] TlsError),
}

/// A process that is up. Dropping it ends everything at once.
pub struct Dev {
    address: SocketAddr,
    ca_file: Option<PathBuf>,
    world: Arc<World>,
    running: Mutex<JoinSet<Ended>>,
}

impl Dev {
    /// Opens the stores and starts to listen, to read the queues and to wake what is parked.
    pub async fn start(options: Options) -> Result<Self, StartError> {
        let Options { port, .. } = options;
        let listener = TcpListener::bind(("127.0.0.1", port)).await;
        let listener = listener.map_err(|reason| StartError::Port { port, reason })?;
        let address = listener.local_addr().map_err(|reason| StartError::Port { port, reason })?;
        let world = Arc::new(World::open(&options, address)?);
        // Only now is the folder this process's own.
        let tls = options.tls.as_deref().map(Tls::open).transpose()?;
        let (acceptor, ca_file) = tls.map(|tls| (tls.acceptor, tls.ca_file)).unzip();
        let mut running = JoinSet::new();
        for mapping in mapping::all() {
            let task = format!("what reads the queue {}", mapping.queue);
            running.spawn(guarded(task, poll::poll(Arc::clone(&world), mapping)));
        }
        let store = world.store.clone();
        let isolate = async move {
            store.isolate_crash_suspects().await;
            std::future::pending().await
        };
        running
            .spawn(guarded("the search for messages that crash the process".to_owned(), isolate));
        let wake = functions::wake_each_minute(Arc::clone(&world));
        running.spawn(guarded("what wakes parked deliveries".to_owned(), wake));
        let serve = http::serve(listener, acceptor, Arc::clone(&world));
        running.spawn(guarded("what answers requests".to_owned(), serve));
        Ok(Self { address, ca_file, world, running: Mutex::new(running) })
    }

    /// Where it listens; both APIs are there.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Base URL of the publish API and of the manage API, without a slash at its end.
    pub fn url(&self) -> String {
        world::url(self.address, self.ca_file.is_some())
    }

    /// The CA certificate that clients must trust, where the APIs are https.
    pub fn ca_file(&self) -> Option<&Path> {
        self.ca_file.as_deref()
    }

    /// The clock that everything goes by.
    pub fn clock(&self) -> &DevClock {
        &self.world.clock
    }

    /// Resolves when a part of it has ended that was to run for ever. Its work is left undone from
    /// then on: the process should end, and say so.
    pub async fn broken(&self) -> Ended {
        match self.running.lock().await.join_next().await {
            Some(Ok(ended)) => ended,
            Some(Err(error)) => Ended { task: "a task".to_owned(), why: error.to_string() },
            None => Ended { task: "every task".to_owned(), why: "none is left".to_owned() },
        }
    }

    /// Ends it at once. What was under way is seen again at the next start, without a wait.
    pub async fn stop(self) {
        let Self { world, running, .. } = self;
        running.into_inner().shutdown().await;
        world.stop().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_part_that_ends_is_told() {
        let dev = Dev::start(Options::default()).await.expect("it starts");
        let part = guarded("counting".to_owned(), async { panic!("at 7") });
        dev.running.lock().await.spawn(part);
        assert_eq!(dev.broken().await.why, "at 7");
        dev.stop().await;
    }
}
