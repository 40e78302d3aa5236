use std::{collections::BTreeMap, fs};

use clap::Parser;
use serde_json::{Value, json};

use super::*;

#[derive(Parser)]
struct New {
    #[arg(long)]
    file: Option<String>,
    #[command(flatten)]
    flags: SettingFlags<true>,
}

#[derive(Parser)]
struct Changes {
    #[arg(long)]
    file: Option<String>,
    #[command(flatten)]
    flags: SettingFlags<false>,
}

fn words(line: &str) -> impl Iterator<Item = &str> {
    std::iter::once("gridpost").chain(line.split_whitespace())
}

fn created(line: &str, profile: ProfileName) -> Value {
    let parsed = New::try_parse_from(words(line)).unwrap_or_else(|error| panic!("{line}: {error}"));
    assert_eq!(parsed.file, None);
    parsed.flags.document(profile).expect("a document").into_properties()
}

fn patched(line: &str, current: &Value) -> Result<Value, String> {
    let parsed = Changes::try_parse_from(words(line));
    let parsed = parsed.unwrap_or_else(|error| panic!("{line}: {error}"));
    assert_eq!(parsed.file, None);
    let patch = parsed.flags.patch(&Document::of(current), ProfileName::Basic);
    patch.map(Document::into_properties).map_err(|misuse| misuse.0)
}

#[test]
fn a_resources_arn_says_what_it_is() {
    let queue = "arn:aws:sqs:eu-central-1:123456789012:orders.fifo";
    let line = format!("--resource {queue} --message-group-path data.customer");
    let want = json!({"endpointType": "SqsQueue", "properties": {
        "resourceId": queue,
        "messageGroupId": {"type": "Dynamic", "properties": {"sourceField": "data.customer"}},
    }});
    assert_eq!(created(&line, ProfileName::Basic)["destination"], want);
    let key = json!({"type": "Static", "properties": {"value": "k"}});
    let stream = "--resource arn:aws:kinesis:r:123456789012:stream/s --partition-key k";
    let destination = &created(stream, ProfileName::Basic)["destination"];
    assert_eq!(destination["properties"]["partitionKey"], key);
    for (given, kind) in [
        ("arn:aws:lambda:r:123456789012:function:f:live", "LambdaFunction"),
        ("arn:aws:sns:r:123456789012:t", "SnsTopic"),
        ("arn:aws:kinesis:r:123456789012:stream/s", "KinesisStream"),
        ("arn:aws:events:r:123456789012:event-bus/b", "EventBridgeBus"),
    ] {
        assert_eq!(resource(given).map(ResourceKind::name), Ok(kind), "{given}");
    }
    for given in ["https://e", "arn:aws:s3:r:123456789012:b", "arn:aws:kinesis:r:123456789012:s"] {
        assert!(resource(given).is_err(), "{given}");
    }
}

#[test]
fn an_endpoint_alone_leaves_all_else_to_the_server() {
    let want = json!({"destination":
        {"endpointType": "WebHook", "properties": {"endpointUrl": "http://e"}}});
    assert_eq!(created("--endpoint http://e", ProfileName::Basic), want);
}

#[test]
fn every_flag_has_its_member() {
    let line = "--endpoint https://e/h --delivery-schema CloudEventSchemaV1_0 \
                --included-event-types a,b --subject-begins-with /x --subject-ends-with .jpg \
                --max-attempts 5 --ttl 30m --dead-letter-bucket bucket --dead-letter-prefix dead/ \
                --max-events-per-batch 1k --preferred-batch-kb 64 --on-batch-failure Bisect \
                --partial-results --advanced-filter {\"operatorType\":\"IsNotNull\",\"key\":\"data\"} \
                --header X-A=a=b --secret-header X-S=s --dynamic-header X-D=data.k --sign \
                --probation-policy Delay --oauth-token-url https://id/token";
    let want = json!({
        "destination": {"endpointType": "WebHook", "properties": {
            "endpointUrl": "https://e/h",
            "maxEventsPerBatch": 1000,
            "preferredBatchSizeInKilobytes": 64,
            "onBatchFailure": "Bisect",
            "partialResults": true,
            "authentication": {"type": "OAuth2ClientCredentials",
                "properties": {"tokenUrl": "https://id/token"}},
            "deliveryAttributeMappings": [
                {"name": "X-A", "type": "Static", "properties": {"value": "a=b", "isSecret": false}},
                {"name": "X-S", "type": "Static", "properties": {"value": "s", "isSecret": true}},
                {"name": "X-D", "type": "Dynamic", "properties": {"sourceField": "data.k"}},
            ],
        }},
        "signing": {"scheme": "StandardWebhooks"},
        "filter": {
            "advancedFilters": [{"operatorType": "IsNotNull", "key": "data"}],
            "includedEventTypes": ["a", "b"],
            "subjectBeginsWith": "/x",
            "subjectEndsWith": ".jpg",
        },
        "retryPolicy": {"maxDeliveryAttempts": 5, "eventTimeToLiveInMinutes": 30},
        "probationPolicy": "Delay",
        "eventDeliverySchema": "CloudEventSchemaV1_0",
        "deadLetterDestination": {"endpointType": "S3Bucket", "properties":
            {"bucketName": "bucket", "prefix": "dead/"}},
    });
    assert_eq!(created(line, ProfileName::Basic), want);
}

#[test]
fn limits_are_named_as_the_topic_names_them() {
    let limits = |profile| {
        created("--endpoint https://e --max-attempts 5 --ttl 90m", profile)["retryPolicy"].clone()
    };
    let basic = json!({"maxDeliveryAttempts": 5, "eventTimeToLiveInMinutes": 90});
    assert_eq!(limits(ProfileName::Basic2021), basic);
    let namespace = json!({"maxDeliveryCount": 5, "eventTimeToLive": "PT1H30M"});
    assert_eq!(limits(ProfileName::Namespace), namespace);
}

#[test]
fn flags_describe_an_authentication_or_a_change_of_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = |text: &str| {
        let path = folder.path().join(text);
        fs::write(&path, text).expect("a file");
        path.display().to_string()
    };
    let certificate = format!(
        "--client-certificate {} --client-key {} --trusted-certificates {}",
        file("chain"),
        file("key"),
        file("ca")
    );
    let table = [
        ("--sign", Value::Null),
        (
            "--oauth-token-url https://id/token --oauth-client-id c --oauth-secret-reference arn:s \
             --oauth-scope a",
            json!({"type": "OAuth2ClientCredentials", "properties": {
                "tokenUrl": "https://id/token", "clientId": "c",
                "clientSecretReference": "arn:s", "scope": "a"}}),
        ),
        (
            "--entra-tenant t --entra-application api://a",
            json!({"type": "EntraId", "properties":
                {"tenantId": "t", "applicationIdOrUri": "api://a"}}),
        ),
        ("--oauth-client-secret new", json!({"properties": {"clientSecret": "new"}})),
        (
            "--entra-tenant t --entra-application a --client-by-aws --aws-identity-algorithm RS256",
            json!({"type": "EntraId", "properties": {"tenantId": "t", "applicationIdOrUri": "a",
                "clientAssertion":
                    {"type": "AwsWebIdentity", "properties": {"signingAlgorithm": "RS256"}}}}),
        ),
        (
            "--client-by-aws=aud",
            json!({"properties": {"clientAssertion":
                {"type": "AwsWebIdentity", "properties": {"audience": "aud"}}}}),
        ),
        (
            "--sigv4-service execute-api --sigv4-role arn:r",
            json!({"type": "AwsSigV4", "properties": {"service": "execute-api", "roleArn": "arn:r"}}),
        ),
        ("--sigv4-region eu-north-1", json!({"properties": {"region": "eu-north-1"}})),
        (
            "--aws-identity aud --aws-identity-algorithm ES384",
            json!({"type": "AwsWebIdentity", "properties":
                {"audience": "aud", "signingAlgorithm": "ES384"}}),
        ),
        (
            "--oauth-token-url https://id/token --oauth-client-id c \
             --oauth-private-key-reference arn:k --oauth-key-id k1",
            json!({"type": "OAuth2ClientCredentials", "properties": {
                "tokenUrl": "https://id/token", "clientId": "c", "keyId": "k1",
                "clientAuthentication": "PrivateKeyJwt", "privateKeyReference": "arn:k"}}),
        ),
        (
            &certificate,
            json!({"type": "ClientCertificate", "properties": {
                "certificate": "chain\n", "privateKey": "key\n", "trustedCertificates": "ca\n"}}),
        ),
        (
            "--client-certificate-reference arn:c",
            json!({"type": "ClientCertificate", "properties": {"certificateReference": "arn:c"}}),
        ),
    ];
    for (line, want) in table {
        let patch = patched(line, &Value::Null).expect("a patch");
        let given = patch.pointer("/destination/properties/authentication").unwrap_or(&Value::Null);
        assert_eq!(*given, want, "{line}");
    }
}

#[test]
fn what_no_flag_names_goes_along_to_another_one_of_that_type() {
    let certificate = json!({"type": "ClientCertificate", "properties": {
        "certificate": "old", "privateKey": null, "trustedCertificates": "ca"}});
    let signed = json!({"type": "AwsSigV4", "properties": {
        "service": "execute-api", "region": "eu-north-1", "roleArn": "arn:r"}});
    let by_reference = "--client-certificate-reference arn:new";
    let table = [
        (
            by_reference,
            &certificate,
            json!({"certificateReference": "arn:new", "trustedCertificates": "ca"}),
        ),
        (by_reference, &signed, json!({"certificateReference": "arn:new"})),
        (by_reference, &Value::Null, json!({"certificateReference": "arn:new"})),
        (
            "--sigv4-service lambda",
            &signed,
            json!({"service": "lambda", "region": "eu-north-1", "roleArn": "arn:r"}),
        ),
        (
            "--sigv4-service lambda --sigv4-region eu-west-1",
            &signed,
            json!({"service": "lambda", "region": "eu-west-1", "roleArn": "arn:r"}),
        ),
        ("--sigv4-service lambda", &certificate, json!({"service": "lambda"})),
    ];
    for (line, stored, want) in table {
        let current = json!({"properties": {"destination": {"endpointType": "WebHook", "properties":
            {"authentication": stored}}}});
        let patch = patched(line, &current).expect("a patch");
        let given = &patch["destination"]["properties"]["authentication"]["properties"];
        assert_eq!(*given, want, "{line} {stored}");
    }
}

#[test]
fn a_file_that_can_not_be_read_is_named() {
    let misuse = patched("--client-key no-such-folder/client.key", &Value::Null).expect_err("none");
    assert!(misuse.starts_with("--client-key: no-such-folder/client.key can't"), "{misuse}");
}

/// Flags that say the opposite of each other, or nothing without another one, are refused at once.
#[test]
fn flags_that_do_not_go_together_are_refused() {
    let client = "--oauth-token-url https://id/t";
    let table = [
        ("--endpoint https://e --file f", false),
        ("--endpoint https://e --resource arn:aws:sns:r:123456789012:t", false),
        ("--endpoint https://e --message-group-id g", false),
        ("--message-group-id g", false),
        ("--resource arn:aws:sns:r:123456789012:t --message-group-id g", true),
        (
            "--resource arn:aws:sns:r:123456789012:t --message-group-id g --message-group-path p",
            false,
        ),
        ("--dead-letter-prefix p", false),
        ("--dead-letter-bucket b --dead-letter-prefix p", true),
        ("--entra-tenant t", false),
        ("--entra-application a", true),
        (&format!("{client} --entra-tenant t --entra-application a"), false),
        (&format!("{client} --oauth-scope s --oauth-client-secret s"), true),
        (&format!("{client} --oauth-client-secret s --oauth-secret-reference r"), false),
        (&format!("{client} --oauth-private-key k --oauth-private-key-reference r"), false),
        (&format!("{client} --client-by-aws --oauth-client-secret s"), false),
        (&format!("{client} --client-by-aws --aws-identity-algorithm RS256"), true),
        (&format!("{client} --client-certificate c"), false),
        (&format!("{client} --sigv4-region r"), false),
        ("--client-certificate c --client-key k --trusted-certificates t", true),
        ("--client-certificate c --client-certificate-reference r", false),
        ("--client-certificate-reference r --sigv4-service s", false),
        ("--sigv4-service s --sigv4-region r --sigv4-role a", true),
        ("--sigv4-service s --aws-identity a", false),
        ("--max-attempts x", false),
        ("--endpoint https://e --max-attempts 1k", true),
        ("--ttl 1x", false),
        ("--ttl 30", false),
        ("--probation-policy Never", false),
        ("--partial-results=maybe", false),
        ("--advanced-filter {", false),
        ("--header X", false),
        ("--labels a", false),
    ];
    for (line, is_taken) in table {
        let parsed = New::try_parse_from(words(line));
        assert_eq!(parsed.is_ok(), is_taken, "{line}");
    }
    let changes = [
        ("--labels a --expires T", true),
        ("--labels a --no-labels", false),
        ("--no-dead-letter --dead-letter-bucket b", false),
        ("--no-authentication --oauth-client-id c", false),
        ("--remove-header a --remove-header b", true),
        ("--no-labels --file f", false),
        ("--remove-header a --file f", false),
        ("--delivery-schema CustomInputSchema", false),
        ("--resource arn:aws:sns:r:123456789012:t", false),
    ];
    for (line, is_taken) in changes {
        assert_eq!(Changes::try_parse_from(words(line)).is_ok(), is_taken, "{line}");
    }
}

/// Nobody's script breaks: a flag that was there stays, with its value.
#[test]
fn flags_keep_their_names() {
    let flags = |command: Command| -> BTreeMap<String, String> {
        let flags = command.get_arguments().filter(|flag| flag.get_id() != "file").map(|flag| {
            let value = flag.get_value_names().map(|names| names[0].to_string());
            (flag.get_id().to_string(), value.unwrap_or_default())
        });
        flags.collect()
    };
    let new = flags(SettingFlags::<true>::augment_args(Command::new("")));
    assert_eq!((new.len(), new["max-attempts"].as_str(), new["sign"].as_str()), (46, "COUNT", ""));
    let changes = flags(SettingFlags::<false>::augment_args(Command::new("")));
    assert_eq!((changes.len(), changes["expires"].as_str()), (46, "DATE-TIME"));
}
