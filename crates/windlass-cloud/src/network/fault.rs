//! Faults between the machines of a cluster, for tests and drills: cut links, partitions, lost packets, delay. They
//! are one nft table on the cluster's bridge, written whole by a pure function and put in place in one motion, so
//! that healing is the same act as breaking: say what is to be, and it is.
//!
//! A machine is known by its port, so everything that comes from it is caught, containers and address resolution
//! among it. The cluster's own services (names, balancers, objects) live on the bridge itself and are reached through
//! its input and output hooks.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::time::Duration;

use thiserror::Error;
use windlass_steps::host::{CommandSpec, Commands, HostError};

use super::link::port_name;
use super::namespace::Namespace;

const TABLE: &str = "bridge windlass-faults";
const LIMIT: Duration = Duration::from_secs(10);
// The first band is for what is not delayed, and a prio queue has 16.
const MOST_DELAYS: usize = 15;

/// One side of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum End {
    /// The machine on this port.
    Machine(u32),
    /// Everything the cluster itself serves: names, objects, balancers.
    Services,
    /// One address of the bridge, such as one balancer.
    Address(Ipv4Addr),
}

/// A share of packets in hundredths, at most all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Percent(u8);

/// Something that is wrong with the network, in both directions. Two services are in the same place, so nothing can
/// come between them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// No packet passes between the two.
    Cut(End, End),
    /// No packet passes between members of different groups. Who is in no group reaches everyone.
    Partition(Vec<BTreeSet<End>>),
    /// Of each direction's packets this share is lost, at random.
    Lose(End, End, Percent),
    /// Packets take this much longer each way. Between a machine and services all of it is put on the way to the
    /// machine, where the queue is.
    Delay(End, End, Duration),
}

/// Why the faults are not in place. What was in place before still is, unless the delays were the last to fail.
#[derive(Debug, Error)]
pub enum FaultError {
    /// nft did not take the table.
    #[error("cannot put the faults in place in {}", .path.display())]
    Apply {
        /// The cluster's namespace.
        path: PathBuf,
        /// What nft said.
        source: HostError,
    },
    /// This kernel cannot delay packets.
    #[error("packets cannot be delayed here: the kernel has no netem queue (CONFIG_NET_SCH_NETEM)")]
    NoDelay {
        /// What tc said when asked for such a queue.
        source: HostError,
    },
    /// One port has more delays than its queue has room for.
    #[error("port {port} has {count} delays, at most {MOST_DELAYS} are possible")]
    TooManyDelays {
        /// The port's link.
        port: String,
        /// How many were asked for.
        count: usize,
    },
    /// tc did not take the queues.
    #[error("cannot put the delays in place in {}", .path.display())]
    Delay {
        /// The cluster's namespace.
        path: PathBuf,
        /// What tc said.
        source: HostError,
    },
}

impl Percent {
    /// Nothing above 100.
    pub fn new(percent: u8) -> Option<Self> {
        (percent <= 100).then_some(Self(percent))
    }
}

/// Makes these the faults of the cluster, all of them and no others.
pub async fn apply(commands: &impl Commands, cluster: &Namespace, faults: &[Fault]) -> Result<(), FaultError> {
    let delays = delays(faults);
    if let Some((port, list)) = delays.iter().find(|(_, list)| list.len() > MOST_DELAYS) {
        return Err(FaultError::TooManyDelays { port: port.clone(), count: list.len() });
    }
    if !delays.is_empty() {
        try_delay(commands, cluster).await?;
    }
    let trouble = |source| FaultError::Apply { path: cluster.path().to_owned(), source };
    commands.run(inside(cluster, "nft").arg("-f").arg("-").stdin(ruleset(faults))).await.map_err(trouble)?;
    set_queues(commands, cluster, &delays).await
}

/// The nft script that replaces whatever faults there were by these; without faults no table is left.
pub fn ruleset(faults: &[Fault]) -> String {
    let rules: Vec<Rule> = faults.iter().flat_map(rules).chain(marks(&delays(faults))).collect();
    let mut script = format!("table {TABLE} {{}}\ndelete table {TABLE}\n");
    if rules.is_empty() {
        return script;
    }
    script += &format!("table {TABLE} {{\n");
    for hook in [Hook::Input, Hook::Forward, Hook::Output] {
        script += &format!("  chain {0} {{\n    type filter hook {0} priority 0; policy accept;\n", hook.name());
        for rule in rules.iter().filter(|rule| rule.hook == hook) {
            script += &format!("    {} {}\n", rule.matches, rule.verdict);
        }
        script += "  }\n";
    }
    script + "}\n"
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hook {
    Input,
    Forward,
    Output,
}

impl Hook {
    fn name(self) -> &'static str {
        match self {
            Self::Input => "input",
            Self::Forward => "forward",
            Self::Output => "output",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Rule {
    hook: Hook,
    matches: String,
    verdict: String,
}

fn rules(fault: &Fault) -> Vec<Rule> {
    match fault {
        Fault::Cut(a, b) => both_ways(*a, *b, "drop"),
        Fault::Partition(groups) => partition(groups),
        Fault::Lose(a, b, Percent(100)) => both_ways(*a, *b, "drop"),
        Fault::Lose(_, _, Percent(0)) | Fault::Delay(..) => Vec::new(),
        Fault::Lose(a, b, Percent(share)) => both_ways(*a, *b, &format!("numgen random mod 100 < {share} drop")),
    }
}

fn partition(groups: &[BTreeSet<End>]) -> Vec<Rule> {
    let pairs = groups.iter().enumerate().flat_map(|(n, one)| groups[n + 1..].iter().map(move |other| (one, other)));
    pairs.flat_map(|(one, other)| apart(one, other)).collect()
}

// With sets of ports, so that the kernel looks once per packet however many machines there are.
fn apart(one: &BTreeSet<End>, other: &BTreeSet<End>) -> Vec<Rule> {
    let rule = |hook, matches| Rule { hook, matches, verdict: "drop".to_owned() };
    let mut rules = Vec::new();
    if let (Some(one), Some(other)) = (ports(one), ports(other)) {
        rules.push(rule(Hook::Forward, format!("iifname {one} oifname {other}")));
        rules.push(rule(Hook::Forward, format!("iifname {other} oifname {one}")));
    }
    for (machines, services) in [(one, other), (other, one)] {
        let Some(ports) = ports(machines) else { continue };
        for service in services {
            let (to, from) = match service {
                End::Machine(_) => continue,
                End::Services => (String::new(), String::new()),
                End::Address(address) => (format!(" ip daddr {address}"), format!(" ip saddr {address}")),
            };
            rules.push(rule(Hook::Input, format!("iifname {ports}{to}")));
            rules.push(rule(Hook::Output, format!("oifname {ports}{from}")));
        }
    }
    rules
}

fn ports(group: &BTreeSet<End>) -> Option<String> {
    let machines = group.iter().filter_map(|end| match end {
        End::Machine(index) => Some(format!(r#""{}""#, port_name(*index))),
        End::Services | End::Address(_) => None,
    });
    let names = machines.collect::<Vec<_>>().join(", ");
    (!names.is_empty()).then(|| format!("{{ {names} }}"))
}

fn both_ways(a: End, b: End, verdict: &str) -> Vec<Rule> {
    let rule = |hook, matches| Rule { hook, matches, verdict: verdict.to_owned() };
    match (a, b) {
        (End::Machine(a), End::Machine(b)) if a == b => Vec::new(),
        (End::Machine(a), End::Machine(b)) => {
            vec![rule(Hook::Forward, between(a, b)), rule(Hook::Forward, between(b, a))]
        }
        (End::Machine(machine), End::Services) | (End::Services, End::Machine(machine)) => {
            vec![rule(Hook::Input, from(machine)), rule(Hook::Output, to(machine))]
        }
        (End::Machine(machine), End::Address(address)) | (End::Address(address), End::Machine(machine)) => vec![
            rule(Hook::Input, format!("{} ip daddr {address}", from(machine))),
            rule(Hook::Output, format!("{} ip saddr {address}", to(machine))),
        ],
        (End::Services | End::Address(_), End::Services | End::Address(_)) => Vec::new(),
    }
}

fn between(a: u32, b: u32) -> String {
    format!("{} {}", from(a), to(b))
}

fn from(machine: u32) -> String {
    format!(r#"iifname "{}""#, port_name(machine))
}

fn to(machine: u32) -> String {
    format!(r#"oifname "{}""#, port_name(machine))
}

/// Packets that wait in a queue of one port before they leave it, told from the others by their mark.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Delay {
    hook: Hook,
    matches: String,
    mark: u32,
    by: Duration,
}

fn delays(faults: &[Fault]) -> BTreeMap<String, Vec<Delay>> {
    let mut ports: BTreeMap<String, Vec<Delay>> = BTreeMap::new();
    let ways = faults.iter().flat_map(|fault| match fault {
        Fault::Delay(a, b, by) => slow_ways(*a, *b, *by),
        Fault::Cut(..) | Fault::Partition(_) | Fault::Lose(..) => Vec::new(),
    });
    for (mark, (port, hook, matches, by)) in (1..).zip(ways) {
        ports.entry(port_name(port)).or_default().push(Delay { hook, matches, mark, by });
    }
    ports
}

fn slow_ways(a: End, b: End, by: Duration) -> Vec<(u32, Hook, String, Duration)> {
    match (a, b) {
        (End::Machine(a), End::Machine(b)) if a == b => Vec::new(),
        (End::Machine(a), End::Machine(b)) => {
            vec![(b, Hook::Forward, between(a, b), by), (a, Hook::Forward, between(b, a), by)]
        }
        (End::Machine(machine), End::Services) | (End::Services, End::Machine(machine)) => {
            vec![(machine, Hook::Output, to(machine), by * 2)]
        }
        (End::Machine(machine), End::Address(address)) | (End::Address(address), End::Machine(machine)) => {
            vec![(machine, Hook::Output, format!("{} ip saddr {address}", to(machine)), by * 2)]
        }
        (End::Services | End::Address(_), End::Services | End::Address(_)) => Vec::new(),
    }
}

fn marks(delays: &BTreeMap<String, Vec<Delay>>) -> Vec<Rule> {
    let all = delays.values().flatten();
    let rule = |delay: &Delay| Rule {
        hook: delay.hook,
        matches: delay.matches.clone(),
        verdict: format!("meta mark set {}", delay.mark),
    };
    all.map(rule).collect()
}

/// The tc script that gives one port a queue per delay; everything else leaves it at once.
fn queues(port: &str, delays: &[Delay]) -> String {
    let at_once = ["0"; 16].join(" ");
    let mut script = format!("qdisc add dev {port} root handle 1: prio bands 16 priomap {at_once}\n");
    for (band, Delay { mark, by, .. }) in (2..).zip(delays) {
        let by = by.as_micros();
        script += &format!("qdisc add dev {port} parent 1:{band:x} handle {band:x}0: netem delay {by}us limit 10000\n");
        script += &format!("filter add dev {port} parent 1: protocol all prio 1 handle {mark} fw classid 1:{band:x}\n");
    }
    script
}

// Asked for on the loopback of the cluster's namespace, which nothing that may be delayed passes.
async fn try_delay(commands: &impl Commands, cluster: &Namespace) -> Result<(), FaultError> {
    let tc = |verb: &str| inside(cluster, "tc").args(["qdisc", verb, "dev", "lo", "root", "netem", "delay", "1us"]);
    commands.run(tc("replace")).await.map_err(|source| FaultError::NoDelay { source })?;
    let trouble = |source| FaultError::Delay { path: cluster.path().to_owned(), source };
    commands.run(inside(cluster, "tc").args(["qdisc", "del", "dev", "lo", "root"])).await.map_err(trouble)?;
    Ok(())
}

async fn set_queues(
    commands: &impl Commands,
    cluster: &Namespace,
    delays: &BTreeMap<String, Vec<Delay>>,
) -> Result<(), FaultError> {
    let trouble = |source| FaultError::Delay { path: cluster.path().to_owned(), source };
    let shown = match commands.run(inside(cluster, "tc").args(["qdisc", "show"])).await {
        // Without the program nobody has delayed anything either.
        Err(error) if delays.is_empty() && is_missing(&error) => return Ok(()),
        shown => shown.map_err(trouble)?,
    };
    let old = slow_ports(&String::from_utf8_lossy(&shown.stdout));
    let clear = old.iter().map(|port| format!("qdisc del dev {port} root\n"));
    let script: String = clear.chain(delays.iter().map(|(port, list)| queues(port, list))).collect();
    if !script.is_empty() {
        commands.run(inside(cluster, "tc").arg("-batch").arg("-").stdin(script)).await.map_err(trouble)?;
    }
    Ok(())
}

/// Whether the program that was to run in the namespace is not on this host, as nsenter tells it.
fn is_missing(error: &HostError) -> bool {
    matches!(error, HostError::RunCommand { status, .. } if status.code() == Some(127))
}

/// The ports that `tc qdisc show` lists with a queue of ours.
fn slow_ports(shown: &str) -> Vec<String> {
    let words = shown.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let ours = words.filter_map(|words| match words.as_slice() {
        ["qdisc", "prio", "1:", "dev", port, "root", ..] => Some((*port).to_owned()),
        _ => None,
    });
    ours.collect()
}

fn inside(cluster: &Namespace, program: &str) -> CommandSpec {
    cluster.command(program).timeout(LIMIT)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(faults: &[Fault]) -> Vec<String> {
        let script = ruleset(faults);
        let rules = script.lines().map(str::trim).filter(|line| line.contains("ifname"));
        rules.map(str::to_owned).collect()
    }

    #[test]
    fn without_faults_the_table_is_only_taken_away() {
        let empty = "table bridge windlass-faults {}\ndelete table bridge windlass-faults\n";
        assert_eq!(ruleset(&[]), empty);
        assert_eq!(ruleset(&[Fault::Cut(End::Services, End::Address([10, 0, 0, 9].into()))]), empty);
        assert_eq!(ruleset(&[Fault::Cut(End::Machine(1), End::Machine(1))]), empty);
        assert_eq!(ruleset(&[Fault::Lose(End::Machine(1), End::Machine(2), Percent(0))]), empty);
    }

    #[test]
    fn a_cut_goes_both_ways_and_depends_on_what_is_cut() {
        let balancer = End::Address([10, 0, 0, 254].into());
        let cases: [(Fault, &[&str]); 4] = [
            (
                Fault::Cut(End::Machine(1), End::Machine(2)),
                &[r#"iifname "m1" oifname "m2" drop"#, r#"iifname "m2" oifname "m1" drop"#],
            ),
            (Fault::Cut(End::Services, End::Machine(3)), &[r#"iifname "m3" drop"#, r#"oifname "m3" drop"#]),
            (
                Fault::Cut(End::Machine(3), balancer),
                &[r#"iifname "m3" ip daddr 10.0.0.254 drop"#, r#"oifname "m3" ip saddr 10.0.0.254 drop"#],
            ),
            (
                Fault::Lose(End::Machine(1), End::Machine(2), Percent(30)),
                &[
                    r#"iifname "m1" oifname "m2" numgen random mod 100 < 30 drop"#,
                    r#"iifname "m2" oifname "m1" numgen random mod 100 < 30 drop"#,
                ],
            ),
        ];
        for (fault, wanted) in cases {
            assert_eq!(body(std::slice::from_ref(&fault)), wanted, "{fault:?}");
        }
    }

    #[test]
    fn a_partition_cuts_every_pair_across_groups_and_none_within() {
        let groups = vec![
            BTreeSet::from([End::Machine(1), End::Services]),
            BTreeSet::from([End::Machine(2), End::Machine(3)]),
            BTreeSet::from([End::Machine(4)]),
        ];
        assert_eq!(
            body(&[Fault::Partition(groups)]),
            [
                r#"iifname { "m2", "m3" } drop"#,
                r#"iifname { "m4" } drop"#,
                r#"iifname { "m1" } oifname { "m2", "m3" } drop"#,
                r#"iifname { "m2", "m3" } oifname { "m1" } drop"#,
                r#"iifname { "m1" } oifname { "m4" } drop"#,
                r#"iifname { "m4" } oifname { "m1" } drop"#,
                r#"iifname { "m2", "m3" } oifname { "m4" } drop"#,
                r#"iifname { "m4" } oifname { "m2", "m3" } drop"#,
                r#"oifname { "m2", "m3" } drop"#,
                r#"oifname { "m4" } drop"#,
            ]
        );
    }

    #[test]
    fn a_partition_may_leave_single_services_on_either_side() {
        let balancer = End::Address([10, 0, 0, 254].into());
        let groups = vec![BTreeSet::from([End::Machine(1)]), BTreeSet::from([balancer])];
        assert_eq!(
            body(&[Fault::Partition(groups)]),
            [r#"iifname { "m1" } ip daddr 10.0.0.254 drop"#, r#"oifname { "m1" } ip saddr 10.0.0.254 drop"#]
        );
        assert!(body(&[Fault::Partition(vec![BTreeSet::new(), BTreeSet::from([End::Machine(1)])])]).is_empty());
    }

    #[test]
    fn delays_are_marked_and_queued_at_the_port_they_leave_by() {
        let faults = [
            Fault::Delay(End::Machine(1), End::Machine(2), Duration::from_millis(40)),
            Fault::Delay(End::Machine(2), End::Services, Duration::from_millis(5)),
        ];
        assert_eq!(
            body(&faults),
            [
                r#"iifname "m2" oifname "m1" meta mark set 2"#,
                r#"iifname "m1" oifname "m2" meta mark set 1"#,
                r#"oifname "m2" meta mark set 3"#,
            ]
        );
        let delays = delays(&faults);
        assert_eq!(delays.keys().collect::<Vec<_>>(), ["m1", "m2"]);
        assert_eq!(
            queues("m2", &delays["m2"]),
            "qdisc add dev m2 root handle 1: prio bands 16 priomap 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n\
             qdisc add dev m2 parent 1:2 handle 20: netem delay 40000us limit 10000\n\
             filter add dev m2 parent 1: protocol all prio 1 handle 1 fw classid 1:2\n\
             qdisc add dev m2 parent 1:3 handle 30: netem delay 10000us limit 10000\n\
             filter add dev m2 parent 1: protocol all prio 1 handle 3 fw classid 1:3\n"
        );
    }

    #[test]
    fn ports_with_our_queues_are_told_from_others() {
        let shown = "qdisc noqueue 0: dev lo root refcnt 2 \nqdisc prio 1: dev m2 root refcnt 2 bands 16\n\
                     qdisc netem 20: dev m2 parent 1:2 limit 10000 delay 40ms\nqdisc noqueue 0: dev m1 root\n";
        assert_eq!(slow_ports(shown), ["m2"]);
    }

    #[test]
    fn a_share_is_at_most_all() {
        assert_eq!(Percent::new(101), None);
        assert_eq!(Percent::new(100), Some(Percent(100)));
    }
}
