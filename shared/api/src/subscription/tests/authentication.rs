//! The authentication of endpoints in documents.

mod identities;

use gridpost_core::{
    endpoint::secrets::{ClientSecrets, EntraClient},
    subscription::authentication::{
        Authentication, Client, ClientCredentials, ClientSecret, Grant, SentBy,
        certificate::{ClientCertificate, Material},
    },
};

use super::*;

const PATH: &str = "properties.destination.properties";

/// Of which one secret may go to `id.example`, and Entra ID's to it.
fn allowed() -> Allowed {
    let hosts = [("arn:named".to_owned(), vec!["id.example".to_owned()])].into();
    let entra = EntraClient { client_id: "deployment".to_owned(), secret: "arn:e".to_owned() };
    let identities = identities::NAMED.parse().expect("identities");
    let secrets = ClientSecrets { hosts, entra: Some(entra) };
    Allowed { secrets, identities, ..Allowed::default() }
}

fn put(document: &Value, existing: Option<&EventSubscription>) -> Result<Settings, Problems> {
    let (topic, allowed) = (topic(Kind::Custom), allowed());
    read(document, &Context { topic: &topic, existing, now: NOW, allowed: &allowed })
}

fn patch(document: &Value, existing: &EventSubscription) -> Result<Settings, Problems> {
    let (topic, allowed) = (topic(Kind::Custom), allowed());
    let context = Context { topic: &topic, existing: Some(existing), now: NOW, allowed: &allowed };
    read_patch(document, existing, &context)
}

/// A document with an authentication whose members are changed so.
fn oauth(changes: &Value) -> Value {
    let mut properties = json!({
        "tokenUrl": "https://id.example/token", "clientId": "c", "clientSecret": "hush",
    });
    crate::document::merge(&mut properties, changes);
    let authentication = json!({"type": "OAuth2ClientCredentials", "properties": properties});
    webhook_with("authentication", authentication)
}

fn entra(changes: &Value) -> Value {
    let mut properties = json!({
        "tenantId": "contoso.example", "applicationIdOrUri": "api://orders", "clientId": "c",
        "clientSecret": "hush",
    });
    crate::document::merge(&mut properties, changes);
    webhook_with("authentication", json!({"type": "EntraId", "properties": properties}))
}

fn authentication(read: Result<Settings, Problems>) -> Authentication {
    let read = read.map_err(|problems| problems.to_string()).expect("valid");
    (*read.authentication.expect("one")).clone()
}

fn credentials(authentication: &Authentication) -> &ClientCredentials {
    match authentication {
        Authentication::ClientCredentials(by) => by,
        other => panic!("{other:?}"),
    }
}

fn inline(value: &str) -> ClientSecret {
    ClientSecret::Inline { value: Secret::new(value) }
}

/// The secret of a changed authentication, or the path of its one problem.
fn secret(changed: Result<Settings, Problems>) -> Result<ClientSecret, String> {
    match changed {
        Ok(settings) => match &credentials(&settings.authentication.expect("one")).client {
            Client::Own { secret, .. } => Ok(secret.clone()),
            Client::Deployment => panic!("the deployment's"),
        },
        Err(problems) => {
            let paths: Vec<_> = problems.iter().map(|problem| problem.path.clone()).collect();
            Err(paths.join(" "))
        }
    }
}

#[test]
fn authentications_are_read() {
    let own = |secret| Client::Own { id: "c".to_owned(), secret };
    let grant = |scope: Option<&str>, audience: Option<&str>, sent_by| Grant::OAuth2 {
        token_url: "https://id.example/token".to_owned(),
        scope: scope.map(str::to_owned),
        audience: audience.map(str::to_owned),
        sent_by,
    };
    let named = ClientSecret::Reference { name: "arn:named".to_owned() };
    let of_entra = || Grant::EntraId {
        tenant: "contoso.example".to_owned(),
        application: "api://orders".to_owned(),
    };
    let whole = json!({"scope": "a b", "audience": "x", "clientAuthentication": "Basic"});
    let by_name = json!({"clientSecret": null, "clientSecretReference": "arn:named"});
    let azure = webhook(json!({"endpointUrl": "https://e.example/",
        "azureActiveDirectoryTenantId": "contoso.example",
        "azureActiveDirectoryApplicationIdOrUri": "api://orders"}));
    let table = [
        (oauth(&json!({})), grant(None, None, SentBy::Post), own(inline("hush"))),
        (oauth(&whole), grant(Some("a b"), Some("x"), SentBy::Basic), own(inline("hush"))),
        (oauth(&by_name), grant(None, None, SentBy::Post), own(named)),
        (entra(&json!({})), of_entra(), own(inline("hush"))),
        (azure, of_entra(), Client::Deployment),
    ];
    for (document, grant, client) in table {
        let read = put(&document, None);
        let want = Authentication::ClientCredentials(ClientCredentials { grant, client });
        assert_eq!(authentication(read.clone()), want, "{document}");
        // What a read shows has no secret, and can be written back.
        let existing = stored(read.expect("valid"));
        let shown = write(&existing, defaults(Kind::Custom).delivery_profile);
        assert!(!shown.to_string().contains("hush"), "{shown}");
        let again = put(&shown, Some(&existing));
        let wrong = again.as_ref().err().map(ToString::to_string);
        assert_eq!(
            again.ok().and_then(|it| it.authentication),
            existing.authentication,
            "{wrong:?}"
        );
    }
}

#[test]
fn authentications_are_refused() {
    use Code::*;
    let under = |name: &str| format!("authentication.properties.{name}");
    let of = |name: &str, value: Value| oauth(&json!({ name: value }));
    let long = "x".repeat(4_097);
    let both = json!({"clientSecretReference": "arn:named"});
    let unknown = json!({"clientSecret": null, "clientSecretReference": "arn:other"});
    let elsewhere = json!({"clientSecret": null, "clientSecretReference": "arn:named",
        "tokenUrl": "https://evil.example/token"});
    let tenant = |tenant: &str| entra(&json!({ "tenantId": tenant }));
    let twice = webhook(json!({"endpointUrl": "https://e.example/",
        "azureActiveDirectoryTenantId": "t", "azureActiveDirectoryApplicationIdOrUri": "a",
        "authentication": oauth(&json!({})).pointer("/properties/destination/properties/authentication")}));
    let header = json!([{"name": "AUTHORIZATION", "type": "Static",
        "properties": {"value": "hush", "isSecret": true}}]);
    let mut with_header = oauth(&json!({}));
    with_header["properties"]["destination"]["properties"]["deliveryAttributeMappings"] = header;
    let table = [
        (webhook_with("authentication", json!(5)), WrongType, "authentication".to_owned()),
        (
            webhook_with("authentication", json!({"type": "Kerberos", "properties": {}})),
            InvalidValue,
            "authentication.type".to_owned(),
        ),
        (of("tokenUrl", json!("http://id.example/token")), InvalidValue, under("tokenUrl")),
        (of("tokenUrl", json!("https://127.0.0.1/token")), InvalidValue, under("tokenUrl")),
        (of("tokenUrl", json!("https://id.example/token?a=b")), InvalidValue, under("tokenUrl")),
        (of("tokenUrl", Value::Null), MissingMember, under("tokenUrl")),
        (of("clientId", Value::Null), MissingMember, under("clientId")),
        (of("clientId", json!("a\nb")), InvalidValue, under("clientId")),
        (of("scope", json!("")), OutOfRange, under("scope")),
        (of("clientSecret", Value::Null), MissingMember, under("clientSecret")),
        (of("clientSecret", json!("Hidden")), MissingMember, under("clientSecret")),
        (of("clientSecret", json!("")), OutOfRange, under("clientSecret")),
        (of("clientSecret", json!(long)), OutOfRange, under("clientSecret")),
        (of("clientSecret", json!(5)), WrongType, under("clientSecret")),
        (of("clientAuthentication", json!("Header")), InvalidValue, under("clientAuthentication")),
        (of("secret", json!("hush")), UnknownMember, under("secret")),
        (oauth(&both), InvalidValue, under("clientSecretReference")),
        (oauth(&unknown), InvalidValue, under("clientSecretReference")),
        (oauth(&elsewhere), InvalidValue, under("clientSecretReference")),
        (tenant("../common"), InvalidValue, under("tenantId")),
        (tenant(".."), InvalidValue, under("tenantId")),
        (tenant("a/b"), InvalidValue, under("tenantId")),
        (
            webhook_with("azureActiveDirectoryTenantId", json!("t")),
            MissingMember,
            "azureActiveDirectoryApplicationIdOrUri".to_owned(),
        ),
        (twice, InvalidValue, "authentication".to_owned()),
        (with_header, InvalidValue, "deliveryAttributeMappings".to_owned()),
    ];
    for (document, code, path) in table {
        let problems = put(&document, None).expect_err(&document.to_string());
        let listed: Vec<_> = problems.iter().map(|one| (one.code, one.path.clone())).collect();
        assert_eq!(listed, [(code, format!("{PATH}.{path}"))], "{document}");
        assert!(!format!("{:?}", Error::from(&problems)).contains("hush"), "{problems}");
    }
    // Without a client of the deployment's own, Event Grid's members ask for what is not there.
    let document = webhook_with("azureActiveDirectoryTenantId", json!("t"));
    let problems = read_for(Kind::Custom, &document).expect_err("nothing is configured");
    assert_eq!(problems.iter().map(|one| one.code).collect::<Vec<_>>(), [NotSupportedYet]);
}

#[test]
fn a_client_secret_follows_neither_endpoint_nor_token_url_to_another_party() {
    let existing = stored(put(&oauth(&json!({})), None).expect("valid"));
    let left_out = |changes: Value| {
        let mut all = json!({"clientSecret": null});
        crate::document::merge(&mut all, &changes);
        oauth(&all)
    };
    let refused = Err(format!("{PATH}.authentication.properties.clientSecret"));
    let table = [
        (json!({}), true),
        (json!({"clientId": "d", "scope": "s", "clientAuthentication": "Basic"}), true),
        (json!({"tokenUrl": "https://id.example/other"}), false),
        (json!({"tokenUrl": "https://id.example:8443/token"}), false),
        (json!({"tokenUrl": "https://evil.example/token"}), false),
    ];
    for (changes, is_kept) in table {
        let want = if is_kept { Ok(inline("hush")) } else { refused.clone() };
        assert_eq!(secret(put(&left_out(changes.clone()), Some(&existing))), want, "PUT {changes}");
        let flat =
            json!({"destination": {"properties": {"authentication": {"properties": changes}}}});
        let want = want.map_err(|path| path.replace("properties.destination", "destination"));
        assert_eq!(secret(patch(&flat, &existing)), want, "PATCH {changes}");
    }
    for (url, is_kept) in [
        ("https://example.com/elsewhere", true),
        ("https://evil.example/", false),
        ("https://example.com:8443/", false),
    ] {
        let want = if is_kept { Ok(inline("hush")) } else { refused.clone() };
        let mut document = left_out(json!({}));
        document["properties"]["destination"]["properties"]["endpointUrl"] = json!(url);
        assert_eq!(secret(put(&document, Some(&existing))), want, "PUT {url}");
        let flat = json!({"destination": {"properties": {"endpointUrl": url}}});
        let want = want.map_err(|path| path.replace("properties.destination", "destination"));
        assert_eq!(secret(patch(&flat, &existing)), want, "PATCH {url}");
    }
    // Given anew it goes where it is said to.
    let moved = oauth(&json!({"tokenUrl": "https://evil.example/token", "clientSecret": "new"}));
    assert_eq!(secret(put(&moved, Some(&existing))), Ok(inline("new")));
}

#[test]
fn a_patch_changes_or_ends_an_authentication() {
    let existing = stored(put(&oauth(&json!({"scope": "s"})), None).expect("valid"));
    let flat = |given: Value| json!({"destination": {"properties": {"authentication": given}}});
    let ended = patch(&flat(Value::Null), &existing).expect("valid");
    assert_eq!(ended.authentication, None);
    let labels = patch(&json!({"labels": ["a"]}), &existing).expect("valid");
    assert_eq!(labels.authentication, existing.authentication);
    // Another type has other members.
    let given = entra(&json!({}));
    let given = given.pointer("/properties/destination/properties/authentication").cloned();
    let other = authentication(patch(&flat(given.expect("one")), &existing));
    assert!(matches!(credentials(&other).grant, Grant::EntraId { .. }), "{other:?}");
    let rotated = flat(json!({"properties": {"clientSecret": "new"}}));
    assert_eq!(secret(patch(&rotated, &existing)), Ok(inline("new")));
}

const CHAIN: &str = "-----BEGIN CERTIFICATE-----\nY2VydA==\n-----END CERTIFICATE-----\n";
const PRIVATE: &str = "-----BEGIN PRIVATE KEY-----\naHVzaA==\n-----END PRIVATE KEY-----\n";
const LOCKED: &str =
    "-----BEGIN ENCRYPTED PRIVATE KEY-----\naHVzaA==\n-----END ENCRYPTED PRIVATE KEY-----\n";

/// Without the words that only keys have here.
fn is_silent(said: &str) -> bool {
    !said.contains("hush") && !said.contains("aHVzaA")
}

fn shown_whole(changes: &Value) -> Value {
    let mut properties = json!({"certificate": CHAIN, "privateKey": PRIVATE});
    crate::document::merge(&mut properties, changes);
    let given = json!({"type": "ClientCertificate", "properties": properties});
    webhook_with("authentication", given)
}

fn signing(changes: &Value) -> Value {
    let mut all = json!({"clientSecret": null, "clientAuthentication": "PrivateKeyJwt",
        "privateKey": PRIVATE});
    crate::document::merge(&mut all, changes);
    oauth(&all)
}

/// A deployment that names a secret for the endpoint of these documents.
fn put_naming(
    document: &Value,
    existing: Option<&EventSubscription>,
) -> Result<Settings, Problems> {
    let mut allowed = allowed();
    allowed.secrets.hosts.insert("arn:own".to_owned(), vec!["example.com".to_owned()]);
    let topic = topic(Kind::Custom);
    read(document, &Context { topic: &topic, existing, now: NOW, allowed: &allowed })
}

#[test]
fn certificates_and_keys_are_read_and_never_shown() {
    let certificate = |material, trusted: Option<&str>| {
        let trusted = trusted.map(str::to_owned);
        Authentication::ClientCertificate(ClientCertificate { material, trusted })
    };
    let own =
        || Material::Inline { certificate: CHAIN.to_owned(), private_key: Secret::new(PRIVATE) };
    let named = || Material::Reference { name: "arn:own".to_owned() };
    let by_name =
        json!({"certificate": null, "privateKey": null, "certificateReference": "arn:own"});
    let client = |key_id: Option<&str>, audience: Option<&str>, secret| {
        let grant = Grant::OAuth2 {
            token_url: "https://id.example/token".to_owned(),
            scope: None,
            audience: None,
            sent_by: SentBy::PrivateKeyJwt {
                key_id: key_id.map(str::to_owned),
                audience: audience.map(str::to_owned),
            },
        };
        let client = Client::Own { id: "c".to_owned(), secret };
        Authentication::ClientCredentials(ClientCredentials { grant, client })
    };
    let reference = ClientSecret::Reference { name: "arn:named".to_owned() };
    let key_by_name = json!({"privateKey": null, "privateKeyReference": "arn:named"});
    let table = [
        (shown_whole(&json!({})), certificate(own(), None)),
        (shown_whole(&json!({"trustedCertificates": CHAIN})), certificate(own(), Some(CHAIN))),
        (shown_whole(&by_name), certificate(named(), None)),
        (signing(&json!({})), client(None, None, inline(PRIVATE))),
        (
            signing(&json!({"keyId": "k", "assertionAudience": "https://id.example/"})),
            client(Some("k"), Some("https://id.example/"), inline(PRIVATE)),
        ),
        (signing(&key_by_name), client(None, None, reference)),
    ];
    for (document, want) in table {
        let read = put_naming(&document, None);
        assert_eq!(authentication(read.clone()), want, "{document}");
        let existing = stored(read.expect("valid"));
        let shown = write(&existing, defaults(Kind::Custom).delivery_profile);
        assert!(is_silent(&shown.to_string()), "{shown}");
        let again = put_naming(&shown, Some(&existing));
        let wrong = again.as_ref().err().map(ToString::to_string);
        let again = again.ok().and_then(|it| it.authentication);
        assert_eq!(again, existing.authentication, "{wrong:?}");
    }
}

#[test]
fn certificates_and_keys_are_refused_without_repeating_them() {
    use Code::*;
    let long = format!("{PRIVATE}{}", "x".repeat(4_096));
    let both = json!({"certificateReference": "arn:own"});
    let reference = |name: &str| {
        shown_whole(&json!({"certificate": null, "privateKey": null, "certificateReference": name}))
    };
    let table = [
        (shown_whole(&json!({"certificate": null})), MissingMember, "certificate"),
        (shown_whole(&json!({"certificate": "hush"})), InvalidValue, "certificate"),
        (shown_whole(&json!({"certificate": PRIVATE})), InvalidValue, "certificate"),
        (shown_whole(&json!({"privateKey": null})), MissingMember, "privateKey"),
        (shown_whole(&json!({"privateKey": "Hidden"})), MissingMember, "privateKey"),
        (shown_whole(&json!({"privateKey": CHAIN})), InvalidValue, "privateKey"),
        (shown_whole(&json!({"privateKey": LOCKED})), InvalidValue, "privateKey"),
        (shown_whole(&json!({"privateKey": long})), OutOfRange, "privateKey"),
        (shown_whole(&json!({"privateKey": 5})), WrongType, "privateKey"),
        (
            shown_whole(&json!({"trustedCertificates": PRIVATE})),
            InvalidValue,
            "trustedCertificates",
        ),
        (shown_whole(&json!({"clientSecret": "hush"})), UnknownMember, "clientSecret"),
        (shown_whole(&both), InvalidValue, "certificateReference"),
        (reference("arn:other"), InvalidValue, "certificateReference"),
        // It is for another host.
        (reference("arn:named"), InvalidValue, "certificateReference"),
        (signing(&json!({"privateKey": null})), MissingMember, "privateKey"),
        (signing(&json!({"privateKey": "hush"})), InvalidValue, "privateKey"),
        (signing(&json!({"clientSecret": "hush"})), InvalidValue, "clientSecret"),
        (signing(&json!({"keyId": "a\nb"})), InvalidValue, "keyId"),
        (
            signing(&json!({"privateKey": null, "privateKeyReference": "arn:named",
                "assertionAudience": "https://bank.example/"})),
            InvalidValue,
            "assertionAudience",
        ),
        (oauth(&json!({"keyId": "k"})), InvalidValue, "keyId"),
        (oauth(&json!({"privateKey": PRIVATE})), InvalidValue, "privateKey"),
    ];
    for (document, code, path) in table {
        let problems = put_naming(&document, None).expect_err(&document.to_string());
        let listed: Vec<_> = problems.iter().map(|one| (one.code, one.path.clone())).collect();
        let path = format!("{PATH}.authentication.properties.{path}");
        assert_eq!(listed, [(code, path)], "{document}");
        assert!(is_silent(&format!("{:?}", Error::from(&problems))), "{problems}");
    }
}

#[test]
fn a_private_key_follows_the_endpoint_to_no_other_party() {
    let existing = stored(put_naming(&shown_whole(&json!({})), None).expect("valid"));
    let left_out = |url: &str| {
        let mut document = shown_whole(&json!({"privateKey": null}));
        document["properties"]["destination"]["properties"]["endpointUrl"] = json!(url);
        put_naming(&document, Some(&existing))
    };
    for (url, is_kept) in [
        ("https://example.com/elsewhere", true),
        ("https://evil.example/", false),
        ("https://example.com:8443/", false),
    ] {
        assert_eq!(left_out(url).is_ok(), is_kept, "{url}");
    }
    // A secret is no key, and a key is no secret.
    let secret = stored(put_naming(&oauth(&json!({})), None).expect("valid"));
    assert!(put_naming(&signing(&json!({"privateKey": null})), Some(&secret)).is_err());
    let key = stored(put_naming(&signing(&json!({})), None).expect("valid"));
    assert!(put_naming(&oauth(&json!({"clientSecret": null})), Some(&key)).is_err());
    assert!(put_naming(&signing(&json!({"privateKey": null})), Some(&key)).is_ok());
    // No token is sent in a header, so the header may be one's own.
    let mut document = shown_whole(&json!({}));
    document["properties"]["destination"]["properties"]["deliveryAttributeMappings"] = json!([{"name": "Authorization", "type": "Static",
            "properties": {"value": "hush", "isSecret": true}}]);
    assert!(put_naming(&document, None).is_ok());
}
