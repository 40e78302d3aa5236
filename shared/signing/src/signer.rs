//! Proves the program's AWS identity to endpoints.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use gridpost_core::{
    secret::Secret,
    subscription::authentication::{SigV4, WebIdentity, token::NoToken},
    time::Timestamp,
};
use gridpost_ports::authentication::{AwsIdentity, Kept, Lasting, Unsigned};

use crate::{
    services::Services,
    sign::{Scope, Signable, sign},
    sts::{self, Assumed},
};

/// From this age on, refused credentials may be revoked and are replaced. An endpoint that refuses
/// everything must not cause a call each time.
const SUSPECT_AFTER: Duration = Duration::from_secs(60);

/// The program's identity, and the roles that it assumes.
pub struct Signer {
    services: Arc<Services>,
    region: String,
    assumed: Kept<String, Assumed>,
}

impl Lasting for Assumed {
    fn fetched_at(&self) -> Timestamp {
        self.fetched_at
    }

    fn is_fresh(&self, now: Timestamp) -> bool {
        now < self.use_until
    }

    fn is_valid(&self, now: Timestamp) -> bool {
        now < self.valid_until
    }
}

impl Signer {
    /// Uses the Security Token Service of that region.
    pub fn new(services: Arc<Services>, region: impl Into<String>) -> Self {
        let assumed = Kept::new(Arc::clone(services.clock()));
        Self { services, region: region.into(), assumed }
    }

    async fn assume(&self, role: &str) -> Result<Assumed, NoToken> {
        let body = sts::assume_role(role);
        let call = sts::call(sts::ASSUME_ROLE, &self.region, &body);
        let answer = self.services.call(call).await;
        let answer = answer.map_err(|error| NoToken::Aws(error.to_string()))?;
        sts::read_role(&answer, self.services.clock().now())
    }
}

#[async_trait]
impl AwsIdentity for Signer {
    async fn signature(
        &self,
        by: &SigV4,
        request: Unsigned<'_>,
    ) -> Result<Vec<(String, Secret)>, NoToken> {
        let credentials = match &by.role {
            Some(role) => self.assumed.get(role, || self.assume(role)).await?.credentials,
            None => self.services.credentials().await.map_err(NoToken::Aws)?,
        };
        let unsigned = |why: String| NoToken::Aws(format!("the request can't be signed: {why}"));
        let region = by.region(request.url);
        let region = region.ok_or_else(|| unsigned("it has no region".to_owned()))?;
        let scope = Scope {
            service: &by.service,
            region: &region,
            now: self.services.clock().now(),
            sends_hash: true,
        };
        // As the client sends it.
        let url = url::Url::parse(request.url).map_err(|_| unsigned("it has no URL".to_owned()))?;
        let Unsigned { method, content_type, body, .. } = request;
        let headers: Vec<_> = content_type.iter().map(|value| ("content-type", *value)).collect();
        let request = Signable { method, url: url.as_str(), headers: &headers, body };
        sign(&credentials, scope, request).map_err(unsigned)
    }

    async fn token(&self, of: &WebIdentity) -> Result<(Secret, Duration), NoToken> {
        let body = sts::get_token(of);
        let call = sts::call(sts::GET_TOKEN, &self.region, &body);
        let answer = self.services.call(call).await;
        let answer = answer.map_err(|error| NoToken::Aws(error.to_string()))?;
        sts::read_token(&answer, self.services.clock().now())
    }

    fn is_refused(&self, by: &SigV4) {
        let Some(role) = &by.role else { return };
        let now = self.services.clock().now();
        self.assumed.forget_if(role, |kept| now.since(kept.fetched_at) > SUSPECT_AFTER);
    }
}
