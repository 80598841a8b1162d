//! Asking other name servers about names that are not ours. The sockets are made on the thread that asks, which is in
//! the host's own namespace, because that is where the host's resolvers are reached from.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use hickory_server::proto::op::{Edns, Message, MessageType, OpCode, Query};
use thiserror::Error;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};

const LIMIT: Duration = Duration::from_secs(2);
const PAYLOAD: u16 = 1232;

/// Who answers for names outside the zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Upstream {
    /// Nobody: such questions are refused.
    None,
    /// These servers, in this order.
    Forward(Vec<SocketAddr>),
}

/// Why no server answered.
#[derive(Debug, Error)]
pub enum UpstreamError {
    /// The question could not be put into a packet, or there is no randomness for its number.
    #[error("cannot write the question")]
    WriteQuestion {
        /// Why not.
        source: io::Error,
    },
    /// The last of the servers failed; the others did before it.
    #[error("no answer from {server}")]
    Ask {
        /// The server.
        server: SocketAddr,
        /// What happened.
        source: io::Error,
    },
    /// The list is empty.
    #[error("there is no server to ask")]
    NoServer,
}

/// Whether an answer may be cut short.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Length {
    Whole,
    FitsDatagram,
}

/// Asks one server after the other until one answers.
pub(super) async fn ask(servers: &[SocketAddr], query: &Query, length: Length) -> Result<Message, UpstreamError> {
    let question = question(query).map_err(|source| UpstreamError::WriteQuestion { source })?;
    let mut last = UpstreamError::NoServer;
    for server in servers {
        match ask_one(*server, &question, length).await {
            Ok(answer) => return Ok(answer),
            Err(source) => last = UpstreamError::Ask { server: *server, source },
        }
    }
    Err(last)
}

fn question(query: &Query) -> io::Result<Message> {
    let id = getrandom::u32().map_err(io::Error::other)?.to_ne_bytes();
    let mut message = Message::new(u16::from_ne_bytes([id[0], id[1]]), MessageType::Query, OpCode::Query);
    message.metadata.recursion_desired = true;
    message.add_query(query.clone());
    let mut edns = Edns::new();
    edns.set_max_payload(PAYLOAD);
    message.set_edns(edns);
    Ok(message)
}

async fn ask_one(server: SocketAddr, question: &Message, length: Length) -> io::Result<Message> {
    let bytes = question.to_vec().map_err(io::Error::other)?;
    let short = tokio::time::timeout(LIMIT, by_datagram(server, question, &bytes)).await??;
    match short.metadata.truncation && length == Length::Whole {
        true => tokio::time::timeout(LIMIT, by_stream(server, question, &bytes)).await?,
        false => Ok(short),
    }
}

async fn by_datagram(server: SocketAddr, question: &Message, bytes: &[u8]) -> io::Result<Message> {
    let any: SocketAddr = match server {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    let socket = UdpSocket::bind(any).await?;
    socket.connect(server).await?;
    socket.send(bytes).await?;
    let mut buffer = vec![0; PAYLOAD.into()];
    loop {
        let length = socket.recv(&mut buffer).await?;
        // Anything else that arrives here was made up by someone, or came too late.
        if let Some(answer) = read(&buffer[..length], question) {
            return Ok(answer);
        }
    }
}

async fn by_stream(server: SocketAddr, question: &Message, bytes: &[u8]) -> io::Result<Message> {
    let mut stream = TcpStream::connect(server).await?;
    let length = u16::try_from(bytes.len()).map_err(io::Error::other)?;
    stream.write_all(&[&length.to_be_bytes(), bytes].concat()).await?;
    let mut buffer = vec![0; stream.read_u16().await?.into()];
    stream.read_exact(&mut buffer).await?;
    read(&buffer, question).ok_or_else(|| io::Error::other("the answer belongs to another question"))
}

fn read(bytes: &[u8], question: &Message) -> Option<Message> {
    let answer = Message::from_vec(bytes).ok()?;
    let belongs = answer.metadata.id == question.metadata.id
        && answer.metadata.message_type == MessageType::Response
        && answer.queries == question.queries;
    belongs.then_some(answer)
}
