//! Clusters' networks on a real kernel: namespaces, links, names, faults and forwarders, and what is left of them.

#![expect(clippy::unwrap_used, reason = "a test stops where it cannot go on")]

use std::collections::BTreeSet;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpListener, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use hickory_server::proto::op::{Message, MessageType, OpCode, Query};
use hickory_server::proto::rr::{Name, RData, RecordType};
use tempfile::TempDir;
use tokio::io::AsyncReadExt;
use tokio::sync::watch;
use windlass_cloud::names::domain::DomainName;
use windlass_cloud::names::server;
use windlass_cloud::names::upstream::Upstream;
use windlass_cloud::names::zone::{Change, Expect, Kind, Record, Zone};
use windlass_cloud::network::egress;
use windlass_cloud::network::fault::{self, End, Fault, FaultError, Percent};
use windlass_cloud::network::forward::Forwarder;
use windlass_cloud::network::link::{Lan, Plug};
use windlass_cloud::network::metadata::{METADATA, listen_metadata};
use windlass_cloud::network::namespace::{Namespace, end_private, is_pinned, keep_private};
use windlass_cloud::network::plan::LanPlan;
use windlass_steps::criterion::{Criterion, Observation};
use windlass_steps::host::{Host, cmd, run_blocking};
use windlass_steps::reason;
use windlass_steps::wait::Wait;

const SUBNET: &str = "10.77.0.0/24";
const PATIENCE: Duration = Duration::from_secs(5);
const IMPATIENCE: Duration = Duration::from_millis(300);
const PORT: u16 = 7000;

/// A cluster whose pins go away with it, also when the test fails.
struct Cluster {
    dir: TempDir,
    lan: Lan,
    machines: Vec<Namespace>,
}

impl Cluster {
    fn new(machines: u32) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let net = Namespace::pin(&dir.path().join("net")).unwrap();
        let lan = Lan::make(&net, plan()).unwrap();
        let mut cluster = Self { dir, lan, machines: Vec::new() };
        for number in 0..machines {
            cluster.machines.push(Namespace::pin(&cluster.pin(number)).unwrap());
            cluster.plug(number);
        }
        cluster
    }

    fn pin(&self, number: u32) -> PathBuf {
        self.dir.path().join(format!("machines/{number}/net"))
    }

    fn plug(&self, number: u32) {
        let machine = self.machine(number);
        self.lan.plug(&Plug { machine, index: number, address: address(number) }).unwrap();
    }

    fn machine(&self, number: u32) -> &Namespace {
        &self.machines[number as usize]
    }

    async fn suffer(&self, faults: &[Fault]) {
        fault::apply(&Host, self.lan.namespace(), faults).await.unwrap();
    }

    /// The links, addresses, routes and rules of all its namespaces.
    fn snapshot(&self) -> String {
        let all = self.machines.iter().chain([self.lan.namespace()]);
        all.map(|namespace| snapshot(Some(namespace))).collect()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for namespace in self.machines.iter().chain([self.lan.namespace()]) {
            Namespace::unpin(namespace.path()).unwrap();
        }
    }
}

fn plan() -> LanPlan {
    LanPlan::usual(SUBNET.parse().unwrap(), 1400).unwrap()
}

fn address(number: u32) -> Ipv4Addr {
    plan().machine(number).unwrap()
}

fn at(number: u32) -> SocketAddrV4 {
    SocketAddrV4::new(address(number), PORT)
}

fn listen(namespace: &Namespace, at: SocketAddrV4) -> TcpListener {
    let listener = namespace.inside(|| TcpListener::bind(at)).unwrap().unwrap();
    listener.set_nonblocking(true).unwrap();
    listener
}

fn connect(namespace: &Namespace, to: SocketAddrV4, limit: Duration) -> io::Result<TcpStream> {
    namespace.inside(|| TcpStream::connect_timeout(&to.into(), limit)).unwrap()
}

fn reaches(namespace: &Namespace, to: SocketAddrV4) -> bool {
    connect(namespace, to, PATIENCE).is_ok()
}

fn is_cut(namespace: &Namespace, to: SocketAddrV4) -> bool {
    connect(namespace, to, IMPATIENCE).is_err()
}

fn shown(namespace: Option<&Namespace>, line: &[&str]) -> String {
    let spec = match namespace {
        Some(namespace) => namespace.command(line[0]).args(&line[1..]),
        None => cmd(line[0]).args(&line[1..]),
    };
    run_blocking(spec).unwrap().text().unwrap().to_owned()
}

fn snapshot(namespace: Option<&Namespace>) -> String {
    let lines: [&[&str]; 5] = [
        &["ip", "-o", "link"],
        &["ip", "-o", "addr"],
        &["ip", "route", "show", "table", "all"],
        &["ip", "rule"],
        &["nft", "list", "ruleset"],
    ];
    lines.iter().map(|line| shown(namespace, line) + "\n").collect()
}

fn mounts_below(dir: &Path) -> Vec<String> {
    let table = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    table.lines().filter(|line| line.contains(dir.to_str().unwrap())).map(str::to_owned).collect()
}

async fn eventually(statement: &'static str, holds: impl Fn() -> bool) {
    let look = Criterion::new(statement, || async {
        Ok(if holds() { Observation::Holds } else { Observation::NotYet(reason!("not so")) })
    });
    let wait = Wait::stalled_for(Duration::from_secs(10)).poll_every(Duration::from_millis(20));
    wait.until(&[look], |_| Ok::<(), std::convert::Infallible>(())).await.unwrap();
}

fn name(text: &str) -> DomainName {
    DomainName::parse(text).unwrap()
}

/// What a machine's own resolver would do: one question in one datagram.
fn resolve(machine: &Namespace, server: Ipv4Addr, host: &str) -> io::Result<Vec<Ipv4Addr>> {
    let mut question = Message::new(99, MessageType::Query, OpCode::Query);
    question.add_query(Query::query(Name::from_ascii(format!("{host}.")).unwrap(), RecordType::A));
    let bytes = question.to_vec().unwrap();
    let socket = machine.inside(|| UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))).unwrap()?;
    socket.set_read_timeout(Some(PATIENCE))?;
    socket.send_to(&bytes, (server, 53))?;
    let mut buffer = [0; 1500];
    let length = socket.recv(&mut buffer)?;
    let answers = Message::from_vec(&buffer[..length]).unwrap().answers;
    let addresses = answers.into_iter().filter_map(|record| match record.data {
        RData::A(address) => Some(address.0),
        _ => None,
    });
    Ok(addresses.collect())
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "ring 2: root, for network namespaces"]
async fn machines_reach_each_other_by_address_and_by_name() {
    let cluster = Cluster::new(2);
    let _listener = listen(cluster.machine(1), at(1));
    assert!(reaches(cluster.machine(0), at(1)));

    let mut zone = Zone::new(name("demo.example"));
    let records = vec![Record::A(address(1))];
    let change = Change { name: name("one.demo.example"), kind: Kind::A, expect: Expect::Absent, records };
    zone.change(change).unwrap();
    let (_sender, receiver) = watch::channel(Arc::new(zone));
    let gateway = plan().gateway;
    let (udp, tcp) = server::listen(cluster.lan.namespace(), gateway).unwrap();
    let (_upstream, nobody) = watch::channel(Upstream::None);
    let _serving = server::serve(udp, tcp, receiver, nobody).unwrap();
    let found = resolve(cluster.machine(0), gateway, "one.demo.example").unwrap();
    assert_eq!(found, [address(1)]);
    assert!(reaches(cluster.machine(0), SocketAddrV4::new(found[0], PORT)));
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "ring 2: root, for network namespaces"]
async fn a_cut_is_felt_by_the_pair_alone_and_healing_mends_it() {
    let cluster = Cluster::new(3);
    let _listeners: Vec<TcpListener> = (0..3).map(|n| listen(cluster.machine(n), at(n))).collect();
    cluster.suffer(&[Fault::Cut(End::Machine(0), End::Machine(1))]).await;
    assert!(is_cut(cluster.machine(0), at(1)));
    assert!(is_cut(cluster.machine(1), at(0)));
    assert!(reaches(cluster.machine(0), at(2)));
    assert!(reaches(cluster.machine(2), at(1)));
    cluster.suffer(&[]).await;
    assert!(reaches(cluster.machine(0), at(1)));
    assert!(reaches(cluster.machine(1), at(0)));
    assert_eq!(shown(Some(cluster.lan.namespace()), &["nft", "list", "ruleset"]), "");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "ring 2: root, for network namespaces"]
async fn a_partition_holds_for_machines_and_services_alike() {
    let cluster = Cluster::new(3);
    let _listeners: Vec<TcpListener> = (0..3).map(|n| listen(cluster.machine(n), at(n))).collect();
    let service = SocketAddrV4::new(plan().gateway, PORT);
    let _service = listen(cluster.lan.namespace(), service);
    let groups =
        vec![BTreeSet::from([End::Machine(0), End::Machine(1)]), BTreeSet::from([End::Machine(2), End::Services])];
    cluster.suffer(&[Fault::Partition(groups)]).await;
    assert!(reaches(cluster.machine(0), at(1)));
    assert!(reaches(cluster.machine(2), service));
    assert!(is_cut(cluster.machine(0), at(2)));
    assert!(is_cut(cluster.machine(2), at(1)));
    assert!(is_cut(cluster.machine(1), service));
    assert!(is_cut(cluster.lan.namespace(), at(1)));
    let groups = vec![BTreeSet::from([End::Machine(0)]), BTreeSet::from([End::Address(plan().gateway)])];
    cluster.suffer(&[Fault::Partition(groups)]).await;
    assert!(reaches(cluster.machine(0), at(2)) && reaches(cluster.machine(1), service));
    assert!(is_cut(cluster.machine(0), service));
    cluster.suffer(&[]).await;
    assert!(reaches(cluster.machine(0), service));
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "ring 2: root, for network namespaces"]
async fn one_balancer_can_be_cut_off_while_the_others_answer() {
    let cluster = Cluster::new(2);
    let balancers = [plan().balancer(0).unwrap(), plan().balancer(1).unwrap()];
    let places = balancers.map(|balancer| SocketAddrV4::new(balancer, PORT));
    for balancer in balancers.iter().chain(&balancers) {
        cluster.lan.add_address(*balancer).unwrap();
    }
    assert_eq!(cluster.lan.added_addresses().unwrap(), balancers);
    let listeners = places.map(|place| listen(cluster.lan.namespace(), place));
    cluster.suffer(&[Fault::Cut(End::Machine(0), End::Address(balancers[0]))]).await;
    assert!(is_cut(cluster.machine(0), places[0]));
    assert!(reaches(cluster.machine(0), places[1]));
    assert!(reaches(cluster.machine(1), places[0]));
    cluster.suffer(&[]).await;
    assert!(reaches(cluster.machine(0), places[0]));
    drop(listeners);
    for balancer in balancers.iter().chain(&balancers) {
        cluster.lan.remove_address(*balancer).unwrap();
    }
    assert_eq!(cluster.lan.added_addresses().unwrap(), [Ipv4Addr::LOCALHOST; 0]);
    assert!(is_cut(cluster.machine(1), places[0]));
}

/// How many of so many datagrams arrive; they are sent a few at a time, so that none is lost for want of room.
fn arrived(from: &UdpSocket, to: &UdpSocket, target: SocketAddrV4, count: usize) -> usize {
    let drain = |limit| {
        to.set_read_timeout(Some(limit)).unwrap();
        std::iter::repeat_with(|| to.recv(&mut [0; 8])).take_while(Result::is_ok).count()
    };
    let mut arrived = 0;
    for _ in 0..count / 20 {
        for _ in 0..20 {
            from.send_to(b"x", target).unwrap();
        }
        arrived += drain(Duration::from_millis(10));
    }
    arrived + drain(Duration::from_millis(500))
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "ring 2: root, for network namespaces"]
async fn about_as_many_packets_are_lost_as_was_asked_for() {
    let cluster = Cluster::new(2);
    let socket = |n| cluster.machine(n).inside(|| UdpSocket::bind(at(n))).unwrap().unwrap();
    let (from, to) = (socket(0), socket(1));
    assert_eq!(arrived(&from, &to, at(1), 200), 200);
    let share = Percent::new(30).unwrap();
    cluster.suffer(&[Fault::Lose(End::Machine(0), End::Machine(1), share)]).await;
    let arrived_then = arrived(&from, &to, at(1), 2000);
    // Five standard deviations of 2000 throws are 102.
    assert!((1298..=1502).contains(&arrived_then), "{arrived_then} of 2000 arrived");
    cluster.suffer(&[Fault::Lose(End::Machine(0), End::Machine(1), Percent::new(100).unwrap())]).await;
    assert_eq!(arrived(&from, &to, at(1), 40), 0);
    cluster.suffer(&[]).await;
    assert_eq!(arrived(&from, &to, at(1), 200), 200);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "ring 2: root, for network namespaces"]
async fn a_delay_is_felt_or_refused_in_plain_words() {
    let cluster = Cluster::new(2);
    let _listener = listen(cluster.machine(1), at(1));
    let delay = Fault::Delay(End::Machine(0), End::Machine(1), Duration::from_millis(100));
    match fault::apply(&Host, cluster.lan.namespace(), &[delay]).await {
        Ok(()) => {
            let start = std::time::Instant::now();
            assert!(reaches(cluster.machine(0), at(1)));
            assert!(start.elapsed() >= Duration::from_millis(200), "{:?}", start.elapsed());
        }
        Err(error) => {
            assert!(matches!(error, FaultError::NoDelay { .. }), "{error:?}");
            assert!(error.to_string().contains("CONFIG_NET_SCH_NETEM"));
            assert_eq!(shown(Some(cluster.lan.namespace()), &["nft", "list", "ruleset"]), "");
            assert!(reaches(cluster.machine(0), at(1)));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "ring 2: root, for network namespaces"]
async fn clusters_with_the_same_addresses_know_nothing_of_each_other() {
    let (one, other) = (Cluster::new(2), Cluster::new(2));
    let theirs = listen(other.machine(1), at(1));
    let refused = connect(one.machine(0), at(1), PATIENCE).unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
    let ours = listen(one.machine(1), at(1));
    assert!(reaches(one.machine(0), at(1)));
    ours.accept().unwrap();
    assert_eq!(theirs.accept().unwrap_err().kind(), io::ErrorKind::WouldBlock);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "ring 2: root, for network namespaces"]
async fn making_everything_twice_changes_nothing() {
    let cluster = Cluster::new(2);
    cluster.suffer(&[Fault::Cut(End::Machine(0), End::Machine(1))]).await;
    let before = cluster.snapshot();
    let net = Namespace::pin(cluster.lan.namespace().path()).unwrap();
    Lan::make(&net, plan()).unwrap();
    for number in 0..2 {
        Namespace::pin(&cluster.pin(number)).unwrap();
        cluster.plug(number);
    }
    cluster.suffer(&[Fault::Cut(End::Machine(0), End::Machine(1))]).await;
    assert_eq!(cluster.snapshot(), before);
    assert_eq!(cluster.lan.ports().unwrap(), [0, 1]);
    assert_eq!(mounts_below(cluster.dir.path()).len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "ring 2: root, for network namespaces"]
async fn a_half_made_or_wrong_plug_is_finished() {
    let cluster = Cluster::new(2);
    let _listener = listen(cluster.machine(1), at(1));
    let breakages: [(&Namespace, &[&str]); 7] = [
        (cluster.lan.namespace(), &["ip", "link", "set", "m0", "down"]),
        (cluster.lan.namespace(), &["ip", "link", "set", "m0", "nomaster"]),
        (cluster.lan.namespace(), &["ip", "link", "del", "m0"]),
        (cluster.machine(0), &["ip", "link", "set", "eth0", "down"]),
        (cluster.machine(0), &["ip", "addr", "flush", "dev", "eth0"]),
        (cluster.machine(0), &["ip", "link", "set", "eth0", "address", "02:00:00:00:00:01"]),
        (cluster.machine(0), &["ip", "link", "set", "lo", "down"]),
    ];
    let settings = || {
        let lines: [&[&str]; 2] = [&["ip", "-o", "addr"], &["ip", "route", "show", "table", "all"]];
        let text = lines.map(|line| shown(Some(cluster.machine(0)), line)).join("\n");
        // A link that is made anew has another number.
        text.lines().map(|line| line.trim_start_matches(|c: char| c.is_ascii_digit()).to_owned()).collect::<Vec<_>>()
    };
    let before = settings();
    for (namespace, line) in breakages {
        shown(Some(namespace), line);
        cluster.plug(0);
        assert!(reaches(cluster.machine(0), at(1)), "{line:?}");
        assert_eq!(settings(), before, "{line:?}");
    }
    // The port of one machine is taken for another, as when a number is used again.
    shown(Some(cluster.lan.namespace()), &["ip", "link", "del", "m0"]);
    let wrong = Plug { machine: cluster.machine(0), index: 1, address: address(0) };
    cluster.lan.plug(&wrong).unwrap();
    cluster.plug(1);
    cluster.plug(0);
    assert_eq!(cluster.lan.ports().unwrap(), [0, 1]);
    assert!(reaches(cluster.machine(0), at(1)));
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "ring 2: root, for network namespaces"]
async fn a_machine_that_is_made_again_at_once_is_plugged_in_again() {
    let mut cluster = Cluster::new(2);
    let _listener = listen(cluster.machine(1), at(1));
    for round in 0..30 {
        // The kernel takes the old namespace and its link away in its own time.
        Namespace::unpin(&cluster.pin(0)).unwrap();
        cluster.machines[0] = Namespace::pin(&cluster.pin(0)).unwrap();
        cluster.plug(0);
        assert!(reaches(cluster.machine(0), at(1)), "{round}");
    }
    assert_eq!(cluster.lan.ports().unwrap(), [0, 1]);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "ring 2: root, for network namespaces"]
async fn nothing_is_left_behind_and_the_host_is_as_it_was() {
    let before = snapshot(None);
    let cluster = Cluster::new(2);
    cluster.suffer(&[Fault::Cut(End::Machine(0), End::Machine(1))]).await;
    let runtime = cluster.lan.namespace().runtime("test", 1).unwrap();
    let forwarder = Forwarder::listen(0, at(1), runtime.handle().clone()).await.unwrap();
    assert_eq!(snapshot(None), before);
    forwarder.close().await;
    runtime.shutdown_background();

    cluster.lan.unplug(0).unwrap();
    cluster.lan.unplug(0).unwrap();
    assert_eq!(cluster.lan.ports().unwrap(), [1]);
    assert!(!snapshot(Some(cluster.machine(0))).contains("eth0"));
    let path = cluster.dir.path().to_owned();
    drop(cluster);
    assert_eq!(mounts_below(&path), Vec::<String>::new());
    assert!(!path.exists());
    assert_eq!(snapshot(None), before);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "ring 2: root, for network and mount namespaces"]
async fn an_unpinned_namespace_ends_although_a_copied_mount_table_still_had_it() {
    let mut cluster = Cluster::new(1);
    let (release, held) = std::sync::mpsc::channel::<()>();
    let (ready, copied) = std::sync::mpsc::channel();
    // As a machine's runner does it: a private copy of all mounts, pins included.
    let runner = std::thread::spawn(move || {
        nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNS).unwrap();
        ready.send(()).unwrap();
        held.recv().unwrap();
    });
    copied.recv().unwrap();
    let machine = cluster.machines.pop().unwrap();
    Namespace::unpin(machine.path()).unwrap();
    Namespace::unpin(machine.path()).unwrap();
    assert!(!is_pinned(machine.path()));
    drop(machine);
    eventually("the port of the machine is gone", || cluster.lan.ports().unwrap().is_empty()).await;
    release.send(()).unwrap();
    runner.join().unwrap();
}

#[tokio::test]
#[ignore = "ring 2: root, for mounts"]
async fn a_shared_mount_is_cut_off_before_pins_could_spread() {
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("run");
    std::fs::create_dir(&run).unwrap();
    let mount = |args: &[&str]| run_blocking(cmd("mount").args(args)).unwrap();
    let top = dir.path().to_str().unwrap();
    mount(&["-t", "tmpfs", "windlass-test", top]);
    mount(&["--make-shared", top]);
    std::fs::create_dir(&run).unwrap();
    let result = std::panic::catch_unwind(|| {
        keep_private(&run).unwrap();
        keep_private(&run).unwrap();
        let pin = run.join("net");
        Namespace::pin(&pin).unwrap();
        let mounts = mounts_below(&run);
        assert_eq!(mounts.len(), 2);
        assert!(mounts.iter().all(|line| !line.contains("shared:")), "{mounts:?}");
        end_private(&run).unwrap();
        assert!(is_pinned(&pin));
        Namespace::unpin(&pin).unwrap();
        end_private(&run).unwrap();
        end_private(&run).unwrap();
        assert_eq!(mounts_below(&run), Vec::<String>::new());
    });
    run_blocking(cmd("umount").args(["--recursive", top])).unwrap();
    result.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "ring 2: root, for network namespaces"]
async fn the_host_reaches_a_machine_through_a_forwarder() {
    let cluster = Cluster::new(1);
    let listener = listen(cluster.machine(0), at(0));
    let runtime = cluster.lan.namespace().runtime("forward", 1).unwrap();
    let forwarder = Forwarder::listen(0, at(0), runtime.handle().clone()).await.unwrap();
    let mut client = tokio::net::TcpStream::connect((Ipv4Addr::LOCALHOST, forwarder.port())).await.unwrap();
    let listener = tokio::net::TcpListener::from_std(listener).unwrap();
    let (serving, from) = listener.accept().await.unwrap();
    assert_eq!(from.ip(), SocketAddr::from((plan().gateway, 0)).ip());
    drop(serving);
    assert_eq!(client.read(&mut [0; 1]).await.unwrap(), 0);
    runtime.shutdown_background();
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "ring 2: root, for network namespaces"]
async fn only_the_machine_itself_reaches_its_metadata() {
    let cluster = Cluster::new(2);
    let machine = cluster.machine(0);
    let metadata = SocketAddrV4::new(METADATA, 80);
    let listener = listen_metadata(machine).unwrap();
    assert!(reaches(machine, metadata));
    listener.accept().unwrap();

    // A pod: a namespace of its own behind a bridge of the machine, which routes what the pod sends.
    let pin = cluster.dir.path().join("pod");
    let pod = Namespace::pin(&pin).unwrap();
    let inner = LanPlan::usual("10.244.0.0/24".parse().unwrap(), 1400).unwrap();
    let bridge = Lan::make(machine, inner).unwrap();
    bridge.plug(&Plug { machine: &pod, index: 9, address: inner.machine(0).unwrap() }).unwrap();
    shown(Some(&pod), &["ip", "addr", "del", "169.254.169.254/32", "dev", "lo"]);
    shown(Some(machine), &["sysctl", "-q", "-w", "net.ipv4.ip_forward=1"]);
    let control = SocketAddrV4::new(METADATA, 81);
    let _control = listen(machine, control);
    let (open, closed) = (connect(&pod, control, PATIENCE), connect(&pod, metadata, PATIENCE));
    let other = connect(cluster.machine(1), metadata, PATIENCE);
    drop(pod);
    Namespace::unpin(&pin).unwrap();
    assert!(open.is_ok(), "a socket that is not bound to the loopback is reached, so the way is there");
    assert_eq!(closed.unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
    assert_eq!(other.unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
    assert_eq!(listener.accept().unwrap_err().kind(), io::ErrorKind::WouldBlock);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "ring 2: root, and pasta or slirp4netns"]
async fn the_way_out_is_opened_and_closed_again() {
    let cluster = Cluster::new(1);
    let net = cluster.lan.namespace();
    let before = cluster.snapshot();
    let program = egress::installed(&Host).await.expect("the package passt or slirp4netns is installed");
    let opened = async {
        egress::start(&Host, net, program, 1400).await?;
        egress::start(&Host, net, program, 1400).await?;
        let links = shown(Some(net), &["ip", "-o", "addr"]);
        let carriers = egress::carriers(net.path())?.len();
        egress::stop(&Host, net).await?;
        egress::stop(&Host, net).await?;
        Ok::<_, egress::EgressError>((links, carriers))
    };
    let (links, carriers) = opened.await.unwrap();
    assert!(links.contains("egress0") && links.contains("198.18.0.100"), "{links}");
    assert_eq!(carriers, 1);
    assert_eq!(egress::carriers(net.path()).unwrap(), []);
    eventually("the device is gone and all is as before", || cluster.snapshot() == before).await;
}
