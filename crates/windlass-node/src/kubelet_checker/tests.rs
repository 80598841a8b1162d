use std::cell::Cell;

use time::macros::datetime;
use windlass_steps::clock::ManualClock;
use windlass_steps::host::{CommandSpec, Mode, Output, ScriptedHost, make_dir, write_file};

use super::*;
use crate::record::{State, collect};

const RESTART_KUBELET: &str = "systemctl restart kubelet.service";
const RESTART_CONTAINERD: &str = "systemctl restart containerd.service";
const KILL: &str = "systemctl kill --kill-who=main --signal=SIGKILL kubelet.service";

fn show(unit: &str) -> String {
    format!("systemctl show --property=Id,ActiveState,ActiveEnterTimestampMonotonic {unit} k8s-node-bootstrap.service")
}

fn running(unit: &str) -> String {
    format!(
        "Id={unit}\nActiveState=active\nActiveEnterTimestampMonotonic=1\n\nId=k8s-node-bootstrap.service\nActiveState=inactive\n"
    )
}

fn systemd() -> ScriptedHost {
    let host = ScriptedHost::default().answer(RESTART_KUBELET, "").answer(RESTART_CONTAINERD, "");
    Target::ALL.iter().fold(host, |host, target| host.answer(show(target.unit()), running(target.unit())))
}

struct Machine {
    _dir: tempfile::TempDir,
    places: Places,
    clock: Arc<ManualClock>,
}

impl Machine {
    /// A machine whose kubelet may run, and on which nobody answers.
    fn new() -> Machine {
        let dir = tempfile::tempdir().unwrap();
        let places = Places::below(dir.path());
        make_dir(places.kubelet_env().parent().unwrap(), Mode::PUBLIC_DIR).unwrap();
        // Port 1 is nobody's.
        write_file(places.kubelet_config(), "healthzPort: 1\n", Mode::PUBLIC).unwrap();
        write_file(places.kubelet_env(), "", Mode::PUBLIC).unwrap();
        let clock = Arc::new(ManualClock::at(datetime!(2026-11-18 10:00:00 UTC)));
        Machine { _dir: dir, places, clock }
    }

    fn sight<'a, C: Commands>(&'a self, commands: &'a C) -> Sight<'a, C> {
        Sight::at(&self.places, commands, self.clock.as_ref(), Duration::from_secs(3600))
    }

    /// So many looks, five seconds apart, and what they lead to.
    async fn looks(&self, watchdog: &mut Watchdog, sight: &Sight<'_, impl Commands>, looks: usize) -> Option<Target> {
        let moved = Cell::new(0);
        let watched = async { Some(watchdog.await_hang(sight).await.0) };
        let time = async {
            while moved.get() < looks {
                moved.set(moved.get() + 1);
                self.clock.advance(EVERY);
                tokio::time::advance(EVERY).await;
                // Looks ask the kernel, which takes real time.
                for _ in 0..200 {
                    tokio::task::yield_now().await;
                }
            }
            None
        };
        tokio::select! {
            biased;
            found = watched => found,
            none = time => none,
        }
    }
}

#[tokio::test]
async fn nothing_is_judged_before_the_gate_is_open() {
    let machine = Machine::new();
    std::fs::remove_file(machine.places.kubelet_env()).unwrap();
    let host = systemd();
    for target in Target::ALL {
        let seen = machine.sight(&host).look(target).await;
        assert_eq!(seen, judge::Seen::Excused("kubelet.env is not there yet".into()));
    }
    assert_eq!(host.ran(), [""; 0]);
}

#[tokio::test]
async fn who_does_not_answer_is_asked_after() {
    let machine = Machine::new();
    let host = systemd();
    for target in Target::ALL {
        let seen = machine.sight(&host).look(target).await;
        assert!(matches!(seen, judge::Seen::Silent(_)), "{seen:?}");
    }
    assert_eq!(host.ran(), Target::ALL.map(|target| show(target.unit())));
    let unknown = ScriptedHost::default();
    let seen = machine.sight(&unknown).look(Target::Kubelet).await;
    assert!(matches!(&seen, judge::Seen::Excused(why) if why.contains("systemd does not say")), "{seen:?}");
    write_file(machine.places.kubelet_config(), "healthzPort: 0\n", Mode::PUBLIC).unwrap();
    let seen = machine.sight(&host).look(Target::Kubelet).await;
    assert_eq!(seen, judge::Seen::Excused("its healthz is switched off".into()));
}

#[tokio::test]
async fn a_restart_is_done_once_and_told() {
    let machine = Machine::new();
    let host = systemd();
    let mut watchdog = Watchdog::begin(&machine.places, machine.clock.clone());
    watchdog.start_again(Target::Kubelet, "no answer for 30 s".into(), &host).await;
    assert_eq!(host.ran(), [RESTART_KUBELET]);
    let record = &collect(&machine.places)[UNIT];
    let want = json!([{ "when": "2026-11-18T10:00:00.000Z", "what": "kubelet.service", "why": "no answer for 30 s" }]);
    assert_eq!((record.state, &record.data[RESTARTS]), (State::Running, &want));
    let names: Vec<&str> = record.stages.iter().map(|stage| stage.name.as_str()).collect();
    assert_eq!(names, ["watch", "restart-kubelet", "watch"]);
    let next = Watchdog::begin(&machine.places, machine.clock.clone());
    assert_eq!(next.history.borrow().restarts.len(), 1, "the next watchdog counts on");
    assert_eq!(collect(&machine.places)[UNIT].data[RESTARTS], want);
}

#[tokio::test]
async fn only_the_last_restarts_are_told_and_one_that_fails_counts_too() {
    let machine = Machine::new();
    let host = ScriptedHost::default().fail(RESTART_CONTAINERD, 1, "no");
    let mut watchdog = Watchdog::begin(&machine.places, machine.clock.clone());
    for n in 0..15 {
        watchdog.start_again(Target::Containerd, format!("{n}"), &host).await;
    }
    let told = collect(&machine.places)[UNIT].data[RESTARTS].as_array().unwrap().clone();
    assert_eq!((told.len(), &told[0]["why"], &told[9]["why"]), (10, &json!("5"), &json!("14")));
}

/// A unit that does not stop when it is told to.
struct Stuck(std::sync::Mutex<Vec<String>>);

impl Commands for Stuck {
    async fn run(&self, spec: CommandSpec) -> Result<Output, HostError> {
        let command = spec.line();
        let mut ran = self.0.lock().unwrap();
        ran.push(command.clone());
        match ran.len() {
            1 => Err(HostError::AwaitCommand { command, limit: STOP_LIMIT, stderr: String::new() }),
            _ => Ok(Output { command, code: 0, stdout: Vec::new(), stderr: String::new() }),
        }
    }
}

#[tokio::test]
async fn what_does_not_stop_is_killed_and_nothing_else() {
    let stuck = Stuck(std::sync::Mutex::default());
    restart_unit(Target::Kubelet, &stuck).await.unwrap();
    assert_eq!(stuck.0.into_inner().unwrap(), [RESTART_KUBELET, KILL, RESTART_KUBELET]);
    let refused = ScriptedHost::default().fail(RESTART_KUBELET, 1, "no such unit");
    restart_unit(Target::Kubelet, &refused).await.unwrap_err();
    assert_eq!(refused.ran(), [RESTART_KUBELET]);
}

#[tokio::test(start_paused = true)]
async fn silence_is_told_while_it_lasts_and_ends_in_a_restart() {
    let machine = Machine::new();
    let host = systemd();
    let sight = machine.sight(&host);
    let mut watchdog = Watchdog::begin(&machine.places, machine.clock.clone());
    assert_eq!(machine.looks(&mut watchdog, &sight, 3).await, None);
    let unmet = collect(&machine.places)[UNIT].unmet.clone();
    assert_eq!(unmet[0].statement, "containerd.service answers");
    assert_eq!(machine.looks(&mut watchdog, &sight, 40).await, Some(Target::Containerd));
}
