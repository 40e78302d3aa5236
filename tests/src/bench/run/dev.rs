//! `gridpost dev` for a run of a mix: the whole product as one process, on data in a folder.

use std::{fs, sync::Arc, time::Duration};

use serde_json::json;
use tokio::{
    sync::{mpsc, watch},
    task::JoinSet,
};

use super::{Deployment, Options, Subject};
use crate::{
    bench::{
        aws::Cloud,
        book::Book,
        mix::{Host, Mix, topic_name},
        payload::Publishes,
        sink::{Sinks, certificate},
    },
    dev::{process::Program, publisher::Publisher},
};

/// Starts it, with the topics and event subscriptions of a mix.
pub(super) async fn start(mix: &Mix, host: Host, options: &Options) -> anyhow::Result<Deployment> {
    let folder = options.logs.join(&mix.name);
    // Removes what an earlier run has left there.
    let _ = fs::remove_dir_all(&folder);
    let sync = if host.is_synced { "full" } else { "normal" };
    let arguments = ["--sync", sync].map(str::to_owned).to_vec();
    let path = if host.is_debug { &options.gridpost_debug } else { &options.gridpost };
    let dev = Program { path: path.clone(), folder, arguments }.start().await?;
    let book = Arc::new(Book::new(mix));
    let tls = certificate(&options.logs.join("trusted.pem"))?;
    let sinks = Sinks::start(mix, options, &book, tls).await?;
    let mut keys = Vec::new();
    for topic in 0..mix.topics {
        keys.push(dev.topic(&topic_name(topic), &json!({})).await?);
    }
    for endpoint in mix.endpoints() {
        let (topic, name) = (topic_name(endpoint.topic), format!("s{}", endpoint.number));
        dev.subscribe(&topic, &name, &sinks.url(&endpoint, mix.https), json!({})).await?;
    }
    let publisher = Publisher::new(&dev.url)?;
    Ok(Deployment {
        mix: mix.clone(),
        subject: Subject::Dev { dev, publisher, keys },
        cloud: Arc::new(Cloud::new(&[], Duration::ZERO, Box::new(|_| false))),
        book,
        publishes: Publishes::new(mix),
        failures: mpsc::unbounded_channel().1,
        enabled: watch::Sender::new(true),
        _sinks: sinks,
        _tasks: JoinSet::new(),
    })
}
