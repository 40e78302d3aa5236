//! Lists in pages.

use gridpost_core::topic::Topic;
use serde_json::json;

use super::{Fixture, body, code};

/// 250 event subscriptions under `demo`, and topics `t-000` to `t-249`.
async fn filled() -> Fixture {
    let fixture = Fixture::with_subscription().await;
    fixture.fill((0..250).map(|index| format!("s-{index:03}")));
    let demo = fixture.topic("demo").expect("demo");
    for index in 0..250 {
        let one = Topic { name: format!("t-{index:03}"), ..demo.clone() };
        fixture.deployment.tables.configure(one, Vec::new());
    }
    fixture
}

/// Follows a list to its end: the names on each page.
async fn pages(fixture: &Fixture, first: &str) -> Vec<Vec<String>> {
    let mut pages = Vec::new();
    let mut next = Some(format!("GET {first}"));
    while let Some(line) = next {
        let reply = fixture.call(&line).await;
        assert_eq!(reply.status, 200, "{reply:?}");
        let documents = body(&reply)["value"].as_array().expect("a list").clone();
        let names = documents.iter().map(|one| one["name"].as_str().expect("a name").to_owned());
        pages.push(names.collect());
        next = body(&reply)["nextLink"].as_str().map(|link| {
            let rest = link.strip_prefix("https://manage.example/").expect("absolute");
            format!("GET /{rest}")
        });
        assert!(pages.len() < 300, "a list without end");
    }
    pages
}

#[tokio::test(start_paused = true)]
async fn every_resource_is_on_one_page() {
    let fixture = filled().await;
    let list = "/topics/demo/eventSubscriptions";
    let table = [
        ("/topics", 251, vec![100, 100, 51]),
        ("/topics?$top=100", 251, vec![100, 100, 51]),
        ("/topics?%24top=84&api-version=2025-02-15", 251, vec![84, 84, 83]),
        (list, 250, vec![100, 100, 50]),
        ("/topics/demo/healths", 250, vec![100, 100, 50]),
        ("/topics/demo/eventSubscriptions?$top=50", 250, vec![50; 5]),
        ("/topics/demo/eventSubscriptions?$top=1", 250, vec![1; 250]),
    ];
    for (first, count, want) in table {
        let pages = pages(&fixture, first).await;
        let lengths: Vec<_> = pages.iter().map(Vec::len).collect();
        assert_eq!(lengths, want, "{first}");
        let mut names: Vec<_> = pages.concat();
        names.dedup();
        assert_eq!(names.len(), count, "{first}");
        assert!(names.is_sorted(), "{first}");
    }
    let page = fixture.call("GET /topics?$top=2&api-version=2025-02-15").await;
    let want =
        "https://manage.example/topics?api-version=2025-02-15&%24top=2&%24skiptoken=MTp0LTAwMA";
    assert_eq!(body(&page)["nextLink"], want);
    assert_eq!(
        body(&fixture.call("GET /topics/t-001/eventSubscriptions").await),
        &json!({"value": []})
    );
}

#[tokio::test(start_paused = true)]
async fn what_goes_and_comes_between_pages_moves_nobody_else() {
    let fixture = filled().await;
    let page = fixture.call("GET /topics?$top=3").await;
    let link = body(&page)["nextLink"].as_str().expect("more").to_owned();
    // The last of the page, by which the next one begins; and a new one before it.
    let tables = &fixture.deployment.tables;
    let topic = fixture.topic("t-001").expect("there");
    tables.forget_topic("t-001");
    tables.configure(Topic { name: "a-new".to_owned(), ..topic }, Vec::new());
    let line = link.replace("https://manage.example", "GET ");
    let next = fixture.call(&line).await;
    assert_eq!(body(&next)["value"][0]["name"], "t-002");
}

#[tokio::test(start_paused = true)]
async fn refused_queries_name_their_parameters() {
    let fixture = filled().await;
    let table = [
        ("$top=0", "$top", "must be a whole number from 1 to 100 (default 100), but is \"0\""),
        ("$top=101", "$top", "from 1 to 100"),
        ("$top=-1", "$top", "from 1 to 100"),
        ("$top=ten", "$top", "from 1 to 100"),
        ("$top=", "$top", "from 1 to 100"),
        ("$top=99999999999999999999999", "$top", "from 1 to 100"),
        ("$top=1&$top=2", "$top", "must stand once"),
        ("$filter=name eq 'x'", "$filter", "is not supported yet"),
        ("top=5", "\"top\"", "parameters here are $top, $skiptoken and api-version"),
        ("$orderby=name", "\"$orderby\"", "is not known"),
        ("$skiptoken=abc", "$skiptoken", "is none that this API gave out"),
        ("$skiptoken=", "$skiptoken", "is none that this API gave out"),
        ("$skiptoken=%FF%00", "$skiptoken", "is none that this API gave out"),
        // Tokens of the right form with an invalid name.
        ("$skiptoken=MTo", "$skiptoken", "is none that this API gave out"),
        ("$skiptoken=MTphL2I", "$skiptoken", "is none that this API gave out"),
        ("$skiptoken=Mjph", "$skiptoken", "is none that this API gave out"),
    ];
    for (query, target, rule) in table {
        for list in ["/topics", "/topics/demo/eventSubscriptions"] {
            let refused = fixture.call(&format!("GET {list}?{query}")).await;
            assert_eq!((refused.status, code(&refused)), (400, "InvalidRequest"), "{query}");
            let detail = &body(&refused)["error"]["details"][0];
            assert_eq!(detail["target"], target, "{query}");
            assert!(detail["message"].as_str().is_some_and(|text| text.contains(rule)), "{detail}");
        }
    }
    let both = fixture.call("GET /topics?$top=0&$filter=x").await;
    assert_eq!(body(&both)["error"]["details"].as_array().map(Vec::len), Some(2));
}
