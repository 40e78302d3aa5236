//! What others do meanwhile, and what the API refuses in part.

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use reqwest::header::ETAG;
use serde_json::json;
use tokio::net::TcpListener;

use crate::world::{Browser, World, http};

const BUSY: &str = "/topics/orders/subscriptions/busy";

#[tokio::test]
async fn a_retry_policy_that_was_changed_meanwhile_is_not_undone() {
    let world = World::new().await;
    let browser = world.browser(false).await;
    let path = format!("{BUSY}/retry");
    let early = browser.made(&path).await;
    let other = [("attempts", "30"), ("minutes", "90"), ("schedule", "")];
    let saved = browser.post_made(&path, &browser.made(&path).await, &other).await;
    assert_eq!(saved.status, 303, "{}", saved.text);
    let mine = [("attempts", "7"), ("minutes", "1440"), ("schedule", "5, 60")];
    let late = browser.post_made(&path, &early, &mine).await;
    late.shows(412, "it was changed meanwhile");
    late.shows(412, "<code>eventTimeToLiveInMinutes</code>");
    for typed in [
        "name=\"attempts\" inputmode=\"numeric\" value=\"7\"",
        "value=\"5, 60\"",
        "name=\"minutes\" value=\"90\"",
    ] {
        late.shows(412, typed);
    }
    // Looking at the timeline of what was typed does not forget what the page was made from.
    let shown = browser.post_made(&format!("{path}/preview"), &early, &mine).await;
    assert!(shown.text.contains(&early[0].1.replace('"', "&quot;")), "{}", shown.text);
    let again = browser
        .post_made(
            &path,
            &browser.made(&path).await,
            &[("attempts", "7"), ("minutes", "90"), ("schedule", "5, 60")],
        )
        .await;
    assert_eq!(again.status, 303, "{}", again.text);
}

#[tokio::test]
async fn a_document_that_was_changed_meanwhile_keeps_both_changes() {
    let world = World::new().await;
    let browser = world.browser(false).await;
    let path = format!("{BUSY}/edit/json");
    let early = browser.made(&path).await;
    let label = |labels: &str, made: &str| {
        let mut document: serde_json::Value = serde_json::from_str(made).expect("JSON");
        document["properties"][labels] = json!(["x"]);
        document.to_string()
    };
    let mut other: serde_json::Value = serde_json::from_str(&early[1].1).expect("JSON");
    other["properties"]["retryPolicy"]["maxDeliveryAttempts"] = json!(9);
    let saved = browser.post_made(&path, &early, &[("document", &other.to_string())]).await;
    assert_eq!(saved.status, 303, "{}", saved.text);
    let mine = label("labels", &early[1].1);
    let late = browser.post_made(&path, &early, &[("document", &mine)]).await;
    late.shows(412, "<code>properties.retryPolicy.maxDeliveryAttempts</code>");
    late.shows(412, "&quot;labels&quot;: [");
    late.shows(412, "&quot;maxDeliveryAttempts&quot;: 9");
}

/// A manage API that answers requests whose path has a text with that status, and has dev answer the others.
async fn refusing(world: &World, part: &'static str, status: u16) -> String {
    let to = (world.manage_url(), part, status);
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("bound"));
    let router = Router::new().fallback(pass).with_state(to);
    tokio::spawn(async move { axum::serve(listener, router).await.expect("it serves") });
    url
}

async fn pass(
    State((url, part, status)): State<(String, &'static str, u16)>,
    request: Request,
) -> Response {
    let path = request.uri().path_and_query().map(ToString::to_string).unwrap_or_default();
    if path.contains(part) {
        let told = json!({"message": "Not this one."}).to_string();
        return (StatusCode::from_u16(status).expect("a status"), told).into_response();
    }
    let (parts, body) = request.into_parts();
    let body = to_bytes(body, usize::MAX).await.expect("a body");
    let answer = http().request(parts.method, format!("{url}{path}")).body(body).send().await;
    let answer = answer.expect("dev answers");
    let mut reply = Response::builder().status(answer.status());
    if let Some(etag) = answer.headers().get(ETAG) {
        reply = reply.header(ETAG, etag);
    }
    reply.body(Body::from(answer.bytes().await.expect("bytes"))).expect("an answer")
}

#[tokio::test]
async fn what_can_be_read_is_shown_and_the_rest_says_what_is_missing() {
    let world = World::new().await;
    let table = [
        ("/orders/healths", 429, "/", "for 1: orders", "slow down"),
        ("/healths", 403, "/", "/topics/*/healths", "execute-api:Invoke"),
        ("/topics", 429, "/", "<code>GET /topics</code>", "poison queue"),
        ("/healths", 429, "/topics/orders", "slow down", "orders/subscriptions/busy"),
        ("/health", 403, BUSY, "health could not be read", "Settings"),
        ("/parked", 403, "/waiting", "execute-api:Invoke", "It is empty"),
        ("/poison", 403, "/waiting", "execute-api:Invoke", "No delivery is parked"),
    ];
    for (part, status, page, problem, rest) in table {
        let url = refusing(&world, part, status).await;
        let console = world.console_of(Some(url), false).await;
        let signed_in = http().get(&console.sign_in_url).send().await.expect("an answer");
        let cookie = signed_in.headers()["set-cookie"].to_str().expect("text");
        let cookie = cookie.split(';').next().unwrap_or_default().to_owned();
        let browser = Browser { console, http: http(), cookie, token: String::new() };
        let answer = browser.get(page).await;
        for text in [problem, rest] {
            assert!(
                answer.text.contains(text),
                "{part} {status}: `{text}` is not in {}",
                answer.text
            );
        }
        assert_eq!(answer.status, 200, "{part}");
    }
}
