//! AWS identities that requests to endpoints prove.

use std::time::Duration;

use async_trait::async_trait;
use gridpost_core::{
    secret::Secret,
    subscription::authentication::{SigV4, WebIdentity, token::NoToken},
};

/// A request to sign.
#[derive(Clone, Copy)]
pub struct Unsigned<'a> {
    pub method: &'a str,
    pub url: &'a str,
    pub content_type: Option<&'a str>,
    pub body: &'a [u8],
}

/// Proves who the program is, or which role it has assumed. Callers check what may be proven to whom.
#[async_trait]
pub trait AwsIdentity: Send + Sync {
    /// Returns the headers that sign a request.
    async fn signature(
        &self,
        by: &SigV4,
        request: Unsigned<'_>,
    ) -> Result<Vec<(String, Secret)>, NoToken>;

    /// Fetches a token that says who the program is, and how long it lives.
    async fn token(&self, of: &WebIdentity) -> Result<(Secret, Duration), NoToken>;

    /// Notes that an endpoint refused a signature: the credentials may be revoked.
    fn is_refused(&self, by: &SigV4);
}

/// Proves no identity.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoIdentity;

impl NoIdentity {
    fn none<T>() -> Result<T, NoToken> {
        Err(NoToken::Aws("this program proves no identity of AWS".to_owned()))
    }
}

#[async_trait]
impl AwsIdentity for NoIdentity {
    async fn signature(
        &self,
        _by: &SigV4,
        _request: Unsigned<'_>,
    ) -> Result<Vec<(String, Secret)>, NoToken> {
        Self::none()
    }

    async fn token(&self, _of: &WebIdentity) -> Result<(Secret, Duration), NoToken> {
        Self::none()
    }

    fn is_refused(&self, _by: &SigV4) {}
}
