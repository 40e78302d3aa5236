//! A manage API on this machine that answers as it is told, for tests of commands.

use std::sync::Arc;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Barrier;
use tokio::task::JoinHandle;

#[derive(Debug)]
pub struct FakeApi {
    url: String,
    serving: JoinHandle<()>,
}

#[derive(Debug, Default)]
struct Told {
    rows: Vec<(String, u16, String)>,
    /// The header of the date, whole; empty for none.
    date: String,
    together: Option<(String, Barrier)>,
    /// Whether a row may match anywhere in a request.
    anywhere: bool,
}

impl FakeApi {
    /// One that answers a request by the first row whose method and path it begins with: with that status
    /// and document. Everything else is a 500.
    pub async fn answering(rows: &[(&str, u16, Value)]) -> Self {
        Self::told(Told { rows: owned(rows), ..Told::default() }).await
    }

    /// One that answers a request by the first row whose text is anywhere in it.
    pub async fn naming(rows: &[(&str, u16, Value)]) -> Self {
        Self::told(Told { rows: owned(rows), anywhere: true, ..Told::default() }).await
    }

    /// One that answers each request with a 500 of that date.
    pub async fn dated(date: &str) -> Self {
        Self::told(Told { date: format!("date: {date}\r\n"), ..Told::default() }).await
    }

    /// The same, but what begins with `line` is answered only while `count` such requests are under way,
    /// so that calls which wait for each other are never answered.
    pub async fn together((line, count): (&str, usize), rows: &[(&str, u16, Value)]) -> Self {
        let together = Some((line.to_owned(), Barrier::new(count)));
        Self::told(Told { rows: owned(rows), together, ..Told::default() }).await
    }

    async fn told(told: Told) -> Self {
        let told = Arc::new(told);
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let url = format!("http://{}", listener.local_addr().expect("bound"));
        let serving = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(answer(stream, Arc::clone(&told)));
            }
        });
        Self { url, serving }
    }

    pub fn url(&self) -> String {
        self.url.clone()
    }
}

impl Drop for FakeApi {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

fn owned(rows: &[(&str, u16, Value)]) -> Vec<(String, u16, String)> {
    let row = |(line, status, document): &(&str, u16, Value)| {
        ((*line).to_owned(), *status, document.to_string())
    };
    rows.iter().map(row).collect()
}

/// Answers one request, whose body is short enough to come with its head.
async fn answer(mut stream: TcpStream, told: Arc<Told>) {
    let mut head = vec![0; 16_384];
    let read = stream.read(&mut head).await.unwrap_or(0);
    let head = String::from_utf8_lossy(&head[..read]).into_owned();
    if let Some((line, all)) = &told.together
        && head.starts_with(line.as_str())
    {
        all.wait().await;
    }
    let is_meant = |line: &str| match told.anywhere {
        true => head.contains(line),
        false => head.starts_with(line),
    };
    let found = told.rows.iter().find(|(line, ..)| is_meant(line));
    let (status, body) = found.map_or((500, "{}"), |(_, status, body)| (*status, body));
    let answer = format!(
        "HTTP/1.1 {status} Told\r\n{}content-type: application/json\r\ncontent-length: {}\r\n\
         connection: close\r\n\r\n{body}",
        told.date,
        body.len()
    );
    let _ = stream.write_all(answer.as_bytes()).await;
    // What is still unread would reset the connection before its answer is read.
    let _ = stream.shutdown().await;
    let _ = stream.read(&mut [0; 16_384]).await;
}
