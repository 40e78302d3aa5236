//! Endpoints that do not consent, and filters that match nothing: what commands say of them.

use std::{
    io::{Read, Write},
    net::TcpListener,
    thread,
};

use super::*;

/// An endpoint that answers every request so; `CODE` is the validation code. Returns its URL.
fn answering(head: &'static str, body: &'static [u8]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/hook", listener.local_addr().expect("an address"));
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("a connection");
            let mut request = vec![0; 64 * 1_024];
            let mut length = 0;
            while !is_whole(&request[..length]) {
                match stream.read(&mut request[length..]) {
                    Ok(0) | Err(_) => break,
                    Ok(read) => length += read,
                }
            }
            let request = String::from_utf8_lossy(&request[..length]).into_owned();
            let code = request.split("\"validationCode\":\"").nth(1).unwrap_or_default();
            let code = code.split('"').next().unwrap_or_default().as_bytes();
            let parts: Vec<_> = split(body, b"CODE");
            let body = parts.join(code);
            let head = format!(
                "HTTP/1.1 {head}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
                body.len()
            );
            let _ = stream.write_all(&[head.as_bytes(), &body].concat());
        }
    });
    url
}

fn is_whole(request: &[u8]) -> bool {
    let request = String::from_utf8_lossy(request).to_ascii_lowercase();
    let Some((head, body)) = request.split_once("\r\n\r\n") else { return false };
    let length = head.split("content-length: ").nth(1).and_then(|it| it.lines().next());
    body.len() >= length.and_then(|it| it.trim().parse().ok()).unwrap_or(0)
}

fn split<'b>(body: &'b [u8], mark: &[u8]) -> Vec<&'b [u8]> {
    match body.windows(mark.len()).position(|part| part == mark) {
        Some(at) => vec![&body[..at], &body[at + mark.len()..]],
        None => vec![body],
    }
}

#[tokio::test]
async fn an_answer_that_is_no_consent_is_explained() {
    let place = Place::new();
    let dev = place.dev("--memory --quiet").await;
    // What comes before and after the answer's length, its body, a part of what is told.
    let rows: [(&str, &'static str, &'static [u8], &str); 6] = [
        (
            "capital",
            "200 OK",
            b"{\"ValidationResponse\":\"CODE\"}",
            "\"ValidationResponse\" instead of",
        ),
        ("marked", "200 OK", b"\xef\xbb\xbf{\"validationResponse\":\"CODE\"}", "a byte order mark"),
        ("list", "200 OK", b"[{\"validationResponse\":\"CODE\"}]", "an array, not one object"),
        (
            "zipped",
            "200 OK\r\ncontent-encoding: gzip",
            b"\x1f\x8b\x08\x00",
            "compressed (\"gzip\")",
        ),
        ("page", "200 OK\r\ncontent-type: text/html", b"<html></html>", "HTML or XML"),
        ("nothing", "200 OK", b"", "an empty body"),
    ];
    for (name, head, body, says) in rows {
        let url = answering(head, body);
        let create = format!("subscription create --topic demo --name {name} --endpoint {url}");
        let told = code(&place.run(&create).await, 3);
        for part in ["created", "AwaitingManualAction", says, "; expected status 200", "--no-wait"]
        {
            assert!(told.contains(part), "{name}: {part} is not in\n{told}");
        }
        assert!(!told.contains("token="), "{name}: the proof is for the endpoint alone: {told}");
        let again = format!("{create} --replace --no-wait");
        code(&place.run(&again).await, 0);
        let shown = place.run(&format!("subscription show --topic demo --name {name}")).await;
        assert!(code(&shown, 0).contains(says));
        let health = place.run(&format!("subscription health --topic demo --name {name}")).await;
        let health = code(&health, 0);
        assert!(health.contains("NotValidated") && health.contains(says), "{health}");
        assert!(!health.contains("Healthy"), "{health}");
    }
    let all = code(&place.run("subscription health").await, 0);
    assert!(!all.contains("Healthy"), "{all}");

    // Once it consents, it is as any other.
    let url = answering("200 OK", b"{\"validationResponse\":\"CODE\"}");
    let update = format!("subscription update --topic demo --name list --endpoint {url}");
    code(&place.run(&update).await, 0);
    let health = code(&place.run("subscription health --topic demo --name list").await, 0);
    assert!(health.contains("Healthy") && !health.contains("validated"), "{health}");
    let silent = answering("200 OK", b"{}");
    let update = format!("subscription update --topic demo --name list --endpoint {silent}");
    assert!(code(&place.run(&update).await, 3).contains("an object without validationResponse"));
    let file = place.write("topics.json", &declared(&silent));
    let apply = format!("apply {}", file.display());
    assert!(code(&place.run(&apply).await, 3).contains("an object without validationResponse"));
    code(&place.run(&format!("{apply} --no-wait")).await, 0);
    assert!(end(dev, Signal::TERM).await.success());
}

#[tokio::test]
async fn a_refusal_says_what_to_do() {
    let place = Place::new();
    let dev = place.dev("--memory --quiet").await;
    let redirects = "Redirects are not followed: write the URL that the answer leads to";
    for (head, says) in [
        ("301 Moved Permanently\r\nlocation: /hook/", redirects),
        ("302 Found\r\nlocation: https://login.example/", redirects),
        ("307 Temporary Redirect\r\nlocation: /hook/", redirects),
        ("308 Permanent Redirect\r\nlocation: /hook/", redirects),
        ("401 Unauthorized", "wants to know who asks"),
        ("404 Not Found", "nothing there takes POST"),
        ("202 Accepted", "it answered status 202; expected status 200"),
    ] {
        let url = answering(head, b"");
        let create = format!("subscription create --topic demo --name own --endpoint {url}");
        let told = code(&place.run(&create).await, 1);
        assert!(told.contains(says) && told.contains("Nothing was stored."), "{head}: {told}");
    }
    assert!(end(dev, Signal::TERM).await.success());
}

#[tokio::test]
async fn what_matches_nothing_is_warned_of() {
    let place = Place::new();
    let dev = place.dev("--memory --quiet").await;
    let (receiver, _arrivals) = endpoint("200").await;
    code(&place.run("topic create clouds --schema CloudEventSchemaV1_0").await, 0);
    let url = receiver.url("/hook");
    let document = |filter: Value| {
        json!({"properties": {
            "destination": {"endpointType": "WebHook", "properties": { "endpointUrl": url }},
            "filter": filter,
        }})
    };
    let keyed = |key: &str| {
        document(json!({"advancedFilters": [{"operatorType": "IsNotNull", "key": key}]}))
    };
    // The topic, the document, and a part of the expected warning (empty: no warning).
    let rows = [
        (
            "demo",
            document(json!({"includedEventTypes": ["all"]})),
            "\"all\" is an exact event type",
        ),
        ("demo", keyed("$.data.k"), "dots between them: data.k"),
        ("demo", keyed("data.k[0]"), "without an index: data.k"),
        ("demo", keyed("type"), "have eventType instead"),
        ("demo", keyed("data.k"), ""),
        ("clouds", keyed("eventtype"), "in CloudEvents it is type"),
        ("clouds", keyed("type"), ""),
    ];
    for (topic, document, says) in rows {
        let file = place.write("own.json", &document.to_string());
        let named = format!("--topic {topic} --name own");
        for line in [
            format!("subscription create {named} --replace --file {}", file.display()),
            format!("subscription update {named} --labels l"),
            format!("subscription show {named}"),
        ] {
            let output = place.run(&line).await;
            let (told, all) = (text(&output.stderr), code(&output, 0));
            assert!(told.contains(says), "{line}: {all}");
            assert_eq!(told.contains("! filter"), !says.is_empty(), "{line}: {all}");
        }
    }
    let mapping = json!({"inputSchemaMappingType": "Json",
        "properties": {"id": {"sourceField": "$.data.v"}}});
    let mapping = place.write("mapping.json", &mapping.to_string());
    let create = "topic create own --input-schema CustomEventSchema --mapping";
    let told = code(&place.run(&format!("{create} {}", mapping.display())).await, 0);
    assert!(told.contains("names a member at the top of an event"), "{told}");
    assert!(end(dev, Signal::TERM).await.success());
}
