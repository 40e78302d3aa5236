//! The network as the client sees it. Tests replace it.

use std::{
    fmt, io,
    net::{IpAddr, SocketAddr},
};

use async_trait::async_trait;
use socket2::{Domain, Socket, Type};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpStream, lookup_host},
};

use super::guard::CheckedAddress;

/// The bytes of a connection.
pub trait Io: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Io for T {}

/// Name service and connections.
#[async_trait]
pub trait Network: fmt::Debug + Send + Sync {
    /// Resolves a host name, without checking the addresses.
    async fn look_up(&self, name: &str) -> io::Result<Vec<IpAddr>>;

    async fn dial(&self, address: CheckedAddress) -> io::Result<Box<dyn Io>>;
}

/// The network of this machine.
#[derive(Debug)]
pub struct SystemNetwork;

#[async_trait]
impl Network for SystemNetwork {
    async fn look_up(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        match lookup_host((name, 0)).await {
            Ok(found) => Ok(found.map(|address| address.ip()).collect()),
            // A resolver that had no descriptor does not say so.
            Err(error) => Err(no_descriptor().unwrap_or(error)),
        }
    }

    async fn dial(&self, address: CheckedAddress) -> io::Result<Box<dyn Io>> {
        let address: SocketAddr = address.get();
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        give_up_on_silence(&stream)?;
        Ok(Box::new(stream))
    }
}

/// Returns why no socket can be opened, if none can.
fn no_descriptor() -> Option<io::Error> {
    Socket::new(Domain::IPV4, Type::DGRAM, None).err()
}

/// Lets the kernel end a connection whose peer acknowledges nothing. Otherwise a connection that a
/// router has dropped would stay in the pool, and each attempt on it would time out. Slow peers still
/// acknowledge.
#[cfg(target_os = "linux")]
fn give_up_on_silence(stream: &TcpStream) -> io::Result<()> {
    socket2::SockRef::from(stream)
        .set_tcp_user_timeout(Some(gridpost_core::retry::outcome::RESPONSE_WAIT))
}

/// Other systems are only used for development, and lack this option.
#[cfg(not(target_os = "linux"))]
fn give_up_on_silence(_stream: &TcpStream) -> io::Result<()> {
    Ok(())
}
