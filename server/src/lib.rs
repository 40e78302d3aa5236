//! All of Gridpost in one process: the functions' real handlers on embedded stores, for one machine.
//!
//! [`Dev`] wires the handlers to SQLite and files, as the programs wire them to AWS ([`process`]). [`poll`]
//! reads the queues in Lambda's place, as [`mapping`] says, and [`functions`] invokes the handlers; [`http`]
//! hands over requests as API Gateway does. One [`clock`] drives everything, perhaps faster than the
//! machine's. [`log`] has the functions' log, [`counts`] the ends of events, [`emulated`] the calls of
//! SQS that the command line makes. [`tls`] is for clients that require https. [`descriptors`] shares out the
//! open files, and [`clients`] bounds the connections of clients.

mod clients;
pub mod clock;
mod counts;
mod descriptors;
mod emulated;
mod functions;
mod http;
mod journal;
pub mod log;
mod mapping;
mod meter;
mod poll;
mod process;
mod secrets;
mod tasks;
pub mod tls;

use std::{
    fmt, io,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use gridpost_core::{delivery::queue::POISON_RECEIVES, endpoint::identities::Identities};
use gridpost_embedded::OpenError;
use gridpost_ports::ResourceClient;
use gridpost_signing::SharedCredentialsProvider;
use tokio::{
    net::TcpListener,
    sync::{Mutex, watch},
    task::JoinSet,
    time::timeout,
};

use clients::Clients;
use clock::{DevClock, Speed};
use log::Log;
use process::Process;
use tasks::{Stopping, guarded};
use tls::{Tls, TlsError};

pub use descriptors::Connections;
pub use gridpost_embedded::{NoRoom, Sync, dead_letter_path};
pub use tasks::Ended;

/// The bucket that `gridpost dev` names for dead letters. Others are folders beside it.
pub const DEAD_LETTER_BUCKET: &str = "gridpost";

/// The usual limit of open files.
const OPEN_FILES: u64 = 1_024;

/// The settings of a process.
#[derive(Clone, Debug)]
pub struct Options {
    /// On 127.0.0.1; 0: a free one.
    pub port: u16,
    /// The folder of everything; `None`: memory.
    pub data: Option<PathBuf>,
    /// When a publish counts as stored.
    pub sync: Sync,
    pub speed: Speed,
    /// The bytes of the journal, about; `None`: a tenth of the disk.
    pub journal_max: Option<u64>,
    /// The free bytes of the disk below which publishes are refused; `None`: 32 MiB, or a 40th of a small disk.
    pub disk_floor: Option<u64>,
    /// Removes older dead letters; `None`: they are kept.
    pub dead_letter_retention: Option<Duration>,
    /// The folder of the CA; `None`: http.
    pub tls: Option<PathBuf>,
    pub log: Log,
    /// How many connections may be open, of clients and to endpoints.
    pub connections: Connections,
    /// Receives before a message goes to the poison queue: 1 to 1,000.
    pub receives_max: u32,
    /// Whether the log has metrics of durations.
    pub latency_metrics: bool,
    /// Delivers to AWS resources; `None`: event subscriptions for them are refused.
    pub resources: Option<Resources>,
    /// The AWS identity for requests to endpoints; `None`: event subscriptions with one are refused.
    pub identity: Option<Identity>,
}

/// An AWS identity, and the hosts that it may be proven to.
#[derive(Clone, Debug)]
pub struct Identity {
    pub named: Identities,
    pub credentials: SharedCredentialsProvider,
    /// The region of the Security Token Service.
    pub region: String,
    /// Instead of AWS's endpoint.
    pub endpoint_url: Option<String>,
}

/// Clients of AWS resources.
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
            journal_max: None,
            disk_floor: None,
            dead_letter_retention: None,
            tls: None,
            log: Log::nowhere(),
            connections: Connections::of(OPEN_FILES),
            receives_max: POISON_RECEIVES,
            latency_metrics: false,
            resources: None,
            identity: None,
        }
    }
}

/// The reason why a process did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("127.0.0.1:{port} cannot be listened on: {reason}")]
    Port { port: u16, reason: io::Error },
    #[error("the data cannot be opened")]
    Data(#[from] OpenError),
    #[error("the clock's state cannot be kept: {0}")]
    Clock(io::Error),
    #[error("the system's trusted certificates cannot be read: {0}")]
    Certificates(io::Error),
    #[error("https can't be offered")]
    Tls(#[from] TlsError),
}

/// A running process. Dropping it ends everything at once.
pub struct Dev {
    address: SocketAddr,
    ca_file: Option<PathBuf>,
    process: Arc<Process>,
    running: Mutex<JoinSet<Ended>>,
    stops: watch::Sender<bool>,
}

impl Dev {
    /// Opens the stores, and starts to listen, to read the queues and to wake parked deliveries.
    pub async fn start(options: Options) -> Result<Self, StartError> {
        let Options { port, .. } = options;
        let listener = TcpListener::bind(("127.0.0.1", port)).await;
        let listener = listener.map_err(|reason| StartError::Port { port, reason })?;
        let address = listener.local_addr().map_err(|reason| StartError::Port { port, reason })?;
        let process = Arc::new(Process::open(&options, address)?);
        // From here on this process owns the folder.
        let tls = options.tls.as_deref().map(Tls::open).transpose()?;
        let (acceptor, ca_file) = tls.map(|tls| (tls.acceptor, tls.ca_file)).unzip();
        let (mut running, (stops, stopping)) = (JoinSet::new(), Stopping::channel());
        for mapping in mapping::all() {
            let task = format!("the reader of the queue {}", mapping.queue);
            running
                .spawn(guarded(task, poll::poll(Arc::clone(&process), mapping, stopping.clone())));
        }
        let (store, stops_too) = (process.store.clone(), stopping.clone());
        let isolate = async move {
            stops_too.unless(store.isolate_crash_suspects()).await;
            stops_too.begun().await;
        };
        running
            .spawn(guarded("the search for messages that crash the process".to_owned(), isolate));
        let (store, stops_too) = (process.store.clone(), stopping.clone());
        let writer = async move { _ = stops_too.unless(store.writer_ended()).await };
        running.spawn(guarded("the thread that writes to the disk".to_owned(), writer));
        let wake = functions::wake_each_minute(Arc::clone(&process), stopping.clone());
        running.spawn(guarded("the task that wakes parked deliveries".to_owned(), wake));
        let retention = options.dead_letter_retention;
        let sweep =
            functions::sweep_letters_each_hour(Arc::clone(&process), retention, stopping.clone());
        running.spawn(guarded("the task that removes old dead letters".to_owned(), sweep));
        let clients = Clients::new(options.connections.clients);
        let serve = http::serve(listener, acceptor, Arc::clone(&process), clients, stopping);
        running.spawn(guarded("the task that answers requests".to_owned(), serve));
        Ok(Self { address, ca_file, process, running: Mutex::new(running), stops })
    }

    /// Returns the address of both APIs.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the base URL of both APIs, without a final slash.
    pub fn url(&self) -> String {
        process::url(self.address, self.ca_file.is_some())
    }

    /// Returns the CA certificate that clients must trust, with https.
    pub fn ca_file(&self) -> Option<&Path> {
        self.ca_file.as_deref()
    }

    /// Returns the clock.
    pub fn clock(&self) -> &DevClock {
        &self.process.clock
    }

    /// Fails while publishes are refused, for lack of room on the disk.
    pub fn may_publish(&self) -> Result<(), NoRoom> {
        self.process.store.may_publish()
    }

    /// Waits until a task ends that must not. The process should then end, and say so.
    pub async fn broken(&self) -> Ended {
        match self.running.lock().await.join_next().await {
            Some(Ok(ended)) => ended,
            Some(Err(error)) => Ended { task: "a task".to_owned(), why: error.to_string() },
            None => Ended { task: "every task".to_owned(), why: "none is left".to_owned() },
        }
    }

    /// Accepts and receives nothing more, and waits until what is under way is done, for `most` at most. Returns
    /// whether it is; what is not is received again at the next start.
    pub async fn drain(&self, most: Duration) -> bool {
        self.stops.send_replace(true);
        let mut running = self.running.lock().await;
        let done = async { while running.join_next().await.is_some() {} };
        timeout(most, done).await.is_ok()
    }

    /// Ends it at once. Messages in flight are received again at the next start.
    pub async fn stop(self) {
        let Self { process, running, .. } = self;
        running.into_inner().shutdown().await;
        process.stop().await;
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
