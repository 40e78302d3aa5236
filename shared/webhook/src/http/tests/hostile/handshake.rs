//! Answers to a handshake as they come over the wire: in pieces, slowly, or not as they should.

use super::*;

/// The answer that Event Grid's form of the handshake asks for.
const ANSWER: &[u8] = b"{\"validationResponse\":1}";
const WAIT: Duration = Duration::from_secs(30);

async fn exchange(
    method: Method,
    mut steps: Vec<Step>,
) -> Result<HandshakeResponse, HandshakeError> {
    steps.insert(0, Step::Requests(1));
    let net = Arc::new(Net::new(Transport::Plain, vec![steps]));
    let (url, headers, attributes) = (Secret::new(PLAIN), Vec::new(), Vec::new());
    let request = HandshakeRequest {
        method,
        url,
        headers,
        attributes,
        body: Vec::new(),
        authentication: None,
        is_sent_once: false,
        wait: WAIT,
    };
    let began = Instant::now();
    let answer = client(&net, None).exchange(request).await;
    assert!(began.elapsed() <= WAIT, "it took {:?}", began.elapsed());
    answer
}

/// The answer, each byte a chunk of its own.
fn in_chunks(trailers: &str) -> Step {
    let chunks = ANSWER.iter().map(|byte| format!("1;x=y\r\n{}\r\n", char::from(*byte)));
    let chunks: String = chunks.collect();
    head(&format!("transfer-encoding: chunked\r\n\r\n{chunks}0\r\n{trailers}\r\n"))
}

#[tokio::test(start_paused = true)]
async fn an_answer_counts_however_it_comes() {
    use Step::{Drip, Forever, Hang};
    let length = format!("content-length: {}\r\n\r\n", ANSWER.len());
    let text = String::from_utf8_lossy(ANSWER);
    let chunk = format!("100\r\n{}\r\n", "1".repeat(256));
    let endless = vec![b'1'; HANDSHAKE_BODY_BYTES_MAX];
    let rows: Vec<(&str, Vec<Step>, &[u8])> = vec![
        ("at once", vec![head(&format!("{length}{text}")), Hang], ANSWER),
        ("in chunks", vec![in_chunks(""), Hang], ANSWER),
        ("in chunks with trailers", vec![in_chunks("x-a: b\r\n"), Hang], ANSWER),
        ("until it closes", vec![head(&format!("\r\n{text}"))], ANSWER),
        ("a byte a second", vec![head(&length), Drip(ANSWER), Hang], ANSWER),
        (
            "chunk by chunk, slowly",
            vec![
                head("transfer-encoding: chunked\r\n\r\n18\r\n"),
                Drip(ANSWER),
                send("\r\n0\r\n\r\n"),
            ],
            ANSWER,
        ),
        ("broken off", vec![head("content-length: 100\r\n\r\n{\"va")], b"{\"va"),
        (
            "without end",
            vec![head("transfer-encoding: chunked\r\n\r\n"), Forever(chunk.into_bytes())],
            &endless,
        ),
    ];
    for (row, steps, want) in rows {
        let answer = exchange(Method::POST, steps).await.expect(row);
        let is_it = answer.status == 200 && answer.body == want;
        assert!(is_it, "{row}: status {}, {} bytes", answer.status, answer.body.len());
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_has_its_time() {
    let length = "content-length: 31\r\n\r\n";
    let rows = [
        ("is silent", vec![Step::Hang]),
        ("takes longer", vec![head(length), Step::Drip(&[b'1'; 31]), Step::Hang]),
        ("stops in the middle", vec![head(length), send("1"), Step::Hang]),
    ];
    for (row, steps) in rows {
        let answer = exchange(Method::POST, steps).await.map(|answer| answer.status);
        assert_eq!(answer, Err(HandshakeError::TimedOut(WAIT)), "{row}");
    }
}

/// Consent to CloudEvents is in the head.
#[tokio::test(start_paused = true)]
async fn nobody_waits_for_the_body_of_a_head_that_says_all() {
    let allowed = head("webhook-allowed-origin: *\r\ncontent-length: 31\r\n\r\n");
    let answer = exchange(Method::OPTIONS, vec![allowed, Step::Hang]).await.expect("an answer");
    assert_eq!(answer.headers["webhook-allowed-origin"], "*");
    assert!(answer.body.is_empty());
}
