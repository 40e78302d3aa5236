//! A Terraform root for a deployment that has what was exported.
//!
//! Terraform has no resource for a topic. So the root deploys the module, and runs `gridpost
//! apply` with the exported file whenever that changes; secrets stay in the environment, out of
//! Terraform's state.

use std::{collections::BTreeSet, net::IpAddr};

use gridpost_api::settings::Document;
use gridpost_core::name;
use url::{Host, Url};

use super::export::Export;

/// The root, with placeholders for what the export determines.
const TEMPLATE: &str = include_str!("root.tf");

/// The topic of events about dead letters, as `gridpost dev` has it.
const DEAD_LETTER_TOPIC: &str = "dead-letters";

/// A root, and what is to be known of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Root {
    pub text: String,
    /// Things to change or decide before it is applied.
    pub notes: Vec<String>,
}

/// Says what the deployment must name so that an event subscription may prove an identity of AWS.
fn identity(settings: &Document) -> Option<String> {
    let at = |member: &str| settings.text(&format!("destination.authentication.{member}"));
    let audience = at("clientAssertion.audience");
    match (at("type").as_str(), at("roleArn").as_str()) {
        ("AwsSigV4", "") => Some(
            "its requests are signed: name the endpoint's host in the variable \
             endpoint_signed_hosts, with what is invoked there"
                .to_owned(),
        ),
        ("AwsSigV4", role) => Some(format!(
            "its requests are signed with {role}: name it in the variable endpoint_roles, with the \
             endpoint's host, and let it trust dispatch and manage"
        )),
        ("AwsWebIdentity", _) => Some(format!(
            "its requests carry AWS's tokens for {}: name it in the variable endpoint_audiences, with \
             the endpoint's host",
            at("audience")
        )),
        _ if !settings.has("destination.authentication.clientAssertion") => None,
        _ => Some(format!(
            "AWS's tokens for {} prove its client: name that in the variable endpoint_audiences, with \
             the hosts of the token URL and of the endpoint",
            if audience.is_empty() { "api://AzureADTokenExchange" } else { &audience }
        )),
    }
}

impl Root {
    /// Writes the root for an export, with the module at that source.
    pub fn of(export: &Export, module: &str) -> Self {
        let mut notes = Vec::new();
        let mut networks = BTreeSet::new();
        for (topic, name, settings) in export.subscriptions() {
            match needs(&settings.text("destination.endpointUrl")) {
                Needs::Nothing => {}
                Needs::Network(network) => {
                    networks.insert(network);
                }
                Needs::Change(why) => notes.push(format!("{topic}/{name}: {why}")),
            }
            notes.extend(identity(&settings).map(|note| format!("{topic}/{name}: {note}")));
            let by = |member: &str| settings.has(&format!("destination.authentication.{member}"));
            if settings.has("destination.azureActiveDirectoryTenantId") {
                notes.push(format!("{topic}/{name}: set the variable endpoint_entra_client"));
            }
            let references = [
                ("clientSecretReference", "client secret", "its token URL"),
                ("privateKeyReference", "private key", "its token URL"),
                ("certificateReference", "client certificate", "its endpoint"),
            ];
            for (_, what, of) in references.iter().filter(|(it, ..)| by(it)) {
                notes.push(format!(
                    "{topic}/{name}: its {what} is by reference: name it in the variable \
                     endpoint_secrets, with the host of {of}; a reference to this machine's \
                     environment must become an ARN"
                ));
            }
        }
        let buckets = export.texts("deadLetterDestination.bucketName");
        for bucket in &buckets {
            notes.push(format!(
                "dead letters of bucket {bucket} go to the deployment's own, unless the variable \
                 dead_letter_buckets names another one"
            ));
        }
        let resources = export.texts("destination.resourceId");
        let mut topics = export.document.topics.keys();
        let letters = topics.find(|topic| name::is_same(topic, DEAD_LETTER_TOPIC));
        let topic = letters.map_or_else(|| "null".to_owned(), |topic| quoted(topic));
        let text = TEMPLATE
            .replace("\"@module@\"", &quoted(module))
            .replace("[\"@networks@\"]", &list(&networks))
            .replace("[\"@buckets@\"]", &list(&buckets))
            .replace("[\"@resources@\"]", &list(&resources))
            .replace("\"@dead_letter_topic@\"", &topic);
        Self { text, notes }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Needs {
    Nothing,
    Network(String),
    Change(String),
}

/// Says what a deployment needs to reach an endpoint: nothing for one on the public internet by https.
fn needs(url: &str) -> Needs {
    let Ok(parsed) = Url::parse(url) else { return Needs::Nothing };
    let base = url.split('?').next().unwrap_or(url);
    let here = || Needs::Change(format!("AWS can't reach {base}, which is on this machine"));
    let address: IpAddr = match parsed.host() {
        Some(Host::Domain("localhost")) => return here(),
        Some(Host::Domain(_)) if parsed.scheme() == "http" => {
            return Needs::Change(format!(
                "{base} is plain http, which goes only to networks that the variable \
                 endpoint_allowed_networks names"
            ));
        }
        Some(Host::Ipv4(address)) => address.into(),
        Some(Host::Ipv6(address)) => address.into(),
        Some(Host::Domain(_)) | None => return Needs::Nothing,
    };
    match address {
        _ if address.is_loopback() => here(),
        IpAddr::V4(v4) if v4.is_private() || parsed.scheme() == "http" => {
            Needs::Network(format!("{v4}/32"))
        }
        IpAddr::V6(v6) if v6.is_unique_local() || parsed.scheme() == "http" => {
            Needs::Network(format!("{v6}/128"))
        }
        _ => Needs::Nothing,
    }
}

fn list(texts: &BTreeSet<String>) -> String {
    let texts: Vec<_> = texts.iter().map(|text| quoted(text)).collect();
    format!("[{}]", texts.join(", "))
}

fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    let mut rest = text.chars().peekable();
    while let Some(one) = rest.next() {
        match one {
            '"' | '\\' => quoted.extend(['\\', one]),
            '$' | '%' if rest.peek() == Some(&'{') => quoted.extend([one, one]),
            _ => quoted.push(one),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use serde_json::Value;

    use super::*;

    fn example() -> std::path::PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../infra/examples/exported")
    }

    #[test]
    fn the_example_is_what_an_export_writes() {
        let read = |name: &str| fs::read_to_string(example().join(name)).expect("a file");
        let document = serde_json::from_str(&read("topics.json")).expect("a file");
        let root = Root::of(&Export { document, ..Export::default() }, "../..");
        assert_eq!(root.text, read("main.tf"));
        assert_eq!(root.notes.len(), 2, "{:?}", root.notes);
        assert!(root.notes[0].starts_with("orders/local: AWS can't reach"), "{:?}", root.notes);
        assert!(root.notes[1].contains("of bucket gridpost go"), "{:?}", root.notes);
    }

    #[test]
    fn nothing_is_left_of_the_template() {
        let root = Root::of(&Export::default(), "m\"${x}");
        assert!(!root.text.contains('@'), "{}", root.text);
        assert!(root.text.contains("source = \"m\\\"$${x}\""), "{}", root.text);
        assert!(root.text.contains("dead_letter_topic         = null"), "{}", root.text);
    }

    #[test]
    fn identities_that_a_deployment_must_name_are_told() {
        let by = |kind: &str, properties: Value| {
            let authentication = serde_json::json!({"type": kind, "properties": properties});
            let destination = serde_json::json!({"properties": {"authentication": authentication}});
            let properties = serde_json::json!({ "destination": destination });
            identity(&Document::of(&serde_json::json!({ "properties": properties })))
        };
        let assertion = serde_json::json!({"type": "AwsWebIdentity", "properties": {}});
        let table = [
            (by("AwsSigV4", serde_json::json!({"roleArn": null})), Some("endpoint_signed_hosts")),
            (by("AwsSigV4", serde_json::json!({"roleArn": "arn:r"})), Some("with arn:r: name it")),
            (
                by("AwsWebIdentity", serde_json::json!({"audience": "a"})),
                Some("tokens for a: name"),
            ),
            (
                by("EntraId", serde_json::json!({"clientAssertion": assertion})),
                Some("tokens for api://AzureADTokenExchange prove"),
            ),
            (by("EntraId", serde_json::json!({"clientSecret": null})), None),
        ];
        for (told, want) in table {
            match want {
                Some(want) => {
                    assert!(told.as_deref().is_some_and(|it| it.contains(want)), "{told:?}")
                }
                None => assert_eq!(told, None),
            }
        }
    }

    #[test]
    fn endpoints_that_aws_does_not_reach_are_told() {
        let network = |text: &str| Needs::Network(text.to_owned());
        for (url, want) in [
            ("https://example.com/hook?${SECRET_A}", Some(Needs::Nothing)),
            ("https://203.0.113.7/hook", Some(Needs::Nothing)),
            ("https://10.1.2.3/hook", Some(network("10.1.2.3/32"))),
            ("http://203.0.113.7/hook", Some(network("203.0.113.7/32"))),
            ("https://[fd00::1]/hook", Some(network("fd00::1/128"))),
            ("http://example.com/hook", None),
            ("http://localhost:3000/hook", None),
            ("https://127.0.0.1/hook", None),
            ("https://[::1]/hook", None),
        ] {
            let got = needs(url);
            match want {
                Some(want) => assert_eq!(got, want, "{url}"),
                None => assert!(matches!(got, Needs::Change(_)), "{url}: {got:?}"),
            }
        }
    }
}
