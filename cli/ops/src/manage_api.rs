//! A client of the resource API: topics, keys, event subscriptions, what waits and what has ended.

pub mod dead_letters;
#[cfg(test)]
mod operations_tests;

use std::{ops::Deref, path::Path};

use anyhow::Context;
use gridpost_api::client::{Answer, Client, Condition, Request, Transport};
use gridpost_core::secret::Secret;
use reqwest::Method;

use crate::{
    clock,
    failure::{Misuse, Refusal},
    http_client,
    signing::Signer,
};

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

    /// Connects with a token. Fails with [`Misuse`] where others could read it on its way.
    pub fn connect_by_token(
        base_url: &str,
        token: Secret,
        ca_file: Option<&Path>,
    ) -> anyhow::Result<Self> {
        if !http_client::is_loopback(base_url) && !base_url.starts_with("https://") {
            return Err(Misuse(format!(
                "{base_url}: a token that is sent by http can be read by others: write https://"
            ))
            .into());
        }
        let http = http_client::trusting(base_url, ca_file)?;
        let signer = Some(Signer::of_token(token));
        let sender = Sender { http, signer, started_by: "gridpost serve" };
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

    /// Refuses answers with members that this command line does not know, instead of dropping them.
    #[must_use]
    pub fn strict(self) -> Self {
        Self { api: self.api.strict() }
    }

    /// Names the command that starts this API, for the error when it does not answer.
    #[must_use]
    pub fn started_by(mut self, command: &'static str) -> Self {
        self.api.transport_mut().started_by = command;
        self
    }
}
