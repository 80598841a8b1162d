//! `/readyz`: whether every pod of this machine that wants a copy has one. The pod and its static copy both answer on the
//! same port, from the same files.

use std::io;
use std::net::SocketAddr;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::get;
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::watch;

use super::api::Answer;
use super::files::Copies;
use super::program::Program;

/// Where the kubelet's probe asks.
pub const ADDRESS: ([u8; 4], u16) = ([127, 0, 0, 1], 10271);
const BACKLOG: u32 = 16;

/// Whether copies are complete.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Readiness {
    /// The API has not said yet which pods there are.
    NotAsked,
    /// These lack a copy, one line for each.
    Lacking(Vec<String>),
    /// None lacks one.
    Complete,
}

/// What an answer means for these copies; nothing new if the API does not show pods.
pub fn judge(answer: &Answer, copies: &Copies) -> Option<Readiness> {
    let Answer::Pods { here, .. } = answer else { return None };
    let lacks = here.iter().filter_map(|(program, pod)| {
        let has = copies.waiting.contains_key(program);
        let runs = *program != Program::checkpointer() || copies.active.contains_key(program);
        match &pod.copy {
            Err(reason) => Some(format!("{program} cannot be copied: {reason}")),
            Ok(_) if !has => Some(format!("{program} has no copy yet")),
            Ok(_) if !runs => Some(format!("the copy of {program} does not run yet")),
            Ok(_) => None,
        }
    });
    let mut lacks: Vec<String> = lacks.collect();
    if !here.contains_key(&Program::checkpointer()) {
        // Its own pod is among those that the API must show.
        lacks.push("the checkpointer's own pod is not shown".to_owned());
    }
    Some(if lacks.is_empty() { Readiness::Complete } else { Readiness::Lacking(lacks) })
}

/// Listens beside another checkpointer on the same port, if there is one.
pub fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseaddr(true)?;
    socket.set_reuseport(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Serves until it cannot.
pub async fn serve(listener: TcpListener, readiness: watch::Receiver<Readiness>) -> io::Result<()> {
    let router = Router::new().route("/readyz", get(answer)).with_state(readiness);
    axum::serve(listener, router).await
}

async fn answer(State(readiness): State<watch::Receiver<Readiness>>) -> (StatusCode, String) {
    match &*readiness.borrow() {
        Readiness::Complete => (StatusCode::OK, "every pod has its copy\n".to_owned()),
        Readiness::NotAsked => (StatusCode::SERVICE_UNAVAILABLE, "the API was not asked yet\n".to_owned()),
        Readiness::Lacking(lines) => (StatusCode::SERVICE_UNAVAILABLE, lines.join("\n") + "\n"),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::super::api::Here;
    use super::*;

    fn copies(waiting: &[&str], active: &[&str]) -> Copies {
        let map = |names: &[&str]| names.iter().map(|n| (Program::parse(n).unwrap(), String::new())).collect();
        Copies { waiting: map(waiting), active: map(active) }
    }

    fn shows(names: &[&str]) -> Answer {
        let pod = Here { uid: "u".into(), started: false, ready: false, copy: Ok(String::new()) };
        let here = names.iter().map(|n| (Program::parse(n).unwrap(), pod.clone())).collect();
        Answer::Pods { here, elsewhere: BTreeSet::new() }
    }

    #[test]
    fn every_pod_that_is_shown_needs_a_copy() {
        let both = ["checkpointer", "kube-apiserver"];
        let lacking = |line: &str| Some(Readiness::Lacking(vec![line.to_owned()]));
        let cases = [
            (Answer::Silence, copies(&both, &["checkpointer"]), None),
            (Answer::Unclear(String::new()), copies(&both, &["checkpointer"]), None),
            (shows(&both), copies(&both, &["checkpointer"]), Some(Readiness::Complete)),
            (shows(&both), copies(&["checkpointer"], &["checkpointer"]), lacking("kube-apiserver has no copy yet")),
            (shows(&both), copies(&both, &[]), lacking("the copy of checkpointer does not run yet")),
            (shows(&["kube-apiserver"]), copies(&both, &both), lacking("the checkpointer's own pod is not shown")),
            (shows(&["checkpointer"]), copies(&both, &["checkpointer"]), Some(Readiness::Complete)),
        ];
        for (answer, copies, want) in cases {
            assert_eq!(judge(&answer, &copies), want, "{answer:?}");
        }
        let refused = Here { uid: "u".into(), started: true, ready: true, copy: Err("a volume".into()) };
        let own = Here { copy: Ok(String::new()), ..refused.clone() };
        let here = BTreeMap::from([(Program::api_server(), refused), (Program::checkpointer(), own)]);
        let answer = Answer::Pods { here, elsewhere: BTreeSet::new() };
        let want = lacking("kube-apiserver cannot be copied: a volume");
        assert_eq!(judge(&answer, &copies(&both, &both)), want);
    }

    #[tokio::test]
    async fn two_may_listen_on_one_port() {
        let one = listen(([127, 0, 0, 1], 0).into()).unwrap();
        let address = one.local_addr().unwrap();
        let other = listen(address).unwrap();
        assert_eq!(other.local_addr().unwrap(), address);
    }
}
