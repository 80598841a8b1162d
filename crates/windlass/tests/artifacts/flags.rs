//! The lists of flags by which specs are decided, compared with what the built programs say themselves.

use std::collections::BTreeSet;

use serde_json::Value;
use windlass_steps::host::{cmd, run_blocking};

use crate::cached::Programs;

const KUBERNETES: &str = include_str!("../../../windlass-spec/data/kubernetes-1.36.3.json");
const ETCD: &str = include_str!("../../../windlass-spec/data/etcd-3.6.16.json");

/// The flags of a list that a help page shows.
fn listed(flags: &Value) -> BTreeSet<&str> {
    let shown = flags.as_object().unwrap().iter().filter(|(_, flag)| flag["hidden"] != true);
    shown.map(|(name, _)| name.as_str()).collect()
}

/// The flags at the beginnings of a help page's lines: `  -v, --v Level …`.
fn shown(help: &str) -> BTreeSet<&str> {
    let flag = |line| -> Option<&str> {
        let line: &str = line;
        let words = line.split_whitespace().take(2);
        let name = words.map_while(|word| word.starts_with('-').then_some(word)).find_map(|w| w.strip_prefix("--"))?;
        name.split(['=', '[']).next()
    };
    help.lines().filter(|line| line.starts_with(' ')).filter_map(flag).collect()
}

#[test]
fn the_beginning_of_a_line_says_which_flag_it_is_about() {
    let help = "\
Usage:
  kubelet [flags]

      --address ip     the address, see --port
  -v, --v Level        how much
      --color[=always]   in colour
  --name 'default'
    words about --other
      --vmodule=a
";
    assert_eq!(shown(help), BTreeSet::from(["address", "v", "color", "name", "vmodule"]));
}

#[test]
#[ignore = "needs every artifact"]
fn each_kubernetes_component_has_exactly_the_flags_of_the_list() {
    let programs = Programs::linked();
    let list: Value = serde_json::from_str(KUBERNETES).unwrap();
    let components = list["components"].as_object().unwrap();
    assert!(components.len() >= 5, "{:?}", components.keys());
    for (name, component) in components {
        let help = run_blocking(cmd(programs.path(name)).arg("--help")).unwrap();
        assert_eq!(shown(help.text().unwrap()), listed(&component["flags"]), "{name}");
    }
}

#[test]
#[ignore = "needs every artifact"]
fn etcd_has_exactly_the_flags_of_the_list() {
    let programs = Programs::linked();
    let list: Value = serde_json::from_str(ETCD).unwrap();
    let help = run_blocking(cmd(programs.path("etcd")).arg("--help")).unwrap();
    // The usage goes to stderr, the flags to stdout.
    let help = format!("{}\n{}", help.stderr, help.text().unwrap());
    let mut shown = shown(&help);
    // It shows these two in its usage, as commands.
    for usage in ["version", "config-file"] {
        assert!(help.contains(&format!("etcd --{usage}")), "{help}");
        shown.insert(usage);
    }
    assert_eq!(shown, listed(&list["flags"]));
}
