use std::io::{Read, Write};
use std::net::TcpStream;

use hickory_server::proto::op::{Message, MessageType, Query};

use super::*;
use crate::names::zone::{Change, Expect};

const WAIT: Duration = Duration::from_secs(5);

struct Running {
    server: NameServer,
    zone: watch::Sender<Arc<Zone>>,
    upstream: watch::Sender<Upstream>,
    udp: SocketAddr,
    tcp: SocketAddr,
}

fn name(text: &str) -> DomainName {
    DomainName::parse(text).unwrap()
}

fn zone(origin: &str, sets: impl IntoIterator<Item = (String, Vec<Record>)>) -> Zone {
    let mut zone = Zone::new(name(origin));
    for (at, records) in sets {
        let change = Change { name: name(&at), kind: records[0].kind(), expect: Expect::Any, records };
        zone.change(change).unwrap();
    }
    zone
}

fn demo() -> Zone {
    let srv = Record::Srv { priority: 1, weight: 2, port: 6443, target: name("host.demo.example") };
    let hosts = (1..=200).map(|n| Record::A(Ipv4Addr::new(10, 1, 0, n))).collect();
    zone(
        "demo.example",
        [
            ("host.demo.example".to_owned(), vec![Record::A(Ipv4Addr::new(10, 0, 0, 7))]),
            ("alias.demo.example".to_owned(), vec![Record::Cname(name("host.demo.example"))]),
            ("_api._tcp.demo.example".to_owned(), vec![srv]),
            ("text.demo.example".to_owned(), vec![Record::Txt("x".repeat(300))]),
            ("many.demo.example".to_owned(), hosts),
        ],
    )
}

fn run(zone: Zone, upstream: Upstream) -> Running {
    let udp = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let tcp = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let (udp_address, tcp_address) = (udp.local_addr().unwrap(), tcp.local_addr().unwrap());
    let (sender, receiver) = watch::channel(Arc::new(zone));
    let (elsewhere, handed_on) = watch::channel(upstream);
    let server = serve(udp, tcp, receiver, handed_on).unwrap();
    Running { server, zone: sender, upstream: elsewhere, udp: udp_address, tcp: tcp_address }
}

fn question(at: &str, kind: RecordType) -> Message {
    question_for(Name::from_ascii(at).unwrap(), kind)
}

fn question_for(name: Name, kind: RecordType) -> Message {
    let mut message = Message::new(4711, MessageType::Query, OpCode::Query);
    message.metadata.recursion_desired = true;
    message.add_query(Query::query(name, kind));
    message
}

async fn exchange(server: SocketAddr, question: Message) -> Message {
    tokio::task::spawn_blocking(move || {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        socket.set_read_timeout(Some(WAIT)).unwrap();
        socket.send_to(&question.to_vec().unwrap(), server).unwrap();
        let mut buffer = [0; 4096];
        let length = socket.recv(&mut buffer).unwrap();
        Message::from_vec(&buffer[..length]).unwrap()
    })
    .await
    .unwrap()
}

/// As a resolver asks: a datagram that finds the queue full is lost, and is sent again.
async fn repeat(server: SocketAddr, question: Message) -> Message {
    tokio::task::spawn_blocking(move || {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        socket.set_read_timeout(Some(WAIT / 10)).unwrap();
        let mut buffer = [0; 4096];
        let answer = (0..10).find_map(|_| {
            socket.send_to(&question.to_vec().unwrap(), server).unwrap();
            socket.recv(&mut buffer).ok()
        });
        Message::from_vec(&buffer[..answer.expect("an answer to one of ten questions")]).unwrap()
    })
    .await
    .unwrap()
}

async fn ask_for(server: SocketAddr, at: &str, kind: RecordType) -> Message {
    exchange(server, question(at, kind)).await
}

async fn ask_by_stream(server: SocketAddr, question: Message) -> Message {
    tokio::task::spawn_blocking(move || {
        let bytes = question.to_vec().unwrap();
        let mut stream = TcpStream::connect(server).unwrap();
        stream.set_read_timeout(Some(WAIT)).unwrap();
        stream.write_all(&u16::try_from(bytes.len()).unwrap().to_be_bytes()).unwrap();
        stream.write_all(&bytes).unwrap();
        let mut length = [0; 2];
        stream.read_exact(&mut length).unwrap();
        let mut buffer = vec![0; u16::from_be_bytes(length).into()];
        stream.read_exact(&mut buffer).unwrap();
        Message::from_vec(&buffer).unwrap()
    })
    .await
    .unwrap()
}

fn data(message: &Message) -> Vec<RData> {
    message.answers.iter().map(|record| record.data.clone()).collect()
}

#[tokio::test]
async fn every_kind_of_record_is_answered_for_one_second_and_in_any_case() {
    let running = run(demo(), Upstream::None);
    let host = RData::A(A(Ipv4Addr::new(10, 0, 0, 7)));
    let long = "x".repeat(255);
    let target = wire_name(&name("host.demo.example"));
    let cases = [
        ("HOST.Demo.Example.", RecordType::A, vec![host.clone()]),
        ("alias.demo.example.", RecordType::A, vec![RData::CNAME(CNAME(target.clone())), host]),
        ("_api._tcp.demo.example.", RecordType::SRV, vec![RData::SRV(SRV::new(1, 2, 6443, target))]),
        ("text.demo.example.", RecordType::TXT, vec![RData::TXT(TXT::new(vec![long, "x".repeat(45)]))]),
    ];
    for (at, kind, wanted) in cases {
        let message = ask_for(running.udp, at, kind).await;
        assert_eq!(data(&message), wanted, "{at}");
        assert!(message.metadata.authoritative && !message.metadata.recursion_available, "{at}");
        assert!(message.answers.iter().all(|record| record.ttl == 1), "{at}");
        assert_eq!((message.metadata.id, message.metadata.response_code), (4711, ResponseCode::NoError), "{at}");
    }
}

#[tokio::test]
async fn what_is_not_there_comes_with_a_second_of_negative_caching() {
    let running = run(demo(), Upstream::None);
    let cases = [
        ("none.demo.example.", RecordType::A, ResponseCode::NXDomain),
        ("host.demo.example.", RecordType::AAAA, ResponseCode::NoError),
        ("_tcp.demo.example.", RecordType::A, ResponseCode::NoError),
        ("demo.example.", RecordType::A, ResponseCode::NoError),
    ];
    for (at, kind, code) in cases {
        let message = ask_for(running.udp, at, kind).await;
        assert_eq!((message.metadata.response_code, message.answers.len()), (code, 0), "{at}");
        let [soa] = message.authorities.as_slice() else { panic!("{at}: {message:?}") };
        assert_eq!((soa.ttl, soa.name.to_ascii().as_str()), (1, "demo.example."), "{at}");
        assert!(matches!(&soa.data, RData::SOA(soa) if soa.minimum == 1), "{at}");
    }
    let odd = Name::from_labels([b"b ad".as_slice(), b"demo", b"example"]).unwrap();
    let odd = exchange(running.udp, question_for(odd, RecordType::A)).await;
    assert_eq!((odd.metadata.response_code, odd.authorities.len()), (ResponseCode::NXDomain, 1));
    let origin = ask_for(running.udp, "demo.example.", RecordType::SOA).await;
    assert!(matches!(data(&origin).as_slice(), [RData::SOA(_)]));
}

#[tokio::test]
async fn a_change_is_in_the_next_answer() {
    let running = run(demo(), Upstream::None);
    let before = ask_for(running.udp, "new.demo.example.", RecordType::A).await;
    assert_eq!(before.metadata.response_code, ResponseCode::NXDomain);
    let records = vec![Record::A(Ipv4Addr::new(10, 0, 0, 9))];
    let change = Change { name: name("new.demo.example"), kind: Kind::A, expect: Expect::Absent, records };
    running.zone.send_modify(|zone| {
        Arc::make_mut(zone).change(change).unwrap();
    });
    let after = ask_for(running.udp, "new.demo.example.", RecordType::A).await;
    assert_eq!(data(&after), [RData::A(A(Ipv4Addr::new(10, 0, 0, 9)))]);
}

#[tokio::test]
async fn other_names_are_refused_or_handed_on() {
    let outside = zone("example.org", [("www.example.org".to_owned(), vec![Record::A(Ipv4Addr::new(192, 0, 2, 1))])]);
    let elsewhere = run(outside, Upstream::None);
    let alone = run(demo(), Upstream::None);
    let refused = ask_for(alone.udp, "www.example.org.", RecordType::A).await;
    assert_eq!(refused.metadata.response_code, ResponseCode::Refused);
    let closed = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap();
    let connected = run(demo(), Upstream::Forward(vec![closed, elsewhere.udp]));
    let answered = ask_for(connected.udp, "www.example.org.", RecordType::A).await;
    assert_eq!(data(&answered), [RData::A(A(Ipv4Addr::new(192, 0, 2, 1)))]);
    assert!(answered.metadata.recursion_available && !answered.metadata.authoritative);
    let missing = ask_for(connected.udp, "none.example.org.", RecordType::A).await;
    assert_eq!((missing.metadata.response_code, missing.authorities.len()), (ResponseCode::NXDomain, 1));
    let mut unwished = question("www.example.org.", RecordType::A);
    unwished.metadata.recursion_desired = false;
    assert_eq!(exchange(connected.udp, unwished).await.metadata.response_code, ResponseCode::Refused);
    let nobody = run(demo(), Upstream::Forward(vec![closed]));
    let failed = ask_for(nobody.udp, "www.example.org.", RecordType::A).await;
    assert_eq!(failed.metadata.response_code, ResponseCode::ServFail);
}

#[tokio::test]
async fn a_way_out_that_was_opened_later_was_not_used_for_names() {
    let outside = zone("example.org", [("www.example.org".to_owned(), vec![Record::A(Ipv4Addr::new(192, 0, 2, 1))])]);
    let elsewhere = run(outside, Upstream::None);
    let running = run(demo(), Upstream::None);
    let codes = [
        (Upstream::None, ResponseCode::Refused),
        (Upstream::Forward(vec![elsewhere.udp]), ResponseCode::NoError),
        (Upstream::None, ResponseCode::Refused),
    ];
    for (upstream, code) in codes {
        running.upstream.send_replace(upstream.clone());
        let answer = ask_for(running.udp, "www.example.org.", RecordType::A).await;
        assert_eq!(answer.metadata.response_code, code, "{upstream:?}");
    }
}

#[tokio::test]
async fn a_long_answer_is_cut_short_in_a_datagram_and_whole_in_a_stream() {
    let running = run(demo(), Upstream::None);
    let short = ask_for(running.udp, "many.demo.example.", RecordType::A).await;
    assert!(short.metadata.truncation && short.answers.len() < 200);
    let mut wide = question("many.demo.example.", RecordType::A);
    wide.set_edns(edns(LARGEST_DATAGRAM));
    let wide = exchange(running.udp, wide).await;
    assert!(wide.answers.len() > short.answers.len() && wide.edns.is_some());
    let whole = ask_by_stream(running.tcp, question("many.demo.example.", RecordType::A)).await;
    assert!(!whole.metadata.truncation);
    assert_eq!(whole.answers.len(), 200);
}

#[tokio::test]
async fn odd_questions_get_the_answer_that_suits_them() {
    let running = run(demo(), Upstream::None);
    let usual = || question("host.demo.example.", RecordType::A);
    let mut update = usual();
    update.metadata.op_code = OpCode::Notify;
    let mut chaos = usual();
    chaos.queries[0].set_query_class(DNSClass::CH);
    let mut two = usual();
    two.add_query(two.queries[0].clone());
    let mut newer = usual();
    let mut version = edns(512);
    version.set_version(1);
    newer.set_edns(version);
    let cases = [
        (update, ResponseCode::NotImp),
        (chaos, ResponseCode::Refused),
        (two, ResponseCode::FormErr),
        (newer, ResponseCode::BADVERS),
        (question("demo.example.", RecordType::AXFR), ResponseCode::Refused),
    ];
    for (message, code) in cases {
        let answered = exchange(running.udp, message.clone()).await.metadata.response_code;
        // By number, because two names share 16.
        assert_eq!(u16::from(answered), u16::from(code), "{message:?}");
    }
}

/// Numbers that look random and are the same in every run.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() % limit as u64).unwrap()
    }

    fn bytes(&mut self, length: usize) -> Vec<u8> {
        (0..length).map(|_| self.next().to_le_bytes()[0]).collect()
    }

    /// Pure noise, or a good question with some bytes changed or its end cut off.
    fn packet(&mut self, good: &[u8]) -> Vec<u8> {
        if self.below(3) == 0 {
            let length = self.below(600);
            return self.bytes(length);
        }
        let mut packet = good.to_vec();
        for _ in 0..=self.below(4) {
            let place = self.below(packet.len());
            packet[place] = self.next().to_le_bytes()[0];
        }
        packet.truncate(self.below(packet.len()) + packet.len() / 2);
        packet
    }
}

#[tokio::test]
async fn garbage_does_not_stop_the_server() {
    let running = run(demo(), Upstream::None);
    let (udp, tcp) = (running.udp, running.tcp);
    let mut good = question("alias.demo.example.", RecordType::A);
    good.set_edns(edns(1232));
    let good = good.to_vec().unwrap();
    let flood = tokio::task::spawn_blocking(move || {
        let mut numbers = Numbers(0x5eed_cafe);
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        for _ in 0..3000 {
            socket.send_to(&numbers.packet(&good), udp).unwrap();
        }
        for _ in 0..50 {
            let mut stream = TcpStream::connect(tcp).unwrap();
            let length = numbers.below(2000);
            // The server may hang up on nonsense before we have written all of it.
            let _ = stream.write_all(&numbers.bytes(length));
        }
    });
    flood.await.unwrap();
    let message = repeat(running.udp, question("host.demo.example.", RecordType::A)).await;
    assert_eq!(message.answers.len(), 1);
    let message = ask_by_stream(running.tcp, question("host.demo.example.", RecordType::A)).await;
    assert_eq!(message.answers.len(), 1);
}

#[tokio::test]
async fn a_closed_server_has_let_go_of_its_sockets() {
    let running = run(demo(), Upstream::None);
    running.server.close().await.unwrap();
    UdpSocket::bind(running.udp).unwrap();
    TcpListener::bind(running.tcp).unwrap();
}

#[test]
fn the_resolvers_of_the_host_are_read_from_its_file() {
    let text = "# made by hand\nsearch example\nnameserver 10.255.255.53\nnameserver\tfe80::1%eth0\n nameserver ::1\n";
    assert_eq!(nameservers(text), ["10.255.255.53:53".parse().unwrap(), "[::1]:53".parse().unwrap()]);
}
