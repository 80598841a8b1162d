//! The server: every GET is answered with this host's name and leaves a line in the log.

use std::io;
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::routing::get;
use tokio::net::TcpListener;
use tracing::info;
use windlass_steps::interrupt::Interrupt;

use crate::serve::until_interrupted;

/// How long requests may take to end once the server is told to; its pod has little more.
const FAREWELL: Duration = Duration::from_secs(1);

/// Serves until interrupted, then lets running requests end.
pub async fn serve(listener: TcpListener, name: &str, interrupt: &Interrupt) -> io::Result<()> {
    until_interrupted(listener, router(name), FAREWELL, interrupt).await
}

fn router(name: &str) -> Router {
    let answer = format!("{name}\n");
    let handler = get(async move |request: Request| {
        info!(path = request.uri().path(), "request");
        answer.clone()
    });
    Router::new().fallback_service(handler)
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpStream;
    use tokio::time::timeout;

    use super::*;
    use crate::probe::get::{self, GetError};

    const SOON: Duration = Duration::from_secs(5);

    async fn start(interrupt: &Interrupt) -> (SocketAddr, tokio::task::JoinHandle<io::Result<()>>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let interrupt = interrupt.clone();
        (address, tokio::spawn(async move { serve(listener, "probe-x7k2p", &interrupt).await }))
    }

    #[tokio::test]
    async fn every_path_is_answered_with_the_name_until_told_to_end() {
        let interrupt = Interrupt::default();
        let (address, served) = start(&interrupt).await;
        for path in ["", "/", "/verify/a?b=c", "/%00/.."] {
            let answer = get::get(&format!("http://{address}{path}"), SOON).await.unwrap();
            assert_eq!((answer.address, answer.body.as_str()), (address, "probe-x7k2p\n"), "{path}");
        }
        // A client that holds its connection and asks nothing does not hold the server.
        let idle = TcpStream::connect(address).await.unwrap();
        interrupt.raise();
        timeout(SOON, served).await.unwrap().unwrap().unwrap();
        drop(idle);
        let error = get::get(&format!("http://{address}"), SOON).await.unwrap_err();
        assert!(matches!(error, GetError::Connect { .. }), "{error}");
    }

    #[tokio::test]
    async fn only_reading_is_answered() {
        let interrupt = Interrupt::default();
        let (address, _served) = start(&interrupt).await;
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(b"DELETE / HTTP/1.0\r\n\r\n").await.unwrap();
        let mut answer = String::new();
        timeout(SOON, stream.read_to_string(&mut answer)).await.unwrap().unwrap();
        assert!(answer.starts_with("HTTP/1.0 405 "), "{answer}");
    }
}
