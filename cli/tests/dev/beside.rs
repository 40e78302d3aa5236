//! Other commands beside it, which change what is there or look at it.

use super::*;

#[tokio::test]
async fn what_is_there_is_replaced_only_where_that_is_said() {
    let place = Place::new();
    let (receiver, _arrivals) = endpoint("200").await;
    let dev = place.dev("--memory --quiet").await;
    let url = receiver.url("/hook");
    let create = format!("subscription create --topic demo --name own --endpoint {url}");
    let attempts = async || {
        let shown = place.run("--json subscription show --topic demo --name own").await;
        let shown: Value = serde_json::from_str(&code(&shown, 0)).expect("JSON");
        shown["properties"]["retryPolicy"]["maxDeliveryAttempts"].clone()
    };
    code(&place.run(&format!("{create} --max-attempts 5")).await, 0);
    let refused = code(&place.run(&create).await, 1);
    for part in ["event subscription own of topic demo", "subscription update", "--replace"] {
        assert!(refused.contains(part), "{part} is not in\n{refused}");
    }
    assert_eq!(attempts().await, 5, "it stays as it is");
    assert!(code(&place.run(&format!("{create} --replace")).await, 0).contains("replaced"));
    assert_eq!(attempts().await, 30, "what is not named has its default");
    assert!(end(dev, Signal::TERM).await.success());
}

/// A flag that an environment variable sets is not listed as required.
#[tokio::test]
async fn a_usage_is_the_same_whatever_the_environment_has() {
    let place = Place::new();
    let usage = async |line: &str, variables: &[(&str, &str)]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_gridpost"));
        command.env_clear().envs(variables.iter().copied()).current_dir(place.folder.path());
        let output = command.args(line.split_whitespace()).output().await.expect("it runs");
        code(&output, 2)
    };
    let variables = [
        ("GRIDPOST_HOME", "/tmp/home"),
        ("GRIDPOST_MANAGE_URL", "https://m.example"),
        ("GRIDPOST_PUBLISH_URL", "https://p.example"),
        ("GRIDPOST_DEPLOYMENT", "prod"),
        ("GRIDPOST_NAME_PREFIX", "events"),
    ];
    for line in ["wait --topic orders", "explain e-1", "apply", "topic create", "tail --outcome x"]
    {
        assert_eq!(usage(line, &variables).await, usage(line, &[]).await, "{line}");
    }
    assert!(!usage("apply", &variables).await.contains("--home"));
}

/// The exit code of an audit says that an event is under way, whether its report is read or not.
#[tokio::test]
async fn an_audit_that_is_not_read_ends_as_one_that_is() {
    let place = Place::new();
    let (sender, mut arrivals) = unbounded_channel();
    let answers: Answers = "200".parse().expect("answers");
    let slow = Behaviour { answers, delay: Duration::from_secs(25) };
    let address = "127.0.0.1:0".parse().expect("an address");
    let receiver = Receiver::start(address, HashMap::new(), slow, sender).await.expect("a port");
    let file = place.write("topics.json", &declared(&receiver.url("/hook")));
    let dev = place.dev(&format!("--memory --quiet --config {}", file.display())).await;
    code(&place.run("publish --topic orders --type T --id e-1").await, 0);
    next_delivery(&mut arrivals).await;
    for line in ["audit", "--json audit"] {
        // Pipes whose readers are gone.
        let [stdout, stderr] = [(), ()].map(|()| std::io::pipe().expect("a pipe").1);
        let mut audit = place.gridpost(line);
        let audit = audit.stdout(stdout).stderr(stderr).status();
        let ended = timeout(PATIENCE, audit).await.expect("in time").expect("it runs");
        assert_eq!(ended.code(), Some(3), "{line}");
    }
    // Its delivery is still under way.
    end(dev, Signal::KILL).await;
}

/// RFC 9110, section 5.5: spaces and tabs at its ends are no part of a header's value; a tab within is,
/// and other control characters and those beyond ASCII can't be sent safely.
#[tokio::test]
async fn a_dynamic_header_has_what_a_header_can_carry() {
    let place = Place::new();
    let dev = place.dev("--memory --quiet").await;
    let (receiver, mut arrivals) = endpoint("200").await;
    let url = receiver.url("/hook");
    let create = "subscription create --topic demo --name own --dynamic-header X-K=data.k";
    code(&place.run(&format!("{create} --endpoint {url}")).await, 0);
    let long = "x".repeat(4_097);
    for (value, want) in [
        ("v", Some("v")),
        (" v", Some("v")),
        ("v\t ", Some("v")),
        ("a\tb", Some("a\tb")),
        ("a  b", Some("a  b")),
        (" \t", Some("")),
        ("", Some("")),
        ("v\n", None),
        ("v\u{c}", None),
        ("v\u{7f}", None),
        ("é", None),
        ("v\u{a0}", None),
        (&long, None),
    ] {
        let data = place.write("data.json", &json!({ "k": value }).to_string());
        let publish = format!("publish --topic demo --type T --data @{}", data.display());
        code(&place.run(&publish).await, 0);
        assert_eq!(next_delivery(&mut arrivals).await.header("x-k"), want, "{value:?}");
    }
    assert!(end(dev, Signal::TERM).await.success());
}
