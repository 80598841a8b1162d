//! The balancer over loopback, with targets that answer checks over TLS and carry plain text on the same port.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;
use windlass_steps::clock::SystemClock;
use windlass_steps::host::{cmd, run_blocking};

use super::*;

const PATIENCE: Duration = Duration::from_secs(10);
const NAME: &str = "api.test";

/// An authority, and what a server of its needs.
struct Authority {
    pem: String,
    acceptor: TlsAcceptor,
}

impl Authority {
    fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let pem = params.self_signed(&key).unwrap().pem();
        let issuer = Issuer::new(params, key);
        let leaf_key = KeyPair::generate().unwrap();
        let leaf = CertificateParams::new(vec![NAME.into()]).unwrap().signed_by(&leaf_key, &issuer).unwrap();
        let chain = vec![CertificateDer::from_pem_slice(leaf.pem().as_bytes()).unwrap()];
        let secret = PrivateKeyDer::from_pem_slice(leaf_key.serialize_pem().as_bytes()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let config = builder.with_no_client_auth().with_single_cert(chain, secret).unwrap();
        Self { pem, acceptor: TlsAcceptor::from(Arc::new(config)) }
    }

    fn check(&self) -> Check {
        Check::Https(HttpsCheck::readyz(NAME, &self.pem).unwrap())
    }
}

/// A target: lines come back with its name in front, `/readyz` is answered as told, or not at all.
struct Backend {
    target: Target,
    ready: Arc<AtomicBool>,
    mute: Arc<AtomicBool>,
    accepting: JoinHandle<()>,
}

impl Backend {
    async fn start(name: &str, authority: &Authority) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let target = Target { name: name.into(), address: listener.local_addr().unwrap() };
        let (ready, mute) = (Arc::new(AtomicBool::new(true)), Arc::new(AtomicBool::new(false)));
        let (acceptor, switches) = (authority.acceptor.clone(), (Arc::clone(&ready), Arc::clone(&mute)));
        let name = name.to_owned();
        let accepting = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (name, acceptor, switches) = (name.clone(), acceptor.clone(), switches.clone());
                tokio::spawn(async move {
                    let mut first = [0];
                    match stream.peek(&mut first).await {
                        Ok(1) if first[0] == 0x16 => answer_check(stream, acceptor, switches).await,
                        _ => drop(echo(stream, &name).await),
                    }
                });
            }
        });
        Self { target, ready, mute, accepting }
    }
}

async fn answer_check(stream: TcpStream, acceptor: TlsAcceptor, (ready, mute): (Arc<AtomicBool>, Arc<AtomicBool>)) {
    if mute.load(Ordering::SeqCst) {
        return std::future::pending().await;
    }
    let Ok(mut stream) = acceptor.accept(stream).await else { return };
    let mut request = [0; 1024];
    let Ok(read) = stream.read(&mut request).await else { return };
    assert!(request[..read].starts_with(b"GET /readyz HTTP/1.1\r\nHost: api.test\r\n"));
    let status = if ready.load(Ordering::SeqCst) { "200 OK" } else { "500 Internal Server Error" };
    let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    let _gone = stream.write_all(answer.as_bytes()).await;
    let _gone = stream.shutdown().await;
}

async fn echo(mut stream: TcpStream, name: &str) -> io::Result<()> {
    let mut bytes = vec![0; 64 << 10];
    loop {
        match stream.read(&mut bytes).await? {
            0 => return Ok(()),
            read => stream.write_all(&[name.as_bytes(), &bytes[..read]].concat()).await?,
        }
    }
}

/// A balancer that serves on a port of its own.
struct Served {
    address: SocketAddr,
    balancer: Balancer,
    config: watch::Sender<BalancerConfig>,
    serving: JoinHandle<Result<(), BalancerError>>,
}

async fn serve(targets: &[&Backend], check: Check, limits: Limits) -> Served {
    let targets = targets.iter().map(|backend| backend.target.clone()).collect();
    let config = watch::Sender::new(BalancerConfig { targets, check });
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let balancer = Balancer::new(limits, Arc::new(SystemClock::new()));
    let serving = tokio::spawn(balancer.clone().serve(listener, config.subscribe()));
    Served { address, balancer, config, serving }
}

impl Served {
    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    async fn until(&self, what: &str, holds: impl Fn(&[TargetStatus]) -> bool) -> Vec<TargetStatus> {
        let mut ticks = tokio::time::interval(Duration::from_millis(2));
        let started = Instant::now();
        loop {
            let statuses = self.balancer.targets();
            if holds(&statuses) {
                return statuses;
            }
            assert!(started.elapsed() < PATIENCE, "not in time: {what}: {statuses:?}");
            ticks.tick().await;
        }
    }

    async fn until_up(&self, count: usize) {
        let up = |all: &[TargetStatus]| all.iter().filter(|one| one.state == TargetState::Up).count();
        self.until("targets are up", |all| up(all) == count).await;
    }

    fn set_targets(&self, targets: &[&Backend]) {
        let targets = targets.iter().map(|backend| backend.target.clone()).collect();
        self.config.send_modify(|config| config.targets = targets);
    }
}

/// Says a word and gives the name of whoever answered.
async fn ask(stream: &mut TcpStream) -> io::Result<String> {
    stream.write_all(b"?").await?;
    let mut answer = [0; 2];
    tokio::time::timeout(PATIENCE, stream.read_exact(&mut answer)).await??;
    assert_eq!(answer[1], b'?');
    Ok(char::from(answer[0]).to_string())
}

async fn connected_to(served: &Served, name: &str) -> TcpStream {
    let since = Instant::now();
    while since.elapsed() < PATIENCE {
        let mut stream = served.connect().await;
        if ask(&mut stream).await.unwrap() == name {
            return stream;
        }
    }
    panic!("{name} got no connection");
}

/// Throws the switch of the first of two targets to `bad`, and says how long after that it got its last new connection. The
/// best of a few tries, because other tests run beside this one.
async fn last_connection_after(served: &Served, name: &str, switch: &AtomicBool, bad: bool) -> Duration {
    let mut best = Duration::MAX;
    for _ in 0..4 {
        switch.store(!bad, Ordering::SeqCst);
        served.until_up(2).await;
        switch.store(bad, Ordering::SeqCst);
        best = best.min(last_connection_of(served, name, Instant::now()).await);
        if best < Duration::from_millis(500) {
            break;
        }
    }
    best
}

/// Opens connections without a pause, and notes when `name` got its last one; others get many.
async fn last_connection_of(served: &Served, name: &str, since: Instant) -> Duration {
    let (mut last, mut others) = (Duration::ZERO, 0);
    while since.elapsed() < Duration::from_millis(1200) {
        let begun = since.elapsed();
        let mut stream = served.connect().await;
        match ask(&mut stream).await.unwrap() == name {
            true => last = begun,
            false => others += 1,
        }
    }
    assert!(others > 10);
    last
}

#[tokio::test(flavor = "multi_thread")]
async fn a_target_that_fails_its_check_gets_no_new_connection_within_500_ms_and_keeps_its_old_ones() {
    let authority = Authority::new();
    let (a, b) = (Backend::start("a", &authority).await, Backend::start("b", &authority).await);
    let served = serve(&[&a, &b], authority.check(), Limits::default()).await;
    served.until_up(2).await;
    let mut old = connected_to(&served, "a").await;
    let last = last_connection_after(&served, "a", &a.ready, false).await;
    assert!(last < Duration::from_millis(500), "connected after {last:?}");
    assert_eq!(ask(&mut old).await.unwrap(), "a");
    let down = |all: &[TargetStatus]| all[0].state == TargetState::Down && all[0].open == 1;
    let statuses = served.until("a is down and keeps its connection", down).await;
    assert_eq!(statuses[0].last_error.as_deref(), Some("/readyz answered 500"));
    a.ready.store(true, Ordering::SeqCst);
    served.until_up(2).await;
    assert_eq!(ask(&mut connected_to(&served, "a").await).await.unwrap(), "a");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_target_that_no_longer_answers_its_check_gets_no_new_connection_within_500_ms() {
    let authority = Authority::new();
    let (a, b) = (Backend::start("a", &authority).await, Backend::start("b", &authority).await);
    let served = serve(&[&a, &b], authority.check(), Limits::default()).await;
    served.until_up(2).await;
    let last = last_connection_after(&served, "a", &a.mute, true).await;
    assert!(last < Duration::from_millis(500), "connected after {last:?}");
    let down = |all: &[TargetStatus]| all[0].state == TargetState::Down;
    let statuses = served.until("a is down", down).await;
    assert!(statuses[0].last_error.as_ref().unwrap().starts_with("no answer within 390 ms"), "{statuses:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_target_that_is_taken_away_gets_nothing_new_and_its_connections_end_at_the_drain_limit() {
    let authority = Authority::new();
    let (a, b) = (Backend::start("a", &authority).await, Backend::start("b", &authority).await);
    // Long enough for what is asked meanwhile, on a busy host too.
    let drain = Duration::from_secs(3);
    let served = serve(&[&a, &b], authority.check(), Limits { drain, ..Limits::default() }).await;
    served.until_up(2).await;
    let mut old = connected_to(&served, "a").await;
    let since = Instant::now();
    served.set_targets(&[&b]);
    served.until("a drains", |all| all[0].state == TargetState::Draining && all[0].open == 1).await;
    for _ in 0..20 {
        assert_eq!(ask(&mut served.connect().await).await.unwrap(), "b");
    }
    assert_eq!(ask(&mut old).await.unwrap(), "a");
    let ended = tokio::time::timeout(PATIENCE, old.read(&mut [0; 1])).await.unwrap();
    assert!(matches!(ended, Ok(0) | Err(_)));
    assert!(since.elapsed() >= drain);
    served.until("a is forgotten", |all| all.len() == 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_is_held_until_there_is_a_target() {
    let authority = Authority::new();
    let a = Backend::start("a", &authority).await;
    a.ready.store(false, Ordering::SeqCst);
    let served = serve(&[&a], authority.check(), Limits::default()).await;
    let refused = |one: &TargetStatus| one.last_error.as_deref() == Some("/readyz answered 500");
    served.until("a was checked", |all| all.iter().any(refused)).await;
    let mut held = served.connect().await;
    held.write_all(b"?").await.unwrap();
    let early = tokio::time::timeout(Duration::from_millis(600), held.read(&mut [0; 2])).await;
    assert!(early.is_err(), "answered without a target: {early:?}");
    a.ready.store(true, Ordering::SeqCst);
    let mut answer = [0; 2];
    tokio::time::timeout(PATIENCE, held.read_exact(&mut answer)).await.unwrap().unwrap();
    assert_eq!(&answer, b"a?");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_was_held_for_too_long_is_closed() {
    let limits = Limits { hold: Duration::from_millis(400), ..Limits::default() };
    let served = serve(&[], Check::Tcp, limits).await;
    let since = Instant::now();
    let mut held = served.connect().await;
    assert_eq!(tokio::time::timeout(PATIENCE, held.read(&mut [0; 1])).await.unwrap().unwrap(), 0);
    assert!(since.elapsed() >= Duration::from_millis(395), "closed after {:?}", since.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_target_that_refuses_is_passed_over_before_its_check_has_noticed() {
    let authority = Authority::new();
    let (a, b) = (Backend::start("a", &authority).await, Backend::start("b", &authority).await);
    let limits = Limits { interval: Duration::from_secs(60), ..Limits::default() };
    let served = serve(&[&a, &b], Check::Tcp, limits).await;
    served.until_up(2).await;
    a.accepting.abort();
    served.until("the first try finds out", |_| a.accepting.is_finished()).await;
    assert_eq!(ask(&mut served.connect().await).await.unwrap(), "b");
    assert_eq!(ask(&mut served.connect().await).await.unwrap(), "b");
    served.until("the failed connection led to a check", |all| all[0].state != TargetState::Up).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_check_believes_only_its_authority_and_only_the_right_name() {
    let (authority, other) = (Authority::new(), Authority::new());
    let a = Backend::start("a", &authority).await;
    let wrong_name = Check::Https(HttpsCheck::readyz("other.test", &authority.pem).unwrap());
    let cases = [
        (authority.check(), TargetState::Up, ""),
        (other.check(), TargetState::Down, "cannot agree on TLS: invalid peer certificate"),
        (wrong_name, TargetState::Down, "cannot agree on TLS: invalid peer certificate"),
        (Check::Tcp, TargetState::Up, ""),
    ];
    for (check, state, error) in cases {
        let name = format!("{check:?}");
        let served = serve(&[&a], check, Limits::default()).await;
        let first = |all: &[TargetStatus]| all.iter().any(|one| one.last_error.as_deref() != Some("not checked yet"));
        let statuses = served.until("the first check", first).await;
        assert_eq!(statuses[0].state, state, "{name}");
        assert!(statuses[0].last_error.as_deref().unwrap_or_default().starts_with(error), "{name}: {statuses:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_one_direction_is_passed_on_and_the_other_goes_on() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let target = Target { name: "count".into(), address: listener.local_addr().unwrap() };
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut all = Vec::new();
                stream.read_to_end(&mut all).await.unwrap();
                // A check that came and went is not an answer to anyone.
                let _gone = stream.write_all(all.len().to_string().as_bytes()).await;
            });
        }
    });
    let served = serve(&[], Check::Tcp, Limits::default()).await;
    served.config.send_modify(|config| config.targets = vec![target]);
    served.until_up(1).await;
    let mut stream = served.connect().await;
    stream.write_all(&[7; 100_000]).await.unwrap();
    stream.shutdown().await.unwrap();
    let mut answer = String::new();
    tokio::time::timeout(PATIENCE, stream.read_to_string(&mut answer)).await.unwrap().unwrap();
    assert_eq!(answer, "100000");
    served.until("the connection is gone", |all| all[0].open == 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bytes_arrive_whole_and_in_order_through_a_slow_reader() {
    const BYTES: usize = 8 << 20;
    let served = serve(&[], Check::Tcp, Limits::default()).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let target = Target { name: "mirror".into(), address: listener.local_addr().unwrap() };
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let (mut from, mut to) = stream.split();
                tokio::io::copy(&mut from, &mut to).await
            });
        }
    });
    served.config.send_modify(|config| config.targets = vec![target]);
    served.until_up(1).await;
    let (mut from, mut to) = served.connect().await.into_split();
    let send = tokio::spawn(async move {
        for start in (0..BYTES).step_by(1 << 16) {
            to.write_all(&pattern(start, 1 << 16)).await.unwrap();
        }
        to.shutdown().await.unwrap();
    });
    let (mut at, mut piece) = (0, vec![0; 10_007]);
    loop {
        let read = tokio::time::timeout(PATIENCE, from.read(&mut piece)).await.unwrap().unwrap();
        if read == 0 {
            break;
        }
        assert_eq!(piece[..read], pattern(at, read), "at {at}");
        at += read;
        tokio::task::yield_now().await;
    }
    assert_eq!(at, BYTES);
    send.await.unwrap();
}

fn pattern(start: usize, count: usize) -> Vec<u8> {
    (start..start + count).map(|at| (at ^ (at >> 8) ^ (at >> 16)) as u8).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_connections_are_carried_at_once_and_shared_evenly() {
    const CONNECTIONS: usize = 1_000;
    raise_descriptors();
    let authority = Authority::new();
    let (a, b) = (Backend::start("a", &authority).await, Backend::start("b", &authority).await);
    let served = serve(&[&a, &b], authority.check(), Limits::default()).await;
    served.until_up(2).await;
    let mut streams = Vec::new();
    for _ in 0..CONNECTIONS {
        streams.push(served.connect().await);
    }
    let mut asking = JoinSet::new();
    for mut stream in streams {
        asking.spawn(async move {
            let answer = ask(&mut stream).await.unwrap();
            (stream, answer)
        });
    }
    let answered = asking.join_all().await;
    assert_eq!(answered.len(), CONNECTIONS);
    let of_a = answered.iter().filter(|(_, name)| name == "a").count();
    assert!((400..=600).contains(&of_a), "{of_a} of {CONNECTIONS} went to a");
    assert_eq!(served.balancer.targets().iter().map(|one| one.open).sum::<usize>(), CONNECTIONS);
    drop(answered);
    served.until("all are gone", |all| all.iter().all(|one| one.open == 0)).await;
}

/// The test is both ends of every connection and what is between them: four descriptors for each.
fn raise_descriptors() {
    let raise = cmd("prlimit").arg("--pid").arg(std::process::id().to_string()).arg("--nofile=5000:");
    let now =
        cmd("prlimit").arg("--pid").arg(std::process::id().to_string()).args(["--nofile", "--raw", "--noheadings"]);
    let now = run_blocking(now.args(["--output", "SOFT"])).unwrap().text().unwrap().parse::<u64>();
    if now.is_ok_and(|soft| soft < 5_000) {
        run_blocking(raise).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_over_the_limit_wait_for_their_turn() {
    let authority = Authority::new();
    let a = Backend::start("a", &authority).await;
    let served = serve(&[&a], Check::Tcp, Limits { connections: 2, ..Limits::default() }).await;
    served.until_up(1).await;
    let (mut first, mut second) = (served.connect().await, served.connect().await);
    assert_eq!((ask(&mut first).await.unwrap(), ask(&mut second).await.unwrap()), ("a".into(), "a".into()));
    let mut third = served.connect().await;
    third.write_all(b"?").await.unwrap();
    let early = tokio::time::timeout(Duration::from_millis(300), third.read(&mut [0; 2])).await;
    assert!(early.is_err(), "served over the limit: {early:?}");
    drop(first);
    let mut answer = [0; 2];
    tokio::time::timeout(PATIENCE, third.read_exact(&mut answer)).await.unwrap().unwrap();
    assert_eq!(&answer, b"a?");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_balancer_ends_with_its_configuration_after_its_connections() {
    let authority = Authority::new();
    let a = Backend::start("a", &authority).await;
    let Served { address, balancer, config, serving } = serve(&[&a], Check::Tcp, Limits::default()).await;
    let mut changes = balancer.changes();
    while balancer.targets().iter().all(|one| one.state != TargetState::Up) {
        tokio::time::timeout(PATIENCE, changes.changed()).await.unwrap().unwrap();
    }
    let mut old = TcpStream::connect(address).await.unwrap();
    assert_eq!(ask(&mut old).await.unwrap(), "a");
    drop(config);
    while TcpStream::connect(address).await.is_ok() {
        tokio::task::yield_now().await;
    }
    assert_eq!(ask(&mut old).await.unwrap(), "a");
    assert!(!serving.is_finished());
    drop(old);
    tokio::time::timeout(PATIENCE, serving).await.unwrap().unwrap().unwrap();
    assert!(balancer.targets().is_empty());
}
