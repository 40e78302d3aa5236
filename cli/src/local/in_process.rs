//! What `gridpost dev` makes to begin with, and how other commands find it.

use std::fs;

use serde_json::Value;
use tokio::net::TcpStream;

use crate::failure::Misuse;
use crate::local::connection::{Connection, TopicConnection};
use crate::local::home::{Home, remove_file, write_private};
use crate::local::stack::{TOPICS, reach_topic};
use crate::manage_api::ManageApi;
use crate::output::text_at;

/// How many of the local stack's topics there are here, too: the last one is for samples of functions.
const TOPICS_TAKEN: usize = 2;

/// Makes the topics that a local stack has.
///
/// # Errors
///
/// A refusal by the manage API, or a transport failure.
pub async fn make_topics(api: &ManageApi) -> anyhow::Result<()> {
    for (topic, schema) in TOPICS.into_iter().take(TOPICS_TAKEN) {
        reach_topic(api, api.base_url(), topic, schema).await?;
    }
    Ok(())
}

/// How to connect to the process at that URL, with all of its topics.
///
/// # Errors
///
/// A refusal by the manage API, or a transport failure.
pub async fn connection(api: &ManageApi, url: &str) -> anyhow::Result<Connection> {
    let mut connection = Connection {
        publish_url: url.to_owned(),
        manage_url: url.to_owned(),
        emulator_url: url.to_owned(),
        dead_letter_bucket: gridpost_dev::DEAD_LETTER_BUCKET.to_owned(),
        topics: Default::default(),
    };
    for topic in api.topics().await? {
        let name = text_at(&topic, "/name").to_owned();
        let keys = api.keys(&name).await?;
        let keys = ["key1", "key2"].iter().filter_map(|key| keys.get(key)?.as_str());
        let keys = keys.map(str::to_owned).collect();
        let endpoint = text_at(&topic, "/properties/endpoint").to_owned();
        connection.topics.insert(name, TopicConnection { endpoint, keys });
    }
    Ok(connection)
}

/// Removes what a process like this one has left that was killed: the file is there when all is ready.
///
/// # Errors
///
/// When it cannot be removed, or another process still answers: commands would find one of them alone.
pub async fn forget_killed(home: &Home) -> anyhow::Result<()> {
    let path = home.connection_file();
    let Ok(text) = fs::read_to_string(&path) else { return Ok(()) };
    if is_of_a_stack(&text) {
        return Ok(());
    }
    if let Some(connection) = Connection::read(home).ok().flatten()
        && answers(&connection.publish_url).await
    {
        return Err(Misuse(format!(
            "`gridpost dev` already runs here, on {}: end it first, or give this one a folder of its \
             own for `local.json` by --home",
            connection.publish_url,
        ))
        .into());
    }
    Ok(remove_file(&path)?)
}

/// Whether something listens there.
async fn answers(url: &str) -> bool {
    let address = url.strip_prefix("http://").unwrap_or(url);
    TcpStream::connect(address).await.is_ok()
}

/// `local.json` as long as the process runs. Dropping it brings back what was there before: how to
/// connect to a stack that `gridpost up` has started.
#[derive(Debug)]
pub struct Written {
    home: Home,
    before: Option<String>,
    own: String,
}

impl Written {
    /// Writes the file.
    ///
    /// # Errors
    ///
    /// When the folder cannot be written to.
    pub fn write(connection: &Connection, home: &Home) -> anyhow::Result<Self> {
        let path = home.connection_file();
        let before = fs::read_to_string(&path).ok().filter(|text| is_of_a_stack(text));
        connection.write(home)?;
        let own = fs::read_to_string(&path)?;
        Ok(Self { home: home.clone(), before, own })
    }
}

impl Drop for Written {
    fn drop(&mut self) {
        let path = self.home.connection_file();
        if fs::read_to_string(&path).is_ok_and(|text| text != self.own) {
            // Another process has written it since.
            return;
        }
        let _ = match &self.before {
            Some(before) => write_private(&path, before),
            None => remove_file(&path).map_err(Into::into),
        };
    }
}

/// Whether it is the connection of `gridpost up`, whose emulator has a URL of its own; a process like
/// this one that was killed has left one that leads nowhere.
fn is_of_a_stack(text: &str) -> bool {
    let connection: Option<Value> = serde_json::from_str(text).ok();
    connection.is_some_and(|it| it["emulatorUrl"] != it["publishUrl"])
}

/// Whether it is the connection of a process.
pub fn is_in_process(connection: &Connection) -> bool {
    connection.emulator_url == connection.publish_url
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connection(publish_url: &str, emulator_url: &str) -> Connection {
        Connection {
            publish_url: publish_url.to_owned(),
            manage_url: publish_url.to_owned(),
            emulator_url: emulator_url.to_owned(),
            dead_letter_bucket: "b".to_owned(),
            topics: Default::default(),
        }
    }

    #[tokio::test]
    async fn the_connection_of_a_stack_comes_back() {
        let folder = tempfile::tempdir().expect("folder");
        let home = Home::at(folder.path());
        let (stack, own) = (connection("http://p", "http://a"), connection("http://d", "http://d"));
        let read = || Connection::read(&home).expect("readable");
        let written = Written::write(&own, &home).expect("written");
        assert_eq!(read(), Some(own.clone()));
        drop(written);
        assert_eq!(read(), None);

        stack.write(&home).expect("written");
        drop(Written::write(&own, &home).expect("written"));
        assert_eq!(read(), Some(stack.clone()));

        forget_killed(&home).await.expect("nothing to do");
        assert_eq!(read(), Some(stack));

        // A process that was killed has left its own, and another one has taken over.
        own.write(&home).expect("written");
        forget_killed(&home).await.expect("removed");
        assert_eq!(read(), None);
        own.write(&home).expect("written");
        let first = Written::write(&own, &home).expect("written");
        let other = connection("http://e", "http://e");
        let second = Written::write(&other, &home).expect("written");
        drop(first);
        assert_eq!(read(), Some(other));
        drop(second);
        assert_eq!(read(), None);
    }

    #[tokio::test]
    async fn a_process_that_answers_keeps_its_file() {
        let folder = tempfile::tempdir().expect("folder");
        let home = Home::at(folder.path());
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("bound"));
        connection(&url, &url).write(&home).expect("written");
        let refused = forget_killed(&home).await.expect_err("it runs");
        assert!(refused.to_string().contains(&url), "{refused}");
        assert!(home.connection_file().exists());
    }
}
