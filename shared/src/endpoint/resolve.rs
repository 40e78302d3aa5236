//! Resolves host names to addresses that the guard allows, and to no others. The connection goes to
//! just those addresses, so a name that resolves differently the next time gains nothing.

use std::{
    io,
    net::SocketAddr,
    task::{Context, Poll},
    vec,
};

use futures::future::BoxFuture;
use hyper_util::client::legacy::connect::dns::Name;
use tower_service::Service;

use super::guard::{self, AllowedNetworks, Refusal};

/// The resolver of a pool of connections.
#[derive(Clone, Debug)]
pub(super) struct GuardedResolver {
    /// Networks that a setting names.
    pub(super) allowed: AllowedNetworks,
    /// Whether public addresses are allowed too.
    pub(super) public: bool,
}

/// A host name has no address. Found again in the error chain of a request.
#[derive(Debug, thiserror::Error)]
#[error("the host name does not resolve")]
pub(super) struct ResolutionError(#[source] Option<io::Error>);

type BoxError = Box<dyn std::error::Error + Send + Sync>;

impl GuardedResolver {
    fn check(&self, address: &SocketAddr) -> Result<(), Refusal> {
        match address.ip() {
            ip if self.allowed.contains(ip) => Ok(()),
            ip if self.public => guard::check_address(ip, &self.allowed),
            ip => Err(Refusal::Address(ip)),
        }
    }

    async fn resolve(self, name: Name) -> Result<vec::IntoIter<SocketAddr>, BoxError> {
        let found = tokio::net::lookup_host((name.as_str(), 0)).await;
        let found = found.map_err(|error| ResolutionError(Some(error)))?;
        let (mut safe, mut refused) = (Vec::new(), None);
        for address in found {
            match self.check(&address) {
                Ok(()) => safe.push(address),
                Err(refusal) => refused = Some(refusal),
            }
        }
        match refused {
            _ if !safe.is_empty() => Ok(safe.into_iter()),
            Some(refusal) => Err(refusal.into()),
            None => Err(ResolutionError(None).into()),
        }
    }
}

impl Service<Name> for GuardedResolver {
    type Response = vec::IntoIter<SocketAddr>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, name: Name) -> Self::Future {
        Box::pin(self.clone().resolve(name))
    }
}
