//! The services of a cluster's network: names, objects, balancers, doors, and the metadata of each machine.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpListener};
use std::sync::{Arc, Mutex, PoisonError};

use axum::Router;
use tokio::runtime::Runtime;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use windlass_cloud_api::{Check, Egress, Fault, ForwardSpec, Label, RecordKind, Target, TargetState};
use windlass_steps::clock::Clock;
use windlass_steps::host::Host;

use super::super::{Following, Trouble, words};
use super::{alone, aside};
use crate::balancer::{self, Balancer, BalancerConfig, HttpsCheck};
use crate::model::{BalancerRow, ClusterRow, RecordRow, gateway};
use crate::names::domain::DomainName;
use crate::names::server::{self, NameServer};
use crate::names::upstream::Upstream;
use crate::names::zone::{Change, Expect, Kind, Record, Zone};
use crate::network::egress;
use crate::network::fault::{self, End, Percent};
use crate::network::forward::Forwarder;
use crate::network::link::Lan;
use crate::network::namespace::{Namespace, keep_private};
use crate::network::plan::LanPlan;
use crate::object::{self, ObjectStore, Prefix, Serving};
use crate::places::Places;
use crate::refused::{Class, Refused};
use crate::secret;

const OBJECTS: u16 = 80;
const THREADS: usize = 2;

/// A cluster's network and what listens in it.
pub struct RealNetwork {
    lan: Arc<Lan>,
    clock: Arc<dyn Clock>,
    /// Its threads are inside; none once the network is closed.
    inside: Mutex<Option<Runtime>>,
    zone: watch::Sender<Arc<Zone>>,
    upstream: watch::Sender<Upstream>,
    names: Mutex<Option<NameServer>>,
    objects: Mutex<Option<JoinHandle<()>>>,
    balancers: Mutex<BTreeMap<Label, Live>>,
    doors: tokio::sync::Mutex<BTreeMap<Label, Forwarder>>,
    answers: Mutex<BTreeMap<Label, JoinHandle<()>>>,
    /// None until this daemon has put them into effect: whatever an earlier one did is still there.
    faults: Mutex<Option<Vec<Fault>>>,
    egress: Mutex<Option<Egress>>,
    /// Whether the addresses of balancers that are gone were taken away.
    addresses: Mutex<Cleared>,
}

/// Whether what an earlier daemon left was taken away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
enum Cleared {
    #[default]
    NotYet,
    Done,
}

/// A balancer that runs: one for each port.
struct Live {
    row: BalancerRow,
    ports: Vec<Port>,
}

struct Port {
    number: u16,
    balancer: Balancer,
    config: watch::Sender<BalancerConfig>,
    task: JoinHandle<()>,
}

impl RealNetwork {
    /// Brings the network up, or takes up the one that is there; names and objects are served when it returns.
    pub async fn open(
        places: &Places,
        row: &ClusterRow,
        store: Arc<ObjectStore>,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, Trouble> {
        let (path, run, gateway) = (places.network(&row.name), places.run.clone(), gateway(row));
        let plan = LanPlan::new(row.spec.subnet, gateway, row.spec.mtu)?;
        let (namespace, lan) = aside(move || {
            keep_private(&run)?;
            let namespace = Namespace::pin(&path)?;
            let lan = Lan::make(&namespace, plan)?;
            Ok((namespace, lan))
        })
        .await?;
        let runtime = namespace.runtime(&format!("net-{}", row.name), THREADS)?;
        let zone = watch::Sender::new(Arc::new(Zone::new(DomainName::parse(&row.spec.domain)?)));
        let (udp, tcp) = server::listen(&namespace, gateway)?;
        let upstream = watch::Sender::new(upstream(row.spec.egress)?);
        let names = server::serve(udp, tcp, zone.subscribe(), upstream.subscribe())?;
        let listener = namespace.inside(move || TcpListener::bind((gateway, OBJECTS)))??;
        let public = row.spec.public.iter().map(|key| Prefix::parse(key.as_str())).collect::<Result<_, _>>()?;
        let serving = Serving { store, signer: secret::url_signer(&row.secret), public, clock: clock.clone() };
        let objects = serve(listener, object::router(Arc::new(serving)))?;
        Ok(RealNetwork {
            lan: Arc::new(lan),
            clock,
            inside: Mutex::new(Some(runtime)),
            zone,
            upstream,
            names: Mutex::new(Some(names)),
            objects: Mutex::new(Some(objects)),
            balancers: Mutex::default(),
            doors: tokio::sync::Mutex::default(),
            answers: Mutex::default(),
            faults: Mutex::default(),
            egress: Mutex::default(),
            addresses: Mutex::default(),
        })
    }

    /// The bridge that machines are plugged into.
    pub(super) fn lan(&self) -> Arc<Lan> {
        self.lan.clone()
    }

    /// Answers a machine's questions with this.
    pub(super) fn answer(&self, machine: &Label, listener: TcpListener, router: Router) -> Result<(), Trouble> {
        let task = serve(listener, router)?;
        if let Some(old) = locked(&self.answers).insert(machine.clone(), task) {
            old.abort();
        }
        Ok(())
    }

    /// Answers a machine no more; the listener is closed when it returns.
    pub(super) async fn fall_silent(&self, machine: &Label) {
        let task = locked(&self.answers).remove(machine);
        if let Some(task) = task {
            task.abort();
            // It ends because it was told to, whatever it says.
            let _ = task.await;
        }
    }

    /// Makes names, balancers, doors, faults and the way out what they are to be.
    pub async fn follow(&self, following: Following) -> Result<(), Trouble> {
        self.zone.send_replace(Arc::new(zone(&following.cluster, &following.records)?));
        self.upstream.send_replace(upstream(following.cluster.spec.egress)?);
        self.clear_addresses(&following).await?;
        self.follow_balancers(&following).await?;
        self.follow_doors(&following).await?;
        let in_effect = locked(&self.faults).as_ref() == Some(&following.cluster.faults);
        if !in_effect {
            self.put_faults(&following.cluster.faults, &following.machines).await?;
        }
        self.follow_egress(&following.cluster).await
    }

    /// Takes away, once, the addresses of balancers that were removed while no daemon was there to do it.
    async fn clear_addresses(&self, following: &Following) -> Result<(), Trouble> {
        if *locked(&self.addresses) == Cleared::Done {
            return Ok(());
        }
        let wanted: BTreeSet<Ipv4Addr> = following.balancers.values().map(|row| row.address).collect();
        let lan = self.lan();
        aside(move || {
            for address in lan.added_addresses()?.into_iter().filter(|address| !wanted.contains(address)) {
                lan.remove_address(address)?;
            }
            Ok(())
        })
        .await?;
        *locked(&self.addresses) = Cleared::Done;
        Ok(())
    }

    async fn follow_balancers(&self, following: &Following) -> Result<(), Trouble> {
        let gone: Vec<Live> = {
            let mut live = locked(&self.balancers);
            let names: BTreeSet<Label> =
                live.keys().filter(|n| !following.balancers.contains_key(*n)).cloned().collect();
            names.iter().filter_map(|name| live.remove(name)).collect()
        };
        for balancer in gone {
            let (lan, address) = (self.lan(), balancer.row.address);
            end(balancer).await;
            aside(move || Ok(lan.remove_address(address)?)).await?;
        }
        for row in following.balancers.values() {
            let running = locked(&self.balancers).get(&row.name).map(|live| live.row.spec.ports.clone());
            if running.as_ref().is_some_and(|ports| *ports != row.spec.ports) {
                let old = locked(&self.balancers).remove(&row.name);
                if let Some(old) = old {
                    end(old).await;
                }
            } else if running.is_some() {
                let mut live = locked(&self.balancers);
                if let Some(live) = live.get_mut(&row.name) {
                    for port in &live.ports {
                        port.config.send_replace(config(row, port.number, &following.machines)?);
                    }
                    live.row = row.clone();
                }
                continue;
            }
            let live = self.start(row, &following.machines).await?;
            locked(&self.balancers).insert(row.name.clone(), live);
        }
        Ok(())
    }

    async fn start(&self, row: &BalancerRow, machines: &BTreeMap<Label, (u32, Ipv4Addr)>) -> Result<Live, Trouble> {
        let (lan, address, numbers) = (self.lan(), row.address, row.spec.ports.clone());
        let listeners = aside(move || {
            lan.add_address(address)?;
            let bind = || numbers.iter().map(|port| TcpListener::bind((address, *port))).collect::<Result<Vec<_>, _>>();
            Ok(lan.namespace().inside(bind)??)
        })
        .await?;
        let mut ports = Vec::new();
        for (number, listener) in row.spec.ports.iter().copied().zip(listeners) {
            let (sender, receiver) = watch::channel(config(row, number, machines)?);
            let balancer = Balancer::new(balancer::Limits::default(), self.clock.clone());
            listener.set_nonblocking(true)?;
            let (serving, name) = (balancer.clone(), row.name.clone());
            let work = async move {
                let served = match tokio::net::TcpListener::from_std(listener) {
                    Ok(listener) => serving.serve(listener, receiver).await.map_err(Trouble::from),
                    Err(error) => Err(error.into()),
                };
                if let Err(error) = served {
                    tracing::error!(balancer = %name, port = number, %error, "balancer ended");
                }
            };
            let inside = locked(&self.inside);
            let runtime = inside.as_ref().ok_or_else(|| Refused::new(Class::NotYet, "the network is closed"))?;
            ports.push(Port { number, balancer, config: sender, task: runtime.spawn(work) });
        }
        Ok(Live { row: row.clone(), ports })
    }

    async fn follow_doors(&self, following: &Following) -> Result<(), Trouble> {
        let mut doors = self.doors.lock().await;
        let gone: Vec<Label> = doors.keys().filter(|name| !following.forwards.contains_key(*name)).cloned().collect();
        for name in gone {
            if let Some(door) = doors.remove(&name) {
                door.close().await;
            }
        }
        for row in following.forwards.values() {
            let target = SocketAddrV4::new(row.spec.address, row.spec.to);
            let same = doors.get(&row.name).is_some_and(|door| door.port() == row.port && door.target() == target);
            if !same {
                if let Some(old) = doors.remove(&row.name) {
                    old.close().await;
                }
                doors.insert(row.name.clone(), Forwarder::listen(row.port, target, self.handle()?).await?);
            }
        }
        Ok(())
    }

    /// Opens a door at the port that is wanted, or at another if it is taken.
    pub async fn open_door(&self, name: &Label, spec: &ForwardSpec) -> Result<u16, Refused> {
        let failed = |error: &dyn std::error::Error| Refused::failed(format!("door {name} cannot be opened"), error);
        let target = SocketAddrV4::new(spec.address, spec.to);
        let inside = self.handle().map_err(|_| Refused::new(Class::NotYet, "the network is closed"))?;
        let mut doors = self.doors.lock().await;
        if let Some(old) = doors.remove(name) {
            old.close().await;
        }
        let wanted = Forwarder::listen(spec.port.unwrap_or(0), target, inside.clone()).await;
        let door = match wanted {
            Ok(door) => door,
            Err(crate::network::forward::ForwardError::Taken { .. }) => {
                Forwarder::listen(0, target, inside).await.map_err(|error| failed(&error))?
            }
            Err(error) => return Err(failed(&error)),
        };
        let port = door.port();
        doors.insert(name.clone(), door);
        Ok(port)
    }

    fn handle(&self) -> Result<tokio::runtime::Handle, Trouble> {
        let inside = locked(&self.inside);
        let runtime = inside.as_ref().ok_or_else(|| Refused::new(Class::NotYet, "the network is closed"))?;
        Ok(runtime.handle().clone())
    }

    /// Puts these faults, and no others, into effect.
    pub async fn put_faults(
        &self,
        faults: &[Fault],
        machines: &BTreeMap<Label, (u32, Ipv4Addr)>,
    ) -> Result<(), Refused> {
        let translated = faults.iter().map(|fault| translated(fault, machines)).collect::<Result<Vec<_>, _>>()?;
        let applied = fault::apply(&Host, self.lan.namespace(), &translated).await;
        applied.map_err(|error| match error {
            fault::FaultError::Apply { .. } => Refused::failed("the faults are not in effect", &error),
            error => Refused { class: Class::Impossible, ..Refused::failed("the faults are not in effect", &error) },
        })?;
        *locked(&self.faults) = Some(faults.to_vec());
        Ok(())
    }

    async fn follow_egress(&self, row: &ClusterRow) -> Result<(), Trouble> {
        let (namespace, now) = (self.lan.namespace().clone(), *locked(&self.egress));
        match (now, row.spec.egress) {
            (Some(Egress::Off) | None, Egress::On) => {
                let program = egress::installed(&Host).await.ok_or_else(|| {
                    let refused = Refused::new(Class::Impossible, "there is no way out of this host's clusters");
                    refused.next("install passt or slirp4netns, or switch egress off")
                })?;
                let mtu = row.spec.mtu;
                alone(move || async move { Ok(egress::start(&Host, &namespace, program, mtu).await?) }).await?;
            }
            (Some(Egress::On) | None, Egress::Off) => {
                alone(move || async move { Ok(egress::stop(&Host, &namespace).await?) }).await?;
            }
            (Some(Egress::On), Egress::On) | (Some(Egress::Off), Egress::Off) => {}
        }
        *locked(&self.egress) = Some(row.spec.egress);
        Ok(())
    }

    /// What a balancer thinks of its targets, port by port.
    pub fn targets(&self, balancer: &Label) -> Vec<Target> {
        let live = locked(&self.balancers);
        let ports = live.get(balancer).into_iter().flat_map(|live| &live.ports);
        let of = |port: &Port| {
            let number = port.number;
            port.balancer.targets().into_iter().filter_map(move |status| target(number, &status))
        };
        ports.flat_map(of).collect()
    }

    /// Closes every listener and ends every service.
    pub async fn close(&self) {
        let answers: Vec<JoinHandle<()>> = std::mem::take(&mut *locked(&self.answers)).into_values().collect();
        let objects = locked(&self.objects).take();
        for task in answers.into_iter().chain(objects) {
            task.abort();
            // It ends because it was told to, whatever it says.
            let _ = task.await;
        }
        let balancers: Vec<Live> = std::mem::take(&mut *locked(&self.balancers)).into_values().collect();
        for balancer in balancers {
            end(balancer).await;
        }
        for (_, door) in std::mem::take(&mut *self.doors.lock().await) {
            door.close().await;
        }
        let names = locked(&self.names).take();
        if let Some(names) = names
            && let Err(error) = names.close().await
        {
            tracing::warn!(%error, "name server had stopped by itself");
        }
        if let Some(runtime) = locked(&self.inside).take() {
            runtime.shutdown_background();
        }
    }
}

impl Drop for RealNetwork {
    fn drop(&mut self) {
        if let Some(runtime) = locked(&self.inside).take() {
            runtime.shutdown_background();
        }
    }
}

async fn end(balancer: Live) {
    for port in balancer.ports {
        port.task.abort();
        // It ends because it was told to, whatever it says.
        let _ = port.task.await;
    }
}

fn serve(listener: TcpListener, router: Router) -> Result<JoinHandle<()>, Trouble> {
    listener.set_nonblocking(true)?;
    let listener = tokio::net::TcpListener::from_std(listener)?;
    Ok(tokio::spawn(async move {
        if let Err(error) = axum::serve(listener, router).await {
            tracing::error!(%error, "service ended");
        }
    }))
}

fn config(
    row: &BalancerRow,
    port: u16,
    machines: &BTreeMap<Label, (u32, Ipv4Addr)>,
) -> Result<BalancerConfig, Trouble> {
    let address = |name: &Label| machines.get(name).map(|(_, address)| SocketAddr::from((*address, port)));
    let target = |name: &Label| address(name).map(|address| balancer::Target { name: name.to_string(), address });
    let check = match &row.spec.check {
        Check::Tcp => balancer::Check::Tcp,
        Check::Https { path, ca, name } => balancer::Check::Https(HttpsCheck::new(path, name, ca)?),
    };
    Ok(BalancerConfig { targets: row.spec.targets.iter().filter_map(target).collect(), check })
}

fn target(port: u16, status: &balancer::TargetStatus) -> Option<Target> {
    Some(Target {
        machine: Label::parse(&status.target.name).ok()?,
        port,
        state: match status.state {
            balancer::TargetState::Up | balancer::TargetState::Doubted => TargetState::Up,
            balancer::TargetState::Down => TargetState::Down,
            balancer::TargetState::Draining => TargetState::Draining,
        },
        reason: status.last_error.clone(),
        connections: status.open,
    })
}

/// Who answers for names outside the zone: the host's resolvers, where there is a way out.
fn upstream(egress: Egress) -> Result<Upstream, Trouble> {
    Ok(match egress {
        Egress::Off => Upstream::None,
        Egress::On => Upstream::Forward(server::nameservers(&std::fs::read_to_string("/etc/resolv.conf")?)),
    })
}

fn zone(row: &ClusterRow, records: &[RecordRow]) -> Result<Zone, Trouble> {
    let mut zone = Zone::new(DomainName::parse(&row.spec.domain)?);
    for row in records {
        // One record that does not fit, as older daemons took some, does not keep the others from being served.
        if let Err(trouble) = hold(&mut zone, row) {
            let (name, kind, reason) = (&row.record.name, row.record.kind, words(trouble.as_ref()));
            tracing::warn!(cluster = %row.cluster, %name, ?kind, reason, "record left out");
        }
    }
    Ok(zone)
}

fn hold(zone: &mut Zone, row: &RecordRow) -> Result<(), Trouble> {
    let name = DomainName::parse(&format!("{}.{}", row.record.name, zone.origin().as_str()))?;
    let kind = match row.record.kind {
        RecordKind::A => Kind::A,
        RecordKind::CNAME => Kind::Cname,
        RecordKind::TXT => Kind::Txt,
    };
    let records = row.record.values.iter().map(|value| record(kind, value)).collect::<Result<_, Trouble>>()?;
    zone.change(Change { name, kind, expect: Expect::Any, records })?;
    Ok(())
}

fn record(kind: Kind, value: &str) -> Result<Record, Trouble> {
    Ok(match kind {
        Kind::A => Record::A(value.parse()?),
        Kind::Cname => Record::Cname(DomainName::parse(value)?),
        Kind::Txt | Kind::Srv => Record::Txt(value.to_owned()),
    })
}

fn translated(fault: &Fault, machines: &BTreeMap<Label, (u32, Ipv4Addr)>) -> Result<fault::Fault, Refused> {
    let end = |name: &Label| match machines.get(name) {
        Some((index, _)) => Ok(End::Machine(*index)),
        None => Err(Refused::unknown("machine", name)),
    };
    Ok(match fault {
        Fault::Cut { one, other } => fault::Fault::Cut(end(one)?, end(other)?),
        Fault::Isolate { machines: far } => {
            let far = far.iter().map(end).collect::<Result<BTreeSet<End>, _>>()?;
            let rest = machines.values().map(|(index, _)| End::Machine(*index)).filter(|end| !far.contains(end));
            let near = rest.chain([End::Services]).collect();
            fault::Fault::Partition(vec![far, near])
        }
        Fault::Lose { one, other, percent } => {
            let too_much = || Refused::new(Class::Impossible, format!("{percent} is no share of a hundred"));
            fault::Fault::Lose(end(one)?, end(other)?, Percent::new(*percent).ok_or_else(too_much)?)
        }
        Fault::Delay { one, other, milliseconds } => {
            fault::Fault::Delay(end(one)?, end(other)?, std::time::Duration::from_millis((*milliseconds).into()))
        }
    })
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
