//! A cluster directory, the programs that work on it, and the ways to look at what came of it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use kube::Client;
use tempfile::TempDir;
use tokio::process::{Child, Command};
use windlass_cloud_api::{Client as Cloud, ExecRequest, Label};
use windlass_cluster::access::Access;

use crate::journal::Journal;

/// How many machines.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    /// Masters.
    pub masters: u32,
    /// Workers.
    pub workers: u32,
}

/// What came of a command.
#[derive(Debug)]
pub struct Ran {
    /// Its exit code.
    pub code: i32,
    /// What it answered.
    pub stdout: String,
    /// What it told people.
    pub stderr: String,
}

impl Ran {
    /// Fails the test unless it ended with this code.
    #[track_caller]
    pub fn ended(self, code: i32) -> Self {
        assert_eq!(self.code, code, "stdout:\n{}\nstderr:\n{}", self.stdout, self.stderr);
        self
    }
}

/// A cluster directory with a local cloud of its own; both go with the test, however it ends.
pub struct Installation {
    dir: TempDir,
    cache: PathBuf,
    programs: PathBuf,
}

impl Installation {
    /// A directory with a spec that asks for this many machines and no way out.
    pub async fn new(name: &str, shape: Shape) -> Self {
        let exe = std::env::current_exe().expect("a test has a file");
        let programs = exe.ancestors().nth(2).expect("tests lie in deps, programs above").to_owned();
        let target = programs.parent().expect("programs lie in the target directory");
        fs::create_dir_all(target.join("tmp")).expect("the target directory can be written");
        let dir = TempDir::with_prefix_in(format!("{name}-"), target.join("tmp")).expect("a directory can be made");
        let cache = std::env::var_os("WINDLASS_TEST_CACHE").unwrap_or_else(|| "/var/cache/windlass".into());
        let installation = Installation { dir, cache: cache.into(), programs };
        fs::create_dir_all(installation.directory()).expect("a directory can be made");
        let Shape { masters, workers } = shape;
        let spec = format!(
            "apiVersion: windlass.dev/v1alpha1\nkind: Cluster\nmetadata:\n  name: {name}\nspec:\n  masters: {masters}\n  \
             workers: {workers}\n  platform:\n    local:\n      egress: \"off\"\n"
        );
        installation.put("cluster.yaml", &spec);
        installation
    }

    /// The cluster directory.
    pub fn directory(&self) -> PathBuf {
        self.dir.path().join("cluster")
    }

    /// Where the programs and images are that it uses.
    pub fn cache(&self) -> &Path {
        &self.cache
    }

    /// Writes a file of the cluster directory.
    #[expect(clippy::disallowed_methods, reason = "a test's own file; nobody reads half of it")]
    pub fn put(&self, path: &str, text: &str) {
        fs::write(self.directory().join(path), text).expect("the cluster directory can be written");
    }

    /// Changes a file of the cluster directory; what is replaced must be there.
    #[track_caller]
    pub fn edit(&self, path: &str, from: &str, to: &str) {
        let text = self.read(path);
        assert!(text.contains(from), "{path} has no {from:?}:\n{text}");
        self.put(path, &text.replace(from, to));
    }

    /// Reads a file of the cluster directory.
    #[track_caller]
    pub fn read(&self, path: &str) -> String {
        fs::read_to_string(self.directory().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    /// The name of everything that belongs to the cluster.
    pub fn infra_id(&self) -> Label {
        let metadata: serde_json::Value = serde_json::from_str(&self.read("metadata.json")).expect("metadata is JSON");
        Label::parse(metadata["infraID"].as_str().expect("metadata has an infraID")).expect("an infra-id is a label")
    }

    /// What the journal says by now.
    pub fn journal(&self) -> Journal {
        Journal::parse(&fs::read_to_string(self.directory().join("journal.jsonl")).unwrap_or_default())
    }

    /// The local cloud.
    pub fn cloud(&self) -> Cloud {
        Cloud::new(self.dir.path().join("run/cloud.sock"))
    }

    /// What the local cloud has logged.
    pub fn cloud_log(&self) -> String {
        fs::read_to_string(self.dir.path().join("state/cloud.log")).unwrap_or_default()
    }

    /// The API, as the user of this host reaches it.
    pub async fn api(&self) -> Client {
        let access = Access::Kubeconfig(self.directory().join("auth/kubeconfig"));
        access.client().await.expect("the kubeconfig is one")
    }

    /// Runs `windlass` to its end.
    pub async fn windlass(&self, words: &[&str]) -> Ran {
        self.run(self.command(words)).await
    }

    /// Runs the cluster's own kubectl to its end.
    pub async fn kubectl(&self, words: &[&str]) -> Ran {
        let mut command = program(&self.directory().join("bin/kubectl"));
        command.arg("--kubeconfig").arg(self.directory().join("auth/kubeconfig")).args(words);
        self.run(command).await
    }

    /// What a script answers on a machine; it must succeed.
    pub async fn on(&self, machine: &str, script: &str) -> String {
        self.tries(machine, script).await.unwrap_or_else(|error| panic!("{machine}: {script}: {error}"))
    }

    /// What a script answers on a machine, if it runs now and the script succeeds.
    pub async fn tries(&self, machine: &str, script: &str) -> Result<String, String> {
        let command = ["bash", "-ec", script].map(str::to_owned).into();
        let request = ExecRequest { command, stdin: String::new(), timeout: None };
        let name = Label::parse(machine).expect("a name");
        match self.cloud().exec(&self.infra_id(), &name, &request).await {
            Ok(answer) if answer.code == 0 => Ok(answer.stdout),
            Ok(answer) => Err(format!("{}{}", answer.stdout, answer.stderr)),
            Err(error) => Err(error.to_string()),
        }
    }

    async fn run(&self, mut command: Command) -> Ran {
        let output = command.stdin(Stdio::null()).output().await.expect("the program runs");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let code = output.status.code().unwrap_or(-1);
        Ran { code, stdout: text(&output.stdout), stderr: text(&output.stderr) }
    }

    /// Starts `windlass` and leaves it to the test; what it says goes to a file of the installation.
    pub fn start(&self, words: &[&str]) -> Child {
        let log = fs::File::create(self.dir.path().join("started.log")).expect("a log can be made");
        let same = log.try_clone().expect("a file can be shared");
        let mut command = self.command(words);
        command.stdin(Stdio::null()).stdout(same).stderr(log).kill_on_drop(true).spawn().expect("the program starts")
    }

    /// Asks a started command to end, as Ctrl-C does, and answers its exit code.
    pub async fn interrupt(&self, child: &mut Child) -> i32 {
        if let Some(id) = child.id() {
            let id = nix::unistd::Pid::from_raw(i32::try_from(id).expect("a process's number is small"));
            nix::sys::signal::kill(id, nix::sys::signal::Signal::SIGINT).expect("a child can be asked to end");
        }
        child.wait().await.expect("a child ends").code().unwrap_or(-1)
    }

    /// What the last started command has said.
    pub fn said(&self) -> String {
        fs::read_to_string(self.dir.path().join("started.log")).unwrap_or_default()
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = program(&self.programs.join("windlass"));
        command.args(words).arg("--dir").arg(self.directory()).arg("--cache").arg(&self.cache);
        // Preparing and artifacts know of no cloud.
        if !matches!(words, ["prepare"] | ["artifacts", ..]) {
            command.arg("--cloud-run").arg(self.dir.path().join("run"));
            command.arg("--cloud-state").arg(self.dir.path().join("state"));
        }
        command
    }
}

impl Drop for Installation {
    #[expect(clippy::print_stderr, reason = "a test that failed has no other way to say what it left")]
    /// Whatever is still there goes; a test that got to its end has removed it already and looked.
    fn drop(&mut self) {
        if !self.dir.path().join("run/cloud.sock").exists() {
            return;
        }
        let mut down = self.command(&["down", "--yes"]).into_std();
        if let Ok(output) = down.stdin(Stdio::null()).output()
            && !output.status.success()
        {
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            eprintln!("{} could not be removed and stays: {said}", self.directory().display());
            std::mem::forget(std::mem::replace(&mut self.dir, TempDir::new().expect("a directory can be made")));
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "this crate uses nothing of ours that is under test")]
fn program(path: &Path) -> Command {
    Command::new(path)
}

/// Looks until there is something, and says why there is not when it takes too long.
pub async fn until<T>(what: &str, limit: Duration, mut look: impl AsyncFnMut() -> Result<T, String>) -> T {
    let started = Instant::now();
    let mut ticks = tokio::time::interval(Duration::from_millis(200));
    loop {
        ticks.tick().await;
        match look().await {
            Ok(found) => return found,
            Err(reason) => assert!(started.elapsed() < limit, "not in {limit:?}: {what}: {reason}"),
        }
    }
}
