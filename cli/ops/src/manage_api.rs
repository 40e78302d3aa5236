//! A client of the resource API: topics, keys, event subscriptions, what waits and what has ended.

pub mod dead_letters;
pub mod events;
#[cfg(test)]
mod operations_tests;

use std::{
    ops::{ControlFlow, Deref},
    path::Path,
};

use anyhow::Context;
use gridpost_api::client::{Answer, Client, Condition, Request, Transport};
use reqwest::Method;
use serde_json::Value;

use crate::{
    clock,
    failure::{Misuse, Refusal},
    http_client,
    signing::Signer,
};

/// Pages followed in one list; a server that never ends is an error, not a hang.
const PAGES_MAX: usize = 1_000;

/// The answer to a request.
#[derive(Clone, Debug, PartialEq)]
pub struct Reply {
    /// HTTP status, 200 to 299.
    pub status: u16,
    /// The JSON body; null when there was none.
    pub document: Value,
    /// The `ETag`, which names this state of the resource.
    pub etag: Option<String>,
}

/// The resource API of one deployment.
#[derive(Clone, Debug)]
pub struct ManageApi {
    pub api: Client<Sender>,
}

/// Sends requests by HTTP, signed unless the API is on this machine.
#[derive(Clone, Debug)]
pub struct Sender {
    http: reqwest::Client,
    signer: Option<Signer>,
    started_by: &'static str,
}

impl Transport for Sender {
    type Error = anyhow::Error;

    async fn send(&self, request: Request) -> anyhow::Result<Answer> {
        let Request { method, url, body, condition } = request;
        let mut sent = self.http.request(method.clone(), &url);
        if let Some(signer) = &self.signer {
            let text = body.as_deref().unwrap_or_default().as_bytes();
            let headers = signer.headers(method.as_str(), &url, &[], text, clock::now()).await?;
            for (name, value) in headers {
                sent = sent.header(name, value);
            }
        }
        sent = match condition {
            Some(Condition::IsNew) => sent.header("if-none-match", "*"),
            Some(Condition::Is(etag)) => sent.header("if-match", etag),
            None => sent,
        };
        if let Some(body) = body {
            sent = sent.header("content-type", "application/json").body(body);
        }
        let answer = sent.send().await.with_context(|| self.no_answer(&method, &url))?;
        let status = answer.status().as_u16();
        let etag = answer.headers().get("etag").and_then(|etag| etag.to_str().ok());
        let etag = etag.map(str::to_owned);
        let body =
            answer.text().await.with_context(|| format!("{method} {url}: answer cut off"))?;
        if !(200..300).contains(&status) {
            return Err(Refusal::from_answer(status, &body).into());
        }
        Ok(Answer { status, etag, body })
    }
}

impl Deref for ManageApi {
    type Target = Client<Sender>;

    fn deref(&self) -> &Self::Target {
        &self.api
    }
}

impl Sender {
    fn no_answer(&self, method: &Method, url: &str) -> String {
        if self.signer.is_some() {
            return format!("{method} {url} got no answer");
        }
        format!(
            "{method} {url} got no answer (is the local stack up? `gridpost status` says, `{}` starts it)",
            self.started_by
        )
    }
}

impl ManageApi {
    /// Connects to the API at `base_url`. Requests are signed unless it is on this machine.
    pub async fn connect(base_url: &str) -> anyhow::Result<Self> {
        Self::connect_as(base_url, None, None).await
    }

    /// Connects, signing with a profile of the AWS configuration, and trusting the CA in a file.
    pub async fn connect_as(
        base_url: &str,
        aws_profile: Option<&str>,
        ca_file: Option<&Path>,
    ) -> anyhow::Result<Self> {
        let signer = match http_client::is_loopback(base_url) {
            true => None,
            false => Some(Signer::for_url(base_url, aws_profile).await?),
        };
        let http = http_client::trusting(base_url, ca_file)?;
        let sender = Sender { http, signer, started_by: "gridpost dev" };
        Ok(Self { api: Client::new(base_url, sender) })
    }

    /// Makes changes fail unless the resource still has this `ETag`.
    #[must_use]
    pub fn only_if(self, etag: Option<String>) -> Self {
        Self { api: self.api.only_if(etag.map(Condition::Is)) }
    }

    /// Makes a `PUT` fail if the resource exists.
    #[must_use]
    pub fn only_new(self) -> Self {
        Self { api: self.api.only_if(Some(Condition::IsNew)) }
    }

    /// Names the command that starts this API, for the error when it does not answer.
    #[must_use]
    pub fn started_by(mut self, command: &'static str) -> Self {
        self.api.transport_mut().started_by = command;
        self
    }

    /// Every topic.
    pub async fn topics(&self) -> anyhow::Result<Vec<Value>> {
        self.list("/topics").await
    }

    /// Every event subscription of a topic.
    pub async fn subscriptions(&self, topic: &str) -> anyhow::Result<Vec<Value>> {
        self.list(&format!("{}/eventSubscriptions", topic_path(topic)?)).await
    }

    /// Collects a list over its pages.
    async fn list(&self, path: &str) -> anyhow::Result<Vec<Value>> {
        let mut found = Vec::new();
        self.each(path, PAGES_MAX, |item| found.push(item.clone())).await?;
        Ok(found)
    }

    /// Takes every item of a list over its pages.
    async fn each(
        &self,
        path: &str,
        pages_max: usize,
        mut take: impl FnMut(&Value),
    ) -> anyhow::Result<()> {
        let take = |item: &Value| {
            take(item);
            ControlFlow::Continue(())
        };
        self.each_while(path, pages_max, take).await.map(|_| ())
    }

    /// Follows pages as long as `take` continues; returns whether there was no more to take.
    async fn each_while(
        &self,
        path: &str,
        pages_max: usize,
        mut take: impl FnMut(&Value) -> ControlFlow<()>,
    ) -> anyhow::Result<bool> {
        let mut next = format!("{}{path}", self.base_url());
        for _ in 0..pages_max {
            let page = self.send(Method::GET, &next, None).await?.document;
            let mut items = page.get("value").and_then(Value::as_array).into_iter().flatten();
            if items.try_for_each(&mut take).is_break() {
                return Ok(false);
            }
            match page.get("nextLink").and_then(Value::as_str) {
                Some(link) if !link.is_empty() => next = self.resolve(link)?,
                _ => return Ok(true),
            }
        }
        anyhow::bail!("the list at {path} has over {pages_max} pages")
    }

    /// A `nextLink` as a whole URL. One that leads elsewhere is refused: our signature would go with it.
    fn resolve(&self, link: &str) -> anyhow::Result<String> {
        if link.starts_with('/') {
            return Ok(format!("{}{link}", self.base_url()));
        }
        let rest = link.strip_prefix(self.base_url());
        anyhow::ensure!(
            rest.is_some_and(|rest| rest.starts_with('/')),
            "the next page is at {link}, outside {}",
            self.base_url()
        );
        Ok(link.to_owned())
    }

    async fn call(
        &self,
        method: Method,
        path: &str,
        document: Option<&Value>,
    ) -> anyhow::Result<Reply> {
        self.send(method, &format!("{}{path}", self.base_url()), document).await
    }

    async fn send(
        &self,
        method: Method,
        url: &str,
        document: Option<&Value>,
    ) -> anyhow::Result<Reply> {
        self.send_text(method, url, document.map(Value::to_string)).await
    }

    async fn send_text(
        &self,
        method: Method,
        url: &str,
        document: Option<String>,
    ) -> anyhow::Result<Reply> {
        let request = self.api.request(method.clone(), url.to_owned(), document);
        let Answer { status, etag, body } = self.api.transport().send(request).await?;
        let document = match body.trim() {
            "" => Value::Null,
            json => serde_json::from_str(json)
                .with_context(|| format!("{method} {url} answered {status} with no JSON"))?,
        };
        Ok(Reply { status, document, etag })
    }
}

fn topic_path(topic: &str) -> anyhow::Result<String> {
    Ok(format!("/topics/{}", path_segment(topic)?))
}

fn subscription_path(topic: &str, name: &str) -> anyhow::Result<String> {
    Ok(format!("{}/eventSubscriptions/{}", topic_path(topic)?, path_segment(name)?))
}

/// A name as it may stand in a path. Its length is for the server to judge.
fn path_segment(name: &str) -> Result<&str, Misuse> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    if !name.is_empty() && name.bytes().all(fits) {
        return Ok(name);
    }
    Err(Misuse(format!("`{name}` is not a name: names are letters, digits and hyphens")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_leave_its_place_in_the_path() {
        assert_eq!(
            subscription_path("demo", "s-1").expect("fits"),
            "/topics/demo/eventSubscriptions/s-1"
        );
        for name in ["", "..", "a/b", "a?b", "ä", "a b", "a%2f"] {
            assert!(topic_path(name).is_err(), "{name}");
        }
    }

    #[tokio::test]
    async fn the_next_page_must_be_of_the_same_deployment() {
        let api = ManageApi::connect("http://127.0.0.1:1/_aws/execute-api/a/$default/")
            .await
            .expect("built");
        let base = "http://127.0.0.1:1/_aws/execute-api/a/$default";
        for (link, want) in [
            ("/topics?$skiptoken=x", Some(format!("{base}/topics?$skiptoken=x"))),
            (&format!("{base}/topics?x"), Some(format!("{base}/topics?x"))),
            ("http://127.0.0.1:1/_aws/execute-api/a/$default2/topics", None),
            ("https://elsewhere.example/topics", None),
        ] {
            assert_eq!(api.resolve(link).ok(), want, "{link}");
        }
    }
}
