//! A client for services of the deployment's own choice.

use std::sync::Arc;

use gridpost_core::{endpoint::Allowed, error::chain};
use gridpost_ports::{Clock, HandshakeClient};

use super::http::HttpClient;

/// Makes a client of services wherever they are: also in private networks, where a VPC has its
/// endpoints. Nothing that a user wrote may be called by it.
pub fn client_for_services(
    clock: &Arc<dyn Clock>,
) -> impl Fn() -> Result<Arc<dyn HandshakeClient>, String> + Send + Sync + 'static {
    let clock = Arc::clone(clock);
    move || {
        let networks = "0.0.0.0/0,::/0".parse().unwrap_or_default();
        let allowed = Allowed { networks, ..Allowed::default() };
        let made = HttpClient::new(allowed, Arc::clone(&clock)).map_err(|error| chain(&error))?;
        Ok(Arc::new(made))
    }
}
