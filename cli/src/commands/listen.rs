//! `gridpost listen`: an endpoint to try things with.

use std::collections::{BTreeMap, HashMap};
use std::net::{Ipv4Addr, SocketAddr};

use clap::Args;
use serde::Serialize;
use serde_json::value::RawValue;
use tokio::sync::mpsc;

use crate::output::{self, Output};
use gridpost_ops::{
    clock,
    given::TimeSpan,
    receiver::{Answers, Arrival, Behaviour, Purpose, Receiver},
};

/// Characters of a body printed as text.
const BODY_CHARS_MAX: usize = 4_000;

/// Headers that say something about a delivery. The rest is left out of the printed text.
const HEADERS_OF_INTEREST: [&str; 4] = ["content-type", "origin", "authorization", "user-agent"];
const HEADER_PREFIXES_OF_INTEREST: [&str; 4] = ["aeg-", "webhook-", "ce-", "x-"];

/// How the endpoint behaves.
#[derive(Args, Debug)]
pub struct ListenArguments {
    /// Port on 127.0.0.1 (0: a free one)
    #[arg(long, default_value_t = 9000)]
    port: u16,

    /// Status to answer; several are given out in order, the last one repeats: 500,500,200
    #[arg(long, visible_alias = "responses", value_name = "STATUS,…", default_value = "200")]
    answer: Answers,

    /// Time before each answer: 500ms, 2s, 1m
    #[arg(long, value_name = "TIME", default_value = "0s")]
    delay: TimeSpan,
}

/// Listens until it is interrupted.
pub async fn run(arguments: ListenArguments, output: Output) -> anyhow::Result<()> {
    let (sender, mut arrivals) = mpsc::unbounded_channel();
    let behaviour = Behaviour { answers: arguments.answer, delay: arguments.delay.0 };
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, arguments.port));
    let receiver = Receiver::start(address, HashMap::new(), behaviour, sender).await?;
    output::note(&format!(
        "listening on {} (Ctrl-C ends it); as an endpoint:\n  gridpost subscription create --topic demo \
         --subscription listen --endpoint {} --replace",
        receiver.url("/"),
        receiver.url("/hook")
    ));
    loop {
        tokio::select! {
            arrival = arrivals.recv() => match arrival {
                Some(arrival) => {
                    let time = clock::now_rfc3339();
                    if output.is_json() {
                        output::line(&as_json(&arrival, &time)?);
                    } else {
                        output::line(&as_text(&arrival, &time));
                    }
                }
                None => return Ok(()),
            },
            _ = tokio::signal::ctrl_c() => return Ok(()),
        }
    }
}

fn headers(arrival: &Arrival) -> impl Iterator<Item = (&str, String)> {
    let text = |value: &[u8]| String::from_utf8_lossy(value).into_owned();
    arrival.headers.iter().map(move |(name, value)| (name.as_str(), text(value.as_bytes())))
}

#[derive(Serialize)]
struct Line<'a> {
    time: &'a str,
    purpose: &'static str,
    method: &'a str,
    path: &'a str,
    status: u16,
    headers: BTreeMap<&'a str, String>,
    body: Body,
}

/// A body as it arrived: JSON is not read and written again, which could change its numbers.
#[derive(Serialize)]
#[serde(untagged)]
enum Body {
    Json(Box<RawValue>),
    Text(String),
}

fn as_json(arrival: &Arrival, time: &str) -> anyhow::Result<String> {
    let body = String::from_utf8_lossy(&arrival.body).into_owned();
    // In JSON a line break is white space; here it would end the line.
    let body = match serde_json::from_str(&body.replace(['\n', '\r'], " ")) {
        Ok(json) => Body::Json(json),
        Err(_) => Body::Text(body),
    };
    Ok(serde_json::to_string(&Line {
        time,
        purpose: if arrival.purpose == Purpose::Handshake { "handshake" } else { "delivery" },
        method: &arrival.method,
        path: &arrival.path,
        status: arrival.status,
        headers: headers(arrival).collect(),
        body,
    })?)
}

fn as_text(arrival: &Arrival, time: &str) -> String {
    let note = if arrival.purpose == Purpose::Handshake { " (handshake)" } else { "" };
    let mut lines =
        vec![format!("{time}  {} {}  → {}{note}", arrival.method, arrival.path, arrival.status)];
    let shown = headers(arrival).filter(|(name, _)| {
        HEADERS_OF_INTEREST.contains(name)
            || HEADER_PREFIXES_OF_INTEREST.iter().any(|prefix| name.starts_with(prefix))
    });
    lines.extend(shown.map(|(name, value)| format!("  {name}: {value}")));
    let body = String::from_utf8_lossy(&arrival.body);
    let body = output::indented(&body).unwrap_or_else(|| body.into_owned());
    let cut = body.char_indices().nth(BODY_CHARS_MAX).map_or(body.len(), |(index, _)| index);
    lines.extend(body[..cut].lines().map(|line| format!("  {line}")));
    if cut < body.len() {
        lines.push(format!("  … {} bytes in all (--json shows them)", arrival.body.len()));
    }
    lines.push(String::new());
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_lines_hold_the_body_as_it_arrived() {
        let arrival = |body: &'static [u8]| Arrival {
            at: tokio::time::Instant::now(),
            purpose: Purpose::Delivery,
            method: "POST".into(),
            path: "/hook".into(),
            headers: [(
                http::header::CONTENT_TYPE,
                http::header::HeaderValue::from_static("text/plain"),
            )]
            .into_iter()
            .collect(),
            body: body.into(),
            status: 200,
        };
        let line = |body| as_json(&arrival(body), "now").expect("serialised");
        let head = r#"{"time":"now","purpose":"delivery","method":"POST","path":"/hook","status":200,"headers":{"content-type":"text/plain"},"body":"#;
        assert_eq!(line(br#"{"z":1.10,"a":2}"#), format!(r#"{head}{{"z":1.10,"a":2}}}}"#));
        assert_eq!(line(b"[1,\n2]"), format!("{head}[1, 2]}}"));
        assert_eq!(line(b"no json"), format!(r#"{head}"no json"}}"#));
    }
}
