//! AWS resources as endpoints of `gridpost dev`: clients of the services that they belong to.

use gridpost_server::Resources;

#[cfg(not(feature = "aws"))]
use gridpost_ops::failure::Misuse;

/// Clients with the AWS credentials that this machine has, or at the emulator that `AWS_ENDPOINT_URL`
/// names, which takes any.
#[cfg(feature = "aws")]
pub(in super::super) async fn clients() -> anyhow::Result<Resources> {
    use std::{env, sync::Arc};

    use aws_credential_types::Credentials;
    use aws_credential_types::provider::{ProvideCredentials, SharedCredentialsProvider};
    use gridpost_aws::{Clients, resources::AwsResources};

    use gridpost_ops::{
        failure::Misuse,
        identity::{self, Identity},
    };

    const NO_REGION: &str = "--allow-aws: no AWS region: set AWS_REGION, or a profile with one";
    let endpoint = env::var("AWS_ENDPOINT_URL").ok();
    let region = identity::region(None).await?;
    let region = region.ok_or_else(|| Misuse(NO_REGION.to_owned()))?;
    let identity = Identity::new(None, &region);
    let credentials = match (identity.provide_credentials().await, &endpoint) {
        (Ok(_), _) => SharedCredentialsProvider::new(identity),
        (Err(_), Some(_)) => {
            let any = Credentials::new("test", "test", None, None, "emulator");
            SharedCredentialsProvider::new(any)
        }
        (Err(error), None) => {
            let why = gridpost_ops::failure::chain(&error.into());
            return Err(Misuse(format!(
                "--allow-aws: no AWS credentials: {why}; `aws configure` or AWS_PROFILE gives some, \
                 AWS_ENDPOINT_URL names an emulator"
            ))
            .into());
        }
    };
    let clients = Clients::of(credentials, region, endpoint);
    Ok(Resources(Arc::new(AwsResources::new(clients.config()))))
}

/// Fails in a program without clients of AWS's services, and says how to build one that has them.
#[cfg(not(feature = "aws"))]
pub(in super::super) async fn clients() -> anyhow::Result<Resources> {
    let how = "--allow-aws: this program is built without clients of AWS's services; `cargo run -p gridpost-cli \
        --features aws -- dev --allow-aws` builds and runs one with them";
    Err(Misuse(how.to_owned()).into())
}
