//! Signed requests: botocore makes each signature again, moto gives the credentials of roles.

use std::sync::Arc;

use gridpost_core::{
    delivery::request::Request,
    endpoint::{Allowed, secrets::ClientSecrets},
    retry::{outcome::Outcome, response_text::ResponseBytes},
    secret::Secret,
    subscription::authentication::{Authentication, SigV4},
};
use gridpost_ports::{
    Attempted, Clock, EndpointClient,
    authentication::{Authenticated, NoSecrets, Tokens},
};
use gridpost_runtime::system::SystemClock;
use gridpost_signing::{Credentials, Services, SharedCredentialsProvider, Signer};
use gridpost_webhook::http::{HttpClient, client_for_services};

use super::server;

const NAMED: &str = r#"{"own": ["*"], "roles": {"*": ["*"]}}"#;

/// The client that dispatch has, where loopback is allowed and moto is AWS.
fn client(url: &str, (key, secret): (&str, &str)) -> Authenticated<HttpClient> {
    let networks = "127.0.0.0/8".parse().expect("a network");
    let allowed = Allowed { networks, ..Allowed::default() };
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let client = HttpClient::new(allowed, Arc::clone(&clock)).expect("a client");
    let own = SharedCredentialsProvider::new(Credentials::new(key, secret, None, None, "a test"));
    let make = Box::new(client_for_services(&clock));
    let services = Services::new(Some(own), Some(url.to_owned()), Arc::clone(&clock), make);
    let signer = Signer::new(Arc::new(services), "us-east-1");
    let none = ClientSecrets::default();
    let tokens = Tokens::new(Arc::new(client.clone()), Arc::new(NoSecrets), none, clock);
    let tokens = tokens.proving(Arc::new(signer), NAMED.parse().expect("a setting"));
    Authenticated::new(client.keeping(ResponseBytes::MAX), Arc::new(tokens))
}

#[tokio::test]
async fn botocore_makes_the_same_signatures() {
    let url = server::url().await;
    let role = || Some("arn:aws:iam::123456789012:role/gridpost-test".to_owned());
    let (own, other) = (("key", "secret"), ("key", "another"));
    let table = [
        ("/signed/", None, own, Outcome::Delivered),
        ("/signed/hook", None, own, Outcome::Delivered),
        ("/signed/or%20ders/a+b/%C3%A9?b=2&a=%2F1&c", None, own, Outcome::Delivered),
        ("/signed/it's(1)!*/~x:y@z;v=1,2$&?q=a%20b&q=A&Q=~", None, own, Outcome::Delivered),
        ("/signed/hook", role(), own, Outcome::Delivered),
        ("/signed/hook", None, other, Outcome::Forbidden),
    ];
    for (path, role, credentials, want) in table {
        let by = SigV4 {
            service: "execute-api".to_owned(),
            region: Some("eu-north-1".to_owned()),
            role,
        };
        let client = client(url, credentials);
        for body in [&b"[{\"id\":\"1\"}]"[..], b"", "[\"\u{e9}\"]".as_bytes()] {
            let request = Request {
                url: Secret::new(format!("{url}{path}")),
                headers: vec![("content-type", "application/json; charset=utf-8".to_owned())],
                attributes: vec![("x-tenant".to_owned(), Secret::new("t"))],
                body: body.to_vec(),
                authentication: Some(Arc::new(Authentication::AwsSigV4(by.clone()))),
                reads_results: false,
            };
            let Attempted::Answered { answer, response_text, .. } = client.attempt(request).await
            else {
                panic!("it answers at once")
            };
            assert_eq!(answer.outcome, want, "{path}: {response_text:?}");
        }
    }
}
