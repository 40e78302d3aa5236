//! Signs requests with AWS identities, and gets identities from the Security Token Service. Without an AWS
//! SDK, because a client of each service would make every function larger.

pub mod services;
pub mod sign;
mod signer;
mod sts;

pub use aws_credential_types::{
    Credentials,
    provider::{ProvideCredentials, SharedCredentialsProvider},
};
pub use services::{MakeClient, Services};
pub use signer::Signer;
