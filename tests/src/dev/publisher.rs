//! Publishes over connections that are kept. It costs little, because it shares the machine with
//! what is measured.

use std::{
    io,
    net::SocketAddr,
    sync::{Mutex, PoisonError},
};

use anyhow::{Context, bail};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

/// Most headers of an answer.
const HEADERS_MAX: usize = 64;

/// How much is read at once.
const READ_BYTES: usize = 4 * 1_024;

/// Publishes to one process. A connection that failed is not used again.
#[derive(Debug)]
pub struct Publisher {
    address: SocketAddr,
    free: Mutex<Vec<TcpStream>>,
}

impl Publisher {
    /// For the process at that base URL.
    pub fn new(url: &str) -> anyhow::Result<Self> {
        let address = url.strip_prefix("http://").context("an http URL")?;
        Ok(Self { address: address.parse()?, free: Mutex::default() })
    }

    /// Posts events to a topic; answers the status.
    ///
    /// # Errors
    ///
    /// The connection fails: what became of the events is unknown.
    pub async fn publish(&self, topic: &str, key: &str, events: &[u8]) -> anyhow::Result<u16> {
        let mut request = format!(
            "POST /topics/{topic}/api/events?api-version=2018-01-01 HTTP/1.1\r\n\
             host: {}\r\naeg-sas-key: {key}\r\ncontent-type: application/json\r\n\
             content-length: {}\r\n\r\n",
            self.address,
            events.len()
        )
        .into_bytes();
        request.extend_from_slice(events);
        let mut connection = self.connection().await?;
        connection.write_all(&request).await?;
        let status = read(&mut connection).await?;
        self.free.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
        Ok(status)
    }

    async fn connection(&self) -> io::Result<TcpStream> {
        let kept = self.free.lock().unwrap_or_else(PoisonError::into_inner).pop();
        if let Some(kept) = kept {
            return Ok(kept);
        }
        let connection = TcpStream::connect(self.address).await?;
        connection.set_nodelay(true)?;
        Ok(connection)
    }
}

/// Reads one answer to its end; answers its status.
async fn read(connection: &mut TcpStream) -> anyhow::Result<u16> {
    let mut answer = Vec::with_capacity(READ_BYTES);
    loop {
        if connection.read_buf(&mut answer).await? == 0 {
            bail!("the connection ended before the answer");
        }
        if let Some((status, bytes)) = parse(&answer)?
            && answer.len() >= bytes
        {
            return Ok(status);
        }
    }
}

/// The status, and how many bytes the whole answer has; `None` while its head is not whole.
fn parse(answer: &[u8]) -> anyhow::Result<Option<(u16, usize)>> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut parsed = httparse::Response::new(&mut headers);
    let httparse::Status::Complete(head_bytes) = parsed.parse(answer)? else { return Ok(None) };
    let mut body_bytes = 0;
    for header in parsed.headers.iter() {
        if header.name.eq_ignore_ascii_case("content-length") {
            body_bytes = std::str::from_utf8(header.value)?.parse()?;
        }
    }
    Ok(Some((parsed.code.context("a status")?, head_bytes + body_bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read_to_their_end() {
        let whole = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]";
        for (answer, want) in [
            (&whole[..], Some((200, whole.len()))),
            (&whole[..20], None),
            (b"HTTP/1.1 503 -\r\n\r\n", Some((503, 18))),
        ] {
            assert_eq!(parse(answer).expect("an answer"), want);
        }
        assert!(parse(b"no HTTP\r\n\r\n").is_err());
    }
}
