//! Tokens reach the routes of their role and the topics of their scope, and nothing else.

use gridpost_core::{
    access::{Grant, Role},
    gateway::Authorizer,
};
use gridpost_testkit::logs;
use serde_json::{Value, json};

use super::{fixture::Fixture, message, openapi::operations};
use crate::{Authorization, Reply, Request, answer};

/// The role that each operation needs; an operation that is in no list fails the test.
const ROLES: [(Role, &[&str]); 3] = [
    (
        Role::Read,
        &[
            "GET /topics",
            "GET /topics/{topic}",
            "GET /topics/{topic}/healths",
            "POST /topics/{topic}/explain",
            "POST /topics/{topic}/eventSubscriptions:test",
            "GET /topics/{topic}/eventSubscriptions",
            "GET /topics/{topic}/eventSubscriptions/{name}",
            "GET /topics/{topic}/eventSubscriptions/{name}/health",
            "GET /topics/{topic}/eventSubscriptions/{name}/deliveries",
            "GET /topics/{topic}/eventSubscriptions/{name}/deliveries/{id}",
            "GET /topics/{topic}/eventSubscriptions/{name}/deliveries:count",
            "GET /topics/{topic}/eventSubscriptions/{name}/deadLetters",
            "GET /topics/{topic}/eventSubscriptions/{name}/deadLetters/{id}",
            "GET /topics/{topic}/eventSubscriptions/{name}/deadLetters:count",
            "GET /topics/{topic}/eventSubscriptions/{name}/redrives",
            "GET /topics/{topic}/eventSubscriptions/{name}/redrives/{id}",
            "GET /parked",
            "GET /poison",
            "GET /poison/{id}",
            "POST /journalQueries",
            "GET /journalQueries/{id}",
        ],
    ),
    (
        Role::Operator,
        &[
            "POST /topics/{topic}/eventSubscriptions/{name}/pause",
            "POST /topics/{topic}/eventSubscriptions/{name}/resume",
            "POST /topics/{topic}/eventSubscriptions/{name}/sendTestEvent",
            "POST /topics/{topic}/eventSubscriptions/{name}/health:reset",
            "POST /topics/{topic}/eventSubscriptions/{name}/deliveries/{id}/resend",
            "POST /topics/{topic}/eventSubscriptions/{name}/deadLetters:purge",
            "POST /topics/{topic}/eventSubscriptions/{name}/deadLetters:redrive",
            "POST /topics/{topic}/eventSubscriptions/{name}/redrives/{id}/cancel",
            "POST /topics/{topic}/eventSubscriptions/{name}/redrives/{id}/resume",
            "POST /parked:release",
            "POST /parked:cancel",
            "POST /poison:resend",
            "POST /poison:purge",
        ],
    ),
    (
        Role::Admin,
        &[
            "PUT /topics/{topic}",
            "PATCH /topics/{topic}",
            "DELETE /topics/{topic}",
            "POST /topics/{topic}/listKeys",
            "POST /topics/{topic}/regenerateKey",
            "PUT /topics/{topic}/eventSubscriptions/{name}",
            "PATCH /topics/{topic}/eventSubscriptions/{name}",
            "DELETE /topics/{topic}/eventSubscriptions/{name}",
            "POST /topics/{topic}/eventSubscriptions/{name}/getFullUrl",
            "POST /topics/{topic}/eventSubscriptions/{name}/getDeliveryAttributes",
            "POST /topics/{topic}/eventSubscriptions/{name}/getSigningSecrets",
            "POST /topics/{topic}/eventSubscriptions/{name}/rotateSigningSecret",
        ],
    ),
];

/// Operations whose bodies or answers name the topics: the handlers look at them.
const BY_HANDLER: [&str; 6] = [
    "GET /topics",
    "GET /parked",
    "POST /parked:release",
    "POST /parked:cancel",
    "POST /journalQueries",
    "GET /journalQueries/{id}",
];

fn grant(role: Role, topics: &str) -> Grant {
    Grant { role, topics: topics.parse().expect("a scope") }
}

async fn send(fixture: &Fixture, grant: Option<&Grant>, line: &str, document: Value) -> Reply {
    let (method, path) = line.split_once(' ').expect("a method and a path");
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    let request = Request {
        query: query.to_owned(),
        authorizer: grant.cloned().map(Authorizer::Token),
        caller: grant.map(|_| "ci".to_owned()),
        ..Request::new(
            method.parse().expect("a method"),
            path.to_owned(),
            document.to_string().into_bytes(),
        )
    };
    answer(&fixture.context, &request).await
}

#[tokio::test(start_paused = true)]
async fn each_operation_is_for_its_role_and_those_above_on_topics_in_scope() {
    let mut operations = operations("manage");
    for (needed, own) in ROLES {
        for operation in own {
            assert!(operations.remove(*operation), "{operation} is not in the document");
            let line = operation.replace("{topic}", "demo").replace("{name}", "s-1");
            let line = line.replace("{id}", "6f1b5c1c-0000-4000-8000-000000000000");
            for role in [Role::Read, Role::Operator, Role::Admin] {
                for (topics, has_demo) in [("*", true), ("de*", true), ("acme-*", false)] {
                    let mut fixture = Fixture::with_subscription().await;
                    fixture.context.settings.authorization = Authorization::Tokens;
                    let reply = send(&fixture, Some(&grant(role, topics)), &line, json!({})).await;
                    let is_in_scope = match operation.contains("{topic}") {
                        true => has_demo,
                        false => topics == "*" || !operation.contains("/poison"),
                    };
                    let is_by_handler = BY_HANDLER.contains(operation) && topics != "*";
                    let want = role >= needed && is_in_scope;
                    let is_let_in = reply.status != 403;
                    let case = format!("{operation} by {role} of {topics}: {reply:?}");
                    assert!(is_let_in == want || (want && is_by_handler), "{case}");
                    assert_ne!(reply.status, 401, "{case}");
                    if !is_let_in {
                        let text = reply.body.clone().unwrap_or_default().to_string();
                        assert!(!text.contains("hush") && !text.contains("s-1"), "{case}");
                    }
                }
            }
            let mut fixture = Fixture::with_subscription().await;
            fixture.context.settings.authorization = Authorization::Tokens;
            assert_eq!(send(&fixture, None, &line, json!({})).await.status, 401, "{operation}");
        }
    }
    let open = operations.iter().all(|one| one.ends_with("/validate"));
    assert!(open && operations.len() == 2, "no role is written down for {operations:?}");
}

/// Topics that a body names, and those of a list, are limited to the scope, too.
#[tokio::test(start_paused = true)]
async fn other_teams_topics_are_neither_listed_nor_reached_by_a_body() {
    let mut fixture = Fixture::with_subscription().await;
    for name in ["acme-1", "acme-2", "beta-1"] {
        let line = format!("PUT /topics/{name}");
        assert_eq!(fixture.prepare(&line, json!({})).await.status, 201);
    }
    fixture.context.settings.authorization = Authorization::Tokens;
    let admin = grant(Role::Admin, "acme-*,beta-*");
    let names = |reply: &Reply| {
        let body = reply.body.clone().unwrap_or_default();
        let value = body["value"].as_array().cloned().unwrap_or_default();
        let names = value.iter().map(|one| one["name"].as_str().unwrap_or_default().to_owned());
        names.collect::<Vec<_>>()
    };
    let all = send(&fixture, Some(&admin), "GET /topics", json!({})).await;
    assert_eq!(names(&all), ["acme-1", "acme-2", "beta-1"]);
    let first = send(&fixture, Some(&admin), "GET /topics?$top=2", json!({})).await;
    assert_eq!(names(&first), ["acme-1", "acme-2"]);
    let next = first.body.unwrap_or_default()["nextLink"].as_str().expect("a link").to_owned();
    let next = next.strip_prefix("https://manage.example").expect("its own").to_owned();
    let rest = send(&fixture, Some(&admin), &format!("GET {next}"), json!({})).await;
    assert_eq!(names(&rest), ["beta-1"]);
    let ledger = |topic: &str| json!({"ledger": {"topic": topic}});
    for (line, document, want) in [
        ("POST /journalQueries", ledger("demo"), 403),
        ("POST /journalQueries", json!({"ledger": {}}), 403),
        ("PUT /topics/acme-3", json!({}), 201),
        ("PUT /topics/demo-2", json!({}), 403),
        ("GET /topics/ACME-1", json!({}), 200),
    ] {
        let reply = send(&fixture, Some(&admin), line, document.clone()).await;
        assert_eq!(reply.status, want, "{line} {document}: {reply:?}");
        assert!(want != 403 || message(&reply).contains("acme-*,beta-*"), "{reply:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_name_of_a_token_is_in_the_log_of_what_it_changes() {
    let mut fixture = Fixture::with_subscription().await;
    fixture.context.settings.authorization = Authorization::Tokens;
    logs::watch();
    logs::take();
    let admin = grant(Role::Admin, "*");
    send(&fixture, Some(&admin), "POST /topics/demo/listKeys", json!({})).await;
    let lines = logs::take();
    assert!(lines.iter().any(|line| line["caller"] == "ci" && line["status"] == 200), "{lines:?}");
}
