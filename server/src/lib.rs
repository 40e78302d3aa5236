//! All of Gridpost in one process: the functions' real handlers on embedded stores, for one machine.
//!
//! [`Server`] wires the handlers to SQLite and files, as the programs wire them to AWS ([`process`]). [`poll`]
//! reads the queues in Lambda's place, as [`mapping`] says, and [`functions`] invokes the handlers; [`http`]
//! hands over requests as API Gateway does, at the [`door`]s that there are, with [`tokens`] in production. One [`clock`] drives everything, perhaps faster than the
//! machine's. [`log`] has the functions' log, [`counts`] the ends of events, [`emulated`] the calls of
//! SQS that the command line makes. [`tls`] is for clients of `gridpost dev` that require https, and [`certificate`] for
//! production. [`health`] and [`totals`] are for what watches the process. [`descriptors`] shares out the
//! open files, and [`clients`] bounds the connections of clients.

mod certificate;
mod clients;
pub mod clock;
mod counts;
mod descriptors;
mod door;
mod emulated;
mod functions;
mod health;
mod http;
mod journal;
pub mod log;
mod mapping;
mod meter;
mod poll;
mod process;
mod secrets;
mod secrets_key;
mod tasks;
pub mod tls;
mod tokens;
mod totals;

use std::{
    fmt,
    fs::{self, Permissions},
    io,
    net::{Ipv4Addr, SocketAddr},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use futures::future::BoxFuture;
use gridpost_core::{
    delivery::queue::POISON_RECEIVES,
    endpoint::{AllowedNetworks, identities::Identities},
};
use gridpost_embedded::OpenError;
use gridpost_ports::ResourceClient;
use gridpost_signing::SharedCredentialsProvider;
use hyper::Uri;
use tokio::{
    net::{TcpListener, UnixListener},
    sync::{Mutex, watch},
    task::JoinSet,
    time::timeout,
};

use certificate::Certificate;
use clients::Clients;
use clock::{DevClock, Speed};
use door::{Door, Offer};
use log::Log;
use process::Process;
use tasks::{Stopping, guarded};
use tls::{Tls, TlsError};

pub use certificate::{CertificateError, CertificateFiles};
pub use descriptors::Connections;
pub use gridpost_embedded::{NoRoom, Sync, dead_letter_path};
pub use secrets_key::{KeyError, SecretsKeys};
pub use tasks::Ended;
pub use tokens::FolderTokens;

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
    /// Runs as in production; `None`: on [`Self::port`], without tokens, for every user of this machine.
    pub production: Option<Production>,
}

/// How a process runs in production: with two listeners, tokens, sealed secrets and Event Grid's defaults.
#[derive(Clone, Debug)]
pub struct Production {
    /// Where publishes are taken.
    pub listen: SocketAddr,
    /// Where the manage API is.
    pub admin_listen: SocketAddr,
    /// The base URLs by which clients reach both; `None`: by these addresses.
    pub public_url: Option<String>,
    pub admin_url: Option<String>,
    pub certificate: Option<CertificateFiles>,
    /// Proxies, which may connect without TLS, and whose word counts.
    pub trusted_proxies: AllowedNetworks,
    /// Networks that endpoints may be in, besides the public internet.
    pub endpoint_networks: AllowedNetworks,
    pub secrets_keys: SecretsKeys,
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
            production: None,
        }
    }
}

/// The reason why a process did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("{address} cannot be listened on: {reason}")]
    Port { address: SocketAddr, reason: io::Error },
    #[error("the data cannot be opened")]
    Data(#[from] OpenError),
    #[error("the clock's state cannot be kept: {0}")]
    Clock(io::Error),
    #[error("the system's trusted certificates cannot be read: {0}")]
    Certificates(io::Error),
    #[error("https can't be offered")]
    Tls(#[from] TlsError),
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    #[error("TLS can't be offered: {0}")]
    Rustls(#[from] rustls::Error),
    #[error(
        "{address} can be reached by others, and what they send would not be encrypted: give tls_cert and tls_key, or \
         name the proxies that do that in trusted_proxies"
    )]
    InClear { address: SocketAddr },
    #[error("the tokens can't be read: {0}")]
    Tokens(gridpost_ports::PortError),
    #[error("the socket {} can't be made: {reason}", .path.display())]
    Socket { path: PathBuf, reason: io::Error },
}

/// A running process. Dropping it ends everything at once.
pub struct Server {
    addresses: [SocketAddr; 2],
    urls: Urls,
    ca_file: Option<PathBuf>,
    process: Arc<Process>,
    running: Mutex<JoinSet<Ended>>,
    stops: watch::Sender<bool>,
}

impl Server {
    /// Opens the stores, and starts to listen, to read the queues and to wake parked deliveries.
    pub async fn start(options: Options) -> Result<Self, StartError> {
        let production = options.production.as_ref();
        for address in production.into_iter().flat_map(|it| [it.listen, it.admin_listen]) {
            let is_covered = production
                .is_some_and(|it| it.certificate.is_some() || !it.trusted_proxies.is_empty());
            if !is_covered && !address.ip().is_loopback() {
                return Err(StartError::InClear { address });
            }
        }
        let local = SocketAddr::from((Ipv4Addr::LOCALHOST, options.port));
        let listener = listen(production.map_or(local, |it| it.listen)).await?;
        let address = address_of(&listener)?;
        let admin = match production {
            Some(production) => Some(listen(production.admin_listen).await?),
            None => None,
        };
        let admin_address = admin.as_ref().map(address_of).transpose()?;
        let urls = Urls::of(&options, address, admin_address.unwrap_or(address));
        let process = Arc::new(Process::open(&options, &urls)?);
        // From here on this process owns the folder.
        let (mut running, (stops, stopping)) = (JoinSet::new(), Stopping::channel());
        let mut spawn = |task: &str, work: BoxFuture<'static, ()>| {
            running.spawn(guarded(task.to_owned(), work));
        };
        let tls = options.tls.as_deref().map(Tls::open).transpose()?;
        let (mut acceptor, ca_file) = tls.map(|tls| (tls.acceptor, tls.ca_file)).unzip();
        if let Some(files) = production.and_then(|production| production.certificate.clone()) {
            let certificate = Certificate::open(files)?;
            acceptor = Some(certificate.acceptor()?);
            let renew = certificate.renew_each_time(stopping.clone());
            spawn("the task that renews the certificate", Box::pin(renew));
        }
        for mapping in mapping::all() {
            let poll = poll::poll(Arc::clone(&process), mapping, stopping.clone());
            spawn(&format!("the reader of the queue {}", mapping.queue), Box::pin(poll));
        }
        let (store, stops_too) = (process.store.clone(), stopping.clone());
        let isolate = async move {
            stops_too.unless(store.isolate_crash_suspects()).await;
            stops_too.begun().await;
        };
        spawn("the search for messages that crash the process", Box::pin(isolate));
        let (store, stops_too) = (process.store.clone(), stopping.clone());
        let writer = async move { _ = stops_too.unless(store.writer_ended()).await };
        spawn("the thread that writes to the disk", Box::pin(writer));
        let wake = functions::wake_each_minute(Arc::clone(&process), stopping.clone());
        spawn("the task that wakes parked deliveries", Box::pin(wake));
        let retention = options.dead_letter_retention;
        let sweep =
            functions::sweep_letters_each_hour(Arc::clone(&process), retention, stopping.clone());
        spawn("the task that removes old dead letters", Box::pin(sweep));
        let clients = Clients::new(options.connections.clients);
        let mut open = |name: &str, door: Door, listener: Listener| {
            let tls = acceptor.clone().filter(|_| door.offer != Offer::Socket);
            let (process, clients) = (Arc::clone(&process), Arc::clone(&clients));
            let serve: BoxFuture<'static, ()> = match listener {
                Listener::Tcp(it) => {
                    Box::pin(http::serve((it, door), tls, process, clients, stopping.clone()))
                }
                Listener::Unix(it) => {
                    Box::pin(http::serve((it, door), tls, process, clients, stopping.clone()))
                }
            };
            spawn(&format!("the task that answers {name}"), serve);
        };
        match (production, admin) {
            (Some(production), Some(admin)) => {
                let door = |offer| door_of(production, offer);
                open("publishes", door(Offer::Publish), Listener::Tcp(listener));
                open("the manage API", door(Offer::Manage), Listener::Tcp(admin));
                if let Some(folder) = &options.data {
                    let socket = Listener::Unix(socket_in(folder)?);
                    open("the socket", Door::of(Offer::Socket), socket);
                }
            }
            _ => open("requests", Door::of(Offer::Both), Listener::Tcp(listener)),
        }
        let addresses = [address, admin_address.unwrap_or(address)];
        Ok(Self { addresses, urls, ca_file, process, running: Mutex::new(running), stops })
    }

    /// Returns the address of the publish API, in `dev` of both.
    pub fn address(&self) -> SocketAddr {
        self.addresses[0]
    }

    /// Returns the address of the manage API.
    pub fn admin_address(&self) -> SocketAddr {
        self.addresses[1]
    }

    /// Returns the base URL of the publish API, in `dev` of both, without a final slash.
    pub fn url(&self) -> String {
        self.urls.publish.clone()
    }

    /// Returns the base URL of the manage API, without a final slash.
    pub fn admin_url(&self) -> String {
        self.urls.manage.clone()
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

/// The base URLs of the APIs.
#[derive(Clone, Debug)]
pub(crate) struct Urls {
    pub(crate) publish: String,
    pub(crate) manage: String,
}

impl Urls {
    fn of(options: &Options, publish: SocketAddr, manage: SocketAddr) -> Self {
        let production = options.production.as_ref();
        let is_https =
            options.tls.is_some() || production.is_some_and(|it| it.certificate.is_some());
        let scheme = if is_https { "https" } else { "http" };
        let given = |url: Option<&String>, address: SocketAddr| {
            let own = || format!("{scheme}://{address}");
            url.map_or_else(own, |url| url.trim_end_matches('/').to_owned())
        };
        Self {
            publish: given(production.and_then(|it| it.public_url.as_ref()), publish),
            manage: given(production.and_then(|it| it.admin_url.as_ref()), manage),
        }
    }
}

enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

async fn listen(address: SocketAddr) -> Result<TcpListener, StartError> {
    TcpListener::bind(address).await.map_err(|reason| StartError::Port { address, reason })
}

fn address_of(listener: &TcpListener) -> Result<SocketAddr, StartError> {
    let unknown = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
    listener.local_addr().map_err(|reason| StartError::Port { address: unknown, reason })
}

fn door_of(production: &Production, offer: Offer) -> Door {
    let (address, url) = match offer {
        Offer::Manage => (production.admin_listen, &production.admin_url),
        _ => (production.listen, &production.public_url),
    };
    let url = url.as_deref().and_then(|url| url.parse::<Uri>().ok());
    Door {
        host: url.and_then(|url| Some(url.host()?.to_owned())),
        proxies: production.trusted_proxies.clone(),
        needs_proxy: production.certificate.is_none() && !address.ip().is_loopback(),
        ..Door::of(offer)
    }
}

/// Makes the socket of a folder, for its owner alone. The folder's lock says that no other process has one.
fn socket_in(folder: &Path) -> Result<UnixListener, StartError> {
    let path = socket_path(folder);
    let made = || {
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let listener = UnixListener::bind(&path)?;
        fs::set_permissions(&path, Permissions::from_mode(0o600))?;
        Ok(listener)
    };
    made().map_err(|reason| StartError::Socket { path: path.clone(), reason })
}

/// Returns the path of the socket by which commands on this machine reach the process of a folder.
pub fn socket_path(folder: &Path) -> PathBuf {
    folder.join("gridpost.sock")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_part_that_ends_is_told() {
        let server = Server::start(Options::default()).await.expect("it starts");
        let part = guarded("counting".to_owned(), async { panic!("at 7") });
        server.running.lock().await.spawn(part);
        assert_eq!(server.broken().await.why, "at 7");
        server.stop().await;
    }
}
