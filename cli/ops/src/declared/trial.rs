//! Finds the problems of a refused topic and of its event subscriptions, as far as they show
//! without it.

use gridpost_api::subscription;
use gridpost_api::topic;
use gridpost_core::endpoint::Allowed;
use gridpost_core::endpoint::arn::AllowedResources;
use gridpost_core::endpoint::identities::Identities;
use gridpost_core::endpoint::secrets::{ClientSecrets, EntraClient};
use gridpost_core::time::Timestamp;
use gridpost_core::topic::{Changes, Topic as Stored};
use uuid::Uuid;

use super::{Topic, path_of};

pub(super) fn of_document(declared: &Topic) -> Vec<String> {
    let problems = topic::read(&declared.document).err().unwrap_or_default();
    problems.iter().map(|problem| format!("topics.{}: {problem}", declared.name)).collect()
}

/// A topic with these settings that is stored nowhere.
pub fn unsaved(name: &str, settings: topic::Settings) -> Stored {
    Stored {
        name: name.to_owned(),
        kind: settings.kind,
        input_schema: settings.input_schema,
        input_schema_mapping: settings.input_schema_mapping,
        disable_local_auth: settings.disable_local_auth,
        delivery_profile: settings.delivery_profile,
        idempotency: settings.idempotency,
        created_at: Timestamp::from_millis(0),
        etag: Uuid::nil(),
        revision: 0,
        changes: Changes::default(),
    }
}

/// Every problem of the topic's event subscriptions, by their paths.
pub(super) fn problems(declared: &Topic) -> Vec<String> {
    let stored = unsaved(&declared.name, topic::read_partly(&declared.document));
    let allowed = everything();
    let context = subscription::Context {
        topic: &stored,
        existing: None,
        now: Timestamp::from_millis(0),
        allowed: &allowed,
    };
    let each = declared.subscriptions.iter().flat_map(|(name, document)| {
        let path = path_of(declared, name);
        let name = subscription::check_name(name).err();
        let read = subscription::read(document, &context).err();
        let listed: Vec<_> = read.iter().flat_map(|all| all.iter().cloned()).collect();
        name.into_iter().chain(listed).map(move |problem| format!("{path}: {problem}"))
    });
    each.collect()
}

pub(super) fn everything() -> Allowed {
    let patterns = "*".parse().unwrap_or_default();
    Allowed {
        networks: "0.0.0.0/0,::/0".parse().unwrap_or_default(),
        ports: "1-65535".parse().unwrap_or_default(),
        resources: AllowedResources { region: String::new(), patterns },
        secrets: any_secret(),
        identities: any_identity(),
    }
}

fn any_identity() -> Identities {
    let any = || "*".to_owned();
    let all = || [(any(), vec![any()])].into();
    Identities { own: vec![any()], roles: all(), audiences: all() }
}

fn any_secret() -> ClientSecrets {
    let any = || "*".to_owned();
    ClientSecrets {
        hosts: [(any(), vec![any()])].into(),
        entra: Some(EntraClient { client_id: any(), secret: any() }),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_event_subscriptions_of_a_refused_topic_are_of_its_kind() {
        let policy = json!({"maxDeliveryCount": 3, "eventTimeToLive": "PT1H"});
        let destination = json!({"endpointType": "WebHook",
            "properties": {"endpointUrl": "https://e.example/hook"}});
        let document = json!({"properties": {"destination": destination, "retryPolicy": policy}});
        for (kind, count) in [("namespace", 0), ("custom", 2)] {
            let declared = Topic {
                name: "orders".to_owned(),
                document: json!({"kind": kind, "properties": {"wrong": 1}}),
                subscriptions: serde_json::Map::from_iter([(
                    "billing".to_owned(),
                    document.clone(),
                )]),
            };
            assert_eq!(of_document(&declared).len(), 1, "{kind}");
            assert_eq!(problems(&declared).len(), count, "{kind}: {:?}", problems(&declared));
        }
    }
}
