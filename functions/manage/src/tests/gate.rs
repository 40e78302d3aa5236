//! A request runs as the route that API Gateway has authorised, or not at all.

use gridpost_runtime::gateway;
use gridpost_testkit::logs;
use serde_json::{Value, json};

use super::{body, fixture::Fixture, message};
use crate::{Authorization, Reply, not_base64, respond, routes};

const SUBSCRIPTION: &str = "/topics/{topic}/eventSubscriptions/{name}";

/// API Gateway's event for a request that it matched with that route.
fn event(method: &str, path: &str, route: &str, authorizer: Value) -> Value {
    json!({
        "version": "2.0", "routeKey": route, "rawPath": path, "rawQueryString": "",
        "headers": {"content-type": "application/json"}, "isBase64Encoded": false,
        "requestContext": {
            "http": {"method": method, "path": path}, "routeKey": route, "stage": "$default",
            "authorizer": authorizer,
        },
    })
}

fn iam() -> Value {
    json!({"iam": {"accessKey": "A", "userArn": "arn:aws:iam::123456789012:user/a"}})
}

async fn answered(fixture: &Fixture, event: Value) -> Reply {
    let event = serde_json::from_value(event).expect("an event");
    let respond = |request| async move {
        let response = respond(&fixture.context, &request).await;
        response.map(|document| String::from_utf8_lossy(&document).into_owned())
    };
    let answered = gateway::answer(event, not_base64, respond).await.expect("an HTTP request");
    let answered = serde_json::to_value(answered).expect("JSON");
    let status = answered["statusCode"].as_u64().and_then(|status| status.try_into().ok());
    let body = answered["body"].as_str().and_then(|body| serde_json::from_str(body).ok());
    Reply { status: status.expect("a status"), body, headers: Vec::new() }
}

#[tokio::test(start_paused = true)]
async fn a_body_that_is_no_base64_is_refused() {
    let fixture = Fixture::with_subscription().await;
    let mut event = event("GET", "/topics", "GET /topics", iam());
    (event["isBase64Encoded"], event["body"]) = (json!(true), json!("?"));
    let reply = answered(&fixture, event).await;
    assert_eq!(
        (reply.status, &reply.body.expect("a document")["error"]["code"]),
        (400, &json!("InvalidJson"))
    );
}

#[tokio::test(start_paused = true)]
async fn only_the_route_that_iam_was_asked_for_is_carried_out() {
    let mut fixture = Fixture::with_subscription().await;
    fixture.context.settings.authorization = Authorization::Iam;
    let validate = format!("{SUBSCRIPTION}/validate");
    let post_validate = format!("POST {validate}");
    let get = format!("GET {SUBSCRIPTION}");
    let s1 = "/topics/demo/eventSubscriptions/s-1";
    let table = [
        ("GET", "/topics", "GET /topics", iam(), 200),
        ("GET", s1, get.as_str(), iam(), 200),
        ("POST", "/topics/demo/listKeys", "POST /topics/{topic}/listKeys", iam(), 200),
        // Not authorised by IAM.
        ("GET", "/topics", "GET /topics", Value::Null, 403),
        ("GET", "/topics", "GET /topics", json!({"jwt": {"claims": {}}}), 403),
        ("GET", s1, &get, json!({}), 403),
        // Another route than the requested one, or none.
        ("POST", "/topics/demo/listKeys", &post_validate, Value::Null, 403),
        ("POST", "/topics/demo/listKeys", &post_validate, iam(), 403),
        ("GET", s1, &format!("GET {validate}"), Value::Null, 403),
        ("POST", &format!("{s1}/getFullUrl"), "POST /topics/{topic}/listKeys", iam(), 403),
        ("DELETE", s1, &get, iam(), 403),
        // A name that was decoded on the way to another path.
        ("PUT", "/topics/demo/listKeys", "PUT /topics/{topic}", iam(), 403),
        ("GET", "/topics", "$default", iam(), 403),
        ("GET", "/topics", "", iam(), 403),
        // An invalid name is refused, whatever the matched route.
        (
            "POST",
            "/topics/demo%2FlistKeys%3F/eventSubscriptions/s-1/validate",
            &post_validate,
            Value::Null,
            400,
        ),
        (
            "GET",
            "/topics/demo/eventSubscriptions/s-1?/validate",
            &format!("GET {validate}"),
            Value::Null,
            400,
        ),
        // The validation URL has a token of its own.
        ("GET", &format!("{s1}/validate"), &format!("GET {validate}"), Value::Null, 403),
    ];
    for (method, path, route, authorizer, status) in table {
        let case = format!("{method} {path} as {route} by {authorizer}");
        let reply = answered(&fixture, event(method, path, route, authorizer)).await;
        assert_eq!(reply.status, status, "{case}: {:?}", reply.body);
        if status != 200 {
            let text = body(&reply).to_string();
            assert!(!text.contains("hush") && !text.contains("key1"), "{case}: {text}");
        }
    }
}

/// The gate asks for the route that axum finds, and refuses HEAD.
#[tokio::test(start_paused = true)]
async fn every_route_is_refused_as_another() {
    let mut fixture = Fixture::with_subscription().await;
    fixture.context.settings.authorization = Authorization::Iam;
    assert!(routes::all().len() > 35);
    for route in routes::all() {
        let (method, path) = route.key.split_once(' ').expect("a method and a path");
        let path = path.replace("{topic}", "demo").replace("{name}", "s-1").replace("{id}", "m-1");
        for other in ["GET /other", "$default", "GET /topics/{topic}/{name}"] {
            let reply = answered(&fixture, event(method, &path, other, iam())).await;
            assert_eq!(reply.status, 403, "{} as {other}", route.key);
            let want = format!("The request names '{}', but", route.key);
            assert!(message(&reply).starts_with(&want), "{}", message(&reply));
        }
        let unsigned = answered(&fixture, event(method, &path, &route.key, Value::Null)).await;
        let is_let_in = message(&unsigned).starts_with("This validation URL");
        assert_eq!((unsigned.status, is_let_in), (403, route.is_open), "{}", route.key);
        let head = answered(&fixture, event("HEAD", &path, &format!("HEAD {path}"), iam())).await;
        assert_eq!(head.status, 405, "{}", route.key);
    }
}

#[tokio::test(start_paused = true)]
async fn without_an_authorizer_a_route_is_still_the_one_that_was_matched() {
    let fixture = Fixture::with_subscription().await;
    let table = [
        ("GET", "/topics", "GET /topics", 200),
        ("GET", "/topics", "$default", 200),
        ("GET", "/topics", "POST /topics/{topic}/listKeys", 403),
    ];
    for (method, path, route, status) in table {
        let reply = answered(&fixture, event(method, path, route, Value::Null)).await;
        assert_eq!(reply.status, status, "{route}");
    }
}

/// As `cargo lambda watch` sends it, with null where AWS sends an empty text.
#[tokio::test(start_paused = true)]
async fn a_request_by_cargo_lambdas_url_is_answered() {
    let fixture = Fixture::new();
    let mut put = event("PUT", "/topics/demo", "$default", Value::Null);
    for name in ["rawQueryString", "headers", "body", "isBase64Encoded"] {
        put[name] = Value::Null;
    }
    put["requestContext"]["timeEpoch"] = Value::Null;
    assert_eq!(answered(&fixture, put.clone()).await.status, 201);
    put["body"] = json!("?");
    put["isBase64Encoded"] = json!(true);
    assert_eq!(answered(&fixture, put).await.status, 400);
}

#[tokio::test(start_paused = true)]
async fn who_changes_something_is_in_the_log() {
    let mut fixture = Fixture::with_subscription().await;
    fixture.context.settings.authorization = Authorization::Iam;
    let (caller, keys) = ("arn:aws:iam::123456789012:user/a", "/topics/demo/listKeys");
    let table = [
        ("POST", keys, "POST /topics/{topic}/listKeys", iam(), Some((caller, 200))),
        // Authorised by IAM for another route.
        ("POST", keys, "GET /topics", iam(), Some((caller, 403))),
        ("GET", "/topics", "GET /topics", iam(), None),
        ("POST", keys, "POST /topics/{topic}/listKeys", json!({}), None),
        ("DELETE", "/topics/demo", "DELETE /topics/{topic}", iam(), Some((caller, 200))),
    ];
    for (method, path, route, authorizer, want) in table {
        logs::watch();
        logs::take();
        answered(&fixture, event(method, path, route, authorizer)).await;
        let lines = logs::take();
        let line = lines.iter().find(|line| line["caller"].is_string());
        let found = line.map(|line| (line["caller"].as_str(), line["status"].as_u64()));
        assert_eq!(
            found,
            want.map(|(caller, status)| (Some(caller), Some(status))),
            "{method} {path}"
        );
        let told = line.and_then(|line| line["message"].as_str());
        assert_eq!(told.map(str::to_owned), want.map(|_| format!("{method} {path}")));
    }
}
