//! Publishes over connections that are kept.

use bytes::Bytes;

/// Publishes to one process.
#[derive(Debug)]
pub struct Publisher {
    url: String,
    http: reqwest::Client,
}

impl Publisher {
    /// For the process at that base URL.
    pub fn new(url: &str) -> anyhow::Result<Self> {
        let http = reqwest::Client::builder().no_proxy().tcp_nodelay(true).build()?;
        Ok(Self { url: url.to_owned(), http })
    }

    /// Posts events to a topic; answers the status.
    ///
    /// # Errors
    ///
    /// The connection fails: what became of the events is unknown.
    pub async fn publish(&self, topic: &str, key: &str, events: Bytes) -> anyhow::Result<u16> {
        let url = format!("{}/topics/{topic}/api/events?api-version=2018-01-01", self.url);
        let request = self.http.post(url).header("aeg-sas-key", key).body(events);
        let answer = request.header("content-type", "application/json").send().await?;
        let status = answer.status().as_u16();
        // To its end, so that the connection is kept.
        answer.bytes().await?;
        Ok(status)
    }
}
