//! `gridpost dev` for a run of a mix: the whole product as one process, on data in a folder.

use std::{fs, sync::Arc};

use serde_json::json;
use tokio::task::JoinSet;

use super::{Deployment, Options, Subject};
use crate::{
    bench::{
        book::Book,
        mix::{Mix, topic_name},
        sink::{Sinks, certificate},
    },
    dev::{process::Program, publisher::Publisher},
};

/// Starts it, with the topics and event subscriptions of a mix.
pub(super) async fn start(mix: &Mix, sync: &str, options: &Options) -> anyhow::Result<Deployment> {
    let folder = options.logs.join(&mix.name);
    // Removes what an earlier run has left there.
    let _ = fs::remove_dir_all(&folder);
    let arguments = vec!["--sync".to_owned(), sync.to_owned()];
    let dev = Program { path: options.gridpost.clone(), folder, arguments }.start().await?;
    let book = Arc::new(Book::new(mix));
    let tls = certificate(&options.logs.join("trusted.pem"))?;
    let sinks = Sinks::start(mix, options.endpoint_wait(), &book, tls).await?;
    let mut keys = Vec::new();
    for topic in 0..mix.topics {
        keys.push(dev.topic(&topic_name(topic), &json!({})).await?);
    }
    for endpoint in mix.endpoints() {
        let (topic, name) = (topic_name(endpoint.topic), format!("s{}", endpoint.number));
        dev.subscribe(&topic, &name, &sinks.url(&endpoint, mix.https), json!({})).await?;
    }
    let publisher = Publisher::new(&dev.url)?;
    let subject = Subject::Dev { dev: Box::new(dev), publisher, keys };
    Deployment::new(mix, subject, book, sinks, JoinSet::new())
}
