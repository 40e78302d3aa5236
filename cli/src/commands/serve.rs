//! `gridpost serve`: the whole of Gridpost in this process, for production on one machine.

mod config_file;

use std::fs::{self, DirBuilder};
use std::io::{ErrorKind, Write};
use std::net::SocketAddr;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::{env, io};

use anyhow::Context;
use base64::{Engine, prelude::BASE64_STANDARD};
use clap::Args;
use gridpost_core::endpoint::AllowedNetworks;
use gridpost_ports::Dice;
use gridpost_runtime::{config, system::SystemDice};
use gridpost_server::{
    CertificateFiles, Connections, Options, Production, SecretsKeys, Server, Sync, log::Log,
};
use rustix::{fs::Mode, process::umask};
use serde::Serialize;
use url::Url;

pub use config_file::{taking_flags_again, with_file};

use super::{
    dev::{JOURNAL_LEAST, SYNCS, identity, resources, retention},
    one_of,
    process::{Signals, allow_open_files, check_log_filter, end},
};
use crate::output::Output;
use gridpost_ops::{
    failure::{self, Misuse},
    given::{TimeSpan, count_in},
    progress::Progress,
};

/// The file of the key for secrets, unless another one is named.
const SECRETS_KEY: &str = "secrets.key";

/// The variable with the key for secrets itself: as a flag, other users would see it.
const SECRETS_KEY_VARIABLE: &str = "GRIDPOST_SECRETS_KEY";

/// Where the data of a process is, and the key that it needs. Each member of the configuration file is one of these
/// flags, with `_` for `-`.
#[derive(Args, Clone, Debug)]
pub struct Place {
    /// Configuration file (TOML), whose members are these flags with _ for -. A flag comes before a variable, a
    /// variable before the file
    #[arg(long, env = "GRIDPOST_CONFIG", value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// Folder for all data
    #[arg(long, env = "GRIDPOST_DATA", value_name = "DIR")]
    pub data: PathBuf,

    /// File with the key under which topics' keys and secrets are encrypted: a line of 32 random bytes in base64; more
    /// lines are older keys. GRIDPOST_SECRETS_KEY has the key itself [default: secrets.key in the data folder, made
    /// at the first start]
    #[arg(long, env = "GRIDPOST_SECRETS_KEY_FILE", value_name = "FILE")]
    pub secrets_key_file: Option<PathBuf>,
}

/// How the process runs.
#[derive(Args, Clone, Debug)]
pub struct ServeArguments {
    #[command(flatten)]
    place: Place,

    /// Address of the publish API
    #[arg(long, env = "GRIDPOST_LISTEN", default_value = "127.0.0.1:7070", value_name = "ADDRESS")]
    listen: SocketAddr,

    /// Address of the manage API, which takes tokens
    #[arg(
        long,
        env = "GRIDPOST_ADMIN_LISTEN",
        default_value = "127.0.0.1:7071",
        value_name = "ADDRESS"
    )]
    admin_listen: SocketAddr,

    /// URL by which publishers, and owners of endpoints that validate them, reach the publish API [default: its
    /// address]
    #[arg(long, env = "GRIDPOST_PUBLIC_URL", value_name = "URL", value_parser = base_url)]
    public_url: Option<String>,

    /// URL by which operators reach the manage API [default: its address]
    #[arg(long, env = "GRIDPOST_ADMIN_URL", value_name = "URL", value_parser = base_url)]
    admin_url: Option<String>,

    /// Certificate for both APIs, with those between it and its CA, as PEM; read again when it changes
    #[arg(long, env = "GRIDPOST_TLS_CERT", value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,

    /// Key of the certificate, as PEM
    #[arg(long, env = "GRIDPOST_TLS_KEY", value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,

    /// Networks of proxies that do TLS, such as 10.0.0.0/8: only they may connect to an address that others reach,
    /// and has no TLS
    #[arg(long, env = "GRIDPOST_TRUSTED_PROXIES", default_value = "", value_name = "NETWORKS")]
    trusted_proxies: AllowedNetworks,

    /// Networks that endpoints may be in, besides the public internet, such as 10.0.0.0/8,127.0.0.0/8; only they may
    /// have http
    #[arg(
        long,
        env = "GRIDPOST_ENDPOINT_ALLOWED_NETWORKS",
        default_value = "",
        value_name = "NETWORKS"
    )]
    endpoint_allowed_networks: AllowedNetworks,

    /// What an accepted event survives: the end of the process (normal), or also a power failure (full)
    #[arg(long, env = "GRIDPOST_SYNC", default_value = "full", value_name = "HOW", value_parser = one_of(SYNCS.to_vec()))]
    sync: Sync,

    /// How many bytes the journal of attempts, ends and counts may have, about: 500M, 2G [default: a tenth of
    /// the disk]
    #[arg(long, env = "GRIDPOST_JOURNAL_MAX", value_name = "BYTES", value_parser = count_in::<u64>(JOURNAL_LEAST..))]
    journal_max: Option<u64>,

    /// How much of the disk must be free for publishes to be taken: 5%, 500M, 2G. Below, they are refused with 503,
    /// and what is under way uses the rest
    #[arg(long, env = "GRIDPOST_DISK_FLOOR", default_value = "5%", value_name = "BYTES", value_parser = disk_floor)]
    disk_floor: Floor,

    /// How long dead letters are kept, at least 1h: 30d, 12h [default: until you delete them]
    #[arg(long, env = "GRIDPOST_DEAD_LETTER_RETENTION", value_name = "TIME", value_parser = retention)]
    dead_letter_retention: Option<TimeSpan>,

    /// How long an end waits for requests under way: an endpoint has 30 s to answer, and gets nothing twice that
    /// it has answered
    #[arg(long, env = "GRIDPOST_DRAIN", default_value = "35s", value_name = "TIME")]
    drain: TimeSpan,

    /// Also deliver to AWS resources, with the AWS credentials of this machine; needs a program built with --features
    /// aws
    #[arg(long, env = "GRIDPOST_ALLOW_AWS")]
    allow_aws: bool,
}

/// Where a process serves.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Serves {
    publish_url: String,
    manage_url: String,
    data: String,
}

/// A part of the disk.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Floor {
    Bytes(u64),
    Percent(u64),
}

fn disk_floor(given: &str) -> Result<Floor, String> {
    let Some(percent) = given.strip_suffix('%') else {
        return count_in::<u64>(..)(given).map(Floor::Bytes);
    };
    let percent = percent.parse().ok().filter(|percent| *percent <= 90);
    percent.map(Floor::Percent).ok_or_else(|| "must be 0% to 90%".to_owned())
}

impl Floor {
    /// Returns the bytes of the disk that has a folder.
    fn of(self, folder: &Path) -> io::Result<u64> {
        match self {
            Self::Bytes(bytes) => Ok(bytes),
            Self::Percent(percent) => {
                let disk = rustix::fs::statvfs(folder)?;
                Ok(disk.f_blocks.saturating_mul(disk.f_frsize) / 100 * percent)
            }
        }
    }
}

/// Reads the URL of a service, without a path: its paths are the API's.
fn base_url(given: &str) -> Result<String, String> {
    let url = Url::parse(given).ok();
    let is_base = url.is_some_and(|url| {
        matches!(url.scheme(), "http" | "https") && url.has_host() && url.path() == "/"
    });
    match is_base {
        true => Ok(given.trim_end_matches('/').to_owned()),
        false => Err("must be the URL of a host, such as https://events.example.com".to_owned()),
    }
}

impl Place {
    /// Reads the key for secrets; makes one where neither a file nor the environment names one.
    pub(super) fn secrets_keys(&self) -> anyhow::Result<SecretsKeys> {
        let text = match (env::var(SECRETS_KEY_VARIABLE).ok(), &self.secrets_key_file) {
            (Some(text), _) => text,
            (None, Some(named)) => read(named)?,
            (None, None) => {
                let path = self.data.join(SECRETS_KEY);
                make_key(&path).with_context(|| format!("{} can't be made", path.display()))?;
                read(&path)?
            }
        };
        SecretsKeys::of(&text)
            .map_err(|error| Misuse(format!("the key for secrets: {error}")).into())
    }

    /// Makes the folder for the data, for its owner alone.
    pub(super) fn make(&self) -> anyhow::Result<()> {
        let made = DirBuilder::new().recursive(true).mode(0o700).create(&self.data);
        made.with_context(|| format!("{} can't be made", self.data.display()))
    }
}

fn read(path: &Path) -> anyhow::Result<String> {
    fs::read_to_string(path).with_context(|| format!("{} can't be read", path.display()))
}

/// Makes a key, unless there is one.
fn make_key(path: &Path) -> io::Result<()> {
    let file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    let mut file = match file {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => return Ok(()),
        made => made?,
    };
    writeln!(file, "{}", BASE64_STANDARD.encode(SystemDice.key()))?;
    file.sync_all()
}

/// Runs `gridpost serve`, until it is interrupted.
pub async fn run(arguments: ServeArguments, output: Output) -> anyhow::Result<()> {
    let open_files = allow_open_files();
    // Before anything is started: an interruption always ends it cleanly.
    let mut signals = Signals::new()?;
    check_log_filter(&env::var("GRIDPOST_LOG").unwrap_or_default())?;
    // Keys and events will be in files of this process.
    umask(Mode::from_raw_mode(0o077));
    let place = &arguments.place;
    place.make()?;
    let log = Log::stdout();
    let mut options = arguments.options(log.clone())?;
    options.connections = Connections::of(open_files);
    if arguments.allow_aws {
        options.resources = Some(resources::clients().await?);
    }
    options.identity = identity().await?;
    options.latency_metrics = config::latency_metrics()?;
    let server = Server::start(options).await;
    let server = server.map_err(|error| Misuse(failure::chain(&error.into())))?;
    let filter = config::log(Default::default())?;
    let filter = env::var_os("GRIDPOST_LOG").is_some().then_some(filter);
    log.start(filter, server.clock().clone())?;
    let progress = Progress::on_stderr();
    progress.line(&format!("✓ Publishes are taken on {}", server.url()));
    progress.line(&format!("✓ The manage API is on {}", server.admin_url()));
    if let Err(no_room) = server.may_publish() {
        progress.line(&format!("! {no_room}"));
    }
    let serves = Serves {
        publish_url: server.url(),
        manage_url: server.admin_url(),
        data: place.data.display().to_string(),
    };
    output.print(&serde_json::to_value(&serves)?, |_| {
        let data = place.data.display();
        format!("A token for the manage API: gridpost token create NAME --role admin --data {data}")
    });
    let ended = tokio::select! {
        ended = signals.any() => ended,
        part = server.broken() => Err(part.into()),
    };
    match ended {
        Ok(()) => end(server, signals, arguments.drain.0).await,
        Err(_) => server.stop().await,
    }
    ended
}

impl ServeArguments {
    fn options(&self, log: Log) -> anyhow::Result<Options> {
        let data = std::path::absolute(&self.place.data)?;
        let certificate = self.tls_cert.clone().zip(self.tls_key.clone());
        let certificate =
            certificate.map(|(certificate, key)| CertificateFiles { certificate, key });
        let floor = self.disk_floor.of(&data);
        let floor = floor.with_context(|| format!("the disk of {}", data.display()))?;
        Ok(Options {
            sync: self.sync,
            log,
            journal_max: self.journal_max,
            disk_floor: Some(floor),
            dead_letter_retention: self.dead_letter_retention.map(|TimeSpan(kept)| kept),
            production: Some(Production {
                listen: self.listen,
                admin_listen: self.admin_listen,
                public_url: self.public_url.clone(),
                admin_url: self.admin_url.clone(),
                certificate,
                trusted_proxies: self.trusted_proxies.clone(),
                endpoint_networks: self.endpoint_allowed_networks.clone(),
                secrets_keys: self.place.secrets_keys()?,
            }),
            data: Some(data),
            ..Options::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_floor_is_a_share_of_the_disk_or_bytes() {
        for (given, want) in [
            ("5%", Some(Floor::Percent(5))),
            ("0%", Some(Floor::Percent(0))),
            ("500M", Some(Floor::Bytes(500_000_000))),
            ("91%", None),
            ("5.5%", None),
            ("%", None),
            ("-1%", None),
        ] {
            assert_eq!(disk_floor(given).ok(), want, "{given}");
        }
        let folder = tempfile::tempdir().expect("a folder");
        let of = |floor: Floor| floor.of(folder.path()).expect("a disk");
        assert!(of(Floor::Percent(10)) > of(Floor::Percent(5)));
        assert_eq!((of(Floor::Bytes(7)), of(Floor::Percent(0))), (7, 0));
    }

    #[test]
    fn the_key_for_secrets_is_made_once_for_its_owner_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let place =
            Place { config: None, data: folder.path().join("data"), secrets_key_file: None };
        place.make().expect("made");
        place.secrets_keys().expect("a key");
        let path = place.data.join(SECRETS_KEY);
        let made = fs::read_to_string(&path).expect("a key");
        let mode = fs::metadata(&path).expect("a file").permissions().mode();
        assert_eq!((made.trim().len(), mode & 0o777), (44, 0o600));
        place.secrets_keys().expect("the same");
        assert_eq!(fs::read_to_string(&path).expect("a key"), made);
        let named = Place { secrets_key_file: Some(folder.path().join("none")), ..place };
        assert!(named.secrets_keys().is_err(), "a file that is named is not made");
    }

    #[test]
    fn a_url_has_no_path() {
        for (url, want) in [
            ("https://events.example.com", Some("https://events.example.com")),
            ("https://events.example.com:8443/", Some("https://events.example.com:8443")),
            ("https://example.com/events", None),
            ("events.example.com", None),
            ("ftp://events.example.com", None),
        ] {
            assert_eq!(base_url(url).ok().as_deref(), want, "{url}");
        }
    }
}
