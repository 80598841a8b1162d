//! Serving plain HTTP until told to end.

use std::future::IntoFuture as _;
use std::io;
use std::time::Duration;

use axum::Router;
use tokio::net::TcpListener;
use tokio::time::timeout;
use tracing::warn;
use windlass_steps::interrupt::Interrupt;

/// Serves until interrupted, then lets running requests end within `farewell`.
pub async fn until_interrupted(
    listener: TcpListener,
    router: Router,
    farewell: Duration,
    interrupt: &Interrupt,
) -> io::Result<()> {
    let stop = interrupt.clone();
    let server = axum::serve(listener, router).with_graceful_shutdown(async move { stop.raised().await });
    let mut server = std::pin::pin!(server.into_future());
    tokio::select! {
        ended = &mut server => return ended,
        () = interrupt.raised() => {}
    }
    match timeout(farewell, server).await {
        Ok(ended) => ended,
        Err(_) => {
            warn!(took = ?farewell, "requests were cut off");
            Ok(())
        }
    }
}
