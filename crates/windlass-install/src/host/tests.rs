use std::collections::BTreeMap;

use super::*;

/// Debian with nothing of ours on it, and a network on which everything can be had.
fn bare() -> FakeMachine {
    let brings = [
        ("update", None),
        ("ignition", Some("ignition-validate")),
        ("systemd", Some("systemd-analyze")),
        ("cargo-deny", Some("cargo-deny")),
    ];
    FakeMachine {
        programs: vec!["apt-get", "openssl"],
        root: true,
        brings: BTreeMap::from(brings),
        ..Default::default()
    }
}

fn ready() -> FakeMachine {
    let tools = BTreeMap::from([("cargo-deny", "0.20.2")]);
    let programs = vec!["ignition-validate", "openssl", "systemd-analyze"];
    FakeMachine { programs, tools, setting: 9, ..Default::default() }
}

fn quiet(_: &str) {}

fn states(report: &Report) -> Vec<(&str, bool)> {
    report.findings.iter().map(|one| (one.requirement.package, one.state != State::Missing)).collect()
}

#[test]
fn a_check_names_what_is_there_and_what_is_not() {
    assert_eq!(states(&check(&bare(), Group::Base)), [("ignition", false)]);
    let dev = check(&bare(), Group::Dev);
    let rest = [("openssl", true), ("systemd", false), ("cargo-deny", false)];
    assert_eq!(states(&dev), [[("ignition", false), ("fs.setting", false)].as_slice(), &rest].concat());
    assert!(!dev.is_complete());
    assert!(check(&ready(), Group::Dev).is_complete());
}

#[test]
fn a_tool_that_is_too_old_is_missing() {
    let mut machine = ready();
    machine.tools.insert("cargo-deny", "0.19.9");
    let report = check(&machine, Group::Dev);
    assert_eq!(plan(&report), [Action::InstallTool { name: "cargo-deny", version: "0.20.2" }]);
}

#[test]
fn a_plan_asks_for_all_packages_at_once_and_for_tools_after_them() {
    let actions = plan(&check(&bare(), Group::Dev));
    let packages = Action::InstallPackages(vec!["ignition", "systemd"]);
    let raise = Action::Raise { name: "fs.setting", value: 9 };
    assert_eq!(actions, [packages, raise, Action::InstallTool { name: "cargo-deny", version: "0.20.2" }]);
    assert_eq!(plan(&check(&ready(), Group::Dev)), []);
}

#[test]
fn set_up_says_what_it_runs_and_looks_again() {
    let mut machine = bare();
    let mut said = Vec::new();
    let report = setup(&mut machine, Group::Base, |line| said.push(line.to_owned())).unwrap();
    assert!(report.is_complete());
    let want = [
        "apt-get -o DPkg::Lock::Timeout=120 update",
        "apt-get -o DPkg::Lock::Timeout=120 install -y --no-install-recommends ignition",
    ];
    assert_eq!(machine.ran, want);
    assert_eq!(said, want.map(|line| format!("running: {line}")));
}

#[test]
fn set_up_of_a_ready_host_runs_nothing_and_needs_no_root() {
    let mut machine = ready();
    assert!(setup(&mut machine, Group::Dev, quiet).unwrap().is_complete());
    assert!(machine.ran.is_empty());
}

#[test]
fn tools_alone_need_neither_root_nor_apt() {
    let mut machine = FakeMachine { brings: bare().brings, tools: BTreeMap::new(), ..ready() };
    assert!(setup(&mut machine, Group::Dev, quiet).unwrap().is_complete());
    assert_eq!(machine.ran, ["cargo install --locked --version 0.20.2 cargo-deny"]);
}

#[test]
fn set_up_without_root_touches_nothing_and_names_the_remedy() {
    let cases = [
        (Group::Base, "run `sudo windlass host setup`"),
        (Group::Dev, "run `sudo apt-get install --no-install-recommends ignition systemd`, then repeat this"),
    ];
    for (group, hint) in cases {
        let mut machine = FakeMachine { root: false, ..bare() };
        let error = setup(&mut machine, group, quiet).unwrap_err();
        assert!(matches!(error, SetupError::InstallWithoutRoot { .. }));
        assert_eq!(error.hint(), hint);
        assert!(machine.ran.is_empty());
    }
}

#[test]
fn a_low_kernel_setting_is_raised_by_root_alone() {
    let mut machine = FakeMachine { setting: 8, root: true, ..ready() };
    assert!(setup(&mut machine, Group::Dev, quiet).unwrap().is_complete());
    assert_eq!(machine.ran, ["fs.setting = 9"]);
    let mut machine = FakeMachine { setting: 8, ..ready() };
    let error = setup(&mut machine, Group::Dev, quiet).unwrap_err();
    assert_eq!(error.hint(), "run `sudo sysctl -w fs.setting=9`, then repeat this");
    assert_eq!(machine.setting, 8);
}

#[test]
fn set_up_without_apt_lists_what_to_install_by_hand() {
    let mut machine = FakeMachine { programs: vec![], ..bare() };
    let error = setup(&mut machine, Group::Base, quiet).unwrap_err();
    assert_eq!(error.to_string(), "cannot install ignition: this host has no apt-get");
    assert!(error.hint().ends_with("ignition (the program ignition-validate)"), "{}", error.hint());
    assert!(machine.ran.is_empty());
}

#[test]
fn a_failed_update_is_told_and_the_install_decides() {
    let mut machine = bare();
    machine.brings.remove("update");
    let mut said = Vec::new();
    assert!(setup(&mut machine, Group::Base, |line| said.push(line.to_owned())).is_ok());
    assert!(said.iter().any(|line| line.starts_with("going on")), "{said:?}");

    machine = FakeMachine { brings: BTreeMap::new(), ..bare() };
    let error = setup(&mut machine, Group::Base, quiet).unwrap_err();
    assert!(matches!(error, SetupError::InstallPackages { update: Some(_), .. }));
    assert!(error.to_string().contains("before that"), "{error}");
}

#[test]
fn an_installation_that_brings_nothing_is_a_failure() {
    let mut machine = bare();
    machine.brings.insert("ignition", None);
    let error = setup(&mut machine, Group::Base, quiet).unwrap_err();
    let want = "still missing after the installation: ignition (the program ignition-validate)";
    assert_eq!(error.to_string(), want);
}

#[test]
fn the_report_reads_well_and_has_a_form_as_data() {
    let mut machine = ready();
    machine.programs.retain(|program| *program != "systemd-analyze");
    let report = check(&machine, Group::Dev);
    let text = "\
present  ignition    /usr/bin/ignition-validate
present  fs.setting  fs.setting = 9
present  openssl     /usr/bin/openssl
missing  systemd     checks the systemd units in the tests
present  cargo-deny  cargo-deny 0.20.2
";
    assert_eq!(report.to_string(), text);
    let data = serde_json::to_value(&report).unwrap();
    assert_eq!((&data["group"], &data["complete"]), (&"dev".into(), &false.into()));
    let first = serde_json::json!({
        "package": "ignition", "source": "debian", "group": "base", "program": "ignition-validate",
        "purpose": "checks the Ignition configs that windlass makes",
        "state": "present", "found": "/usr/bin/ignition-validate",
    });
    assert_eq!(data["requirements"][0], first);
    assert_eq!(data["requirements"][3]["state"], "missing");
    assert_eq!(data["requirements"][4]["source"], "crates.io");
}
