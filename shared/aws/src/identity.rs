//! The identity of the function, for what it signs itself.

use std::sync::Arc;

use aws_types::SdkConfig;
use gridpost_ports::Clock;
use gridpost_signing::{MakeClient, Signer};

pub use gridpost_signing::Services;

/// AWS's services, with the credentials and the endpoint of `config`. Credentials are had anew for each
/// call: the provider knows when they end.
pub fn services(
    config: &SdkConfig,
    clock: &Arc<dyn Clock>,
    make_client: MakeClient,
) -> Arc<Services> {
    let endpoint = config.endpoint_url().map(str::to_owned);
    let (own, clock) = (config.credentials_provider(), Arc::clone(clock));
    Arc::new(Services::new(own, endpoint, clock, make_client))
}

/// Signs requests to endpoints as the function, or as a role that it may assume, and has tokens that
/// say who the function is. The Security Token Service is that of its region: the global one has no
/// tokens.
pub fn signer(config: &SdkConfig, services: Arc<Services>) -> Signer {
    let region = config.region().map(ToString::to_string).unwrap_or_default();
    Signer::new(services, region)
}
