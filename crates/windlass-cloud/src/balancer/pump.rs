//! Bytes from one socket to the other and back. What is read goes out in the same breath from one buffer per thread, which
//! stays in the processor's cache; a connection owns memory only while its receiver is slower than its sender.

use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// As much as is read at once.
const SCRATCH: usize = 128 << 10;
/// Turns of one connection before the others on its thread have theirs.
const TURNS: usize = 8;

thread_local! {
    static BUFFER: RefCell<Box<[u8]>> = RefCell::new(vec![0; SCRATCH].into_boxed_slice());
}

/// Carries both directions until each has ended. The end of one is passed on and does not end the other.
pub(super) async fn pump(client: &mut TcpStream, server: &mut TcpStream) -> io::Result<()> {
    let (mut from_client, mut to_client) = client.split();
    let (mut from_server, mut to_server) = server.split();
    let (mut up, mut down) = (Direction::default(), Direction::default());
    poll_fn(|cx| {
        BUFFER.with_borrow_mut(|buffer| {
            let up = up.poll(cx, &mut from_client, &mut to_server, buffer)?;
            let down = down.poll(cx, &mut from_server, &mut to_client, buffer)?;
            match (up, down) {
                (Poll::Ready(()), Poll::Ready(())) => Poll::Ready(Ok(())),
                _ => Poll::Pending,
            }
        })
    })
    .await
}

/// One way through.
#[derive(Default)]
struct Direction {
    /// Read and not yet written.
    left: Vec<u8>,
    written: usize,
    stage: Stage,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Stage {
    #[default]
    Flowing,
    Ending,
    Ended,
}

impl Direction {
    fn poll(
        &mut self,
        cx: &mut Context<'_>,
        from: &mut (impl AsyncRead + Unpin),
        to: &mut (impl AsyncWrite + Unpin),
        buffer: &mut [u8],
    ) -> Result<Poll<()>, io::Error> {
        for _ in 0..TURNS {
            match self.turn(cx, from, to, buffer) {
                Poll::Pending => return Ok(Poll::Pending),
                Poll::Ready(Err(error)) => return Err(error),
                Poll::Ready(Ok(())) if self.stage == Stage::Ended => return Ok(Poll::Ready(())),
                Poll::Ready(Ok(())) => {}
            }
        }
        cx.waker().wake_by_ref();
        Ok(Poll::Pending)
    }

    /// Ready when something moved and there may be more.
    fn turn(
        &mut self,
        cx: &mut Context<'_>,
        from: &mut (impl AsyncRead + Unpin),
        to: &mut (impl AsyncWrite + Unpin),
        buffer: &mut [u8],
    ) -> Poll<io::Result<()>> {
        while self.written < self.left.len() {
            self.written += ready!(write(cx, to, &self.left[self.written..]))?;
        }
        self.left.clear();
        self.written = 0;
        match self.stage {
            Stage::Flowing => {}
            Stage::Ending => {
                ready!(Pin::new(to).poll_shutdown(cx))?;
                self.stage = Stage::Ended;
                return Poll::Ready(Ok(()));
            }
            Stage::Ended => return Poll::Ready(Ok(())),
        }
        let mut read = ReadBuf::new(buffer);
        ready!(Pin::new(from).poll_read(cx, &mut read))?;
        if read.filled().is_empty() {
            self.stage = Stage::Ending;
            return Poll::Ready(Ok(()));
        }
        let now = match write(cx, to, read.filled()) {
            Poll::Ready(written) => written?,
            Poll::Pending => 0,
        };
        self.left.extend_from_slice(&read.filled()[now..]);
        Poll::Ready(Ok(()))
    }
}

fn write(cx: &mut Context<'_>, to: &mut (impl AsyncWrite + Unpin), bytes: &[u8]) -> Poll<io::Result<usize>> {
    match ready!(Pin::new(to).poll_write(cx, bytes))? {
        0 => Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
        written => Poll::Ready(Ok(written)),
    }
}
