//! What the client asks for is what manage answers: each call against `docs/openapi.json`, which is
//! generated from manage's routes.

use std::{
    collections::BTreeSet,
    future::ready,
    ops::ControlFlow,
    sync::{Arc, Mutex},
};

use axum::{Router, extract::Request};
use gridpost_api::{
    client::Client,
    journal::query::JournalQueryInput,
    requests::{
        ParkedInput, PurgeDeadLettersInput, PurgeInput, RedriveInput, ResendInput, ResumeInput,
    },
    subscription::RotateInput,
    topic::AccessKey,
};
use serde_json::{Value, json, value::RawValue};
use tokio::net::TcpListener;

use super::{ManageApi, Sender};

/// Operations that are not the client's: publishers and endpoints call them.
const OF_OTHERS: [&str; 4] = [
    "GET /topics/{topic}/eventSubscriptions/{name}/validate",
    "POST /topics/{topic}/api/events",
    "POST /topics/{topic}/eventSubscriptions/{name}/validate",
    "POST /topics/{topic}:publish",
];

const METHODS: [&str; 5] = ["delete", "get", "patch", "post", "put"];

/// The operations of the API, as `METHOD /path/{of}/templates`.
fn operations() -> BTreeSet<String> {
    let document: Value =
        serde_json::from_str(include_str!("../../../../docs/openapi.json")).expect("JSON");
    let paths = document["paths"].as_object().expect("paths");
    let operations = paths.iter().flat_map(|(path, methods)| {
        // Beside the methods are what holds for all of them: `parameters`, `servers`.
        let methods = METHODS.into_iter().filter(|method| !methods[*method].is_null());
        methods.map(move |method| format!("{} {path}", method.to_uppercase()))
    });
    operations.collect()
}

/// Whether a request's path is one of that template. A parameter takes one segment, or what is before
/// its `:verb`.
fn is_of(template: &str, path: &str) -> bool {
    let (template, path) = (template.split('/'), path.split('/'));
    let mut segments = template.clone().zip(path.clone());
    let is_same = |(wanted, given): (&str, &str)| match wanted.split_once('}') {
        Some((_, verb)) => {
            given.strip_suffix(verb).is_some_and(|name| !name.is_empty() && !name.contains(':'))
        }
        None => wanted == given,
    };
    template.count() == path.count() && segments.all(is_same)
}

async fn listening() -> (ManageApi, Arc<Mutex<Vec<String>>>) {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let all = Arc::clone(&asked);
    let router = Router::new().fallback(move |request: Request| {
        let line = format!("{} {}", request.method(), request.uri().path());
        let is_running = line == "POST /journalQueries";
        all.lock().expect("no panic while held").push(line);
        async move {
            match is_running {
                true => r#"{"id":"q","status":"Running","gigabytes":0,"dollars":0}"#,
                false => r#"{"value":[]}"#,
            }
        }
    });
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let url = format!("http://{}", listener.local_addr().expect("bound"));
    tokio::spawn(async move { axum::serve(listener, router).await });
    (ManageApi::connect(&url).await.expect("built"), asked)
}

/// Calls whatever the client has. Only the requests count, not what it makes of the answers.
async fn call_all(api: &Client<Sender>) {
    let (topic, name, id, empty) = ("orders", "billing", "00000000-1", json!({}));
    let event: &RawValue = serde_json::from_str("{}").expect("JSON");
    let (letters, parked) = (PurgeDeadLettersInput::default(), ParkedInput::default());
    let go_on = ControlFlow::Continue;
    let _ = api.put_topic(topic, &empty).await;
    let _ = api.patch_topic(topic, &empty).await;
    let _ = api.topic(topic).await;
    let _ = api.topics().await;
    let _ = api.delete_topic(topic).await;
    let _ = api.keys(topic).await;
    let _ = api.regenerate_key(topic, AccessKey::Key1).await;
    let _ = api.put_subscription(topic, name, &empty).await;
    let _ = api.patch_subscription(topic, name, &empty).await;
    let _ = api.subscription(topic, name).await;
    let _ = api.subscriptions(topic).await;
    let _ = api.delete_subscription(topic, name).await;
    let _ = api.health(topic, name).await;
    let _ = api.healths(topic).await;
    let _ = api.reset_health(topic, name).await;
    let _ = api.each_delivery(topic, name, |_| go_on(())).await;
    let _ = api.count_deliveries(topic, name, |_| go_on(())).await;
    let _ = api.delivery(topic, name, id).await;
    let _ = api.resend(topic, name, id).await;
    let _ = api.dead_letters_page(topic, name, &letters, None).await;
    let _ = api.count_dead_letters(topic, name, &letters, |_| go_on(())).await;
    let _ = api.purge_dead_letters(topic, name, &letters, |_| {}).await;
    let _ = api.dead_letter(topic, name, id).await;
    let _ = api.redrive(topic, name, &RedriveInput::default()).await;
    let _ = api.redrives(topic, name).await;
    let _ = api.redrive_job(topic, name, id).await;
    let _ = api.cancel_redrive(topic, name, id).await;
    let _ = api.resume_redrive(topic, name, id, &ResumeInput::default()).await;
    let _ = api.pause(topic, name, true).await;
    let _ = api.resume(topic, name).await;
    let _ = api.full_url(topic, name).await;
    let _ = api.delivery_attributes(topic, name).await;
    let _ = api.signing_secrets(topic, name).await;
    let _ = api.rotate_signing_secret(topic, name, &RotateInput::default()).await;
    let _ = api.test_subscription(topic, &empty, event).await;
    let _ = api.explain(topic, event).await;
    let _ = api.send_test_event(topic, name, event).await;
    let _ = api.poison(1).await;
    let _ = api.poison_message(id).await;
    let _ = api.resend_poison(&ResendInput::default()).await;
    let _ = api.purge_poison(&PurgeInput::default()).await;
    let _ = api.parked(&parked).await;
    let _ = api.change_parked("release", &parked, |_| {}).await;
    let _ = api.change_parked("cancel", &parked, |_| {}).await;
    let _ = api.ask_journal(&JournalQueryInput::default(), 1, |_| ready(())).await;
}

#[tokio::test]
async fn the_client_calls_the_operations_of_the_api_and_all_of_them() {
    let (api, asked) = listening().await;
    call_all(&api.api).await;
    let asked = asked.lock().expect("no panic while held").clone();
    let operations = operations();
    let mut called = BTreeSet::new();
    for line in &asked {
        let is_this = |operation: &&String| {
            let parts = operation.split_once(' ').zip(line.split_once(' '));
            parts.is_some_and(|((method, template), (asked, path))| {
                method == asked && is_of(template, path)
            })
        };
        let meant: Vec<_> = operations.iter().filter(is_this).cloned().collect();
        assert_eq!(meant.len(), 1, "{line} is {meant:?}");
        called.extend(meant);
    }
    let left: Vec<_> = operations.difference(&called).map(String::as_str).collect();
    assert_eq!(left, OF_OTHERS, "operations that the client does not call");
}
