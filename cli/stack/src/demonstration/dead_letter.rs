//! Reads dead letters back: from the emulator's S3, or from the manage API.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use gridpost_ops::{
    aws_api::REGION,
    clock,
    home::connection::Connection,
    http_client,
    manage_api::{ManageApi, dead_letters::LetterChoice},
    output::text_at,
    signing::{S3, Signer},
};

const POLL: Duration = Duration::from_millis(500);

/// What S3's signatures want encoded in a query; in a path all of it but the slash.
const QUERY: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
const PATH: &AsciiSet = &QUERY.remove(b'/');

#[derive(Clone, Copy, Debug)]
pub enum Letters<'a> {
    /// From the emulator's S3.
    Emulator,
    /// From the folder of files that `gridpost dev` keeps; in memory it keeps none.
    Folder(Option<&'a Path>),
}

#[derive(Clone, Debug)]
pub enum DeadLetters {
    Objects(Objects),
    Files {
        folder: PathBuf,
    },
    /// Kept in memory: the manage API lists them.
    Listed(Box<Listed>),
}

#[derive(Clone, Debug)]
pub struct Listed {
    pub api: ManageApi,
    pub topic: &'static str,
    pub subscription: String,
}

/// Objects of the emulator's S3.
#[derive(Clone, Debug)]
pub struct Objects {
    http: reqwest::Client,
    signer: Signer,
    url: String,
    bucket: String,
    prefix: String,
}

impl DeadLetters {
    /// Those in the deployment's own bucket.
    pub fn of(
        letters: Letters<'_>,
        connection: &Connection,
        prefix: &str,
        listed: Listed,
    ) -> anyhow::Result<Self> {
        Ok(match letters {
            Letters::Emulator => Self::Objects(Objects::of(connection, prefix)?),
            Letters::Folder(Some(folder)) => {
                let bucket = folder.join(&connection.dead_letter_bucket);
                Self::Files { folder: bucket.join(prefix) }
            }
            Letters::Folder(None) => Self::Listed(Box::new(listed)),
        })
    }

    pub fn place(&self) -> String {
        match self {
            Self::Objects(objects) => format!("s3://{}/", objects.bucket),
            Self::Files { folder } => folder.display().to_string(),
            Self::Listed(_) => "memory".to_owned(),
        }
    }

    /// Waits for the first one and gives it as `{"place","records"}`.
    pub async fn wait(&self, deadline: Instant) -> anyhow::Result<Value> {
        match self {
            Self::Objects(objects) => objects.wait(deadline).await,
            Self::Files { folder } => wait_for_file(folder, deadline).await,
            Self::Listed(listed) => listed.wait(deadline).await,
        }
    }
}

impl Listed {
    async fn wait(&self, deadline: Instant) -> anyhow::Result<Value> {
        let Self { api, topic, subscription } = self;
        loop {
            let found = api.dead_letters(topic, subscription, &LetterChoice::default(), 1).await?;
            if !found.is_empty() {
                return Ok(json!({"place": "in memory", "records": found}));
            }
            if Instant::now() >= deadline {
                bail!("no dead letter was written for event subscription {subscription}");
            }
            sleep(POLL).await;
        }
    }
}

async fn wait_for_file(folder: &Path, deadline: Instant) -> anyhow::Result<Value> {
    loop {
        if let Some(file) = first_file(folder) {
            let text = std::fs::read(&file)?;
            let records: Vec<Value> = serde_json::from_slice(&text)
                .with_context(|| format!("{} is no JSON array", file.display()))?;
            return Ok(json!({"place": file, "records": records}));
        }
        if Instant::now() >= deadline {
            bail!("no dead letter was written to {}", folder.display());
        }
        sleep(POLL).await;
    }
}

fn first_file(folder: &Path) -> Option<PathBuf> {
    let mut entries: Vec<_> =
        std::fs::read_dir(folder).ok()?.flatten().map(|entry| entry.path()).collect();
    entries.sort();
    entries.into_iter().find_map(|path| {
        if path.is_dir() {
            return first_file(&path);
        }
        path.extension().is_some_and(|ending| ending == "json").then_some(path)
    })
}

impl Objects {
    fn of(connection: &Connection, prefix: &str) -> anyhow::Result<Self> {
        let Connection { emulator_url, dead_letter_bucket: bucket, .. } = connection;
        Ok(Self {
            http: http_client::for_url(emulator_url)?,
            signer: Signer::of_emulator(S3, REGION),
            url: format!("{}/{bucket}", emulator_url.trim_end_matches('/')),
            bucket: bucket.clone(),
            prefix: prefix.to_owned(),
        })
    }

    async fn wait(&self, deadline: Instant) -> anyhow::Result<Value> {
        loop {
            // A failed listing is tried again like an empty one; the last failure is told.
            let found = self.first().await;
            match found {
                Ok(Some(key)) => return self.read(&key).await,
                Ok(None) if Instant::now() < deadline => sleep(POLL).await,
                Err(_) if Instant::now() < deadline => sleep(POLL).await,
                Ok(None) => {
                    bail!("no dead letter was written to s3://{}/{}", self.bucket, self.prefix)
                }
                Err(err) => return Err(err),
            }
        }
    }

    async fn first(&self) -> anyhow::Result<Option<String>> {
        let prefix = utf8_percent_encode(&self.prefix, QUERY);
        let url = format!("{}?list-type=2&max-keys=1&prefix={prefix}", self.url);
        let key = async { first_key(&self.get(&url).await?) };
        key.await.with_context(|| format!("bucket {} cannot be listed", self.bucket))
    }

    async fn read(&self, key: &str) -> anyhow::Result<Value> {
        let url = format!("{}/{}", self.url, utf8_percent_encode(key, PATH));
        let bytes = self.get(&url).await;
        let bytes = bytes.with_context(|| format!("s3://{}/{key} cannot be read", self.bucket))?;
        let records: Vec<Value> = serde_json::from_slice(&bytes)
            .with_context(|| format!("s3://{}/{key} is no JSON array", self.bucket))?;
        Ok(json!({"place": format!("s3://{}/{key}", self.bucket), "records": records}))
    }

    async fn get(&self, url: &str) -> anyhow::Result<Vec<u8>> {
        let mut request = self.http.get(url);
        for (name, value) in self.signer.headers("GET", url, &[], b"", clock::now()).await? {
            request = request.header(name, value);
        }
        let answer = request.send().await?;
        let status = answer.status();
        let bytes = answer.bytes().await?;
        if !status.is_success() {
            let text: String = String::from_utf8_lossy(&bytes).chars().take(300).collect();
            bail!("HTTP {}: {text}", status.as_u16());
        }
        Ok(bytes.into())
    }
}

/// The first key in the answer of S3's `ListObjectsV2`.
fn first_key(answer: &[u8]) -> anyhow::Result<Option<String>> {
    #[derive(Deserialize)]
    #[serde(rename = "ListBucketResult")]
    struct List {
        #[serde(rename = "Contents", default)]
        contents: Vec<Object>,
    }
    #[derive(Deserialize)]
    struct Object {
        #[serde(rename = "Key")]
        key: String,
    }
    let list: List = quick_xml::de::from_reader(answer).context("the answer is no list")?;
    Ok(list.contents.into_iter().next().map(|object| object.key))
}

/// What [`DeadLetters::wait`] gave, line by line.
pub fn describe(found: &Value) -> Vec<String> {
    let mut lines = vec![text_at(found, "/place").to_owned()];
    let members = [
        "eventType",
        "deadLetterReason",
        "lastDeliveryOutcome",
        "lastHttpStatusCode",
        "deliveryAttempts",
    ];
    for record in found["records"].as_array().into_iter().flatten() {
        let shown =
            members.iter().filter_map(|member| Some(format!("{member} {}", record.get(member)?)));
        lines.push(shown.collect::<Vec<_>>().join(", "));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dead_letter_is_shown_with_its_reason() {
        let found = json!({"place": "s3://b/p/S/2030/1/2/3/u.json", "records": [{
            "id": "1", "eventType": "T", "deadLetterReason": "UndeliverableDueToHttpBadRequest",
            "deliveryAttempts": 1, "lastDeliveryOutcome": "BadRequest", "lastHttpStatusCode": 400,
        }]});
        assert_eq!(
            describe(&found),
            [
                "s3://b/p/S/2030/1/2/3/u.json",
                "eventType \"T\", deadLetterReason \"UndeliverableDueToHttpBadRequest\", lastDeliveryOutcome \
             \"BadRequest\", lastHttpStatusCode 400, deliveryAttempts 1",
            ]
        );
    }

    async fn listed() -> Listed {
        let api = ManageApi::connect("http://127.0.0.1:1").await.expect("a client");
        Listed { api, topic: "demo", subscription: "s".to_owned() }
    }

    #[tokio::test]
    async fn a_file_below_the_prefix_is_found() {
        let folder = tempfile::tempdir().expect("folder");
        let connection = Connection {
            publish_url: String::new(),
            manage_url: String::new(),
            emulator_url: String::new(),
            dead_letter_bucket: "b".to_owned(),
            ca_file: None,
            topics: Default::default(),
        };
        let listed = listed().await;
        let of = |prefix| {
            let folder = Letters::Folder(Some(folder.path()));
            DeadLetters::of(folder, &connection, prefix, listed.clone()).expect("letters")
        };
        assert!(of("p/").wait(Instant::now()).await.is_err());
        let file = folder.path().join("b/p/2030/1/u.json");
        std::fs::create_dir_all(file.parent().expect("a folder")).expect("made");
        std::fs::write(&file, r#"[{"id":"1"}]"#).expect("written");
        let found = of("p/").wait(Instant::now()).await.expect("found");
        assert_eq!(found, json!({"place": file, "records": [{"id": "1"}]}));
        assert!(of("q/").wait(Instant::now()).await.is_err());
    }

    #[test]
    fn the_first_key_is_read() {
        let list = |inner: &str| {
            let head = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
                        <ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">";
            first_key(format!("{head}<Name>b</Name>{inner}</ListBucketResult>").as_bytes())
        };
        let object = |key: &str| format!("<Contents><Key>{key}</Key><Size>1</Size></Contents>");
        let two = object("p/a &amp; b&#x3c;.json") + &object("p/2");
        assert_eq!(list(&two).expect("read").as_deref(), Some("p/a & b<.json"));
        assert_eq!(list("<KeyCount>0</KeyCount>").expect("read"), None);
        assert!(first_key(b"no list").is_err());
    }

    #[test]
    fn keys_and_prefixes_are_encoded_as_signatures_want_it() {
        assert_eq!(utf8_percent_encode("a/b=c +\u{e9}~", PATH).to_string(), "a/b%3Dc%20%2B%C3%A9~");
        assert_eq!(utf8_percent_encode("a/b", QUERY).to_string(), "a%2Fb");
    }
}
