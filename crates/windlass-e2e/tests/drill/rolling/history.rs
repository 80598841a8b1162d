//! What Nodes show of a roll, event by event, so that nothing is missed between two looks.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::pin::pin;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use k8s_openapi::api::core::v1::Node;
use kube::api::{ListParams, WatchEvent, WatchParams};
use kube::{Api, Client};

const PROTOCOL: &str = "container-linux-update.v1.coreos.com";
const WATCH_SECONDS: u32 = 10;
/// A watch on a server whose machine is gone ends never.
const SILENCE: Duration = Duration::from_secs(12);

/// How far a Node is, in the order in which it gets there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// It wants nothing.
    Idle,
    /// It has an update staged.
    Wanting,
    /// It is its turn, and it is being prepared.
    Before,
    /// It may go, or has gone and come back.
    Going,
    /// Its pods leave, and it reboots.
    Draining,
    /// It is back.
    After,
}

impl Stage {
    /// Whether it is this Node's turn.
    pub fn is_turn(self) -> bool {
        self >= Stage::Before
    }
}

/// A Node as far as a roll is concerned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// How far it is.
    pub stage: Stage,
    /// Whether it is Ready.
    pub ready: bool,
    /// Whether new pods may come.
    pub open: bool,
    /// What it says holds it up.
    pub waits_for: Option<String>,
}

impl Seen {
    /// What a Node shows.
    pub fn of(node: &Node) -> Self {
        let annotation = |name: &str| node.metadata.annotations.as_ref().and_then(|all| all.get(name));
        let says = |word: &str| annotation(&format!("{PROTOCOL}/{word}")).is_some_and(|value| value == "true");
        let shows = |word: &str| {
            let labels = node.metadata.labels.as_ref();
            labels.and_then(|all| all.get(&format!("{PROTOCOL}/{word}"))).is_some_and(|value| value == "true")
        };
        let stage = match () {
            () if shows("after-reboot") => Stage::After,
            () if says("reboot-in-progress") => Stage::Draining,
            () if says("reboot-ok") => Stage::Going,
            () if shows("before-reboot") => Stage::Before,
            () if says("reboot-needed") => Stage::Wanting,
            () => Stage::Idle,
        };
        let conditions = node.status.as_ref().and_then(|status| status.conditions.as_ref());
        let ready = conditions.into_iter().flatten().any(|c| c.type_ == "Ready" && c.status == "True");
        let open = !node.spec.as_ref().and_then(|spec| spec.unschedulable).unwrap_or(false);
        Seen { stage, ready, open, waits_for: annotation("windlass.dev/reboot-waits-for").cloned() }
    }
}

/// What has been seen since a moment.
pub struct History {
    begun: Instant,
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    now: BTreeMap<String, Seen>,
    changes: Vec<(Duration, String, Stage)>,
    crowds: Vec<String>,
}

impl History {
    /// Nothing yet.
    pub fn begin() -> Self {
        History { begun: Instant::now(), kept: Mutex::default() }
    }

    /// Follows all Nodes for as long as it is awaited. The events of a watch have an order, so that after each of them the
    /// Nodes are as they were at some moment.
    pub async fn follow(&self, client: Client) -> Infallible {
        let nodes: Api<Node> = Api::all(client);
        let mut version = None;
        let mut pace = tokio::time::interval(Duration::from_millis(200));
        loop {
            pace.tick().await;
            // What is lost is taken up at the version that was seen last, so that no event is.
            version = match &version {
                None => self.listed(&nodes).await,
                Some(from) => self.watched(&nodes, from).await,
            };
        }
    }

    async fn listed(&self, nodes: &Api<Node>) -> Option<String> {
        let list = nodes.list(&ListParams::default()).await.ok()?;
        list.items.iter().for_each(|node| self.see(node));
        list.metadata.resource_version
    }

    async fn watched(&self, nodes: &Api<Node>, from: &str) -> Option<String> {
        let mut version = from.to_owned();
        let params = WatchParams::default().timeout(WATCH_SECONDS);
        let Ok(Ok(events)) = tokio::time::timeout(SILENCE, nodes.watch(&params, from)).await else {
            return Some(version);
        };
        let mut events = pin!(events);
        while let Ok(Some(event)) = tokio::time::timeout(SILENCE, events.next()).await {
            match event {
                Ok(WatchEvent::Added(node) | WatchEvent::Modified(node)) => {
                    self.see(&node);
                    version = node.metadata.resource_version.unwrap_or(version);
                }
                Ok(WatchEvent::Bookmark(bookmark)) => version = bookmark.metadata.resource_version,
                Ok(WatchEvent::Deleted(node)) => panic!("a roll removes no Node: {:?}", node.metadata.name),
                Ok(WatchEvent::Error(status)) if status.code == 410 => panic!("the watch has a gap: {status:?}"),
                Ok(WatchEvent::Error(_)) | Err(_) => break,
            }
        }
        Some(version)
    }

    fn see(&self, node: &Node) {
        let (name, seen) = (node.metadata.name.clone().expect("a Node has a name"), Seen::of(node));
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.now.get(&name).map(|before| before.stage) != Some(seen.stage) {
            eprintln!("{:7.1} s  {name}: {:?}", self.begun.elapsed().as_secs_f64(), seen.stage);
            kept.changes.push((self.begun.elapsed(), name.clone(), seen.stage));
        }
        kept.now.insert(name, seen);
        for (what, one) in [
            ("in their turn", (|seen: &Seen| seen.stage.is_turn()) as fn(&Seen) -> bool),
            ("not Ready", |seen| !seen.ready),
            ("closed", |seen| !seen.open),
        ] {
            let which: Vec<&String> = kept.now.iter().filter(|(_, seen)| one(seen)).map(|(name, _)| name).collect();
            if which.len() > 1 {
                let crowd = format!("{:?}: {which:?} are {what}", self.begun.elapsed());
                kept.crowds.push(crowd);
            }
        }
    }

    /// What a Node shows now.
    pub fn now(&self, node: &str) -> Option<Seen> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).now.get(node).cloned()
    }

    /// Every Node as it is now.
    pub fn all(&self) -> BTreeMap<String, Seen> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).now.clone()
    }

    /// When more than one Node was anywhere in its turn, not Ready, or closed.
    pub fn crowds(&self) -> Vec<String> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).crowds.clone()
    }

    /// The turns, in order: whose, from when to when.
    pub fn turns(&self) -> Vec<(String, Duration, Duration)> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let mut turns: Vec<(String, Duration, Duration)> = Vec::new();
        for (at, name, stage) in &kept.changes {
            match turns.last_mut().filter(|(whose, _, _)| whose == name) {
                Some((_, _, until)) => *until = *at,
                None if stage.is_turn() => turns.push((name.clone(), *at, *at)),
                None => {}
            }
        }
        turns
    }
}
