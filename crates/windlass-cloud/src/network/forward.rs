//! The one way from the host into a cluster: a listener on 127.0.0.1 whose connections are carried on inside the
//! cluster's namespace. Accepting is done on the runtime of the caller, connecting on one whose threads are inside.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::task::{JoinHandle, JoinSet};
use tracing::{debug, warn};

const CONNECT_LIMIT: Duration = Duration::from_secs(5);
const AFTER_TROUBLE: Duration = Duration::from_millis(100);
const MOST_CONNECTIONS: usize = 4096;

/// A listener on 127.0.0.1 and the connections it carries; all of them end when it is dropped.
#[derive(Debug)]
pub struct Forwarder {
    bound: SocketAddrV4,
    target: SocketAddrV4,
    accepting: JoinHandle<()>,
}

/// Why nothing is forwarded.
#[derive(Debug, Error)]
pub enum ForwardError {
    /// Some other program listens there.
    #[error("cannot forward 127.0.0.1:{port}: the port is taken")]
    Taken {
        /// The port that was asked for.
        port: u16,
    },
    /// The kernel refused for another reason.
    #[error("cannot listen on 127.0.0.1:{port}")]
    Listen {
        /// The port that was asked for.
        port: u16,
        /// What the kernel said.
        source: io::Error,
    },
}

impl Forwarder {
    /// Listens on this port of 127.0.0.1 (0: any free one) and carries connections to the target, which is an address
    /// inside the namespace that the threads of `inside` are in.
    pub async fn listen(port: u16, target: SocketAddrV4, inside: Handle) -> Result<Self, ForwardError> {
        let trouble = |source: io::Error| match source.kind() {
            io::ErrorKind::AddrInUse => ForwardError::Taken { port },
            _ => ForwardError::Listen { port, source },
        };
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await.map_err(trouble)?;
        let bound = listener.local_addr().map_err(trouble)?;
        let bound = SocketAddrV4::new(Ipv4Addr::LOCALHOST, bound.port());
        let accepting = tokio::spawn(accept(listener, target, inside));
        Ok(Self { bound, target, accepting })
    }

    /// The port it listens on.
    pub fn port(&self) -> u16 {
        self.bound.port()
    }

    /// Where connections are carried to.
    pub fn target(&self) -> SocketAddrV4 {
        self.target
    }

    /// Stops, and returns when the port is free again.
    pub async fn close(mut self) {
        self.accepting.abort();
        match (&mut self.accepting).await {
            Err(error) if !error.is_cancelled() => warn!(port = self.port(), %error, "forwarder had stopped by itself"),
            _ => {}
        }
    }
}

impl Drop for Forwarder {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn accept(listener: TcpListener, target: SocketAddrV4, inside: Handle) {
    let room = Arc::new(Semaphore::new(MOST_CONNECTIONS));
    let mut carried = JoinSet::new();
    loop {
        let Ok(place) = Arc::clone(&room).acquire_owned().await else { return };
        match listener.accept().await {
            Ok((client, from)) => {
                let inside = inside.clone();
                carried.spawn(async move {
                    carry(client, from, target, inside).await;
                    drop(place);
                });
            }
            Err(error) => {
                warn!(%target, %error, "connection not accepted");
                pause().await;
            }
        }
        while carried.try_join_next().is_some() {}
    }
}

// Out of file descriptors, most likely: without a pause this would take a whole core until some are free.
async fn pause() {
    let forever = std::future::pending::<()>();
    if tokio::time::timeout(AFTER_TROUBLE, forever).await.is_err() {}
}

async fn carry(mut client: TcpStream, from: SocketAddr, target: SocketAddrV4, inside: Handle) {
    let carried = match connect(target, inside).await {
        Ok(mut server) => {
            let carried = copy_bidirectional(&mut client, &mut server).await.map(drop);
            if carried.is_err() {
                reset(&server);
            }
            carried
        }
        Err(error) => Err(error),
    };
    if let Err(error) = carried {
        debug!(%from, %target, %error, "forwarded connection broke");
        reset(&client);
    }
}

async fn connect(target: SocketAddrV4, inside: Handle) -> io::Result<TcpStream> {
    let connecting = inside.spawn(tokio::time::timeout(CONNECT_LIMIT, TcpStream::connect(target)));
    let stream = connecting.await.map_err(io::Error::other)??;
    let stream = stream?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

// So that the other side sees a broken connection as one, and not as an orderly end.
fn reset(stream: &TcpStream) {
    if let Err(error) = stream.set_zero_linger() {
        debug!(%error, "broken connection will end in order");
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    async fn local() -> (TcpListener, SocketAddrV4) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let SocketAddr::V4(address) = listener.local_addr().unwrap() else { unreachable!() };
        (listener, address)
    }

    #[tokio::test]
    async fn each_direction_ends_by_itself() {
        let (server, target) = local().await;
        let forwarder = Forwarder::listen(0, target, Handle::current()).await.unwrap();
        let mut client = TcpStream::connect((Ipv4Addr::LOCALHOST, forwarder.port())).await.unwrap();
        let (mut serving, _) = server.accept().await.unwrap();
        client.write_all(b"question").await.unwrap();
        client.shutdown().await.unwrap();
        let mut asked = String::new();
        serving.read_to_string(&mut asked).await.unwrap();
        assert_eq!(asked, "question");
        serving.write_all(b"answer").await.unwrap();
        drop(serving);
        let mut answered = String::new();
        client.read_to_string(&mut answered).await.unwrap();
        assert_eq!(answered, "answer");
    }

    #[tokio::test]
    async fn a_target_that_refuses_breaks_the_connection() {
        let (server, target) = local().await;
        drop(server);
        let forwarder = Forwarder::listen(0, target, Handle::current()).await.unwrap();
        let mut client = TcpStream::connect((Ipv4Addr::LOCALHOST, forwarder.port())).await.unwrap();
        let error = client.read(&mut [0; 1]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
    }

    #[tokio::test]
    async fn a_taken_port_is_said_to_be_taken() {
        let (_server, target) = local().await;
        let error = Forwarder::listen(target.port(), target, Handle::current()).await.unwrap_err();
        assert!(matches!(error, ForwardError::Taken { port } if port == target.port()));
    }

    #[tokio::test]
    async fn closing_frees_the_port_and_ends_the_connections() {
        let (server, target) = local().await;
        let forwarder = Forwarder::listen(0, target, Handle::current()).await.unwrap();
        let port = forwarder.port();
        let mut client = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.unwrap();
        let (mut serving, _) = server.accept().await.unwrap();
        forwarder.close().await;
        assert_eq!(client.read(&mut [0; 1]).await.unwrap_or(0), 0);
        assert_eq!(serving.read(&mut [0; 1]).await.unwrap_or(0), 0);
        drop((client, serving));
        let again = Forwarder::listen(port, target, Handle::current()).await.unwrap();
        assert_eq!(again.port(), port);
    }
}
