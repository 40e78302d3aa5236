//! All of Gridpost in one process: the functions' real handlers on embedded stores, for one machine.
//!
//! [`Dev`] wires the handlers to SQLite and files as the functions' programs wire them to AWS. [`mapping`]
//! reads the queues in Lambda's place and [`functions`] invokes the handlers; [`http`] hands requests over
//! as API Gateway would. One [`clock`] drives everything and may run faster than the machine's. [`log`]
//! keeps what the functions log, [`counts`] what became of events, and [`emulated`] answers the few calls of CloudWatch Logs and SQS that
//! the command line makes, so that its commands work here as they do on AWS.

pub mod clock;
mod counts;
mod emulated;
mod functions;
mod http;
pub mod log;
mod mapping;
mod meter;
mod world;

use std::{io, net::SocketAddr, path::PathBuf, sync::Arc};

use gridpost_embedded::OpenError;
use tokio::{net::TcpListener, task::JoinSet};

use clock::{DevClock, Speed};
use log::Log;
use world::World;

pub use gridpost_embedded::Sync;

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
    /// How fast the clock runs.
    pub speed: Speed,
    /// Where log lines go.
    pub log: Log,
    /// How often a message is received before it goes to the poison queue: 1 to 1,000.
    pub receives_max: u32,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            port: 0,
            data: None,
            sync: Sync::Normal,
            speed: Speed::REAL,
            log: Log::nowhere(),
            receives_max: mapping::RECEIVES_MAX,
        }
    }
}

/// Why a process did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The port is taken, or may not be used.
    #[error("127.0.0.1:{port} cannot be listened on: {reason}")]
    Port {
        /// The port.
        port: u16,
        /// What the system said.
        reason: io::Error,
    },
    /// The stores can't be opened.
    #[error("the data cannot be opened")]
    Data(#[from] OpenError),
    /// The clock's file can't be read or written.
    #[error("the clock's state cannot be kept: {0}")]
    Clock(io::Error),
    /// The system's trusted certificates can't be read.
    #[error("the system's trusted certificates cannot be read: {0}")]
    Certificates(io::Error),
}

/// A process that is up. Dropping it ends everything at once.
pub struct Dev {
    address: SocketAddr,
    world: Arc<World>,
    running: JoinSet<()>,
}

impl Dev {
    /// Opens the stores and starts to listen, to read the queues and to wake what is parked.
    ///
    /// # Errors
    ///
    /// The port is taken, or the folder can't be used.
    pub async fn start(options: Options) -> Result<Self, StartError> {
        let Options { port, .. } = options;
        let listener = TcpListener::bind(("127.0.0.1", port)).await;
        let listener = listener.map_err(|reason| StartError::Port { port, reason })?;
        let address = listener.local_addr().map_err(|reason| StartError::Port { port, reason })?;
        let clock = DevClock::open(options.data.as_deref(), options.speed);
        let clock = Arc::new(clock.map_err(StartError::Clock)?);
        let world = Arc::new(World::open(&options, address, clock)?);
        let mut running = JoinSet::new();
        for mapping in mapping::all() {
            running.spawn(mapping::poll(Arc::clone(&world), mapping));
        }
        running.spawn(functions::wake_each_minute(Arc::clone(&world)));
        running.spawn(http::serve(listener, Arc::clone(&world)));
        Ok(Self { address, world, running })
    }

    /// Where it listens; both APIs are there.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Base URL of the publish API and of the manage API, without a slash at its end.
    pub fn url(&self) -> String {
        world::url(self.address)
    }

    /// The clock that everything goes by.
    pub fn clock(&self) -> &DevClock {
        &self.world.clock
    }

    /// Ends it at once. What was under way is seen again at the next start, without a wait.
    pub async fn stop(mut self) {
        self.running.shutdown().await;
        self.world.stop().await;
    }
}
