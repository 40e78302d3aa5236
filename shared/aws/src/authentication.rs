//! Identity and secrets for authenticated endpoints. Secrets of Secrets Manager and parameters of
//! Systems Manager are read by one signed request each: SDK clients would make every function larger.
//! Source: API references of both, `GetSecretValue` and `GetParameter`.

use std::sync::Arc;

use async_trait::async_trait;
use aws_types::SdkConfig;
use gridpost_core::{endpoint::arn::Arn, secret::Secret};
use gridpost_ports::{Clock, PortError, authentication::SecretReader};
use gridpost_signing::{MakeClient, Signer, services::Call};
use serde_json::{Value, json};

pub use gridpost_signing::Services;

const CONTENT_TYPE: &str = "application/x-amz-json-1.1";

/// Returns AWS's services, with the credentials and endpoint of `config`. Credentials are requested
/// for each call, because the provider knows when they expire.
pub fn services(
    config: &SdkConfig,
    clock: &Arc<dyn Clock>,
    make_client: MakeClient,
) -> Arc<Services> {
    let endpoint = config.endpoint_url().map(str::to_owned);
    let (own, clock) = (config.credentials_provider(), Arc::clone(clock));
    Arc::new(Services::new(own, endpoint, clock, make_client))
}

/// Returns what signs requests to endpoints as the function or as a role that it may assume, and gets
/// tokens that say who the function is. It calls the Security Token Service of its region, because the
/// global one has no tokens.
pub fn signer(config: &SdkConfig, services: Arc<Services>) -> Signer {
    let region = config.region().map(ToString::to_string).unwrap_or_default();
    Signer::new(services, region)
}

/// Reads secrets by ARN, in any region.
pub struct AwsSecrets(Arc<Services>);

/// How a service is called, and where its answer has the secret.
#[derive(Debug)]
struct Service {
    name: &'static str,
    target: &'static str,
    call: &'static str,
    value_at: &'static str,
}

const SECRETS_MANAGER: Service = Service {
    name: "secretsmanager",
    target: "secretsmanager.GetSecretValue",
    call: "secretsmanager:GetSecretValue",
    value_at: "/SecretString",
};

const SYSTEMS_MANAGER: Service = Service {
    name: "ssm",
    target: "AmazonSSM.GetParameter",
    call: "ssm:GetParameter",
    value_at: "/Parameter/Value",
};

impl Service {
    fn of(arn: &Arn) -> Option<&'static Self> {
        [&SECRETS_MANAGER, &SYSTEMS_MANAGER].into_iter().find(|one| one.name == arn.service)
    }

    fn body(&self, arn: &str) -> String {
        match self.name {
            "ssm" => json!({"Name": arn, "WithDecryption": true}),
            _ => json!({"SecretId": arn}),
        }
        .to_string()
    }

    /// Returns the value in an answer. Errors only quote the service's code.
    fn value(&self, status: u16, body: &[u8]) -> Result<Secret, PortError> {
        let answer = serde_json::from_slice::<Value>(body).unwrap_or_default();
        let value = answer.pointer(self.value_at).and_then(Value::as_str);
        match value.filter(|_| status == 200) {
            Some(value) => Ok(Secret::new(value)),
            None if status == 200 => Err(PortError::new(self.call, "it has no text")),
            None => {
                let code = answer.get("__type").and_then(Value::as_str).unwrap_or_default();
                let code = code.rsplit('#').next().unwrap_or_default();
                let code: String = code.chars().filter(char::is_ascii_alphanumeric).collect();
                Err(PortError::new(self.call, format!("status {status} {code}").trim_end()))
            }
        }
    }
}

impl AwsSecrets {
    pub fn new(services: Arc<Services>) -> Self {
        Self(services)
    }
}

#[async_trait]
impl SecretReader for AwsSecrets {
    async fn read(&self, name: &str) -> Result<Secret, PortError> {
        let found = name.parse::<Arn>().ok();
        let found = found.and_then(|arn| Service::of(&arn).map(|service| (service, arn)));
        let Some((service, arn)) = found else {
            let reason = "its name is not an ARN of Secrets Manager or of a parameter";
            return Err(PortError::new("reading a secret", reason));
        };
        let body = service.body(name);
        let headers = &[("content-type", CONTENT_TYPE), ("x-amz-target", service.target)];
        let (name, region) = (service.call, arn.region.as_str());
        let call = Call { name, service: service.name, region, headers, body: &body };
        let answered = self.0.call(call).await?;
        service.value(answered.status, &answered.body)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use gridpost_ports::{HandshakeClient, HandshakeError, HandshakeRequest, HandshakeResponse};
    use gridpost_runtime::system::SystemClock;
    use gridpost_signing::{Credentials, SharedCredentialsProvider};

    use super::*;

    const SECRET: &str = "arn:aws:secretsmanager:eu-north-1:111122223333:secret:orders-AbCdEf";
    const PARAMETER: &str = "arn:aws-cn:ssm:cn-north-1:111122223333:parameter/orders";

    /// Answers one thing, and notes what it is asked.
    #[derive(Default)]
    struct Answering(u16, &'static str, Mutex<Vec<(String, String, Vec<String>)>>);

    #[async_trait]
    impl HandshakeClient for Answering {
        async fn exchange(
            &self,
            asked: HandshakeRequest,
        ) -> Result<HandshakeResponse, HandshakeError> {
            let names = asked.headers.iter().map(|(name, _)| (*name).to_owned());
            let added = asked.attributes.iter().map(|(name, _)| name.clone());
            let body = String::from_utf8_lossy(&asked.body).into_owned();
            let noted = (asked.url.expose().to_owned(), body, names.chain(added).collect());
            self.2.lock().expect("no panic while held").push(noted);
            let body = self.1.as_bytes().to_vec();
            Ok(HandshakeResponse { status: self.0, headers: http::HeaderMap::new(), body })
        }
    }

    fn secrets(client: &Arc<Answering>, endpoint: Option<&str>) -> AwsSecrets {
        let own = Credentials::new("id", "key", Some("session".to_owned()), None, "test");
        let own = Some(SharedCredentialsProvider::new(own));
        let client: Arc<dyn HandshakeClient> = Arc::clone(client) as _;
        let make = Box::new(move || Ok(Arc::clone(&client)));
        let endpoint = endpoint.map(str::to_owned);
        AwsSecrets::new(Arc::new(Services::new(own, endpoint, Arc::new(SystemClock), make)))
    }

    #[tokio::test]
    async fn secrets_and_parameters_are_read_by_their_arns() {
        let table = [
            (
                SECRET,
                None,
                r#"{"SecretString": "hush"}"#,
                "https://secretsmanager.eu-north-1.amazonaws.com/",
            ),
            (
                PARAMETER,
                None,
                r#"{"Parameter": {"Value": "hush"}}"#,
                "https://ssm.cn-north-1.amazonaws.com.cn/",
            ),
            (
                SECRET,
                Some("http://127.0.0.1:4566"),
                r#"{"SecretString": "hush"}"#,
                "http://127.0.0.1:4566/",
            ),
        ];
        for (arn, endpoint, answer, url) in table {
            let client = Arc::new(Answering(200, answer, Mutex::default()));
            let read = secrets(&client, endpoint).read(arn).await.expect(arn);
            assert_eq!(read.expose(), "hush");
            let asked = client.2.lock().expect("no panic while held").remove(0);
            assert_eq!(asked.0, url);
            assert!(asked.1.contains(arn), "{}", asked.1);
            for header in ["x-amz-target", "authorization", "x-amz-date", "x-amz-security-token"] {
                assert!(asked.2.iter().any(|name| name == header), "{header}: {:?}", asked.2);
            }
        }
    }

    #[tokio::test]
    async fn what_is_not_read_is_said_without_what_was_answered() {
        let denied = r#"{"__type": "com.amazon#AccessDeniedException", "Message": "hush"}"#;
        let table = [
            (SECRET, 400, denied, "status 400 AccessDeniedException"),
            (SECRET, 200, r#"{"SecretBinary": "hush"}"#, "it has no text"),
            (SECRET, 500, "hush", "status 500"),
            ("arn:aws:s3:::hush", 200, "{}", "not an ARN of Secrets Manager"),
            ("env:X", 200, "{}", "not an ARN of Secrets Manager"),
        ];
        for (arn, status, answer, want) in table {
            let client = Arc::new(Answering(status, answer, Mutex::default()));
            let error = secrets(&client, None).read(arn).await.expect_err(arn).to_string();
            assert!(error.contains(want) && !error.contains("hush"), "{error}");
        }
    }
}
