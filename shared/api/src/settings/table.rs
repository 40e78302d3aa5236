//! The tables themselves. A setting that is only passed on needs a row here, and no code.

use super::{
    Kind,
    Mark::{OnChange, OnCreation, Optional, Ours, Selects, Stays},
    Setting,
};

const NONE: Setting = Setting {
    kind: Kind::Text,
    path: "",
    label: "",
    hint: "",
    example: "",
    of: &[],
    words: &[],
    flag: "",
    help: "",
    excludes: &[],
    requires: None,
    with: None,
    removal: None,
    marks: &[],
};

macro_rules! settings {
    ($(#[$doc:meta])* $all:ident: $($kind:ident $path:literal $(, $member:ident: $value:expr)*;)*) => {
        $(#[$doc])*
        pub const $all: &[Setting] =
            &[$(Setting { kind: Kind::$kind, path: $path, $($member: $value,)* ..NONE }),*];
    };
}

const WEBHOOK: &[&str] = &["WebHook"];
const BATCHED: &[&str] = &["WebHook", "LambdaFunction"];
const RESOURCES: &[&str] =
    &["LambdaFunction", "SqsQueue", "SnsTopic", "KinesisStream", "EventBridgeBus"];

const BASIC: &[&str] = &["basic", "basic2021"];
const NAMESPACE: &[&str] = &["namespace"];

const OAUTH: &[&str] = &["OAuth2ClientCredentials"];
const ENTRA: &[&str] = &["EntraId"];
const CLIENTS: &[&str] = &["OAuth2ClientCredentials", "EntraId"];
const CERTIFICATE: &[&str] = &["ClientCertificate"];
const SIGV4: &[&str] = &["AwsSigV4"];
const IDENTITY: &[&str] = &["AwsWebIdentity"];

const STATIC: &[&str] = &["Static"];
const DYNAMIC: &[&str] = &["Dynamic"];
const KEYS: &[(&str, &str)] = &[
    ("", "none of one's own"),
    ("Static", "this text"),
    ("Dynamic", "what stands at this path of the event"),
];

/// Flags of which one alone proves a client.
const PROOFS: &[&str] = &[
    "oauth-client-secret",
    "oauth-secret-reference",
    "oauth-private-key",
    "oauth-private-key-reference",
    "client-by-aws",
];
const BY_KEY: Option<(&str, &str)> =
    Some(("destination.authentication.clientAuthentication", "PrivateKeyJwt"));

const STORED: &str = "Never shown. Empty: the stored one stays, if there is one. Write it last: what \
                      changes the form empties it.";
const REFERENCE: &str =
    "An ARN of Secrets Manager or SSM, instead of the above. endpoint_secrets must name it.";

settings! {
    /// Every setting of an event subscription, in the order of help, forms and the reference page.
    SETTINGS:
    Choice "destination.endpointType", label: "Type", words: &[("WebHook", "an https endpoint")];
    Url "destination.endpointUrl", label: "Endpoint's URL", of: WEBHOOK,
        hint: "An absolute https URL. It is asked for its consent.",
        example: "https://example.com/hook", flag: "endpoint URL", excludes: &["resource"],
        help: "URL that receives the events; it is asked for its consent";
    Arn "destination.resourceId", label: "ARN of the resource", of: RESOURCES,
        hint: "The deployment's resource_destinations must allow it.", flag: "resource ARN",
        help: "AWS resource that receives the events: a Lambda function, SQS queue, SNS topic, Kinesis \
               stream or EventBridge event bus", marks: &[OnCreation];
    Choice "destination.messageGroupId.type", label: "Message group",
        of: &["SqsQueue", "SnsTopic"], words: KEYS;
    Text "destination.messageGroupId.value", label: "Message group: text", of: STATIC,
        flag: "message-group-id TEXT", help: "Message group of a FIFO queue or topic",
        excludes: &["endpoint"], requires: Some("resource"), marks: &[OnCreation, Selects];
    Text "destination.messageGroupId.sourceField", label: "Message group: path", of: DYNAMIC,
        example: "data.customer", flag: "message-group-path PATH",
        help: "Where the message group stands in the event, as in data.customer",
        excludes: &["endpoint"], requires: Some("resource"), marks: &[OnCreation, Selects];
    Choice "destination.partitionKey.type", label: "Partition key", of: &["KinesisStream"], words: KEYS;
    Text "destination.partitionKey.value", label: "Partition key: text", of: STATIC,
        flag: "partition-key TEXT",
        help: "Partition key of a Kinesis stream's records (default: the event's id)",
        excludes: &["endpoint"], requires: Some("resource"), marks: &[OnCreation, Selects];
    Text "destination.partitionKey.sourceField", label: "Partition key: path", of: DYNAMIC,
        example: "data.customer", flag: "partition-key-path PATH",
        help: "Where the partition key stands in the event",
        excludes: &["endpoint"], requires: Some("resource"), marks: &[OnCreation, Selects];
    Number "destination.maxEventsPerBatch", label: "Events in a request at most", of: BATCHED,
        flag: "max-events-per-batch COUNT", help: "Events in one request at most, 1 to 5000";
    Number "destination.preferredBatchSizeInKilobytes", of: BATCHED,
        label: "Preferred size of a request in kilobytes", flag: "preferred-batch-kb KILOBYTES",
        help: "Preferred size of a batch in kilobytes, 1 to 1024";
    Choice "destination.onBatchFailure", label: "A request of several events that is refused",
        hint: "Splitting takes further attempts.", of: WEBHOOK,
        words: &[("Whole", "ends as a whole"), ("Bisect", "is split until the bad events stand alone")],
        flag: "on-batch-failure WHAT",
        help: "What happens to a webhook's batch that is refused: Whole ends all of its events, Bisect \
               splits it until the bad ones stand alone", marks: &[Ours];
    Flag "destination.partialResults", label: "Answers name events to send again or to end",
        hint: "results in the body of an answer with 200 to 204.", of: WEBHOOK,
        flag: "partial-results true|false",
        help: "Whether the webhook's answers may name events of a batch that are to be sent again, or \
               to end", marks: &[Ours];
    Rows "destination.deliveryAttributeMappings", label: "Delivery attributes", example: "header",
        hint: "Headers of your own on every request.",
        of: &["WebHook", "LambdaFunction", "SqsQueue", "SnsTopic"];
    Text "destination.deliveryAttributeMappings.*.name", label: "Name", example: "X-Tenant",
        removal: Some(("remove-header",
            "Take this header away; may be given several times. Headers that no flag names stay"));
    Choice "destination.deliveryAttributeMappings.*.type", label: "Kind",
        words: &[("Static", "always the same"), ("Dynamic", "what stands at a path of the event")];
    Text "destination.deliveryAttributeMappings.*.value", label: "Value, where static",
        hint: "A secret without a value keeps the one that is stored.", of: STATIC,
        flag: "header NAME=VALUE", help: "Header on every request; may be given several times";
    Flag "destination.deliveryAttributeMappings.*.isSecret",
        label: "Secret: no read shows the value", of: STATIC, flag: "secret-header NAME=VALUE",
        help: "Header whose value no read shows";
    Text "destination.deliveryAttributeMappings.*.sourceField", label: "Path, where dynamic",
        example: "data.order.id", of: DYNAMIC, flag: "dynamic-header NAME=PATH",
        help: "Header with the value at a path of the event";
    Texts "filter.includedEventTypes", label: "Event types, one in a line",
        hint: "Exact names; empty: all.", flag: "included-event-types TYPE,…",
        help: "Only events of these types";
    Text "filter.subjectBeginsWith", label: "Subject begins with", flag: "subject-begins-with TEXT",
        help: "Only events whose subject begins with this";
    Text "filter.subjectEndsWith", label: "Subject ends with", flag: "subject-ends-with TEXT",
        help: "Only events whose subject ends with this";
    Flag "filter.isSubjectCaseSensitive", label: "The subject's case counts";
    Rows "filter.advancedFilters", label: "Advanced filters", example: "filter",
        hint: "An event must pass all of them; the values of one are alternatives.",
        flag: "advanced-filter JSON", help: "An advanced filter as JSON; may be given several times: \
        '{\"operatorType\":\"StringIn\",\"key\":\"data.k\",\"values\":[\"a\"]}'";
    Text "filter.advancedFilters.*.key", label: "Key", example: "data.country";
    Choice "filter.advancedFilters.*.operatorType", label: "Operator";
    Operands "filter.advancedFilters.*.values", label: "Values, one in a line";
    Flag "filter.enableAdvancedFilteringOnArrays",
        label: "Advanced filters look at the elements of arrays";
    Number "retryPolicy.maxDeliveryAttempts", label: "Attempts at most", of: BASIC,
        hint: "The first one is included.", flag: "max-attempts COUNT",
        help: "Delivery attempts before the event is dead-lettered or dropped, 1 to 30";
    Minutes "retryPolicy.eventTimeToLiveInMinutes", label: "Time-to-live in minutes", of: BASIC,
        hint: "From the publish.", flag: "ttl TIME",
        help: "Event time-to-live, 1 minute to 24 hours: 30m, 24h";
    Number "retryPolicy.maxDeliveryCount", label: "Attempts at most", of: NAMESPACE,
        hint: "The first one is included.", flag: "max-attempts";
    Duration "retryPolicy.eventTimeToLive", label: "Time-to-live", of: NAMESPACE,
        hint: "ISO 8601 in whole minutes, PT1M to P7D; P7D where empty.", flag: "ttl";
    Numbers "retryPolicy.schedule", label: "Own schedule", hint: "1 to 30 rising offsets from the first \
        attempt in seconds, with commas: 5, 30, 300. Empty: the delivery profile's.", marks: &[Ours];
    Rows "retryPolicy.statusRules", label: "Own rules", example: "rule",
        hint: "What follows an answer, before the delivery profile's own table.", marks: &[Ours];
    Text "retryPolicy.statusRules.*.which", label: "A status, a class or an outcome",
        example: "404, 5xx, SocketError";
    Choice "retryPolicy.statusRules.*.action", label: "It",
        words: &[("deadLetter", "ends the delivery"), ("retry", "is tried again, at the soonest after")];
    Number "retryPolicy.statusRules.*.seconds", label: "Seconds, where tried again",
        hint: "0 to 86,400.";
    Choice "probationPolicy", label: "Events that meet a probation caused by a client error",
        words: &[("EventGrid", "end"), ("Delay", "wait")], flag: "probation-policy POLICY",
        help: "What a probation for 401, 403 or a 404 that is not retried does to new events: EventGrid \
               ends them at once, Delay has them wait", marks: &[Ours];
    Choice "deadLetterDestination.endpointType", removal: Some(("no-dead-letter",
        "Store no dead letters from now on: what ends undelivered is lost"));
    Text "deadLetterDestination.bucketName", label: "S3 bucket", flag: "dead-letter-bucket BUCKET",
        help: "S3 bucket for events that could not be delivered";
    Text "deadLetterDestination.prefix", label: "Names of objects begin with",
        flag: "dead-letter-prefix TEXT", help: "What the names of dead-letter objects begin with",
        requires: Some("dead-letter-bucket");
    Choice "eventDeliverySchema", label: "Schema in which events are delivered",
        hint: "It can't be changed later.", words: &[("", "as the topic")],
        flag: "delivery-schema SCHEMA", help: "Schema in which events are delivered",
        marks: &[OnCreation];
    Switch "signing", label: "Sign requests by Standard Webhooks", flag: "sign",
        hint: "Its secrets are discarded where this is unticked.",
        help: "Sign requests by Standard Webhooks", marks: &[Ours];
    Texts "labels", label: "Labels, one in a line", flag: "labels LABEL,…", help: "All labels",
        removal: Some(("no-labels", "Take all labels away")), marks: &[OnChange];
    Text "expirationTimeUtc", label: "Expires at (UTC)", example: "2030-01-01T00:00:00Z",
        hint: "RFC 3339; empty: never. After that it matches nothing.", flag: "expires DATE-TIME",
        help: "From then on it matches nothing: 2030-01-01T00:00:00Z", marks: &[OnChange];
    Choice "destination.authentication.type", label: "By", of: WEBHOOK, marks: &[Ours],
        removal: Some(("no-authentication", "Authenticate requests no longer")), words: &[
            ("", "none"),
            ("OAuth2ClientCredentials", "a token of any OAuth 2.0 server"),
            ("EntraId", "a token of Entra ID"),
            ("ClientCertificate", "mutual TLS"),
            ("AwsSigV4", "a signature, for endpoints on AWS behind IAM"),
            ("AwsWebIdentity", "a token that AWS signs"),
        ];
    Text "destination.authentication.tokenUrl", label: "Token URL", hint: "Https, without a query.",
        of: OAUTH, flag: "oauth-token-url URL", marks: &[Selects],
        help: "Authenticate requests by tokens of OAuth 2.0 client credentials, asked for at this URL";
    Text "destination.authentication.tenantId", label: "Tenant", hint: "Its id, or a domain of it.",
        of: ENTRA, flag: "entra-tenant TENANT", requires: Some("entra-application"),
        help: "Authenticate requests by tokens of this tenant of Entra ID", marks: &[Selects];
    Text "destination.authentication.applicationIdOrUri", label: "The endpoint's application",
        hint: "Its id or its URI.", of: ENTRA, flag: "entra-application APPLICATION",
        help: "The application of Entra ID that the endpoint is, by its id or its URI";
    Text "destination.authentication.clientId", label: "Client's id", of: CLIENTS,
        flag: "oauth-client-id ID", help: "The client's id";
    Choice "destination.authentication.clientAuthentication", of: OAUTH,
        label: "How the client proves itself", words: &[
            ("Post", "id and secret in the form"),
            ("Basic", "id and secret in Authorization"),
            ("PrivateKeyJwt", "an assertion that the client's key signs"),
        ];
    Secret "destination.authentication.clientSecret", label: "Client's secret", hint: STORED,
        of: CLIENTS, flag: "oauth-client-secret SECRET", excludes: PROOFS,
        help: "The client's secret, which no read shows";
    Text "destination.authentication.clientSecretReference", label: "Where its secret is",
        hint: REFERENCE, of: CLIENTS, flag: "oauth-secret-reference ARN", excludes: PROOFS,
        help: "Where the client's secret is kept: an ARN of Secrets Manager or of an SSM parameter, or \
               env:GRIDPOST_SECRET_… for `gridpost dev`";
    SecretPem "destination.authentication.privateKey", of: OAUTH, hint: STORED,
        label: "Client's private key, for PrivateKeyJwt", flag: "oauth-private-key FILE",
        help: "A file with the client's private key (PEM), which signs instead of a secret: \
               private_key_jwt", excludes: PROOFS, with: BY_KEY;
    Text "destination.authentication.privateKeyReference", label: "Where its private key is",
        hint: REFERENCE, of: OAUTH, flag: "oauth-private-key-reference ARN",
        help: "Where the client's private key is kept, as for --oauth-secret-reference",
        excludes: PROOFS, with: BY_KEY;
    Text "destination.authentication.keyId", label: "Key's id, for PrivateKeyJwt", of: OAUTH,
        hint: "The kid of assertions; may be empty.", flag: "oauth-key-id ID",
        help: "The id of the client's private key, for the token server";
    Text "destination.authentication.assertionAudience", of: OAUTH, hint: "Empty: the token URL.",
        label: "Audience of assertions, for PrivateKeyJwt", flag: "oauth-assertion-audience TEXT",
        help: "Whom the client's assertion is for [default: the token URL]";
    Text "destination.authentication.scope", label: "Scopes to ask for", of: OAUTH,
        hint: "With spaces between them; may be empty.", flag: "oauth-scope TEXT",
        help: "Scopes to ask for, with spaces between them", marks: &[Stays];
    Text "destination.authentication.audience", label: "Audience to ask for", hint: "May be empty.",
        of: OAUTH, flag: "oauth-audience TEXT", help: "Audience to ask for", marks: &[Stays];
    Pem "destination.authentication.certificate", label: "Certificates, the client's own first",
        hint: "PEM: -----BEGIN CERTIFICATE----- and so on.", of: CERTIFICATE, marks: &[Selects],
        flag: "client-certificate FILE",
        help: "Show a client certificate (mutual TLS): a file with its chain, one's own first (PEM)";
    SecretPem "destination.authentication.privateKey", label: "Its private key", hint: STORED,
        of: CERTIFICATE, flag: "client-key FILE",
        help: "A file with the private key of the client certificate (PEM), which no read shows";
    Text "destination.authentication.certificateReference", label: "Where both are",
        hint: REFERENCE, of: CERTIFICATE, flag: "client-certificate-reference ARN",
        help: "Where client certificate and private key are kept together, as for \
               --oauth-secret-reference",
        excludes: &["client-certificate", "client-key"], marks: &[Selects];
    Pem "destination.authentication.trustedCertificates", label: "Authorities to trust",
        hint: "PEM. Empty: the public ones. Otherwise only these.", of: CERTIFICATE,
        flag: "trusted-certificates FILE", marks: &[Stays],
        help: "Beside a client certificate: trust only the authorities in this file (PEM) at this \
               endpoint";
    Choice "destination.authentication.clientAssertion.type", of: CLIENTS;
    Text "destination.authentication.clientAssertion.audience", of: IDENTITY,
        label: "Audience of AWS's token, instead of a secret",
        hint: "One of endpoint_audiences, such as api://AzureADTokenExchange. Empty: no such token.",
        flag: "client-by-aws AUDIENCE", excludes: PROOFS, marks: &[Optional, Selects],
        help: "Prove the client by a token that AWS signs, instead of a secret: for this audience, or \
               for Entra ID's own";
    Text "destination.authentication.service", label: "Service to sign for", of: SIGV4,
        hint: "execute-api (API Gateway), lambda (function URLs) or, with a role, another one.",
        flag: "sigv4-service SERVICE", marks: &[Selects],
        help: "Sign requests by AWS's Signature Version 4 for this service: execute-api (API Gateway) \
               or lambda (function URLs)";
    Text "destination.authentication.region", label: "Region to sign for", of: SIGV4,
        hint: "Empty: what the endpoint's host says.", flag: "sigv4-region REGION",
        help: "The region to sign for, where the endpoint's host does not show it", marks: &[Stays];
    Text "destination.authentication.roleArn", label: "Role that signs", of: SIGV4,
        hint: "One of endpoint_roles. Empty: the function itself, to hosts of endpoint_signed_hosts.",
        flag: "sigv4-role ARN", help: "The role to sign with, one that the deployment names",
        marks: &[Stays];
    Text "destination.authentication.audience", label: "Audience", of: IDENTITY,
        hint: "One of endpoint_audiences.", flag: "aws-identity AUDIENCE", marks: &[Selects],
        help: "Authenticate requests by tokens that AWS signs for this audience, one that the \
               deployment names";
    Choice "destination.authentication.signingAlgorithm", label: "How AWS signs the token",
        of: IDENTITY, flag: "aws-identity-algorithm ALGORITHM",
        help: "How AWS signs such a token: RS256 (the default) or ES384";
    Choice "destination.authentication.clientAssertion.signingAlgorithm", of: IDENTITY,
        label: "How AWS signs that token", flag: "aws-identity-algorithm";
    Text "destination.azureActiveDirectoryTenantId", of: WEBHOOK,
        label: "Tenant, for the deployment's own client of Entra ID",
        hint: "Instead of the above, where the operator has set endpoint_entra_client.";
    Text "destination.azureActiveDirectoryApplicationIdOrUri", of: WEBHOOK,
        label: "The endpoint's application, for the deployment's own client";
}

settings! {
    /// Every setting of a topic, in the order of its form.
    TOPIC_SETTINGS:
    Choice "inputSchema", label: "Input schema",
        hint: "The one schema that the topic takes. It can't be changed later.", words: &[
            ("", "the kind's: EventGridSchema, or CloudEventSchemaV1_0 for namespace"),
            ("CustomEventSchema", "events of one's own"),
        ];
    Choice "deliveryProfile", label: "Delivery profile",
        hint: "The table of retry rules, and the form of dead letters.",
        words: &[("", "the kind's: basic, or namespace")];
    Flag "disableLocalAuth", label: "Refuse access keys and SAS tokens";
    Number "idempotency.windowInSeconds", label: "Recognise repeated publishes for (s)",
        hint: "A publish that is repeated under its Idempotency-Key or x-ms-client-request-id is delivered \
               once. Empty: keys are not heeded. Costs two writes of the table for each publish with a key.";
    Choice "inputSchemaMapping.inputSchemaMappingType";
    Text "inputSchemaMapping.id.sourceField", label: "Id: member of the event";
    Text "inputSchemaMapping.topic.sourceField", label: "Topic: member of the event";
    Text "inputSchemaMapping.eventTime.sourceField", label: "Event time: member of the event";
    Text "inputSchemaMapping.eventType.sourceField", label: "Event type: member of the event";
    Text "inputSchemaMapping.eventType.defaultValue", label: "Event type: where it is missing";
    Text "inputSchemaMapping.subject.sourceField", label: "Subject: member of the event";
    Text "inputSchemaMapping.subject.defaultValue", label: "Subject: where it is missing";
    Text "inputSchemaMapping.dataVersion.sourceField", label: "Data version: member of the event";
    Text "inputSchemaMapping.dataVersion.defaultValue", label: "Data version: where it is missing";
}
