//! Finds the deployment of a command: the local stack, or one on AWS.

use std::{
    env, fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use anyhow::Context;
use gridpost_api::{
    client::Client,
    schema::Time,
    topic::{AccessKey, Keys},
};
use gridpost_core::{secret::Secret, time::Timestamp};
use serde::Deserialize;
use tokio::{sync::Mutex, time::Instant};
use url::Url;

use crate::{
    clock::{self, Clock},
    deployments::{self, Deployment, Deployments},
    failure::Misuse,
    given::TimeSpan,
    home::{
        self, Home,
        connection::{Connection, is_in_process, key_list},
    },
    http_client,
    manage_api::{ManageApi, Sender},
};

/// The default of the Terraform variable `name_prefix`.
const NAME_PREFIX: &str = "gridpost";

/// How long a reading of a deployment's clock is used: the local clock may be adjusted.
const CLOCK_KEPT: Duration = Duration::from_secs(60);

/// How long to wait for an answer whose date is read.
const CLOCK_WAIT: Duration = Duration::from_secs(5);

/// Flags and variables that choose the deployment. URLs and prefix replace those of a named deployment.
/// Without any: the local stack that `gridpost dev` or `gridpost up` started.
#[derive(Clone, Debug, Default)]
pub struct TargetArguments {
    pub manage_url: Option<String>,
    pub publish_url: Option<String>,
    pub deployment: Option<String>,
    /// The prefix of the names of the deployment's functions and queues.
    pub name_prefix: Option<String>,
    /// The file with a token for the manage API of `gridpost serve`.
    pub token_file: Option<PathBuf>,
    pub home: Option<PathBuf>,
}

/// The variable with such a token: as a flag, other users would see it.
const TOKEN_VARIABLE: &str = "GRIDPOST_TOKEN";

/// The deployment that a command is for.
#[derive(Clone, Debug, Default)]
pub struct Target {
    manage_url: Option<String>,
    publish_url: Option<String>,
    emulator_url: Option<String>,
    name_prefix: Option<String>,
    aws_profile: Option<String>,
    token: Option<Secret>,
    ca_file: Option<PathBuf>,
    home: Option<Home>,
    is_dev: bool,
    /// The last reading of its clock, and when that was.
    clock: Arc<Mutex<Option<(Instant, Clock)>>>,
}

/// The clock of `gridpost dev`.
#[derive(Debug, Default, Deserialize)]
struct DevClock {
    now: Option<Time>,
    speed: Option<u32>,
}

impl TargetArguments {
    /// Finds the deployment: what flags or environment name, otherwise the local stack. Fails with
    /// [`Misuse`] when nothing is named and no local stack is up, or no deployment has that name.
    pub fn resolve(&self) -> anyhow::Result<Target> {
        let named = match &self.deployment {
            Some(name) => Deployments::read(&deployments::file()?)?.named(name)?.clone(),
            None => Deployment::default(),
        };
        let name_prefix = self.name_prefix.clone().or(named.name_prefix);
        let manage_url = self.manage_url.clone().or(named.manage_url);
        let publish_url = self.publish_url.clone().or(named.publish_url);
        check_url("--manage-url", "manage_url", manage_url.as_deref())?;
        check_url("--publish-url", "publish_url", publish_url.as_deref())?;
        if manage_url.is_some() || publish_url.is_some() {
            let emulator_url = env::var("AWS_ENDPOINT_URL").ok().filter(|url| !url.is_empty());
            let aws_profile = named.aws_profile;
            let token_file = self.token_file.clone().or(named.token_file);
            return Ok(Target {
                token: token(token_file.as_deref())?,
                manage_url,
                publish_url,
                emulator_url,
                name_prefix,
                aws_profile,
                ..Target::default()
            });
        }
        let home = self.existing_home()?;
        let local = home.as_ref().map(Connection::read).transpose()?.flatten();
        let Some(local) = local else {
            return Err(Misuse(
                "no local stack is up here: start one with `gridpost dev` (`cargo run -- dev`), or name a \
                 deployment by --manage-url and --publish-url (GRIDPOST_MANAGE_URL, GRIDPOST_PUBLISH_URL) or by \
                 --deployment (GRIDPOST_DEPLOYMENT)"
                    .to_owned(),
            )
            .into());
        };
        Ok(Target {
            is_dev: is_in_process(&local),
            manage_url: Some(local.manage_url),
            publish_url: Some(local.publish_url),
            emulator_url: Some(local.emulator_url),
            name_prefix,
            aws_profile: None,
            token: None,
            ca_file: local.ca_file,
            home,
            clock: Arc::default(),
        })
    }

    /// Returns the folder of an existing local stack, if there is one.
    pub fn existing_home(&self) -> anyhow::Result<Option<Home>> {
        if let Some(folder) = &self.home {
            return Ok(Some(Home::at(&std::path::absolute(folder)?)));
        }
        let here = env::current_dir().context("the current folder cannot be read")?;
        Ok(home::find_upwards(&here).or_else(home::of_this_build))
    }
}

/// Reads a token from a file, or the environment.
fn token(file: Option<&Path>) -> anyhow::Result<Option<Secret>> {
    let text = match file {
        Some(file) => {
            let text = fs::read_to_string(file);
            Some(text.with_context(|| format!("the token in {} can't be read", file.display()))?)
        }
        None => env::var(TOKEN_VARIABLE).ok(),
    };
    let token = text.map(|text| text.trim().to_owned()).filter(|token| !token.is_empty());
    match token {
        Some(token) if !token.chars().all(|c| c.is_ascii_graphic()) => {
            Err(Misuse("the token has characters that no token has".to_owned()).into())
        }
        token => Ok(token.map(Secret::new)),
    }
}

/// Refuses a value that is not the http or https URL of a service. `output` names the Terraform output
/// that has the right one.
pub fn check_url(flag: &str, output: &str, given: Option<&str>) -> Result<(), Misuse> {
    let Some(given) = given else { return Ok(()) };
    let parsed = Url::parse(given).ok();
    if parsed.is_some_and(|url| matches!(url.scheme(), "http" | "https") && url.has_host()) {
        return Ok(());
    }
    Err(Misuse(format!(
        "{flag}: `{given}` is not a URL: write https://… as the Terraform output {output} has it"
    )))
}

impl Target {
    /// Connects to the deployment's resource API. Fails with [`Misuse`] if only a publish URL was given.
    pub async fn manage_api(&self) -> anyhow::Result<ManageApi> {
        let url = self.manage_url.as_deref().ok_or_else(|| {
            Misuse(
                "this needs the manage API, and --publish-url (or the variable GRIDPOST_PUBLISH_URL) alone \
                 chooses a deployment without one: give --manage-url (GRIDPOST_MANAGE_URL) too, or unset \
                 GRIDPOST_PUBLISH_URL to use the local stack"
                    .to_owned(),
            )
        })?;
        if let Some(token) = &self.token {
            return ManageApi::connect_by_token(url, token.clone(), self.ca_file.as_deref());
        }
        let api = ManageApi::connect_as(url, self.aws_profile(), self.ca_file.as_deref()).await?;
        Ok(match (&self.home, self.is_dev) {
            (None, _) => api,
            (Some(_), true) => api.started_by("gridpost dev"),
            (Some(_), false) => api.started_by("gridpost up"),
        })
    }

    /// Makes a client for one of the deployment's URLs.
    pub fn http_client(&self, url: &str) -> anyhow::Result<reqwest::Client> {
        http_client::trusting(url, self.ca_file.as_deref())
    }

    /// Reads the deployment's clock. `gridpost dev` reports its own, which `--speed` puts ahead of the local
    /// clock; AWS's is the date of an answer; a local stack's is the local clock.
    pub async fn now(&self) -> anyhow::Result<Timestamp> {
        // Another program on that port reports no time.
        if let Some(Time(now)) = self.dev_clock().await?.now {
            return Ok(now);
        }
        let ahead_ms = self.ahead_ms().await;
        Ok(Timestamp::from_millis(clock::now_ms().saturating_add(ahead_ms)))
    }

    /// Returns how far the clock of a deployment on AWS is ahead of the local clock, in milliseconds.
    async fn ahead_ms(&self) -> i64 {
        let mut known = self.clock.lock().await;
        match *known {
            Some((seen, clock)) if seen.elapsed() < CLOCK_KEPT => clock.ahead_ms(),
            _ => {
                let clock = self.seen_clock().await;
                *known = Some((Instant::now(), clock));
                clock.ahead_ms()
            }
        }
    }

    /// Makes an unsigned request: a refusal has a date, too. Without an answer the clocks are taken to be the
    /// same; the next request to the same URL fails with the reason.
    async fn seen_clock(&self) -> Clock {
        let mut clock = Clock::default();
        // Not the publish URL: behind a function URL, ingest would count a failed publish.
        let url = self.manage_url.as_deref().filter(|_| self.home.is_none());
        let Some(url) = url else { return clock };
        let Ok(client) = self.http_client(url) else { return clock };
        let begun_ms = clock::now_ms();
        if let Ok(answer) = client.get(url).timeout(CLOCK_WAIT).send().await
            && let Some(date_ms) = http_client::date_ms(&answer)
        {
            clock.take((begun_ms, clock::now_ms()), date_ms);
        }
        clock
    }

    /// Returns how many times faster than the local clock the deployment's runs: 1, except for
    /// `gridpost dev --speed`.
    pub async fn speed(&self) -> anyhow::Result<u32> {
        Ok(self.dev_clock().await?.speed.unwrap_or(1))
    }

    /// Reads the clock of `gridpost dev`; empty for any other deployment.
    async fn dev_clock(&self) -> anyhow::Result<DevClock> {
        let url = self.publish_url.as_deref().filter(|_| self.is_dev);
        let Some(url) = url else { return Ok(DevClock::default()) };
        let url = format!("{}/dev/counts", url.trim_end_matches('/'));
        let answer = self.http_client(&url)?.get(&url).send().await;
        let answer = answer.with_context(|| {
            format!(
                "GET {url} got no answer (does `gridpost dev` still run? `gridpost status` says)"
            )
        })?;
        Ok(answer.json().await.unwrap_or_default())
    }

    /// Returns the time that long ago by the deployment's clock.
    pub async fn ago(&self, span: TimeSpan) -> anyhow::Result<Timestamp> {
        Ok(before(self.now().await?, span))
    }

    /// Returns the folder of the local stack, if it is one.
    pub fn home(&self) -> Option<&Home> {
        self.home.as_ref()
    }

    /// Whether it is what `gridpost dev` runs, by `local.json`.
    pub fn is_dev(&self) -> bool {
        self.is_dev
    }

    /// Returns the CA certificate that the deployment's URLs need beside those of the system.
    pub fn ca_file(&self) -> Option<&Path> {
        self.ca_file.as_deref()
    }

    /// Returns the URL of the resource API, if it is known.
    pub fn manage_url(&self) -> Option<&str> {
        self.manage_url.as_deref()
    }

    /// Returns the URL of the emulator of AWS, if there is one.
    pub fn emulator_url(&self) -> Option<&str> {
        self.emulator_url.as_deref()
    }

    /// Returns the prefix of the names of the deployment's functions and queues.
    pub fn name_prefix(&self) -> &str {
        self.name_prefix.as_deref().unwrap_or(NAME_PREFIX)
    }

    /// Returns the token for a deployment on one machine, if there is one.
    pub fn token(&self) -> Option<&Secret> {
        self.token.as_ref()
    }

    /// Returns the profile of the AWS configuration that signs requests, if one was chosen.
    pub fn aws_profile(&self) -> Option<&str> {
        self.aws_profile.as_deref()
    }

    /// Returns the URL of the publish API, if it is known.
    pub fn publish_url(&self) -> Option<&str> {
        self.publish_url.as_deref()
    }

    /// Whether a resource API is known.
    pub fn has_manage_url(&self) -> bool {
        self.manage_url.is_some()
    }

    /// Returns the URL to publish to a topic, if the publish URL is known.
    pub fn events_url(&self, topic: &str, is_namespace: bool) -> Option<String> {
        let base = self.publish_url.as_deref()?.trim_end_matches('/');
        let path = if is_namespace { ":publish" } else { "/api/events" };
        Some(format!("{base}/topics/{topic}{path}"))
    }
}

/// Replaces a key, and notes it in the file from which programs read the keys of a local stack.
pub async fn replace_key(
    api: &Client<Sender>,
    target: &Target,
    topic: &str,
    key: AccessKey,
) -> anyhow::Result<Keys> {
    let keys = api.regenerate_key(topic, key).await?;
    if let Some(home) = target.home() {
        Connection::note_keys(home, topic, key_list(&keys))?;
    }
    Ok(keys)
}

/// Returns the time that long before another.
pub fn before(time: Timestamp, span: TimeSpan) -> Timestamp {
    let span_ms = i64::try_from(span.0.as_millis()).unwrap_or(i64::MAX);
    Timestamp::from_millis(time.as_millis().saturating_sub(span_ms))
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use std::collections::BTreeMap;

    use super::*;
    use crate::testkit::FakeApi;

    #[tokio::test]
    async fn a_process_is_asked_what_its_clock_shows() {
        let told =
            [("GET /dev/counts", 200, json!({"now": "2100-01-01T00:00:00.000Z", "speed": 60}))];
        let process = FakeApi::answering(&told).await;
        let dev = Target { publish_url: Some(process.url()), is_dev: true, ..Target::default() };
        assert_eq!(dev.now().await.expect("a time").to_iso_8601(), "2100-01-01T00:00:00.000Z");
        assert_eq!(dev.speed().await.expect("a speed"), 60);
        let ago = dev.ago(TimeSpan::minutes(60)).await.expect("a time");
        assert_eq!(ago.to_iso_8601(), "2099-12-31T23:00:00.000Z");
        // One whose clock is not known goes by this machine's.
        let stack = Target { is_dev: false, ..dev.clone() };
        let silent = FakeApi::answering(&[]).await;
        let silent = Target { publish_url: Some(silent.url()), ..dev };
        let of_2100 = Timestamp::from_millis(4_102_444_800_000);
        for other in [stack, silent] {
            assert!(other.now().await.expect("a time") < of_2100, "{other:?}");
            assert_eq!(other.speed().await.expect("a speed"), 1, "{other:?}");
        }
    }

    #[tokio::test]
    async fn the_clock_of_aws_is_told_by_its_answers() {
        // (their date, what the clock shows to a second)
        let table = [
            ("Fri, 01 Jan 2100 00:00:00 GMT", "2100-01-01T00:00:0"),
            ("Sat, 01 Jan 2000 00:00:00 GMT", "2000-01-01T00:00:0"),
        ];
        for (date, want) in table {
            let api = FakeApi::dated(date).await;
            let away = Target { manage_url: Some(api.url()), ..Target::default() };
            let told = away.now().await.expect("a time").to_iso_8601();
            assert!(told.starts_with(want), "{told}");
            // What was seen counts for a while, and for copies too.
            drop(api);
            let told = away.clone().now().await.expect("a time").to_iso_8601();
            assert!(told.starts_with(want), "{told}");
        }
        let api = FakeApi::dated("Fri, 01 Jan 2100 00:00:00 GMT").await;
        let home = Some(Home::at(Path::new("/nowhere")));
        let stack = Target { manage_url: Some(api.url()), home, ..Target::default() };
        let of_2100 = Timestamp::from_millis(4_102_444_800_000);
        assert!(stack.now().await.expect("a time") < of_2100, "a local stack's is this machine's");
    }

    #[tokio::test]
    async fn what_does_not_answer_is_started_again_by_what_started_it() {
        // (the emulator's URL, what starts it again); nothing listens on port 1
        let table = [
            ("http://127.0.0.1:1", "`gridpost dev` starts it"),
            ("http://127.0.0.1:2", "`gridpost up` starts it"),
        ];
        for (emulator_url, want) in table {
            let folder = tempfile::tempdir().expect("a folder");
            let connection = Connection {
                publish_url: "http://127.0.0.1:1".to_owned(),
                manage_url: "http://127.0.0.1:1".to_owned(),
                emulator_url: emulator_url.to_owned(),
                dead_letter_bucket: "gridpost".to_owned(),
                ca_file: None,
                topics: BTreeMap::new(),
            };
            connection.write(&Home::at(folder.path())).expect("written");
            let home = Some(folder.path().to_owned());
            let target = TargetArguments { home, ..TargetArguments::default() };
            let api = target.resolve().expect("it is up").manage_api().await.expect("a client");
            let told = format!("{:#}", api.topics().await.expect_err("no answer"));
            assert!(told.contains(want), "{told}");
        }
    }

    #[test]
    fn what_is_no_url_is_refused_as_such() {
        for given in ["foo", "localhost:7070", "events.example.com", "ftp://a.example", ""] {
            let manage_url = Some(given.to_owned());
            let target = TargetArguments { manage_url, ..TargetArguments::default() };
            let refused = target.resolve().expect_err(given);
            assert!(refused.is::<Misuse>(), "{given}: {refused}");
            assert!(refused.to_string().contains("is not a URL"), "{given}: {refused}");
        }
        let manage_url = Some("http://127.0.0.1:7070".to_owned());
        assert!(TargetArguments { manage_url, ..TargetArguments::default() }.resolve().is_ok());
    }

    #[tokio::test]
    async fn a_publish_url_alone_is_named_as_what_turned_the_command_away() {
        let publish_url = Some("https://p.example".to_owned());
        let target = TargetArguments { publish_url, ..TargetArguments::default() };
        let refused = target.resolve().expect("a deployment").manage_api().await.expect_err("none");
        let told = refused.to_string();
        assert!(told.contains("GRIDPOST_PUBLISH_URL") && told.contains("local stack"), "{told}");
        assert!(refused.is::<Misuse>());
    }
}
