//! `.gridpost/local.json`: how other programs connect to the local stack.

use std::{collections::BTreeMap, fs, io::ErrorKind, path::PathBuf};

use anyhow::Context;
use gridpost_api::topic::Keys;
use serde::{Deserialize, Serialize};

use crate::{
    home::{Home, write_private},
    manage_api::ManageApi,
};

/// The running stack. Its URLs work by plain path, from any client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Connection {
    pub publish_url: String,
    pub manage_url: String,
    /// The emulator, for AWS SDKs (`AWS_ENDPOINT_URL`).
    pub emulator_url: String,
    /// Bucket that the dead-letter function may write.
    pub dead_letter_bucket: String,
    /// The CA certificate that https clients must trust; absent by http.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca_file: Option<PathBuf>,
    pub topics: BTreeMap<String, TopicConnection>,
}

/// How to publish to a topic.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TopicConnection {
    pub endpoint: String,
    pub keys: Vec<String>,
}

impl Connection {
    /// Reads the file; none when no stack is up.
    pub fn read(home: &Home) -> anyhow::Result<Option<Self>> {
        let path = home.connection_file();
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(err) if matches!(err.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                return Ok(None);
            }
            Err(err) => {
                return Err(err).with_context(|| format!("{} cannot be read", path.display()));
            }
        };
        let broken = || format!("{} is damaged; `gridpost up` writes it anew", path.display());
        serde_json::from_str(&text).map(Some).with_context(broken)
    }

    /// A client of the manage API.
    pub async fn manage_api(&self) -> anyhow::Result<ManageApi> {
        ManageApi::connect_as(&self.manage_url, None, self.ca_file.as_deref()).await
    }

    /// Notes a topic's new keys in the file, where it has the topic.
    pub fn note_keys(home: &Home, topic: &str, keys: Vec<String>) -> anyhow::Result<()> {
        let Some(mut connection) = Self::read(home)? else { return Ok(()) };
        let Some(known) = connection.topics.get_mut(topic) else { return Ok(()) };
        known.keys = keys;
        connection.write(home)
    }

    /// Writes the file, for the owner alone.
    pub fn write(&self, home: &Home) -> anyhow::Result<()> {
        write_private(&home.connection_file(), &serde_json::to_string_pretty(self)?)
    }
}

/// Lists both keys of a topic.
pub fn key_list(Keys { key1, key2 }: &Keys) -> Vec<String> {
    [key1, key2].map(|key| key.expose().to_owned()).into()
}

/// Whether it is the connection of a process.
pub fn is_in_process(connection: &Connection) -> bool {
    connection.emulator_url == connection.publish_url
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_members_are_spelled_as_documented() {
        let topic =
            TopicConnection { endpoint: "http://e".into(), keys: vec!["k1".into(), "k2".into()] };
        let connection = Connection {
            publish_url: "http://p".into(),
            manage_url: "http://m".into(),
            emulator_url: "http://a".into(),
            dead_letter_bucket: "b".into(),
            ca_file: None,
            topics: BTreeMap::from([("demo".to_owned(), topic)]),
        };
        let want = json!({
            "publishUrl": "http://p", "manageUrl": "http://m", "emulatorUrl": "http://a",
            "deadLetterBucket": "b",
            "topics": {"demo": {"endpoint": "http://e", "keys": ["k1", "k2"]}},
        });
        assert_eq!(serde_json::to_value(&connection).expect("serialised"), want);
        let folder = tempfile::tempdir().expect("folder");
        let home = Home::at(folder.path());
        assert_eq!(Connection::read(&home).expect("absent"), None);
        connection.write(&home).expect("written");
        assert_eq!(Connection::read(&home).expect("read"), Some(connection.clone()));
        let keys = || vec!["k3".to_owned(), "k2".to_owned()];
        Connection::note_keys(&home, "other", keys()).expect("nothing to note");
        Connection::note_keys(&home, "demo", keys()).expect("noted");
        let noted = Connection::read(&home).expect("read").expect("there");
        assert_eq!((noted.topics.len(), &noted.topics["demo"].keys), (1, &keys()));
        let by_https = Connection { ca_file: Some("/d/ca.pem".into()), ..connection };
        assert_eq!(serde_json::to_value(&by_https).expect("serialised")["caFile"], "/d/ca.pem");
    }
}
