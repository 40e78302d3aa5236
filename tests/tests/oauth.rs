//! Authenticated requests against an OAuth 2.0 server that is not ours: Authlib's.
//!
//! It needs Python, so `tests/complete` runs it and `cargo test` does not.

use std::{path::Path, sync::Arc, time::Duration};

use gridpost_core::{
    delivery::request::Request,
    endpoint::{Allowed, secrets::ClientSecrets},
    retry::outcome::Outcome,
    secret::Secret,
    subscription::authentication::{
        Authentication, Client, ClientCredentials, ClientSecret, Grant, SentBy,
    },
};
use gridpost_ports::{
    Attempted, EndpointClient,
    authentication::{Authenticated, NoSecrets, Tokens},
};
use gridpost_runtime::system::{SystemClock, SystemDice};
use gridpost_tests::packages;
use gridpost_webhook::{http::HttpClient, keys::PrivateKeys};
use serde_json::Value;

const REQUIREMENTS: &str = include_str!("../oauth/requirements.txt");
const PROGRAM: &str = include_str!("../oauth/server.py");

/// The life of the server's tokens.
const LIFE: Duration = Duration::from_secs(4);

struct Server {
    url: String,
    /// The private keys of its clients, by their ids.
    keys: Value,
    _running: packages::Server,
}

async fn start() -> anyhow::Result<Server> {
    let logs = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let running = packages::serve("oauth", REQUIREMENTS, PROGRAM, logs).await?;
    let keys = serde_json::from_str(&running.printed)?;
    Ok(Server { url: running.url.clone(), keys, _running: running })
}

/// The client that dispatch has, where loopback is allowed.
fn client() -> Authenticated<HttpClient> {
    let networks = "127.0.0.0/8".parse().expect("a network");
    let allowed = Allowed { networks, ..Allowed::default() };
    let clock = Arc::new(SystemClock);
    let client = HttpClient::new(allowed, Arc::clone(&clock) as _).expect("a client");
    let none = ClientSecrets::default();
    let tokens = Tokens::new(Arc::new(client.clone()), Arc::new(NoSecrets), none, clock);
    let tokens = tokens.signing(Arc::new(PrivateKeys), Arc::new(SystemDice));
    Authenticated::new(client, Arc::new(tokens))
}

impl Server {
    fn authentication(&self, id: &str, sent_by: SentBy, secret: &str) -> Authentication {
        let value = Secret::new(secret);
        Authentication::ClientCredentials(ClientCredentials {
            grant: Grant::OAuth2 {
                token_url: format!("{}/token", self.url),
                scope: Some("events".to_owned()),
                audience: None,
                sent_by,
            },
            client: Client::Own { id: id.to_owned(), secret: ClientSecret::Inline { value } },
        })
    }

    async fn attempt(
        &self,
        client: &Authenticated<HttpClient>,
        by: &Authentication,
    ) -> (Outcome, String) {
        let request = Request {
            url: Secret::new(format!("{}/hook", self.url)),
            headers: Vec::new(),
            attributes: Vec::new(),
            body: b"[]".to_vec(),
            authentication: Some(Arc::new(by.clone())),
            reads_results: false,
        };
        match client.attempt(request).await {
            Attempted::Answered { answer, response_text: said, .. } => {
                (answer.outcome, said.unwrap_or_default())
            }
            _ => panic!("it answers at once"),
        }
    }

    async fn issued(&self) -> u64 {
        let answer = reqwest::get(format!("{}/issued", self.url)).await.expect("an answer");
        answer.json().await.expect("a number")
    }

    async fn revoke_all(&self) {
        let url = format!("{}/revoke", self.url);
        reqwest::Client::new().post(url).send().await.expect("an answer");
    }
}

#[tokio::test]
async fn tokens_of_another_server_are_asked_for_kept_renewed_and_replaced() {
    let server = start().await.expect("a server");
    let table = [
        ("posts", SentBy::Post, "s3cret & more", SentBy::Basic),
        ("basic", SentBy::Basic, "s3cret-and-more", SentBy::Post),
    ];
    for (id, sent_by, secret, other) in table {
        let (client, before) = (client(), server.issued().await);
        let by = server.authentication(id, sent_by.clone(), secret);
        for _ in 0..3 {
            assert_eq!(server.attempt(&client, &by).await.0, Outcome::Delivered, "{id}");
        }
        assert_eq!(server.issued().await, before + 1, "{id} keeps its token");
        server.revoke_all().await;
        // It is not a minute old, so the refusal counts.
        assert_eq!(server.attempt(&client, &by).await.0, Outcome::Unauthorized, "{id} is revoked");
        assert_eq!(server.issued().await, before + 1);
        tokio::time::sleep(LIFE).await;
        assert_eq!(server.attempt(&client, &by).await.0, Outcome::Delivered, "{id} has expired");
        assert_eq!(server.issued().await, before + 2, "{id} is renewed before it is refused");
        for wrong in [
            server.authentication(id, sent_by.clone(), "another"),
            server.authentication(id, other.clone(), secret),
            server.authentication("stranger", sent_by.clone(), secret),
        ] {
            let (outcome, said) = server.attempt(&client, &wrong).await;
            assert_eq!(outcome, Outcome::EndpointAuthenticationFailed, "{said}");
            assert!(said.contains("(invalid_client)") && !said.contains(secret), "{said}");
        }
    }
}

#[tokio::test]
async fn assertions_are_verified_by_another_server() {
    let server = start().await.expect("a server");
    let signed = |id: &str, audience: Option<&str>| SentBy::PrivateKeyJwt {
        key_id: Some(format!("{id}-1")),
        audience: audience.map(str::to_owned),
    };
    for (id, other) in [("rsa", "elliptic"), ("elliptic", "rsa")] {
        let (client, before) = (client(), server.issued().await);
        let key = server.keys[id].as_str().expect("a key");
        let by = server.authentication(id, signed(id, None), key);
        for issued in 1..=3 {
            let (outcome, said) = server.attempt(&client, &by).await;
            assert_eq!(outcome, Outcome::Delivered, "{id}: {said}");
            // Each assertion has an id of its own, or the server would refuse the second.
            assert_eq!(server.issued().await, before + issued, "{id}");
            tokio::time::sleep(LIFE).await;
        }
        let elsewhere = signed(id, Some("https://elsewhere.example/token"));
        let wrong = server.authentication(id, elsewhere, key);
        let (outcome, said) = server.attempt(&client, &wrong).await;
        assert_eq!(outcome, Outcome::EndpointAuthenticationFailed, "{said}");
        assert!(said.contains("(invalid_client)"), "{said}");
        let audience = Some(format!("{}/token", server.url));
        let named = server.authentication(id, signed(id, audience.as_deref()), key);
        assert_eq!(server.attempt(&client, &named).await.0, Outcome::Delivered, "{id}");
        let foreign = server.keys[other].as_str().expect("a key");
        let foreign = server.authentication(id, signed(id, None), foreign);
        let (outcome, said) = server.attempt(&client, &foreign).await;
        assert_eq!(outcome, Outcome::EndpointAuthenticationFailed, "{said}");
    }
}
