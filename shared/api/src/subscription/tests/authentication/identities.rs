//! Identities of AWS in documents.

use gridpost_core::subscription::authentication::{SigV4, SigningAlgorithm, WebIdentity};

use super::*;

/// What the deployment names.
pub(super) const NAMED: &str = r#"{
    "own": ["a.execute-api.eu-north-1.amazonaws.com", "f.lambda-url.eu-north-1.on.aws", "own.example"],
    "roles": {"arn:aws:iam::111122223333:role/r": ["other.example"]},
    "audiences": {"aud": ["example.com"],
        "api://AzureADTokenExchange": ["login.microsoftonline.com", "id.example", "example.com"]}
}"#;

const API: &str = "https://a.execute-api.eu-north-1.amazonaws.com/x";

const ROLE: &str = "arn:aws:iam::111122223333:role/r";

fn signed_by(url: &str, properties: &Value) -> Value {
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
        (signed_by(API, &json!({"service": "execute-api"})), sigv4("execute-api", None, None)),
        (
            signed_by(
                API,
                &json!({"service": "execute-api", "region": "eu-north-1", "roleArn": null}),
            ),
            sigv4("execute-api", Some("eu-north-1"), None),
        ),
        (
            signed_by("https://f.lambda-url.eu-north-1.on.aws/", &json!({"service": "lambda"})),
            sigv4("lambda", None, None),
        ),
        (
            signed_by(
                "https://other.example/",
                &json!({"service": "es", "region": "eu-north-1", "roleArn": ROLE}),
            ),
            sigv4("es", Some("eu-north-1"), Some(ROLE)),
        ),
        (
            signed_by(
                "https://other.example/?a=1%2B2%20%C3%A9&b",
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
        signed_by(url, &json!({"service": "execute-api", "region": region}))
    };
    let role = |url: &str, role: &str| {
        signed_by(url, &json!({"service": "es", "region": "eu-north-1", "roleArn": role}))
    };
    let service = |url: &str, service: &str| {
        let properties = json!({"service": service, "region": "eu-north-1", "roleArn": ROLE});
        signed_by(url, &properties)
    };
    let both = json!({"clientAssertion": {"type": "AwsWebIdentity", "properties": {}}});
    let kind = json!({"clientSecret": null,
        "clientAssertion": {"type": "Kerberos", "properties": {}}});
    let generic = json!({"clientSecret": null,
        "clientAssertion": {"type": "AwsWebIdentity", "properties": {}}});
    let header = |name: &str| {
        let mut document = signed_by(API, &json!({"service": "execute-api"}));
        let value = json!([{"name": name, "type": "Static", "properties": {"value": "x"}}]);
        document["properties"]["destination"]["properties"]["deliveryAttributeMappings"] = value;
        document
    };
    let mut elsewhere = entra_by_token(&json!({}));
    elsewhere["properties"]["destination"]["properties"]["endpointUrl"] =
        json!("https://evil.example/");
    let exchanged = identity(&json!({"audience": "api://AzureADTokenExchange"}));
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
            signed_by(
                "https://own.example/",
                &json!({"service": "dynamodb", "region": "eu-north-1"}),
            ),
            InvalidValue,
            under("service"),
        ),
        (
            signed_by("https://own.example/", &json!({"service": "execute-api"})),
            MissingMember,
            under("region"),
        ),
        (signed_by(API, &json!({"service": "lambda"})), InvalidValue, under("service")),
        (own(API, "us-east-1"), InvalidValue, under("region")),
        (own("https://own.example/", "EU"), InvalidValue, under("region")),
        (signed_by(API, &json!({})), MissingMember, under("service")),
        (
            signed_by(API, &json!({"service": "execute-api", "role": ROLE})),
            UnknownMember,
            under("role"),
        ),
        (
            role("https://other.example/", "arn:aws:iam::111122223333:role/other"),
            InvalidValue,
            under("roleArn"),
        ),
        (role("https://own.example/", ROLE), InvalidValue, under("roleArn")),
        // Whose signatures would be refused at every attempt.
        (service("https://other.example/", "s3"), InvalidValue, under("service")),
        (role("https://other.example/?a=1+2", ROLE), InvalidValue, under("service")),
        (role("https://other.example/?a=%FF", ROLE), InvalidValue, under("service")),
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
        // The endpoint could exchange it.
        (exchanged, InvalidValue, under("audience")),
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
        stored(put(&signed_by(API, &json!({"service": "execute-api"})), None).expect("valid"));
    let moved = |url: &str| json!({"destination": {"properties": {"endpointUrl": url}}});
    let kept = patch(&moved("https://a.execute-api.eu-north-1.amazonaws.com/y"), &existing);
    assert_eq!(kept.expect("valid").authentication, existing.authentication);
    let problems = patch(&moved("https://evil.example/"), &existing).expect_err("another host");
    let paths: Vec<_> = problems.iter().map(|one| one.path.clone()).collect();
    let path = format!("{PATH}.authentication.properties.service")
        .replace("properties.destination", "destination");
    assert_eq!(paths, [path]);
}
