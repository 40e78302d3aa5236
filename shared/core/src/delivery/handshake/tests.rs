use http::{HeaderName, HeaderValue};

use super::*;

const CODE: &str = "ABCDEF01-2345-6789-ABCD-EF0123456789";

const ORIGIN: &str = "eventgrid.azure.net";

type Header = (&'static str, &'static str);

fn answer(proof: Proof<'_>, status: u16, headers: &[Header], body: &[u8]) -> Judgement {
    let headers = headers
        .iter()
        .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)));
    let headers: HeaderMap = headers.collect();
    judge(proof, None, Response { status, headers: &headers, body })
}

fn assert_judged(judged: Judgement, want: (char, &str), row: &str) {
    let (got, why) = match judged {
        Judgement::Consent => ('+', String::new()),
        Judgement::Silence(why) => ('?', why.to_string()),
        Judgement::Refusal(why) => ('-', why.to_string()),
    };
    assert_eq!(got, want.0, "{row}: {why}");
    assert!(why.contains(want.1), "{row}: {why}");
    assert!(got == '+' || why.contains("; expected status 2"), "{row}: {why}");
    // Neither the code nor the validation URL, even if the endpoint sends them back.
    assert!(!why.contains(CODE) && !why.contains("token"), "{row}: {why}");
    assert!(!why.ends_with('.'), "{row}: {why}");
}

#[test]
fn bodies_are_judged_and_what_is_wrong_is_named() {
    let right = format!("{{\"validationResponse\": \"{CODE}\"}}");
    let utf_16: Vec<u8> = right.encode_utf16().flat_map(u16::to_le_bytes).collect();
    let marked = [b"\xef\xbb\xbf", right.as_bytes()].concat();
    let echoed = format!(
        "[{{\"data\": {{\"validationCode\": \"{CODE}\", \"validationUrl\": \"https://m/?token=t\"}}}}]"
    );
    let form = serde_json::json!({ echoed.as_str(): "" }).to_string();
    let with = |body: &str| body.replace("CODE", CODE).into_bytes();
    let lower = right.replace(CODE, &CODE.to_lowercase());
    // Body, judgement, text.
    let table: Vec<(Vec<u8>, char, &str)> = vec![
        (right.clone().into_bytes(), '+', ""),
        (with(r#" {"a": [1], "validationResponse": "CODE"} "#), '+', ""),
        (with(r#"{"ValidationResponse": "CODE"}"#), '?', "the member \"ValidationResponse\""),
        (with(r#"{"validationresponse": "CODE"}"#), '?', "the member \"validationresponse\""),
        (with(r#"{"validation_response": "CODE"}"#), '?', "the member \"validation_response\""),
        (with(r#"{"validationCode": "CODE"}"#), '?', "the code, but not as the member"),
        (with(r#"{"data": {"validationResponse": "CODE"}}"#), '?', "inside of another member"),
        (
            // An API Gateway without proxy integration passes on a Lambda function's whole reply.
            with(r#"{"statusCode": 200, "body": "{\"validationResponse\": \"CODE\"}"}"#),
            '?',
            "inside of another member",
        ),
        (with(r#"[{"validationResponse": "CODE"}]"#), '?', "an array, not one object"),
        (with(r#""{\"validationResponse\": \"CODE\"}""#), '?', "it was encoded twice"),
        (with(r#""CODE""#), '?', "the code as a string"),
        (with("CODE"), '?', "the code in a body that is not JSON"),
        (with("{'validationResponse': 'CODE'}"), '?', "the code in a body that is not JSON"),
        (with("<validationResponse>CODE</validationResponse>"), '?', "HTML or XML"),
        (b"\n<!DOCTYPE html><html></html>".to_vec(), '?', "HTML or XML"),
        (utf_16, '?', "UTF-16"),
        (marked, '?', "a byte order mark"),
        (b"{\"validationResponse\": \"\xe4\"}".to_vec(), '?', "not UTF-8"),
        (b"\x1f\x8b\x08\x00".to_vec(), '?', "compressed (\"gzip\")"),
        (b"".to_vec(), '?', "an empty body"),
        (b"OK".to_vec(), '?', "not JSON (expected value at line 1 column 1)"),
        (b"{}".to_vec(), '?', "an object without validationResponse"),
        (b"null".to_vec(), '?', "null, not an object"),
        (b"true".to_vec(), '?', "a boolean, not an object"),
        (b"{\"validationResponse\": null}".to_vec(), '?', "null, not a string"),
        (b"{\"validationResponse\": 7}".to_vec(), '?', "a number, not a string"),
        (echoed.into_bytes(), '?', "an array"),
        (form.into_bytes(), '?', "the code, but not as the member"),
        (lower.into_bytes(), '-', "another validationResponse: it is the event's id, or in lower"),
        (with(r#"{"validationResponse": " CODE\n"}"#), '-', "there is more than the code"),
        (with(r#"{"validationResponse": ""}"#), '-', "it is empty"),
        (with(r#"{"validationResponse": "x"}"#), '-', "another validationResponse;"),
    ];
    for (body, judgement, says) in table {
        let judged = answer(Proof::Code(CODE), 200, &[], &body);
        assert_judged(judged, (judgement, says), &String::from_utf8_lossy(&body));
    }
}

#[test]
fn a_body_whose_encoding_nobody_asked_for_is_named() {
    for (encoding, says) in
        [("br", "(\"br\")"), ("gzip", "(\"gzip\")"), ("identity", "an object without")]
    {
        let judged = answer(Proof::Code(CODE), 200, &[("content-encoding", encoding)], b"{}");
        assert_judged(judged, ('?', says), encoding);
    }
}

#[test]
fn statuses_say_what_is_to_be_done() {
    let right = format!("{{\"validationResponse\": \"{CODE}\"}}");
    let header: Header = ("webhook-allowed-origin", "*");
    // Status; text of Event Grid's handshake, of CloudEvents'; none for consent.
    let table = [
        (201, "status 201; expected", ""),
        (202, "status 202; expected", ""),
        (301, "Redirects are not followed: write the URL", "Redirects are not followed"),
        (302, "Redirects are not followed: write the URL", "Redirects are not followed"),
        (303, "Redirects are not followed: write the URL", "Redirects are not followed"),
        (307, "Redirects are not followed: write the URL", "Redirects are not followed"),
        (308, "Redirects are not followed: write the URL", "Redirects are not followed"),
        (400, "status 400; expected", "status 400; expected"),
        (401, "The endpoint wants to know who asks", "The endpoint wants to know who asks"),
        (403, "The endpoint wants to know who asks", "The endpoint wants to know who asks"),
        (404, "nothing there takes POST", "nothing there takes OPTIONS"),
        (405, "nothing there takes POST", "nothing there takes OPTIONS"),
        (429, "busy: try again", "busy: try again"),
        (500, "its log says why", "its log says why"),
        (502, "its log says why", "its log says why"),
        (503, "busy: try again", "busy: try again"),
    ];
    for (status, by_code, by_origin) in table {
        for (proof, says) in [(Proof::Code(CODE), by_code), (Proof::Origin(ORIGIN), by_origin)] {
            let judgement = if says.is_empty() { '+' } else { '-' };
            let judged = answer(proof, status, &[header], right.as_bytes());
            assert_judged(judged, (judgement, says), &status.to_string());
        }
    }
}

#[test]
fn headers_are_judged_and_what_is_wrong_is_named() {
    // Headers, body, judgement, text.
    let table: [(&[Header], &str, char, &str); 11] = [
        (&[("webhook-allowed-origin", "eventgrid.azure.net")], "", '+', ""),
        (&[("webhook-allowed-origin", " * ")], "", '+', ""),
        (&[("webhook-allowed-origin", "EventGrid.azure.net")], "", '+', ""),
        (&[("webhook-allowed-origin", "")], "", '-', "WebHook-Allowed-Origin: \"\""),
        (&[("webhook-allowed-origin", "example.com")], "", '-', "Origin: \"example.com\""),
        (&[], "", '?', "without the header WebHook-Allowed-Origin; expected"),
        (&[("webhook-allowed-rate", "10")], "", '?', "without the header"),
        (&[("access-control-allow-origin", "*")], "", '?', "is for browsers"),
        (&[("x-webhook-allowed-origin", "*")], "", '?', "\"x-webhook-allowed-origin\" is another"),
        (&[("allow", "GET, POST, OPTIONS")], "", '?', "answered OPTIONS by itself"),
        (&[], "{\"validationResponse\": \"\"}", '?', "answers the handshake of Event Grid's"),
    ];
    for (headers, body, judgement, says) in table {
        let judged = answer(Proof::Origin(ORIGIN), 200, headers, body.as_bytes());
        assert_judged(judged, (judgement, says), &format!("{headers:?}"));
    }
}

#[test]
fn allowed_rates_are_read() {
    let rates = [
        ("120", NonZeroU32::new(120)),
        (" 1 ", NonZeroU32::new(1)),
        ("*", None),
        ("0", None),
        ("-5", None),
        ("", None),
        ("10/min", None),
        ("99999999999", None),
    ];
    for (given, want) in rates {
        let name = HeaderName::from_static("webhook-allowed-rate");
        let headers = HeaderMap::from_iter([(name, HeaderValue::from_static(given))]);
        assert_eq!(allowed_rate(&headers), want, "{given}");
    }
}
