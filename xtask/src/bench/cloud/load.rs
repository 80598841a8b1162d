//! The targets and the client of the comparison: bytes as fast as they go, connections as fast as they come, and small
//! requests one after the other.

use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// The first byte of a connection says what its target shall do.
const ECHO: u8 = b'e';
const FLOOD: u8 = b'f';
const MESSAGE: usize = 64;
const PIECE: usize = 256 << 10;

/// How many of something in how much time.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// Bytes or connections.
    pub count: u64,
    /// In this time.
    pub took: Duration,
}

impl Sample {
    /// Per second.
    pub fn rate(&self) -> f64 {
        self.count as f64 / self.took.as_secs_f64().max(f64::EPSILON)
    }
}

/// Targets that live as long as this value.
pub struct Backends {
    /// Where they listen.
    pub addresses: Vec<SocketAddr>,
    _serving: JoinSet<()>,
}

impl Backends {
    /// So many, on loopback.
    pub async fn start(count: usize) -> io::Result<Self> {
        let (mut addresses, mut serving) = (Vec::new(), JoinSet::new());
        for _ in 0..count {
            let listener = TcpListener::bind("127.0.0.1:0").await?;
            addresses.push(listener.local_addr()?);
            serving.spawn(serve(listener));
        }
        Ok(Self { addresses, _serving: serving })
    }
}

async fn serve(listener: TcpListener) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            Ok((stream, _)) = listener.accept() => drop(connections.spawn(answer(stream))),
            Some(_) = connections.join_next() => {}
        }
    }
}

/// A connection that breaks has ended: who measures is at the other end.
async fn answer(mut stream: TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    match stream.read_u8().await? {
        FLOOD => {
            let piece = vec![7; PIECE];
            loop {
                stream.write_all(&piece).await?;
            }
        }
        _ => {
            let mut message = [0; MESSAGE];
            loop {
                stream.read_exact(&mut message).await?;
                stream.write_all(&message).await?;
            }
        }
    }
}

/// Receives on some connections as fast as it goes.
pub async fn bulk(address: SocketAddr, connections: usize, turn: Duration) -> io::Result<Sample> {
    let started = Instant::now();
    let mut streams = JoinSet::new();
    for _ in 0..connections {
        streams.spawn(async move {
            let mut stream = connect(address, FLOOD).await?;
            let (mut piece, mut count) = (vec![0; PIECE], 0);
            while started.elapsed() < turn {
                match stream.read(&mut piece).await? {
                    0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                    read => count += read as u64,
                }
            }
            Ok(count)
        });
    }
    sum(streams, started).await
}

/// Opens connections, asks once on each, and closes them.
pub async fn short(address: SocketAddr, workers: usize, turn: Duration) -> io::Result<Sample> {
    let started = Instant::now();
    let mut streams = JoinSet::new();
    for _ in 0..workers {
        streams.spawn(async move {
            let mut count = 0;
            while started.elapsed() < turn {
                ask(&mut connect(address, ECHO).await?).await?;
                count += 1;
            }
            Ok(count)
        });
    }
    sum(streams, started).await
}

/// Asks again and again on some connections; the answer is the microseconds that each request took.
pub async fn kept(address: SocketAddr, connections: usize, turn: Duration) -> io::Result<Vec<u32>> {
    let started = Instant::now();
    let mut streams = JoinSet::new();
    for _ in 0..connections {
        streams.spawn(async move {
            let mut stream = connect(address, ECHO).await?;
            let mut latencies = Vec::new();
            while started.elapsed() < turn {
                let asked = Instant::now();
                ask(&mut stream).await?;
                latencies.push(u32::try_from(asked.elapsed().as_micros()).unwrap_or(u32::MAX));
            }
            Ok(latencies)
        });
    }
    let mut all = Vec::new();
    while let Some(latencies) = streams.join_next().await {
        let latencies: io::Result<Vec<u32>> = latencies?;
        all.extend(latencies?);
    }
    Ok(all)
}

/// Whether someone echoes behind that address.
pub async fn is_there(address: SocketAddr) -> io::Result<()> {
    ask(&mut connect(address, ECHO).await?).await
}

async fn connect(address: SocketAddr, deed: u8) -> io::Result<TcpStream> {
    let mut stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    stream.write_all(&[deed]).await?;
    Ok(stream)
}

async fn ask(stream: &mut TcpStream) -> io::Result<()> {
    let (question, mut answer) = ([3; MESSAGE], [0; MESSAGE]);
    stream.write_all(&question).await?;
    stream.read_exact(&mut answer).await?;
    if answer == question { Ok(()) } else { Err(io::ErrorKind::InvalidData.into()) }
}

async fn sum(mut streams: JoinSet<io::Result<u64>>, started: Instant) -> io::Result<Sample> {
    let mut count = 0;
    while let Some(counted) = streams.join_next().await {
        count += counted??;
    }
    Ok(Sample { count, took: started.elapsed() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn each_load_counts_what_it_did() {
        let backends = Backends::start(1).await.unwrap();
        let (address, turn) = (backends.addresses[0], Duration::from_millis(50));
        is_there(address).await.unwrap();
        assert!(bulk(address, 2, turn).await.unwrap().count > 0);
        assert!(short(address, 2, turn).await.unwrap().count > 1);
        assert!(kept(address, 2, turn).await.unwrap().len() > 1);
    }

    #[test]
    fn a_rate_is_a_count_over_a_time() {
        assert!((Sample { count: 300, took: Duration::from_secs(3) }.rate() - 100.0).abs() < 1e-9);
        assert!((Sample { count: 0, took: Duration::ZERO }.rate()).abs() < 1e-9);
    }
}
