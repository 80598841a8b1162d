//! The name server of a cluster. It answers for its zone from the value that is current when the question arrives,
//! hands other questions on if there is someone to hand them to, and refuses them otherwise.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use hickory_server::Server;
use hickory_server::net::NetError;
use hickory_server::net::runtime::Time;
use hickory_server::net::xfer::Protocol;
use hickory_server::proto::op::{Edns, Header, HeaderCounts, LowerQuery, Metadata, OpCode, ResponseCode};
use hickory_server::proto::rr::rdata::{A, CNAME, SOA, SRV, TXT};
use hickory_server::proto::rr::{DNSClass, Name, RData, Record as Wire, RecordType};
use hickory_server::server::{Request, RequestHandler, ResponseHandler, ResponseInfo};
use hickory_server::zone_handler::MessageResponseBuilder;
use thiserror::Error;
use tokio::sync::{Semaphore, watch};
use tracing::{debug, warn};

use super::domain::DomainName;
use super::upstream::{Length, Upstream, ask};
use super::zone::{Answer, Asked, End, Kind, Record, Zone};
use crate::network::namespace::{Namespace, NamespaceError};

/// Where machines ask for names.
pub const PORT: u16 = 53;
const TTL: u32 = 1;
const STREAM_LIMIT: Duration = Duration::from_secs(10);
const STREAM_ANSWERS: usize = 32;
const HANDED_ON_AT_ONCE: usize = 256;
// What arrives over any path without fragments.
const LARGEST_DATAGRAM: u16 = 1232;
const SMALLEST_DATAGRAM: u16 = 512;
const LONGEST_STRING: usize = 255;

/// A name server at work; it stops when it is dropped.
pub struct NameServer {
    server: Server<Answering>,
}

/// Why no names are served.
#[derive(Debug, Error)]
pub enum NamesError {
    /// The cluster's namespace is not there or cannot be entered.
    #[error("cannot enter the cluster to listen for names")]
    Enter {
        /// Why not.
        source: NamespaceError,
    },
    /// The address is taken or not there.
    #[error("cannot listen on {address}:{PORT} in {}", .path.display())]
    Listen {
        /// The address.
        address: Ipv4Addr,
        /// The cluster's namespace.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// The sockets cannot be used by this runtime.
    #[error("cannot serve names from the sockets given")]
    Take {
        /// What the kernel said.
        source: io::Error,
    },
    /// A server that was working is no longer.
    #[error("the name server stopped")]
    Stopped {
        /// Why.
        source: NetError,
    },
}

/// Listens on port 53 of an address inside the namespace.
pub fn listen(cluster: &Namespace, address: Ipv4Addr) -> Result<(UdpSocket, TcpListener), NamesError> {
    let here = move || Ok((UdpSocket::bind((address, PORT))?, TcpListener::bind((address, PORT))?));
    let listening = cluster.inside(here).map_err(|source| NamesError::Enter { source })?;
    listening.map_err(|source| NamesError::Listen { address, path: cluster.path().to_owned(), source })
}

/// Serves the zone on these sockets. Called from within the runtime that is to do the work, whose threads are in the
/// host's namespace: questions that are handed on leave from there.
pub fn serve(
    udp: UdpSocket,
    tcp: TcpListener,
    zone: watch::Receiver<Arc<Zone>>,
    upstream: watch::Receiver<Upstream>,
) -> Result<NameServer, NamesError> {
    let trouble = |source| NamesError::Take { source };
    udp.set_nonblocking(true).map_err(trouble)?;
    tcp.set_nonblocking(true).map_err(trouble)?;
    let udp = tokio::net::UdpSocket::from_std(udp).map_err(trouble)?;
    let tcp = tokio::net::TcpListener::from_std(tcp).map_err(trouble)?;
    let mut server = Server::new(Answering { zone, upstream, room: Semaphore::new(HANDED_ON_AT_ONCE) });
    server.register_socket(udp);
    server.register_listener(tcp, STREAM_LIMIT, STREAM_ANSWERS);
    Ok(NameServer { server })
}

impl NameServer {
    /// Returns only when the server has stopped although nobody asked it to.
    pub async fn stopped(&mut self) -> Result<(), NamesError> {
        self.server.block_until_done().await.map_err(|source| NamesError::Stopped { source })
    }

    /// Stops, and returns when the sockets are closed.
    pub async fn close(mut self) -> Result<(), NamesError> {
        self.server.shutdown_gracefully().await.map_err(|source| NamesError::Stopped { source })
    }
}

struct Answering {
    zone: watch::Receiver<Arc<Zone>>,
    upstream: watch::Receiver<Upstream>,
    room: Semaphore,
}

// Written out, because the trait was made with a macro that we have no other use for.
impl RequestHandler for Answering {
    fn handle_request<'a, 'b, 'c, R, T>(
        &'a self,
        request: &'b Request,
        response: R,
    ) -> Pin<Box<dyn Future<Output = ResponseInfo> + Send + 'c>>
    where
        R: 'c + ResponseHandler,
        T: 'c + Time,
        'a: 'c,
        'b: 'c,
        Self: 'c,
    {
        Box::pin(self.respond(request, response))
    }
}

/// What goes into the packet.
#[derive(Debug, Default)]
struct Reply {
    code: ResponseCode,
    authoritative: bool,
    truncated: bool,
    answers: Vec<Wire>,
    authorities: Vec<Wire>,
    additionals: Vec<Wire>,
}

impl Reply {
    fn bare(code: ResponseCode) -> Self {
        Self { code, ..Self::default() }
    }
}

impl Answering {
    async fn respond(&self, request: &Request, mut response: impl ResponseHandler) -> ResponseInfo {
        let reply = self.reply(request).await;
        let edns = request.edns.as_ref().map(|_| edns(request.max_payload()));
        let mut metadata = Metadata::response_from_request(&request.metadata);
        metadata.response_code = reply.code;
        metadata.authoritative = reply.authoritative;
        metadata.truncation = reply.truncated;
        metadata.recursion_available = *self.upstream.borrow() != Upstream::None;
        let builder = MessageResponseBuilder::new(&request.queries, edns.as_ref());
        let none = std::iter::empty();
        let message = builder.build(metadata, &reply.answers, &reply.authorities, none, &reply.additionals);
        response.send_response(message).await.unwrap_or_else(|error| {
            warn!(%error, "answer not sent");
            ResponseInfo::from(Header { metadata, counts: HeaderCounts::default() })
        })
    }

    async fn reply(&self, request: &Request) -> Reply {
        if request.version() > 0 {
            return Reply::bare(ResponseCode::BADVERS);
        }
        if request.metadata.op_code != OpCode::Query {
            return Reply::bare(ResponseCode::NotImp);
        }
        let [query] = request.queries.queries() else { return Reply::bare(ResponseCode::FormErr) };
        if !matches!(query.query_class(), DNSClass::IN | DNSClass::ANY) {
            return Reply::bare(ResponseCode::Refused);
        }
        let zone = Arc::clone(&self.zone.borrow());
        match answer(&zone, query) {
            Some(reply) => reply,
            None => self.hand_on(request, query).await,
        }
    }

    async fn hand_on(&self, request: &Request, query: &LowerQuery) -> Reply {
        let upstream = self.upstream.borrow().clone();
        let Upstream::Forward(servers) = upstream else { return Reply::bare(ResponseCode::Refused) };
        if !request.metadata.recursion_desired || is_transfer(query.query_type()) {
            return Reply::bare(ResponseCode::Refused);
        }
        let Ok(_place) = self.room.try_acquire() else { return Reply::bare(ResponseCode::ServFail) };
        let length = if request.protocol() == Protocol::Udp { Length::FitsDatagram } else { Length::Whole };
        match ask(&servers, query.original(), length).await {
            Ok(message) => Reply {
                code: message.metadata.response_code,
                authoritative: false,
                truncated: message.metadata.truncation,
                answers: message.answers,
                authorities: message.authorities,
                additionals: message.additionals,
            },
            Err(error) => {
                debug!(name = %query.name(), %error, "question not answered upstream");
                Reply::bare(ResponseCode::ServFail)
            }
        }
    }
}

fn edns(asked: u16) -> Edns {
    let mut edns = Edns::new();
    edns.set_max_payload(asked.clamp(SMALLEST_DATAGRAM, LARGEST_DATAGRAM));
    edns
}

/// The zone's own answer; nothing if the name is none of its.
fn answer(zone: &Zone, query: &LowerQuery) -> Option<Reply> {
    let origin = wire_name(zone.origin());
    if !origin.zone_of(query.name()) {
        return None;
    }
    if is_transfer(query.query_type()) {
        return Some(Reply::bare(ResponseCode::Refused));
    }
    let soa = start_of_authority(zone, &origin);
    let at_origin = query.original().name() == &origin;
    if at_origin && query.query_type() == RecordType::SOA {
        return Some(Reply { authoritative: true, answers: vec![soa], ..Reply::default() });
    }
    // A name with characters that no name of ours can have is not there.
    let found = match DomainName::parse(&query.name().to_string()) {
        Ok(name) => zone.look_up(&name, asked(query.query_type())),
        Err(_) => Answer { end: End::NoName, records: Vec::new() },
    };
    Some(own(found, soa))
}

fn own(found: Answer, soa: Wire) -> Reply {
    let (code, authorities) = match found.end {
        End::Found | End::Outside => (ResponseCode::NoError, Vec::new()),
        End::NoRecords => (ResponseCode::NoError, vec![soa]),
        End::NoName => (ResponseCode::NXDomain, vec![soa]),
        End::Endless => (ResponseCode::ServFail, Vec::new()),
    };
    let answers = found.records.iter().map(|(name, record)| wire(name, record)).collect();
    Reply { code, authoritative: true, answers, authorities, ..Reply::default() }
}

fn asked(kind: RecordType) -> Asked {
    match kind {
        RecordType::A => Asked::Kind(Kind::A),
        RecordType::CNAME => Asked::Kind(Kind::Cname),
        RecordType::SRV => Asked::Kind(Kind::Srv),
        RecordType::TXT => Asked::Kind(Kind::Txt),
        RecordType::ANY => Asked::Everything,
        _ => Asked::Foreign,
    }
}

fn is_transfer(kind: RecordType) -> bool {
    matches!(kind, RecordType::AXFR | RecordType::IXFR)
}

fn wire(name: &DomainName, record: &Record) -> Wire {
    let data = match record {
        Record::A(address) => RData::A(A(*address)),
        Record::Cname(target) => RData::CNAME(CNAME(wire_name(target))),
        Record::Srv { priority, weight, port, target } => {
            RData::SRV(SRV::new(*priority, *weight, *port, wire_name(target)))
        }
        Record::Txt(text) => RData::TXT(TXT::from_bytes(strings(text))),
    };
    Wire::from_rdata(wire_name(name), TTL, data)
}

fn strings(text: &str) -> Vec<&[u8]> {
    if text.is_empty() { vec![b""] } else { text.as_bytes().chunks(LONGEST_STRING).collect() }
}

// Refresh, retry and expire are for secondary servers, of which there are none.
fn start_of_authority(zone: &Zone, origin: &Name) -> Wire {
    let server = origin.prepend_label("ns").unwrap_or_else(|_| origin.clone());
    let person = origin.prepend_label("hostmaster").unwrap_or_else(|_| origin.clone());
    let soa = SOA::new(server, person, zone.serial(), 3600, 600, 86400, TTL);
    Wire::from_rdata(origin.clone(), TTL, RData::SOA(soa))
}

fn wire_name(name: &DomainName) -> Name {
    Name::from_ascii(format!("{name}.")).expect("a domain name is short enough and has only plain characters")
}

/// The address that the host's resolvers are configured with, from the text of a `resolv.conf`.
pub fn nameservers(resolv_conf: &str) -> Vec<SocketAddr> {
    let lines = resolv_conf.lines().filter_map(|line| line.trim().strip_prefix("nameserver"));
    lines.filter_map(|rest| Some(SocketAddr::new(rest.trim().parse().ok()?, PORT))).collect()
}

#[cfg(test)]
mod tests;
