//! A process with few file descriptors: what that costs endpoints and clients.

use std::net::SocketAddr;

use futures::future::join_all;
use tokio::{io::AsyncWriteExt, net::TcpStream};

use super::*;

const OPEN_FILES: u32 = 256;

/// More than there are descriptors, for each.
const HANGING: usize = 400;
const HALF_REQUESTS: usize = 400;

/// Longer than a connection may take that is an endpoint's failure.
const LASTS: Duration = Duration::from_secs(15);

#[tokio::test]
async fn a_lack_of_descriptors_fails_no_attempt_and_makes_no_other_topic_late() {
    let place = Place::new();
    let (hanging, _held) = endpoint_after("200", Duration::from_secs(120)).await;
    let (healthy, mut arrivals) = endpoint("200").await;
    let topic = |url: &str| {
        let destination = json!({"endpointType": "WebHook", "properties": {"endpointUrl": url}});
        json!({"eventSubscriptions": {"billing": {"properties": {"destination": destination}}}})
    };
    let topics = json!({"topics": {
        "orders": topic(&healthy.url("/hook")),
        "slow": topic(&hanging.url("/hook")),
    }});
    place.write("topics.json", &topics.to_string());
    let dev = place.gridpost("dev --port 0 --quiet --drain 1s --config topics.json");
    let dev = place.ready(limited(&dev)).await;
    let connection = fs::read(place.connection_file()).expect("a file");
    let connection: Value = serde_json::from_slice(&connection).expect("JSON");
    let client = reqwest::Client::builder().no_proxy().build().expect("a client");
    let publish = async |topic: &str, ids: Vec<String>| {
        let to = &connection["topics"][topic];
        let event = |id: &String| {
            json!({"id": id, "eventType": "T", "subject": "s", "data": {},
            "eventTime": "2030-01-02T03:04:05Z", "dataVersion": "1"})
        };
        let events: Vec<_> = ids.iter().map(event).collect();
        let request = client.post(to["endpoint"].as_str().expect("a URL"));
        let request = request.header("aeg-sas-key", to["keys"][0].as_str().expect("a key"));
        let answer = request.body(json!(events).to_string()).send().await.expect("an answer");
        assert_eq!(answer.status(), 200);
    };

    publish("slow", (0..HANGING).map(|number| format!("slow-{number}")).collect()).await;
    let url = connection["publishUrl"].as_str().expect("a URL");
    let address: SocketAddr = url.trim_start_matches("http://").parse().expect("an address");
    let half = async || {
        let mut stream = TcpStream::connect(address).await?;
        stream.write_all(b"POST /topics/orders/api/ev").await?;
        std::io::Result::Ok(stream)
    };
    let _halves = join_all((0..HALF_REQUESTS).map(|_| half())).await;

    let (began, mut slowest, mut number) = (Instant::now(), Duration::ZERO, 0);
    while began.elapsed() < LASTS {
        let published = Instant::now();
        let ids: Vec<_> = (0..20)
            .map(|_| {
                number += 1;
                format!("e-{number}")
            })
            .collect();
        publish("orders", ids).await;
        for _ in 0..20 {
            next_delivery(&mut arrivals).await;
        }
        slowest = slowest.max(published.elapsed());
        sleep(Duration::from_millis(200)).await;
    }
    let failed = code(&place.run("tail --since 1h --no-follow").await, 0);
    let failed: Vec<_> = failed.lines().filter(|line| line.contains("Error")).collect();
    let shown = (failed.len(), failed.first(), slowest);
    assert!(failed.is_empty() && slowest < Duration::from_secs(2), "{shown:?}");
    let log = fs::read_to_string(place.home().join("dev/gridpost.log")).expect("a log");
    assert!(log.contains("a request to an endpoint found no file descriptor"), "{log}");
    assert!(!log.contains("Too many open files"), "{log}");
    assert!(end(dev, Signal::TERM).await.success());
}

/// The same command with few open files.
fn limited(command: &Command) -> Command {
    let command = command.as_std();
    let mut limited = Command::new("/bin/sh");
    limited.arg("-c").arg(format!("ulimit -n {OPEN_FILES}; exec \"$0\" \"$@\""));
    limited.arg(command.get_program()).args(command.get_args()).env_clear();
    limited.current_dir(command.get_current_dir().expect("a folder"));
    limited.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    limited.kill_on_drop(true);
    limited
}
