//! One connection: find it a target, hold it while there is none, then carry its bytes both ways.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use tokio::net::TcpStream;
use tracing::debug;

use super::pool::{Open, Pool};
use super::pump::pump;
use super::{Limits, keep_alive};

/// Carries the client's connection from beginning to end; nobody is told more of it than the log.
pub(super) async fn carry(mut client: TcpStream, pool: &Arc<Pool>, limits: &Limits) {
    let Some((mut server, open)) = reach(pool, limits).await else {
        debug!(held = ?limits.hold, "connection closed, no target was reached");
        return;
    };
    let mut life = open.slot().life();
    tokio::select! {
        ended = pump(&mut client, &mut server) => match ended {
            Ok(()) => {}
            Err(error) => debug!(target = %open.slot().target, %error, "connection broke"),
        },
        () = life.until_ended() => debug!(target = %open.slot().target, "connection ended with its target"),
    }
}

/// A connection to a healthy target; if one fails the next, until there are none or the time is over.
async fn reach(pool: &Arc<Pool>, limits: &Limits) -> Option<(TcpStream, Open)> {
    tokio::time::timeout(limits.hold, async {
        let mut tried = Vec::new();
        loop {
            let Some(open) = pool.pick(&tried) else {
                match std::mem::take(&mut tried).is_empty() {
                    true => someone(pool).await,
                    false => change(pool, limits).await,
                }
                continue;
            };
            match tokio::time::timeout(limits.connect, connect(open.slot().target.address)).await {
                Ok(Ok(server)) => return (server, open),
                Ok(Err(error)) => debug!(target = %open.slot().target, %error, "cannot connect, trying the next"),
                Err(_) => {
                    debug!(target = %open.slot().target, limit = ?limits.connect, "no connection, trying the next")
                }
            }
            open.slot().suspect();
            tried.push(Arc::clone(open.slot()));
        }
    })
    .await
    .ok()
}

/// Until there is a target to try.
async fn someone(pool: &Pool) {
    // The pool holds the sender, so this ends only with a target.
    drop(pool.choice().wait_for(|choice| !choice.is_empty()).await);
}

/// Until those that failed just now are worth another try: after a change, or after the time of a check.
async fn change(pool: &Pool, limits: &Limits) {
    let _either = tokio::time::timeout(limits.interval, pool.choice().changed()).await;
}

async fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    let server = TcpStream::connect(address).await?;
    server.set_nodelay(true)?;
    keep_alive(&server)?;
    Ok(server)
}
