use super::*;

const GROUP: &str = "g";

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_millis(seconds * 1_000)
}

fn logs() -> CloudLogs {
    let logs = CloudLogs::default();
    logs.create_group(GROUP, at(0), None);
    logs
}

/// Asks for a page of the lines before that second that have an `a`.
async fn page(logs: &CloudLogs, to: i64, token: Option<&str>) -> Result<LogPage> {
    let range = LogRange { group: GROUP, from: at(0), to: at(to), pattern: "a" };
    logs.page(&range, token.map(str::to_owned)).await
}

#[tokio::test(start_paused = true)]
async fn pages_end_at_a_megabyte_and_may_be_empty() {
    let logs = logs();
    let long = "x".repeat(999);
    logs.log(GROUP, at(1), &format!("y{long}"), 11_000);
    logs.log(GROUP, at(2), &format!("a{long}"), 1_500);
    let LogPage { lines, next: mut token } = page(&logs, 9, None).await.expect("a page");
    assert_eq!(lines.len(), 0, "none of the first 10 MB matches");
    let mut sizes = Vec::new();
    while token.is_some() {
        let LogPage { lines, next } = page(&logs, 9, token.as_deref()).await.expect("a page");
        sizes.push(lines.len());
        token = next;
        sleep(Duration::from_secs(1)).await;
    }
    assert_eq!(sizes, [974, 526]);
    let none = page(&logs, 2, Some("1/0")).await.expect("a page");
    assert!(none.lines.is_empty() && none.next.is_none());
}

#[tokio::test(start_paused = true)]
async fn the_sixth_call_in_a_second_is_refused() {
    let logs = logs();
    let calls = (0..6).map(|_| page(&logs, 1, None));
    let answers = futures::future::join_all(calls).await;
    let refused: Vec<_> = answers.into_iter().filter_map(Result::err).collect();
    assert!(matches!(refused[..], [LogError::Busy]), "{refused:?}");
    sleep(Duration::from_secs(1)).await;
    assert!(page(&logs, 1, None).await.is_ok());
}

#[test]
fn patterns_are_terms() {
    for (pattern, want) in [
        ("b", true),
        ("x", false),
        ("?x ?b", true),
        ("?x ?y", false),
        ("\"a\" \"b\"", true),
        ("\"a\" \"x\"", false),
    ] {
        assert_eq!(is_match("a b", pattern), want, "{pattern}");
    }
}

/// Rows as text, `field=value` in the order of fields.
fn rows(text: &str) -> Option<Vec<String>> {
    let lines = [
        (at(1), r#"{"T":"A","n":2,"in":{"50":1}}"#, 1),
        (at(2), r#"{"T":"a","n":3,"in":{"50":1,"more":4}}"#, 2),
        (at(3_601), r#"{"T":"b","d.id":"x"}"#, 1),
    ];
    let rows = insights::rows(text, lines.into_iter(), 10_000)?;
    let fields = |row: Row| row.into_iter().map(|(name, value)| format!("{name}={value}"));
    Some(rows.into_iter().map(|row| fields(row).collect::<Vec<_>>().join(" ")).collect())
}

#[test]
fn queries_are_evaluated() {
    let table = [
        (
            "filter tolower(T) = \"a\" | stats sum(n) as s, sum(`in.50`) as f, sum(`in.more`) as m by T",
            vec!["T=A f=1 s=2", "T=a f=2 m=8 s=6"],
        ),
        (
            "stats sum(n) as s by bin(1h), none",
            vec!["bin(1h)=1970-01-01 00:00:00.000 s=8", "bin(1h)=1970-01-01 01:00:00.000"],
        ),
        (
            "filter ispresent(`d.id`) or n in [\"2\", \"9\"] | stats sum(n) as s by T",
            vec!["T=A s=2", "T=b"],
        ),
        (
            "filter toMillis(@timestamp) >= 2000 and toMillis(@timestamp) < 3601000 | stats sum(n) as s by T",
            vec!["T=a s=6"],
        ),
        (
            "filter T != \"A\" | filter @message like \"d.id\" | fields @timestamp, @message | sort @timestamp desc",
            vec!["@message={\"T\":\"b\",\"d.id\":\"x\"} @timestamp=1970-01-01 01:00:01.000"],
        ),
        ("stats sum(n) as s by T | limit 1", vec!["T=A s=2"]),
    ];
    for (text, want) in table {
        assert_eq!(rows(text), Some(want.into_iter().map(str::to_owned).collect()), "{text}");
    }
}

#[test]
fn what_the_journal_does_not_write_is_refused() {
    for text in [
        "filter @message like /x/",
        "filter @message like \"a\\\"b\"",
        "filter @message like \"a\" | delete",
        "filter T",
        "fields @message",
        "filter @message like \"a",
        "stats count(*) by T",
        "limit 1 2",
        "",
    ] {
        assert_eq!(rows(text), None, "{text}");
    }
}
