use serde_json::json;

use super::*;

const BASE: &str = "https://m.example/v1";

/// Answers a request by the first row whose path, with its query, is the request's.
struct Rows(Vec<(&'static str, String)>);

impl Transport for Rows {
    type Error = ClientError;

    async fn send(&self, request: Request) -> Result<Answer, ClientError> {
        let path = request.url.strip_prefix(BASE).unwrap_or_default();
        match self.0.iter().find(|(row, _)| *row == path) {
            Some((_, body)) => Ok(Answer { status: 200, etag: None, body: body.clone() }),
            None => Err(ClientError::NoEnd { path: path.to_owned() }),
        }
    }
}

fn client<const N: usize>(rows: [(&'static str, serde_json::Value); N]) -> Client<Rows> {
    let rows = rows.into_iter().map(|(path, document)| (path, document.to_string()));
    Client::new(&format!("{BASE}/"), Rows(rows.collect()))
}

/// Lists topics, answered by this text. Returns how many they are, or the error.
async fn topics(answer: &str) -> Result<usize, String> {
    let client = Client::new(BASE, Rows(vec![("/topics", answer.to_owned())]));
    client.topics().await.map(|all| all.len()).map_err(|error| error.to_string())
}

fn topic(name: &str) -> serde_json::Value {
    json!({"id": format!("/topics/{name}"), "name": name, "type": "Gridpost/topics", "kind": "custom",
        "properties": {"endpoint": "http://a", "provisioningState": "Succeeded"}})
}

#[tokio::test]
async fn a_page_leads_to_the_next_one() {
    let first = json!({"value": [topic("a")], "nextLink": "/topics?$top=50&$skiptoken=a%2Bb"});
    let client = client([
        ("/topics?$top=50&$skiptoken=a%2Bb", json!({"value": [topic("b")]})),
        ("/topics?$top=50", first),
    ]);
    let page = client.topics_page(None).await.expect("a page");
    assert_eq!((page.items[0].name.as_str(), page.next.as_deref()), ("a", Some("a+b")));
    let page = client.topics_page(page.next.as_deref()).await.expect("a page");
    assert_eq!((page.items[0].name.as_str(), page.next), ("b", None));
}

#[test]
fn a_token_is_read_out_of_its_link() {
    for (link, want) in [
        ("/topics?$top=1&$skiptoken=x%3D", Some("x=")),
        ("https://a.example/topics?%24skiptoken=y", Some("y")),
        ("/topics?$top=1", None),
        ("/topics", None),
    ] {
        assert_eq!(token(link).as_deref(), want, "{link}");
    }
}

#[tokio::test]
async fn a_strict_client_refuses_members_that_it_does_not_know() {
    let known = json!({"value": [topic("a")], "nextLink": null});
    let mut newer = json!({"value": [topic("a"), topic("b")], "size": 1});
    newer["value"][1]["properties"]["shards"] = json!(4);
    for (answer, want) in [(&known, None), (&newer, Some("size, value[1].properties.shards"))] {
        let client = client([("/topics", answer.clone())]);
        assert!(client.topics().await.is_ok(), "{answer}");
        let refused = client.strict().topics().await.err().map(|error| error.to_string());
        match (&refused, want) {
            (None, None) => {}
            (Some(refused), Some(want)) => assert!(refused.contains(want), "{refused}"),
            _ => panic!("{refused:?} in place of {want:?}"),
        }
    }
}

#[tokio::test]
async fn an_answer_that_is_not_a_list_says_why() {
    for (answer, want) in [
        ("<html>", "with no JSON: is it the URL"),
        ("", "with no JSON: is it the URL"),
        (r#"{"value": [{"name": "t"}]}"#, "with another document than is expected"),
    ] {
        let refused = topics(answer).await.expect_err(answer);
        assert!(refused.starts_with("GET https://m.example/v1/topics answered 200"), "{refused}");
        assert!(refused.contains(want), "{refused}");
    }
}

#[tokio::test]
async fn the_next_page_must_be_of_the_same_deployment() {
    assert_eq!(topics(r#"{"value": []}"#).await, Ok(0));
    for answer in [
        r#"{"value": [], "nextLink": "https://elsewhere.example/topics"}"#,
        r#"{"value": [], "nextLink": "https://m.example/v10/topics"}"#,
        r#"{"value": [], "nextLink": "https://m.example/v1@elsewhere.example/topics"}"#,
    ] {
        let refused = topics(answer).await.expect_err(answer);
        assert!(refused.ends_with("outside https://m.example/v1"), "{refused}");
    }
    let whole = json!({"value": [topic("a")], "nextLink": format!("{BASE}/topics?$skiptoken=b")});
    let client =
        client([("/topics?$skiptoken=b", json!({"value": [topic("b")]})), ("/topics", whole)]);
    assert_eq!(client.topics().await.expect("topics").len(), 2);
}

#[test]
fn a_name_cannot_leave_its_place_in_the_path() {
    let path = subscription_path("demo", "s-1").expect("names");
    assert_eq!(path, "/topics/demo/eventSubscriptions/s-1");
    for name in ["", "..", "a/b", "a?b", "\u{e4}", "a b", "a%2f"] {
        assert!(topic_path(name).is_err(), "{name}");
    }
}

#[tokio::test]
async fn what_was_done_before_a_failure_is_taken() {
    const ID: &str = "00000000-0000-0000-0000-000000000001";
    let first = json!({"value": [{"id": ID, "result": "Canceled"}],
        "nextLink": "/parked:cancel?$skiptoken=x"});
    let client = client([("/parked:cancel", first)]);
    for (action, want) in [("cancel", 1), ("release", 0)] {
        let mut done = Vec::new();
        let take = |handled| done.extend(handled);
        let result = client.change_parked(action, &ParkedInput::default(), take).await;
        assert!(result.is_err(), "{action}");
        assert_eq!(done.len(), want, "{action}");
    }
}

#[test]
fn a_choice_is_a_query() {
    let text = |text: &str| Some(text.to_owned());
    let none = PurgeDeadLettersInput::default;
    let at = "2026-01-01T00:00:00Z".parse().ok();
    let query = "?from=2026-01-01T00%3A00%3A00.000Z&reason=a+b&eventType=x";
    for (chosen, want) in [
        (none(), ""),
        (PurgeDeadLettersInput { redriven: Some(false), ..none() }, "?redriven=false"),
        (
            PurgeDeadLettersInput {
                reason: text("a b"),
                event_type: text("x"),
                from: at,
                ..none()
            },
            query,
        ),
    ] {
        let path = letters_path("t", "s", ":count", &chosen).expect("names");
        assert_eq!(path, format!("/topics/t/eventSubscriptions/s/deadLetters:count{want}"));
    }
    let none = ParkedInput::default;
    let both = ParkedInput { topic: text("a b"), event_subscription: text("s"), ..none() };
    for (chosen, want) in [(none(), ""), (both, "?topic=a+b&eventSubscription=s")] {
        assert_eq!(parked_path(&chosen), format!("/parked{want}"));
    }
}

#[test]
fn an_event_goes_as_it_stands() {
    let event = r#"{"n":1e400,"n":1.50}"#;
    assert_eq!(with_text("{}", "event", event), r#"{"event":{"n":1e400,"n":1.50}}"#);
    let named = with_text(r#"{"name":"s1"}"#, "events", event);
    assert_eq!(named, r#"{"name":"s1","events":{"n":1e400,"n":1.50}}"#);
}

#[tokio::test]
async fn an_answer_of_the_journal_is_waited_for_and_read_to_its_end() {
    let page = |status: &str, topics: &[&str], next: Option<&str>| {
        let entry = |topic: &&str| {
            json!({"period": 0, "topic": topic, "accepted": 1, "unmatched": 0,
            "publishHour": "2026-01-01T00:00:00.000Z"})
        };
        let ledger: Vec<_> = topics.iter().map(entry).collect();
        json!({"id": "q_-1", "status": status, "gigabytes": 1.0, "dollars": 0.1, "ledger": ledger,
            "nextLink": next})
    };
    let second = "/journalQueries/q_-1?$skiptoken=2";
    let mut last = page("Succeeded", &["c"], None);
    last["begins"] = json!("2026-01-01T00:00:00.000Z");
    let client = client([
        ("/journalQueries", page("Running", &[], None)),
        ("/journalQueries/q_-1", page("Succeeded", &["a", "b"], Some(second))),
        (second, last),
    ]);
    let input = JournalQueryInput { ledger: Some(Default::default()), ..Default::default() };
    let mut pauses = 0;
    let answer = client.ask_journal(&input, usize::MAX, |query| {
        pauses += 1;
        assert_eq!(query.dollars, 0.1);
        std::future::ready(())
    });
    let answer = answer.await.expect("an answer");
    assert_eq!((pauses, answer.entries(), &answer.next_link), (1, 3, &None));
    assert!(answer.begins.is_some(), "which the last page says");
    let answer =
        client.ask_journal(&input, 2, |_| std::future::ready(())).await.expect("an answer");
    assert_eq!((answer.entries(), answer.next_link.as_deref()), (2, Some(second)));
}
