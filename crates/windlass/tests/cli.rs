//! `windlass` as its users call it: answers, words, exit codes.

#![expect(clippy::unwrap_used, reason = "a test stops where it cannot go on")]

use std::fs;
use std::path::Path;

use windlass_artifacts::cache::{Cache, Key, Kind, SourceKind};
use windlass_steps::host::{Mode, Output, cmd, run_blocking, write_file};

fn windlass(dir: &Path, arguments: &[&str], stdin: &str) -> Output {
    let mut command = cmd(env!("CARGO_BIN_EXE_windlass")).arg("--dir").arg(dir).args(arguments).stdin(stdin);
    for code in 1..10 {
        command = command.accept(code);
    }
    run_blocking(command).unwrap()
}

fn text(output: &Output) -> &str {
    output.text().unwrap()
}

#[test]
fn a_spec_can_be_started_completed_and_completed_again() {
    let temp = tempfile::tempdir().unwrap();
    let init = windlass(temp.path(), &["spec", "init"], "");
    assert_eq!(init.code, 0);
    let complete = windlass(temp.path(), &["spec", "complete", "--spec", "-"], text(&init));
    assert_eq!(complete.code, 0, "{}", complete.stderr);
    let again = windlass(temp.path(), &["spec", "complete", "--spec", "-"], text(&complete));
    assert_eq!(text(&again), text(&complete));
    let json = windlass(temp.path(), &["spec", "complete", "--spec", "-", "-o", "json"], text(&init));
    let value: serde_json::Value = serde_json::from_str(text(&json)).unwrap();
    assert_eq!(value["spec"]["kubernetesVersion"], "1.36.3");
}

#[test]
fn init_takes_the_choices_of_the_contract() {
    let temp = tempfile::tempdir().unwrap();
    let arguments = ["spec", "init", "--provider", "aws", "--num-nodes", "5", "--topology", "volumes"];
    let init = windlass(temp.path(), &arguments, "");
    let complete = windlass(temp.path(), &["spec", "complete", "--spec", "-", "-o", "json"], text(&init));
    let value: serde_json::Value = serde_json::from_str(text(&complete)).unwrap();
    assert_eq!(value["spec"]["topology"], "volumes");
    assert!(value["spec"]["platform"]["aws"].is_object());
    assert_eq!(value["spec"]["instanceGroups"][1]["count"], 5);
}

#[test]
fn each_failure_has_its_code_its_reason_and_what_to_do_next() {
    let temp = tempfile::tempdir().unwrap();
    let good = text(&windlass(temp.path(), &["spec", "init"], "")).to_owned();
    let missing = temp.path().join("missing");
    let large = temp.path().join("large.yaml");
    fs::File::create(&large).unwrap().set_len(100 << 20).unwrap();
    let large = large.display().to_string();
    let cases: &[(&[&str], &str, i32, &str)] = &[
        (&["spec", "validate", "--spec", "-"], "kind: Pod\n", 3, "apiVersion: is missing"),
        (&["spec", "validate", "--spec", "-"], &good, 0, "the spec is good"),
        (&["spec", "complete"], "", 3, "spec init"),
        (&["spec", "complete", "--spec", &large], "", 3, "cannot be read"),
        (&["spec", "init", "--kubernetes-version", "1.30.0"], "", 3, "1.36.3, 1.35.4"),
        (&["spec", "init", "--provider", "azure"], "", 2, "possible values"),
        (&["spec", "explain", "--spec", "-", "spec.netwrk"], &good, 2, "did you mean network?"),
        (&["prepare", "--spec", "-"], "a: [", 3, "not YAML"),
        (&["plan"], "", 2, "windlass prepare"),
        (&["certs", "list"], "", 2, "windlass prepare"),
        (&["launch"], "", 2, "windlass prepare"),
        (&["resume"], "", 2, "windlass prepare"),
        (&["status"], "", 2, "windlass prepare"),
        (&["verify"], "", 2, "windlass prepare"),
        (&["why"], "", 2, "windlass prepare"),
        (&["down"], "", 0, ""),
        (&["down", "--infra-id", "Not A Name"], "", 2, "is no name"),
        (&["image", "load"], "", 2, "ARCHIVE"),
        (&["up", "--num-nodes", "many"], "", 2, "invalid value"),
        (&["up", "--kubernetes-version", "1.30.0"], "", 3, "1.36.3, 1.35.4"),
        (&["up", "--spec", "-", "--num-nodes", "1"], &good, 2, "edit the spec"),
        (&["up", "--spec", "-"], "kind: Pod\n", 3, "apiVersion: is missing"),
        (&["hoist"], "", 2, "unrecognized subcommand"),
    ];
    for (arguments, stdin, code, says) in cases {
        let output = windlass(&missing, arguments, stdin);
        assert_eq!(output.code, *code, "{arguments:?}: {}", output.stderr);
        assert!(output.stderr.contains(says), "{arguments:?}: {}", output.stderr);
        assert!(*code != 3 || output.stderr.contains("\nnext: "), "{arguments:?}: {}", output.stderr);
    }
    assert!(!missing.exists(), "a failure must leave nothing behind");
}

#[test]
fn where_the_answer_is_data_every_line_on_stderr_is_data_too() {
    let temp = tempfile::tempdir().unwrap();
    let (missing, dir) = (temp.path().join("missing"), temp.path().join("c"));
    let spec = text(&windlass(&dir, &["spec", "init"], "")).to_owned();
    let prepared = windlass(&dir, &["prepare", "--spec", "-", "--seed", "json", "-o", "json"], &spec);
    assert_eq!(prepared.code, 0, "{}", prepared.stderr);
    let run = temp.path().join("run").display().to_string();
    let state = temp.path().join("state").display().to_string();
    let cache = temp.path().join("cache").display().to_string();
    let place = ["--cloud-run", run.as_str(), "--cloud-state", state.as_str()];
    let launch = [&["launch", "--cache", cache.as_str()][..], &place].concat();
    let list = [&["cloud"][..], &place, &["machine", "list"]].concat();
    let stop = [&["cloud"][..], &place, &["machine", "stop", "--all"]].concat();
    let verify = ["artifacts", "list", "--verify", "--cache", cache.as_str()];
    let cases: [(&Path, &[&str], &str, i32); 10] = [
        (&missing, &["spec", "validate", "--spec", "-"], "kind: Pod\n", 3),
        (&missing, &["plan"], "", 2),
        (&missing, &["launch"], "", 2),
        (&missing, &["resume"], "", 2),
        (&missing, &["status"], "", 2),
        (&missing, &["why"], "", 2),
        (&dir, &launch, "", 4),
        (&dir, &list, "", 0),
        (&dir, &verify, "", 0),
        (&dir, &stop, "", 1),
    ];
    for (dir, arguments, stdin, code) in cases {
        let output = windlass(dir, &[arguments, &["-o", "json"]].concat(), stdin);
        assert_eq!(output.code, code, "{arguments:?}: {}", output.stderr);
        let parse = |line: &str| serde_json::from_str::<serde_json::Value>(line);
        let lines: Result<Vec<serde_json::Value>, _> = output.stderr.lines().map(parse).collect();
        let lines = lines.unwrap_or_else(|error| panic!("{arguments:?}: {error}: {}", output.stderr));
        let last = lines.last().unwrap();
        if code == 0 {
            let notice = last["notice"].as_str().unwrap();
            assert!(
                ["the local cloud does not run", "0 artifacts are what they should be"].contains(&notice),
                "{last}"
            );
            continue;
        }
        assert_eq!(last["exit"], code, "{last}");
        assert!(last["error"].is_string() && last["because"].is_array() && last["next"].is_string(), "{last}");
    }
    assert!(!temp.path().join("state").exists(), "no cloud was started");
}

#[test]
fn prepare_plan_and_certs_answer_as_text_and_as_data() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("c");
    let spec = text(&windlass(&dir, &["spec", "init"], "")).to_owned();
    let prepared = windlass(&dir, &["prepare", "--spec", "-", "--seed", "7", "-o", "json"], &spec);
    assert_eq!(prepared.code, 0, "{}", prepared.stderr);
    let value: serde_json::Value = serde_json::from_str(text(&prepared)).unwrap();
    assert!(value["infraID"].as_str().unwrap().starts_with("windlass-"));
    let plan: serde_json::Value = serde_json::from_str(text(&windlass(&dir, &["plan", "-o", "json"], ""))).unwrap();
    assert_eq!(plan["machines"].as_array().unwrap().len(), 6, "bootstrap, three masters, two workers");
    assert!(plan["flags"]["kube-apiserver"].as_array().unwrap().len() > 30);
    let certs = windlass(&dir, &["certs", "list"], "");
    assert!(text(&certs).contains("apiserver-kubelet-client"), "{}", text(&certs));
    let certs: serde_json::Value =
        serde_json::from_str(text(&windlass(&dir, &["certs", "list", "-o", "json"], ""))).unwrap();
    assert!(certs["firstBreak"]["daysLeft"].as_i64().unwrap() > 200, "{certs}");
}

#[test]
fn a_seed_makes_two_directories_the_same() {
    let temp = tempfile::tempdir().unwrap();
    let spec = text(&windlass(temp.path(), &["spec", "init"], "")).to_owned();
    let read = |name: &str, path: &str| fs::read(temp.path().join(name).join(path)).unwrap();
    for name in ["a", "b"] {
        let output = windlass(&temp.path().join(name), &["prepare", "--spec", "-", "--seed", "7"], &spec);
        assert_eq!(output.code, 0, "{}", output.stderr);
    }
    assert_eq!(read("a", "assets.lock"), read("b", "assets.lock"));
    assert_eq!(read("a", "assets/bootstrap.ign"), read("b", "assets/bootstrap.ign"));
    assert_eq!(read("a", "assets/bootstrap-assets.json"), read("b", "assets/bootstrap-assets.json"));
}

#[test]
fn an_edit_that_would_be_lost_is_refused_with_code_8() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("c");
    let spec = text(&windlass(&dir, &["spec", "init"], "")).to_owned();
    windlass(&dir, &["prepare", "--spec", "-"], &spec);
    let path = dir.join("assets/config/kubelet-worker.yaml");
    let edited = fs::read_to_string(&path).unwrap() + "maxPods: 7\n";
    write_file(&path, &edited, Mode::PRIVATE_FILE).unwrap();
    let kept = windlass(&dir, &["prepare"], "");
    assert_eq!(kept.code, 0, "{}", kept.stderr);
    assert!(kept.stderr.contains("kubelet-worker.yaml"), "{}", kept.stderr);
    assert!(text(&windlass(&dir, &["plan"], "")).contains("assets/config/kubelet-worker.yaml"));
    let refused =
        windlass(&dir, &["prepare", "--spec", "-"], &format!("{spec}\n  network:\n    clusterDomain: other.local\n"));
    assert_eq!(refused.code, 8, "{}", refused.stderr);
    assert!(refused.stderr.contains("kubelet-worker.yaml"), "{}", refused.stderr);
    assert_eq!(fs::read_to_string(&path).unwrap(), edited);
}

#[test]
fn no_secret_reaches_output_or_log() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("c");
    let spec = text(&windlass(&dir, &["spec", "init"], "")).to_owned();
    let mut said = String::new();
    for arguments in
        [&["prepare", "--spec", "-", "--log-level", "trace"][..], &["plan", "--log-level", "trace"], &["certs", "list"]]
    {
        let output = windlass(&dir, arguments, &spec);
        assert_eq!(output.code, 0, "{}", output.stderr);
        said.push_str(text(&output));
        said.push_str(&output.stderr);
    }
    let log = fs::read_to_string(dir.join("logs/windlass.log")).unwrap();
    assert!(log.contains("cluster directory prepared"), "{log}");
    said.push_str(&log);
    let key = fs::read_to_string(dir.join("assets/pki/ca.key")).unwrap();
    for line in key.lines().filter(|l| !l.starts_with("-----")) {
        assert!(!said.contains(line));
    }
    assert!(!said.contains("PRIVATE KEY") && !said.contains("client-key-data"));
}

#[test]
fn the_schema_is_json() {
    let temp = tempfile::tempdir().unwrap();
    let schema: serde_json::Value =
        serde_json::from_str(text(&windlass(temp.path(), &["spec", "schema"], ""))).unwrap();
    assert_eq!(schema["title"], "windlass cluster spec");
}

#[test]
fn publish_does_not_sign_an_addon_that_changed_in_the_cache() {
    let temp = tempfile::tempdir().unwrap();
    let (root, bucket) = (temp.path().join("cache"), temp.path().join("bucket"));
    let cache = Cache::open(&root).unwrap();
    let addon = temp.path().join("addon");
    write_file(&addon, "a runtime", Mode::PUBLIC).unwrap();
    let key = Key::new(Kind::Addon, "containerd-os1", "2.2.9").unwrap();
    let entry = cache.add_file(&key, SourceKind::Made, &addon, Mode::PUBLIC).unwrap();
    let (root, bucket) = (root.to_str().unwrap(), bucket.to_str().unwrap());
    let publish = || windlass(temp.path(), &["artifacts", "publish", bucket, "--cache", root], "");
    assert_eq!(publish().code, 0);
    let manifest = || fs::read(temp.path().join("bucket/amd64-usr/1/torcx_manifest.json")).unwrap();
    let before = manifest();
    write_file(&entry.path, "a runtimf", Mode::PUBLIC).unwrap();
    let refused = publish();
    assert_eq!(refused.code, 9, "{}", refused.stderr);
    assert!(refused.stderr.contains("is not trusted: it should be sha256:"), "{}", refused.stderr);
    assert!(manifest() == before, "a manifest was signed");
}
