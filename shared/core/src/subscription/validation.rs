//! An endpoint's later consent, by the validation URL.

use std::time::Duration;

use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use serde::{Deserialize, Serialize};
use subtle::ConstantTimeEq;

use super::{EventSubscription, ProvisioningState};
use crate::{secret::Secret, time::Timestamp};

/// How long a validation URL is valid. Source: Event Grid, "Endpoint validation".
pub const VALID_FOR: Duration = Duration::from_secs(10 * 60);
const ASK_AGAIN: Duration = Duration::from_secs(60);

/// How often they check when the time for consent is over and only a change can help.
const ASK_SELDOM: Duration = Duration::from_secs(10 * 60);

/// The validation URL that was given to the endpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Validation {
    /// The secret part of the URL.
    pub token: Secret,
    pub until: Timestamp,
    /// The reason why the endpoint's answer was not consent, without secrets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl Validation {
    /// Makes a token of random bytes.
    pub fn token_of(random: [u8; 32]) -> Secret {
        Secret::new(BASE64_URL_SAFE_NO_PAD.encode(random))
    }

    /// Returns whether a text could be a token, without reading a store.
    pub fn is_token(given: &str) -> bool {
        BASE64_URL_SAFE_NO_PAD.decode(given).is_ok_and(|random| random.len() == 32)
    }

    /// Compares a token in constant time.
    pub fn has_token(&self, given: &str) -> bool {
        bool::from(self.token.expose().as_bytes().ct_eq(given.as_bytes()))
    }
}

impl EventSubscription {
    /// Returns whether events flow. A validation that was not completed in time has failed.
    pub fn state(&self, now: Timestamp) -> ProvisioningState {
        let is_open = self.validation.as_ref().is_some_and(|validation| now < validation.until);
        match self.provisioning_state {
            ProvisioningState::AwaitingManualAction if !is_open => ProvisioningState::Failed,
            state => state,
        }
    }

    /// Returns until when deliveries wait for the endpoint's consent, if they do.
    pub fn waits_for_consent(&self, now: Timestamp) -> Option<Timestamp> {
        match self.state(now) {
            ProvisioningState::Succeeded => None,
            ProvisioningState::AwaitingManualAction => Some(now + ASK_AGAIN),
            ProvisioningState::Failed => Some(now + ASK_SELDOM),
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn tokens_have_one_form() {
        let token = super::Validation::token_of([0xff; 32]);
        let token = token.expose();
        let longer = format!("{token}a");
        let table = [
            (token, true),
            ("AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", true),
            (&token[1..], false),
            (&longer, false),
            ("//////////////////////////////////////////8", false),
            ("abc", false),
            ("", false),
            ("é", false),
        ];
        for (text, want) in table {
            assert_eq!(super::Validation::is_token(text), want, "{text}");
        }
    }

    use super::*;
    use crate::fixtures::subscription;

    #[test]
    fn states_by_time() {
        use ProvisioningState::{AwaitingManualAction, Failed, Succeeded};
        let until = Timestamp::default() + VALID_FOR;
        let validation = || Some(Validation { token: Secret::new("t"), until, reason: None });
        let table = [
            ("validated", Succeeded, None, 0, Succeeded, None),
            ("validated by the URL", Succeeded, validation(), 700, Succeeded, None),
            ("waiting", AwaitingManualAction, validation(), 599, AwaitingManualAction, Some(659)),
            ("too late", AwaitingManualAction, validation(), 600, Failed, Some(1_200)),
            ("without a URL", AwaitingManualAction, None, 0, Failed, Some(600)),
        ];
        for (row, stored, validation, at_s, state, waits_until_s) in table {
            let one =
                EventSubscription { provisioning_state: stored, validation, ..subscription("s-1") };
            let at = |seconds| Timestamp::default() + Duration::from_secs(seconds);
            assert_eq!(one.state(at(at_s)), state, "{row}");
            assert_eq!(one.waits_for_consent(at(at_s)), waits_until_s.map(at), "{row}");
        }
    }

    #[test]
    fn a_token_is_compared_whole() {
        let (token, until) = (Secret::new("abc"), Timestamp::default());
        let validation = Validation { token, until, reason: None };
        for (given, want) in
            [("abc", true), ("ab", false), ("abcd", false), ("", false), ("ABC", false)]
        {
            assert_eq!(validation.has_token(given), want, "{given}");
        }
    }
}
