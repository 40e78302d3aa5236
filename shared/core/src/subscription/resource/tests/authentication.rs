//! The authentication of endpoints in documents.

use super::*;
use crate::{
    endpoint::secrets::{ClientSecrets, EntraClient},
    subscription::authentication::{
        Authentication, Client, ClientCredentials, ClientSecret, Grant, SentBy, SigV4,
        SigningAlgorithm, WebIdentity,
    },
};

const PATH: &str = "properties.destination.properties";

const IDENTITIES: &str = r#"{
    "own": ["a.execute-api.eu-north-1.amazonaws.com", "f.lambda-url.eu-north-1.on.aws", "own.example"],
    "roles": {"arn:aws:iam::111122223333:role/r": ["other.example"]},
    "audiences": {"aud": ["example.com"],
        "api://AzureADTokenExchange": ["login.microsoftonline.com", "id.example", "example.com"]}
}"#;

const API: &str = "https://a.execute-api.eu-north-1.amazonaws.com/x";

const ROLE: &str = "arn:aws:iam::111122223333:role/r";

/// Of which one secret may go to `id.example`, and Entra ID's to it.
fn allowed() -> Allowed {
    let hosts = [("arn:named".to_owned(), vec!["id.example".to_owned()])].into();
    let entra = EntraClient { client_id: "deployment".to_owned(), secret: "arn:e".to_owned() };
    let identities = IDENTITIES.parse().expect("identities");
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
        (of("scope", json!("")), InvalidValue, under("scope")),
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
        assert!(!problems.to_error().to_string().contains("hush"), "{problems}");
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

fn signing(url: &str, properties: &Value) -> Value {
    let authentication = json!({"type": "AwsSigV4", "properties": properties});
    webhook(json!({"endpointUrl": url, "authentication": authentication}))
}

/// `https://example.com/…`, as [`webhook_with`] has it.
fn identity(properties: &Value) -> Value {
    let authentication = json!({"type": "AwsWebIdentity", "properties": properties});
    webhook_with("authentication", authentication)
}

fn entra_by_token(properties: &Value) -> Value {
    let assertion = json!({"type": "AwsWebIdentity", "properties": properties});
    entra(&json!({"clientSecret": null, "clientAssertion": assertion}))
}

#[test]
fn identities_of_aws_are_read() {
    let sigv4 = |service: &str, region: Option<&str>, role: Option<&str>| {
        let text = |given: Option<&str>| given.map(str::to_owned);
        let (region, role) = (text(region), text(role));
        Authentication::AwsSigV4(SigV4 { service: service.to_owned(), region, role })
    };
    let web = |audience: &str, algorithm| WebIdentity { audience: audience.to_owned(), algorithm };
    let by_token = |audience: &str| {
        let grant = Grant::EntraId {
            tenant: "contoso.example".to_owned(),
            application: "api://orders".to_owned(),
        };
        let secret = ClientSecret::AwsWebIdentity(web(audience, SigningAlgorithm::RS256));
        let client = Client::Own { id: "c".to_owned(), secret };
        Authentication::ClientCredentials(ClientCredentials { grant, client })
    };
    let exchanged = "api://AzureADTokenExchange";
    let table = [
        (signing(API, &json!({"service": "execute-api"})), sigv4("execute-api", None, None)),
        (
            signing(
                API,
                &json!({"service": "execute-api", "region": "eu-north-1", "roleArn": null}),
            ),
            sigv4("execute-api", Some("eu-north-1"), None),
        ),
        (
            signing("https://f.lambda-url.eu-north-1.on.aws/", &json!({"service": "lambda"})),
            sigv4("lambda", None, None),
        ),
        (
            signing(
                "https://other.example/",
                &json!({"service": "es", "region": "eu-north-1", "roleArn": ROLE}),
            ),
            sigv4("es", Some("eu-north-1"), Some(ROLE)),
        ),
        (
            identity(&json!({"audience": "aud"})),
            Authentication::AwsWebIdentity(web("aud", SigningAlgorithm::RS256)),
        ),
        (
            identity(&json!({"audience": "aud", "signingAlgorithm": "ES384"})),
            Authentication::AwsWebIdentity(web("aud", SigningAlgorithm::ES384)),
        ),
        (entra_by_token(&json!({})), by_token(exchanged)),
        (entra_by_token(&json!({"audience": exchanged})), by_token(exchanged)),
    ];
    for (document, want) in table {
        let read = put(&document, None);
        assert_eq!(authentication(read.clone()), want, "{document}");
        // What a read shows can be written back.
        let existing = stored(read.expect("valid"));
        let shown = write(&existing, defaults(Kind::Custom).delivery_profile);
        let again = put(&shown, Some(&existing));
        let wrong = again.as_ref().err().map(ToString::to_string);
        assert_eq!(
            again.ok().and_then(|it| it.authentication),
            existing.authentication,
            "{shown}: {wrong:?}"
        );
    }
}

#[test]
fn identities_of_aws_that_the_deployment_does_not_name_are_refused() {
    use crate::document::Code::{InvalidValue, MissingMember, UnknownMember};

    let under = |name: &str| format!("authentication.properties.{name}");
    let own = |url: &str, region: &str| {
        signing(url, &json!({"service": "execute-api", "region": region}))
    };
    let role = |url: &str, role: &str| {
        signing(url, &json!({"service": "es", "region": "eu-north-1", "roleArn": role}))
    };
    let both = json!({"clientAssertion": {"type": "AwsWebIdentity", "properties": {}}});
    let kind = json!({"clientSecret": null,
        "clientAssertion": {"type": "Kerberos", "properties": {}}});
    let generic = json!({"clientSecret": null,
        "clientAssertion": {"type": "AwsWebIdentity", "properties": {}}});
    let header = |name: &str| {
        let mut document = signing(API, &json!({"service": "execute-api"}));
        let value = json!([{"name": name, "type": "Static", "properties": {"value": "x"}}]);
        document["properties"]["destination"]["properties"]["deliveryAttributeMappings"] = value;
        document
    };
    let mut elsewhere = entra_by_token(&json!({}));
    elsewhere["properties"]["destination"]["properties"]["endpointUrl"] =
        json!("https://evil.example/");
    let mut bearer_elsewhere = identity(&json!({"audience": "aud"}));
    bearer_elsewhere["properties"]["destination"]["properties"]["endpointUrl"] =
        json!("https://evil.example/");
    let table = [
        // A host of the author's choice gets no signature in the deployment's name.
        (own("https://evil.example/", "eu-north-1"), InvalidValue, under("service")),
        (
            own("https://dynamodb.eu-north-1.amazonaws.com/", "eu-north-1"),
            InvalidValue,
            under("service"),
        ),
        (
            own("https://b.execute-api.eu-north-1.amazonaws.com/", "eu-north-1"),
            InvalidValue,
            under("service"),
        ),
        (
            signing(
                "https://own.example/",
                &json!({"service": "dynamodb", "region": "eu-north-1"}),
            ),
            InvalidValue,
            under("service"),
        ),
        (
            signing("https://own.example/", &json!({"service": "execute-api"})),
            MissingMember,
            under("region"),
        ),
        (signing(API, &json!({"service": "lambda"})), InvalidValue, under("service")),
        (own(API, "us-east-1"), InvalidValue, under("region")),
        (own("https://own.example/", "EU"), InvalidValue, under("region")),
        (signing(API, &json!({})), MissingMember, under("service")),
        (
            signing(API, &json!({"service": "execute-api", "role": ROLE})),
            UnknownMember,
            under("role"),
        ),
        (
            role("https://other.example/", "arn:aws:iam::111122223333:role/other"),
            InvalidValue,
            under("roleArn"),
        ),
        (role("https://own.example/", ROLE), InvalidValue, under("roleArn")),
        (
            role("https://other.example/", "arn:aws:iam::111122223333:user/r"),
            InvalidValue,
            under("roleArn"),
        ),
        (role("https://other.example/", "r"), InvalidValue, under("roleArn")),
        (header("X-Amz-Target"), InvalidValue, "deliveryAttributeMappings".to_owned()),
        (header("authorization"), InvalidValue, "deliveryAttributeMappings".to_owned()),
        (identity(&json!({})), MissingMember, under("audience")),
        (identity(&json!({"audience": "other"})), InvalidValue, under("audience")),
        (bearer_elsewhere, InvalidValue, under("audience")),
        (
            identity(&json!({"audience": "aud", "signingAlgorithm": "HS256"})),
            InvalidValue,
            under("signingAlgorithm"),
        ),
        (elsewhere, InvalidValue, under("clientAssertion.properties.audience")),
        (
            entra_by_token(&json!({"audience": "aud"})),
            InvalidValue,
            under("clientAssertion.properties.audience"),
        ),
        (entra(&both), InvalidValue, under("clientSecret")),
        (entra(&kind), InvalidValue, under("clientAssertion.type")),
        (oauth(&generic), MissingMember, under("clientAssertion.properties.audience")),
    ];
    for (document, code, path) in table {
        let problems = put(&document, None).expect_err(&document.to_string());
        let listed: Vec<_> = problems.iter().map(|one| (one.code, one.path.clone())).collect();
        assert_eq!(listed, [(code, format!("{PATH}.{path}"))], "{document}: {problems}");
    }
}

#[test]
fn a_patch_of_the_url_asks_anew_where_an_identity_may_be_proven() {
    let existing =
        stored(put(&signing(API, &json!({"service": "execute-api"})), None).expect("valid"));
    let moved = |url: &str| json!({"destination": {"properties": {"endpointUrl": url}}});
    let kept = patch(&moved("https://a.execute-api.eu-north-1.amazonaws.com/y"), &existing);
    assert_eq!(kept.expect("valid").authentication, existing.authentication);
    let problems = patch(&moved("https://evil.example/"), &existing).expect_err("another host");
    let paths: Vec<_> = problems.iter().map(|one| one.path.clone()).collect();
    let path = format!("{PATH}.authentication.properties.service")
        .replace("properties.destination", "destination");
    assert_eq!(paths, [path]);
}
