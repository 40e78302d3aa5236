//! Takes the secrets out of an event subscription, so that they are stored apart from it: only who
//! sends requests to endpoints, or manages event subscriptions, may read them.

use std::{collections::BTreeMap, mem, sync::Arc};

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::{
    Authentication, Endpoint, EventSubscription,
    attributes::AttributeValue,
    authentication::{Client, ClientCredentials, ClientSecret, certificate::Material},
};
use crate::secret::Secret;

/// Takes the place of a secret that is stored apart. Neither a header nor a URL can have it.
const APART: &str = "…";

/// The secrets of an event subscription.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Secrets {
    /// The event subscription's: a later one of that name has others.
    uid: Uuid,
    by_place: BTreeMap<String, Secret>,
}

impl EventSubscription {
    /// Splits it into what all functions may read, and its secrets if it has some.
    pub fn split(&self) -> (Self, Option<Secrets>) {
        let (mut rest, mut by_place) = (self.clone(), BTreeMap::new());
        rest.visit_secrets(|place, secret| {
            by_place.insert(place, mem::replace(secret, Secret::new(APART)));
        });
        let secrets = (!by_place.is_empty()).then_some(Secrets { uid: self.uid, by_place });
        (rest, secrets)
    }

    /// Returns whether it has secrets that are stored apart.
    pub fn lacks_secrets(&self) -> bool {
        let mut lacks = false;
        self.clone().visit_secrets(|_, secret| lacks |= secret.expose() == APART);
        lacks
    }

    /// Puts the secrets back that [`Self::split`] took. Returns `None` if one is missing, or if they
    /// are another event subscription's.
    pub fn joined(&self, secrets: &Secrets) -> Option<Self> {
        let (mut whole, mut fits) = (self.clone(), secrets.uid == self.uid);
        whole.visit_secrets(|place, secret| match secrets.by_place.get(&place) {
            Some(found) => *secret = found.clone(),
            None => fits = false,
        });
        fits.then_some(whole)
    }

    /// Visits each secret with the name of its place, which is stored. Of the endpoint's URL, the query
    /// is the secret.
    fn visit_secrets(&mut self, mut visit: impl FnMut(String, &mut Secret)) {
        if let Endpoint::WebHook { url } = &mut self.endpoint
            && let Some((base, query)) = url.expose().split_once('?')
        {
            let mut query = Secret::new(query);
            let base = base.to_owned();
            visit("query".to_owned(), &mut query);
            *url = Secret::new(format!("{base}?{}", query.expose()));
        }
        for attribute in &mut self.delivery_attributes {
            if let AttributeValue::Secret { value } = &mut attribute.value {
                visit(format!("attribute {}", attribute.name), value);
            }
        }
        if let Some(signing) = &mut self.signing {
            visit("signing".to_owned(), &mut signing.secret);
            if let Some(previous) = &mut signing.previous {
                visit("previous signing".to_owned(), &mut previous.secret);
            }
        }
        if let Some(validation) = &mut self.validation {
            visit("validation".to_owned(), &mut validation.token);
        }
        match self.authentication.as_mut().map(Arc::make_mut) {
            Some(Authentication::ClientCredentials(ClientCredentials {
                client: Client::Own { secret: ClientSecret::Inline { value }, .. },
                ..
            })) => visit("client".to_owned(), value),
            Some(Authentication::ClientCertificate(certificate)) => {
                if let Material::Inline { private_key, .. } = &mut certificate.material {
                    visit("private key".to_owned(), private_key);
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        fixtures::subscription,
        subscription::{
            DeliveryAttribute, Signing, Validation,
            authentication::{Grant, certificate::ClientCertificate},
            signing::Previous,
        },
        time::Timestamp,
    };

    fn authentications() -> [Authentication; 2] {
        let secret = ClientSecret::Inline { value: Secret::new("hush-client") };
        let grant = Grant::EntraId { tenant: "t".to_owned(), application: "a".to_owned() };
        let client = Client::Own { id: "c".to_owned(), secret };
        let material = Material::Inline {
            certificate: "public".to_owned(),
            private_key: Secret::new("hush-key"),
        };
        [
            Authentication::ClientCredentials(ClientCredentials { grant, client }),
            Authentication::ClientCertificate(ClientCertificate { material, trusted: None }),
        ]
    }

    /// With every secret that an event subscription may have.
    fn with_secrets(authentication: Authentication) -> EventSubscription {
        let secret = |text: &str| Secret::new(format!("hush-{text}"));
        let attribute = |name: &str, value| DeliveryAttribute { name: name.to_owned(), value };
        let valid_until = Timestamp::default();
        let previous = Some(Previous { secret: secret("previous"), valid_until });
        EventSubscription {
            endpoint: Endpoint::WebHook {
                url: Secret::new("https://e.example/path?code=hush-1?&b="),
            },
            delivery_attributes: vec![
                attribute("Authorization", AttributeValue::Secret { value: secret("header") }),
                attribute("X-Shown", AttributeValue::Static { value: "shown".to_owned() }),
                attribute("X-Key", AttributeValue::Secret { value: secret("other") }),
            ],
            signing: Some(Signing { secret: secret("signing"), previous }),
            validation: Some(Validation {
                token: secret("token"),
                until: valid_until,
                reason: None,
            }),
            authentication: Some(Arc::new(authentication)),
            ..subscription("s")
        }
    }

    #[test]
    fn every_secret_goes_apart_and_comes_back() {
        for authentication in authentications() {
            let whole = with_secrets(authentication);
            let (rest, secrets) = whole.split();
            let text = serde_json::to_string(&rest).expect("JSON");
            assert!(!text.contains("hush"), "{text}");
            assert!(text.contains("https://e.example/path?…") && text.contains("shown"), "{text}");
            // A member that is a secret prints as one, so none is forgotten here.
            let secrets = secrets.expect("it has some");
            let printed = format!("{rest:?}").matches("Secret(").count();
            assert_eq!(secrets.by_place.len(), printed, "{rest:?}");
            assert!(rest.lacks_secrets() && !whole.lacks_secrets());
            let stored = serde_json::to_string(&secrets).expect("JSON");
            let read = serde_json::from_str(&stored).expect("secrets");
            assert_eq!(rest.joined(&read), Some(whole));
        }
    }

    #[test]
    fn without_secrets_it_stays_as_it_is() {
        let url = Secret::new("https://e.example/path");
        let plain = EventSubscription { endpoint: Endpoint::WebHook { url }, ..subscription("s") };
        assert_eq!(plain.split(), (plain.clone(), None));
        assert!(!plain.lacks_secrets());
    }

    #[test]
    fn secrets_that_do_not_fit_are_not_put_back() {
        let [authentication, other] = authentications();
        let (rest, secrets) = with_secrets(authentication).split();
        let secrets = secrets.expect("it has some");
        let later = EventSubscription { uid: Uuid::from_u128(77), ..rest.clone() };
        assert_eq!(later.joined(&secrets), None, "of an earlier one of that name");
        let (changed, _) = with_secrets(other).split();
        assert_eq!(changed.joined(&secrets), None, "one is missing");
    }
}
