//! Reads of configuration by publishes.

use std::time::Duration;

use super::*;

#[tokio::test(start_paused = true)]
async fn what_opens_no_topic_reads_none() {
    let mut fixture = Fixture::new(stored());
    let tables = fixture.deployment.apart(&fixture.deployment.tables, Plan::default());
    fixture.context.configuration = configuration(&fixture.deployment, Arc::clone(&tables) as _);
    let to = |name: &str| {
        let path = format!("/topics/{name}/api/events");
        Request { path, ..request(&events(1, 1)) }
    };
    let bad = [
        with(to("orders"), "aeg-sas-key", ""),
        with(to("orders"), "aeg-sas-key", "not base64!"),
        with(with(to("orders"), "aeg-sas-key", ""), "authorization", "Bearer ey"),
        with(with(to("orders"), "aeg-sas-key", ""), "aeg-sas-token", "r=a&e=b&s=c"),
        with(to("unknown"), "aeg-sas-key", ""),
    ];
    for request in bad {
        assert_eq!(fixture.publish(&request).await.status().as_u16(), 401, "{}", request.path);
        assert_eq!(tables.injector.made(), 0, "{}", request.path);
    }
    // Unknown names are cached, too.
    for _ in 0..100 {
        assert_eq!(fixture.publish(&to("unknown")).await.status().as_u16(), 404);
    }
    assert_eq!(tables.injector.made(), 1);
    // The topic and its event subscriptions; its keys are read elsewhere here.
    for _ in 0..100 {
        assert_eq!(fixture.publish(&to("orders")).await.status().as_u16(), 200);
    }
    assert_eq!(tables.injector.made(), 1 + 2);
}

/// Refuses a request that came past the CDN before it looks at anything else: path, key, topic.
#[tokio::test(start_paused = true)]
async fn what_came_past_the_cdn_is_refused_unread() {
    // Source of the digests: `printf %s first | sha256sum`, and of `second`.
    let secrets = "a7937b64b8caa58f03721bb6bacf5c78cb235febe0e70b1b84cd99541461a08e,\
                   16367aacb67a4a017c8da8ab95682ccb390863780f7114dda0a0e0c55644c7c4";
    let mut fixture = Fixture::new(stored());
    fixture.context.origin_secrets = secrets.parse().expect("digests");
    let tables = fixture.deployment.apart(&fixture.deployment.tables, Plan::default());
    fixture.context.configuration = configuration(&fixture.deployment, Arc::clone(&tables) as _);
    let good = || request(&events(1, 1));
    let past = [
        good(),
        with(good(), ORIGIN_SECRET, "third"),
        with(good(), "aeg-sas-key", ""),
        to("/nowhere", good()),
        Request { body: b"{".to_vec(), ..good() },
    ];
    for request in past {
        let answer = fixture.publish(&request).await;
        let body: Value = serde_json::from_str(answer.body()).expect("JSON");
        let error = &body["error"];
        assert_eq!(answer.status().as_u16(), 403, "{}", request.path);
        assert_eq!(
            (&error["code"], &error["details"][0]["code"]),
            (&json!("Forbidden"), &json!("OriginRefused"))
        );
        assert_eq!(tables.injector.made(), 0, "{}", request.path);
    }
    for secret in ["first", "second"] {
        let through = with(good(), ORIGIN_SECRET, secret);
        assert_eq!(fixture.publish(&through).await.status().as_u16(), 200, "{secret}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_read_a_moment_ago_serves_while_the_table_can_not_be_read() {
    let mut fixture = Fixture::new(stored());
    let tables = fixture.deployment.apart(&fixture.deployment.tables, Plan::default());
    fixture.context.configuration = configuration(&fixture.deployment, Arc::clone(&tables) as _);
    let publish = || request(&events(1, 1));
    assert_eq!(fixture.publish(&publish()).await.status().as_u16(), 200);
    *tables.injector.plan() = Plan { calls_max: Some(0), ..Plan::default() };
    for (after_s, status) in [(3, 200), (56, 200), (2, 503)] {
        tokio::time::sleep(Duration::from_secs(after_s)).await;
        assert_eq!(
            fixture.publish(&publish()).await.status().as_u16(),
            status,
            "{after_s} s later"
        );
    }
    *tables.injector.plan() = Plan::default();
    assert_eq!(fixture.publish(&publish()).await.status().as_u16(), 200);
}
