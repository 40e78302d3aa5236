//! Calls AWS services, by one signed request each.

use std::sync::{Arc, OnceLock};

use aws_credential_types::{
    Credentials,
    provider::{ProvideCredentials, SharedCredentialsProvider},
};
use gridpost_core::{error::chain, secret::Secret};
use gridpost_ports::{
    Clock, HandshakeClient, HandshakeRequest, HandshakeResponse, PortError,
    authentication::SECRET_WAIT,
};
use tokio::time::timeout;

use crate::sign::{Scope, Signable, sign};

/// Makes the client for AWS when the first call needs it.
pub type MakeClient = Box<dyn Fn() -> Result<Arc<dyn HandshakeClient>, String> + Send + Sync>;

/// A call to a service.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    /// As IAM names it, such as `sts:AssumeRole`.
    pub name: &'static str,
    /// As in hosts and signatures.
    pub service: &'static str,
    pub region: &'a str,
    pub headers: &'a [(&'static str, &'static str)],
    pub body: &'a str,
}

/// AWS services, called with the program's credentials.
pub struct Services {
    credentials: Option<SharedCredentialsProvider>,
    /// Instead of AWS's endpoints.
    endpoint_url: Option<String>,
    clock: Arc<dyn Clock>,
    make_client: MakeClient,
    client: OnceLock<Arc<dyn HandshakeClient>>,
}

impl Services {
    /// Uses `endpoint_url` instead of AWS's endpoints if given.
    pub fn new(
        credentials: Option<SharedCredentialsProvider>,
        endpoint_url: Option<String>,
        clock: Arc<dyn Clock>,
        make_client: MakeClient,
    ) -> Self {
        Self { credentials, endpoint_url, clock, make_client, client: OnceLock::new() }
    }

    pub(crate) fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    /// Returns the program's credentials, within [`SECRET_WAIT`].
    pub async fn credentials(&self) -> Result<Credentials, String> {
        let provider = self.credentials.as_ref().ok_or("no credentials")?;
        let provided = timeout(SECRET_WAIT, provider.provide_credentials()).await;
        let provided = provided.map_err(|_| "no credentials in time".to_owned())?;
        provided.map_err(|error| chain(&error))
    }

    /// Makes a call within [`SECRET_WAIT`]. Any answer is a success.
    pub async fn call(&self, call: Call<'_>) -> Result<HandshakeResponse, PortError> {
        // The caller must not give up earlier: failures are cached, given-up calls are not.
        let answered = timeout(SECRET_WAIT, self.answer(call)).await;
        answered.unwrap_or_else(|_| Err(PortError::new(call.name, "no answer in time")))
    }

    async fn answer(&self, call: Call<'_>) -> Result<HandshakeResponse, PortError> {
        let failed = |reason: String| PortError::new(call.name, reason);
        let credentials = self.credentials().await.map_err(failed)?;
        let url = self.url(call.service, call.region);
        let scope = Scope {
            service: call.service,
            region: call.region,
            now: self.clock.machine(),
            sends_hash: false,
        };
        let (headers, body) = (call.headers, call.body.as_bytes());
        let request = Signable { method: "POST", url: &url, headers, body };
        let request = HandshakeRequest {
            method: http::Method::POST,
            attributes: sign(&credentials, scope, request).map_err(failed)?,
            url: Secret::new(url),
            headers: headers.iter().map(|(name, value)| (*name, (*value).to_owned())).collect(),
            body: body.to_vec(),
            authentication: None,
            is_sent_once: false,
            wait: SECRET_WAIT,
        };
        let answered = self.client(call.name)?.exchange(request).await;
        answered.map_err(|error| PortError::new(call.name, error))
    }

    fn client(&self, call: &'static str) -> Result<&Arc<dyn HandshakeClient>, PortError> {
        if let Some(client) = self.client.get() {
            return Ok(client);
        }
        let made = (self.make_client)().map_err(|reason| PortError::new(call, reason))?;
        Ok(self.client.get_or_init(|| made))
    }

    fn url(&self, service: &str, region: &str) -> String {
        if let Some(own) = &self.endpoint_url {
            return format!("{}/", own.trim_end_matches('/'));
        }
        let domain = if region.starts_with("cn-") { "amazonaws.com.cn" } else { "amazonaws.com" };
        format!("https://{service}.{region}.{domain}/")
    }
}
