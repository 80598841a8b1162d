//! Whether the container runtime of this machine answers, asked so cheaply that it can be asked again and again.

use std::io;
use std::path::Path;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::time::timeout;

const LIMIT: Duration = Duration::from_secs(3);
/// How a client of HTTP/2 begins (RFC 9113, 3.4): these words, and an empty SETTINGS frame.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
/// Nine bytes begin every frame, the fourth is its kind, and a server's first frame is SETTINGS.
const FRAME: usize = 9;
const SETTINGS: u8 = 4;

/// Asks it; the error says why it is not well. A socket takes a connection also for a process that has stopped, so that it
/// has to say something: its gRPC server greets every client, which costs neither of them a process.
pub async fn ask(socket: &Path) -> Result<(), String> {
    match timeout(LIMIT, greet(socket)).await {
        Ok(Ok(SETTINGS)) => Ok(()),
        Ok(Ok(_)) => Err("it does not speak HTTP/2".to_owned()),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err(format!("no answer within {LIMIT:?}")),
    }
}

async fn greet(socket: &Path) -> io::Result<u8> {
    let mut stream = UnixStream::connect(socket).await?;
    stream.write_all(PREFACE).await?;
    let mut frame = [0; FRAME];
    stream.read_exact(&mut frame).await?;
    Ok(frame[3])
}

#[cfg(test)]
pub(crate) mod tests {
    use tokio::net::UnixListener;

    use super::*;

    /// What a gRPC server says first.
    const GREETING: &[u8] = b"\0\0\x06\x04\0\0\0\0\0\0\x05\0\0@\0";

    /// A double: greets everyone who comes.
    pub(crate) async fn serve(listener: UnixListener) {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            stream.write_all(GREETING).await.unwrap();
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_runtime_that_takes_connections_and_says_nothing_is_not_well() {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("containerd.sock");
        assert!(ask(&socket).await.unwrap_err().contains("No such file"));
        let _listener = UnixListener::bind(&socket).unwrap();
        assert_eq!(ask(&socket).await, Err("no answer within 3s".to_owned()));
    }

    #[tokio::test]
    async fn a_runtime_is_well_if_it_greets() {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("containerd.sock");
        let listener = UnixListener::bind(&socket).unwrap();
        let greetings: [&[u8]; 3] = [GREETING, b"HTTP/1.1 400 Bad", b"\0\0"];
        let serve = async {
            for greeting in greetings {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut said = [0; PREFACE.len()];
                stream.read_exact(&mut said).await.unwrap();
                assert_eq!(said, PREFACE);
                stream.write_all(greeting).await.unwrap();
            }
        };
        let asks = async { [ask(&socket).await, ask(&socket).await, ask(&socket).await] };
        let ([well, other, cut], ()) = tokio::join!(asks, serve);
        assert_eq!(well, Ok(()));
        assert_eq!(other, Err("it does not speak HTTP/2".to_owned()));
        assert!(cut.is_err());
    }
}
