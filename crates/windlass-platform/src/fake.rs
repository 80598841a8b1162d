//! A double: a platform in memory, on which every machine runs as soon as it is made, and any call can be made to fail.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use windlass_assets::SshKeys;
use windlass_spec::complete::Machine;

use crate::seen::{Backend, Executed, MachineState, Provisioned, Receipt, Retirement, SeenMachine, Task};
use crate::{BOOTSTRAP, BucketFile, Order, Platform, PlatformError};

/// A platform in memory.
#[derive(Debug, Default)]
pub struct Fake {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    calls: Vec<&'static str>,
    failing: BTreeSet<&'static str>,
    problems: Vec<String>,
    machines: BTreeMap<String, SeenMachine>,
    states: BTreeMap<String, MachineState>,
    answers: BTreeMap<String, Executed>,
    network: bool,
    config: bool,
    bucket: Vec<BucketFile>,
    assets: bool,
    pushed: Vec<u8>,
}

impl Fake {
    /// Makes every call of this name fail from now on, until [`Fake::mend`].
    pub fn fail(&self, call: &'static str) {
        self.lock().failing.insert(call);
    }

    /// Ends all failures.
    pub fn mend(&self) {
        self.lock().failing.clear();
    }

    /// Finds this wrong from now on.
    pub fn complain(&self, problem: &str) {
        self.lock().problems.push(problem.to_owned());
    }

    /// Shows a machine in this state from now on, or once it is made.
    pub fn set(&self, machine: &str, state: MachineState) {
        self.lock().states.insert(machine.to_owned(), state);
    }

    /// Has a machine that runs, however it came.
    pub fn put(&self, machine: &str, role: &str) {
        let made = running(machine.to_owned(), role, Ipv4Addr::LOCALHOST);
        self.lock().machines.insert(machine.to_owned(), made);
    }

    /// Answers this command, its words joined by spaces, on every machine.
    pub fn answer(&self, words: &str, executed: Executed) {
        self.lock().answers.insert(words.to_owned(), executed);
    }

    /// The calls that were made, in order.
    pub fn calls(&self) -> Vec<&'static str> {
        self.lock().calls.clone()
    }

    /// What was fed last to a command over SSH.
    pub fn pushed(&self) -> Vec<u8> {
        self.lock().pushed.clone()
    }

    /// The names of the machines that are there.
    pub fn names(&self) -> Vec<String> {
        self.lock().machines.keys().cloned().collect()
    }

    /// What is in the cluster's bucket.
    pub fn bucket(&self) -> Vec<BucketFile> {
        self.lock().bucket.clone()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn call(&self, name: &'static str) -> Result<MutexGuard<'_, State>, PlatformError> {
        let mut state = self.lock();
        state.calls.push(name);
        match state.failing.contains(name) {
            true => Err(PlatformError::act(name, "it was made to fail")),
            false => Ok(state),
        }
    }
}

fn running(name: String, role: &str, address: Ipv4Addr) -> SeenMachine {
    SeenMachine { name, role: role.to_owned(), address, state: MachineState::Running }
}

impl Platform for Fake {
    async fn problems(&self, _: &Order<'_>) -> Vec<String> {
        self.lock().problems.clone()
    }

    async fn provision(&self, order: &Order<'_>) -> Result<Provisioned, PlatformError> {
        let mut state = self.call("provision")?;
        state.network = true;
        state.config = order.has_bootstrap();
        state.bucket = order.bucket.to_vec();
        state.assets = order.pulled_assets().is_some();
        let network = &order.spec.spec.network;
        Ok(Provisioned { gateway: network.gateway, balancer: network.balancer, token_key: "00".repeat(32) })
    }

    async fn network_trouble(&self) -> Result<Option<String>, PlatformError> {
        let state = self.call("network_trouble")?;
        Ok((!state.network).then(|| "it was never asked for".to_owned()))
    }

    async fn open_api(&self, _: &Order<'_>) -> Result<u16, PlatformError> {
        self.call("open_api").map(|_| 6443)
    }

    async fn create_machines(&self, order: &Order<'_>) -> Result<(), PlatformError> {
        let mut state = self.call("create_machines")?;
        if order.has_bootstrap() {
            let machine = running(BOOTSTRAP.to_owned(), BOOTSTRAP, order.spec.spec.network.bootstrap);
            state.machines.entry(BOOTSTRAP.to_owned()).or_insert(machine);
        }
        for Machine { name, role, address, .. } in order.machines() {
            let machine = running(name.to_string(), role.as_str(), address);
            state.machines.entry(name.to_string()).or_insert(machine);
        }
        Ok(())
    }

    async fn machines(&self) -> Result<Vec<SeenMachine>, PlatformError> {
        let state = self.call("machines")?;
        let shown = |machine: &SeenMachine| match state.states.get(&machine.name) {
            Some(other) => SeenMachine { state: other.clone(), ..machine.clone() },
            None => machine.clone(),
        };
        Ok(state.machines.values().map(shown).collect())
    }

    async fn backends(&self) -> Result<Vec<Backend>, PlatformError> {
        let state = self.call("backends")?;
        let behind = state.machines.values().filter(|machine| machine.role != "worker");
        let backends = behind.flat_map(|machine| {
            [6443, 22623].map(|port| Backend { machine: machine.name.clone(), port, trouble: None })
        });
        Ok(backends.collect())
    }

    async fn exec(&self, machine: &str, task: &Task) -> Result<Executed, PlatformError> {
        let state = self.call("exec")?;
        let words = task.words.join(" ");
        let answer = state.answers.get(&words).filter(|_| state.machines.contains_key(machine)).cloned();
        answer.ok_or_else(|| PlatformError::act(format!("run {words} on {machine}"), "the double has no answer"))
    }

    async fn exec_over_ssh(&self, machine: &str, _: &SshKeys, task: &Task) -> Result<Executed, PlatformError> {
        let mut state = self.call("exec_over_ssh")?;
        let words = task.words.join(" ");
        if !state.machines.contains_key(machine) {
            return Err(PlatformError::act(format!("run {words} on {machine}"), "there is no such machine"));
        }
        state.pushed = task.stdin.clone();
        let fine = Executed { code: 0, stdout: String::new(), stderr: String::new() };
        Ok(state.answers.get(&words).cloned().unwrap_or(fine))
    }

    async fn console(&self, machine: &str) -> Result<String, PlatformError> {
        self.call("console").map(|_| format!("the console of {machine}\n"))
    }

    async fn retire_bootstrap(&self, _: &Order<'_>) -> Result<Retirement, PlatformError> {
        let mut state = self.call("retire_bootstrap")?;
        state.machines.remove(BOOTSTRAP);
        let (config, assets) = (std::mem::take(&mut state.config), std::mem::take(&mut state.assets));
        let digest = |there: bool| there.then(|| "sha256:00".to_owned());
        Ok(Retirement { config_digest: digest(config), assets_digest: digest(assets) })
    }

    async fn bootstrap_remains(&self) -> Result<Vec<String>, PlatformError> {
        let state = self.call("bootstrap_remains")?;
        let machine = state.machines.keys().filter(|name| *name == BOOTSTRAP).cloned();
        let objects = [(state.config, "bootstrap.ign"), (state.assets, "bootstrap-assets.json")];
        Ok(machine.chain(objects.iter().filter(|(there, _)| *there).map(|(_, key)| (*key).to_owned())).collect())
    }

    async fn is_there(&self) -> Result<bool, PlatformError> {
        self.call("is_there").map(|state| state.network)
    }

    async fn destroy(&self) -> Result<Receipt, PlatformError> {
        let mut state = self.call("destroy")?;
        let before: Vec<String> = std::mem::take(&mut state.machines).into_keys().collect();
        (state.network, state.config, state.assets) = (false, false, false);
        state.bucket.clear();
        let counts = [("machine".to_owned(), before.len())].into();
        Ok(Receipt { before, counts, left: Vec::new() })
    }
}
