//! Makes the first resources of `gridpost dev`, and the file by which other commands find it.

use std::fs::{File, TryLockError};
use std::path::Path;
use std::{fs, io};

use anyhow::Context;
use gridpost_api::topic::Topic;
use serde_json::Value;

use gridpost_ops::{
    failure::Misuse,
    home::{
        Home,
        connection::{Connection, TopicConnection, is_in_process, key_list},
        remove_file, write_private,
    },
    manage_api::ManageApi,
};
use gridpost_stack::stack::{TOPICS, reach_topic};

/// How many of the local stack's topics there are here, too: the last one is for samples of functions.
const TOPICS_TAKEN: usize = 2;

pub(super) async fn make_topics(api: &ManageApi) -> anyhow::Result<()> {
    for (topic, schema) in TOPICS.into_iter().take(TOPICS_TAKEN) {
        reach_topic(api, api.base_url(), topic, schema).await?;
    }
    Ok(())
}

/// How to connect to the process at that URL, with all of its topics.
pub(super) async fn connection(
    api: &ManageApi,
    url: &str,
    ca_file: Option<&Path>,
) -> anyhow::Result<Connection> {
    let mut connection = Connection {
        publish_url: url.to_owned(),
        manage_url: url.to_owned(),
        emulator_url: url.to_owned(),
        dead_letter_bucket: gridpost_server::DEAD_LETTER_BUCKET.to_owned(),
        ca_file: ca_file.map(Path::to_owned),
        topics: Default::default(),
    };
    for Topic { name, properties, .. } in api.topics().await? {
        let keys = key_list(&api.keys(&name).await?);
        connection.topics.insert(name, TopicConnection { endpoint: properties.endpoint, keys });
    }
    Ok(connection)
}

/// Keeps other processes like this one from the folder as long as it is kept. Its end frees the
/// folder, in whatever way it comes.
#[derive(Debug)]
pub(super) struct Alone {
    _lock: File,
}

impl Alone {
    /// Makes this the one process of the folder, and removes the `local.json` of one that was killed.
    /// What listens on the port that such a file names says nothing: it may be another program by now.
    /// Fails with [`Misuse`] when another process runs, of which commands would find one alone.
    pub(super) fn hold(home: &Home) -> anyhow::Result<Self> {
        let path = home.dev_lock_file();
        let file = File::options().create(true).write(true).truncate(false).open(&path);
        let file = file.with_context(|| format!("{} cannot be made", path.display()))?;
        match file.try_lock() {
            Ok(()) => forget_killed(home)?,
            Err(TryLockError::WouldBlock) => return Err(runs_already(home).into()),
            Err(TryLockError::Error(error)) => {
                return Err(error).with_context(|| format!("{} cannot be locked", path.display()));
            }
        }
        Ok(Self { _lock: file })
    }
}

fn forget_killed(home: &Home) -> io::Result<()> {
    let path = home.connection_file();
    match fs::read_to_string(&path) {
        Ok(text) if !is_of_a_stack(&text) => remove_file(&path),
        _ => Ok(()),
    }
}

fn runs_already(home: &Home) -> Misuse {
    let connection = Connection::read(home).ok().flatten().filter(is_in_process);
    let place = connection.map_or_else(
        || format!("in {}", home.root().display()),
        |connection| format!("on {}", connection.publish_url),
    );
    Misuse(format!(
        "`gridpost dev` already runs here, {place}: end it first, or give this one a folder of its own for \
         `local.json` by --home"
    ))
}

/// `local.json` as long as the process runs. Dropping it brings back what was there before: how to
/// connect to a stack that `gridpost up` has started.
#[derive(Debug)]
pub(super) struct Written {
    home: Home,
    before: Option<String>,
    publish_url: String,
}

impl Written {
    pub(super) fn write(connection: &Connection, home: &Home) -> anyhow::Result<Self> {
        let path = home.connection_file();
        let before = fs::read_to_string(&path).ok().filter(|text| is_of_a_stack(text));
        connection.write(home)?;
        Ok(Self { home: home.clone(), before, publish_url: connection.publish_url.clone() })
    }
}

impl Drop for Written {
    fn drop(&mut self) {
        let path = self.home.connection_file();
        // A command may have noted a new key in it.
        let is_own = |it: Connection| it.publish_url == self.publish_url;
        if !Connection::read(&self.home).ok().flatten().is_none_or(is_own) {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn connection(publish_url: &str, emulator_url: &str) -> Connection {
        Connection {
            publish_url: publish_url.to_owned(),
            manage_url: publish_url.to_owned(),
            emulator_url: emulator_url.to_owned(),
            dead_letter_bucket: "b".to_owned(),
            ca_file: None,
            topics: Default::default(),
        }
    }

    #[test]
    fn the_connection_of_a_stack_comes_back() {
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

        drop(Alone::hold(&home).expect("nothing to do"));
        assert_eq!(read(), Some(stack.clone()));

        // A command has noted a new key.
        let written = Written::write(&own, &home).expect("written");
        Connection { dead_letter_bucket: "c".to_owned(), ..own.clone() }.write(&home).expect("c");
        drop(written);
        assert_eq!(read(), Some(stack));
        remove_file(&home.connection_file()).expect("removed");

        // A process that was killed has left its own, and another one has taken over.
        own.write(&home).expect("written");
        drop(Alone::hold(&home).expect("removed"));
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

    #[test]
    fn only_a_process_that_lives_keeps_its_file() {
        let folder = tempfile::tempdir().expect("folder");
        let home = Home::at(folder.path());
        // One was killed, and another program has its port by now.
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("bound"));
        connection(&url, &url).write(&home).expect("written");
        let first = Alone::hold(&home).expect("what is there is stale");
        assert!(!home.connection_file().exists());

        let starts = Alone::hold(&home).expect_err("it starts").to_string();
        assert!(starts.contains(&home.root().display().to_string()), "{starts}");
        connection(&url, &url).write(&home).expect("written");
        let refused = Alone::hold(&home).expect_err("it runs");
        assert!(refused.is::<Misuse>() && refused.to_string().contains(&url), "{refused}");
        assert!(home.connection_file().exists());
        drop(first);
        Alone::hold(&home).expect("it has ended");
    }
}
