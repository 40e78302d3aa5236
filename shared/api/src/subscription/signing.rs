//! `properties.signing`, and the documents of signing secrets.

use std::time::Duration;

use gridpost_core::{secret::Secret, subscription::signing};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::{
    document::{Problems, read_whole},
    schema::Time,
};

/// How requests are signed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Signing {
    #[schema(required = true)]
    pub scheme: Option<SigningScheme>,
    /// Until when requests are signed by the secret before, too.
    #[schema(read_only)]
    pub previous_secret_valid_until: Option<Time>,
}

/// A scheme of signatures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub enum SigningScheme {
    StandardWebhooks,
}

impl Signing {
    pub(super) fn of(signing: &signing::Signing) -> Self {
        let previous = signing.previous.as_ref();
        Self {
            scheme: Some(SigningScheme::StandardWebhooks),
            previous_secret_valid_until: previous.map(|previous| previous.valid_until.into()),
        }
    }
}

/// The secrets that sign requests.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SigningSecrets {
    #[schema(value_type = String, pattern = "^whsec_")]
    pub secret: Secret,
    #[schema(value_type = Option<String>, pattern = "^whsec_")]
    pub previous_secret: Option<Secret>,
    pub previous_secret_valid_until: Option<Time>,
}

impl From<&signing::Signing> for SigningSecrets {
    fn from(signing: &signing::Signing) -> Self {
        let previous = signing.previous.as_ref();
        Self {
            secret: signing.secret.clone(),
            previous_secret: previous.map(|previous| previous.secret.clone()),
            previous_secret_valid_until: previous.map(|previous| previous.valid_until.into()),
        }
    }
}

/// For how long the replaced secret stays valid.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RotateInput {
    #[schema(minimum = 0, maximum = 604_800, default = 86_400)]
    pub overlap_in_seconds: Option<u32>,
}

/// Reads the request of `rotateSigningSecret`: for how long the replaced secret stays valid.
pub fn read_rotation(document: &Value) -> Result<Duration, Problems> {
    let RotateInput { overlap_in_seconds } = read_whole(document)?;
    let overlap = overlap_in_seconds.map(|seconds| Duration::from_secs(seconds.into()));
    Ok(overlap.unwrap_or(signing::OVERLAP_DEFAULT))
}
