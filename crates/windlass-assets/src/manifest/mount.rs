//! What of the machine a component sees: exactly the files that its flags name, and nothing beside them.

use std::collections::BTreeMap;

use serde::Serialize;
use windlass_spec::complete::Flags;
use windlass_spec::flags::scalar_text;

/// A path of the machine that a container sees at the same path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Mount {
    name: String,
    pub(super) path: String,
    #[serde(rename = "type")]
    kind: &'static str,
    read_only: bool,
}

/// Directories that are mounted whole, because what is in them is renewed by renaming.
const SHARED: [&str; 2] = ["/etc/kubernetes/pki", "/etc/kubernetes/config"];
/// Flags of etcd whose value is a directory that it writes to.
const WRITTEN: [&str; 2] = ["data-dir", "wal-dir"];

/// The mounts that a component's flags call for, and `more` directories of [`SHARED`]'s kind.
///
/// A flag calls for a mount if its value is a path below `/etc/kubernetes`, `/var/lib` or `/var/log`.
pub(super) fn named_by(flags: &Flags, more: &[&str]) -> Vec<Mount> {
    let mut kinds: BTreeMap<String, (&'static str, bool)> = BTreeMap::new();
    kinds.extend(more.iter().map(|path| ((*path).to_owned(), ("Directory", true))));
    for (flag, value) in flags {
        for path in paths(value) {
            kinds.extend(mount(flag, &path));
        }
    }
    let directories: Vec<String> =
        kinds.iter().filter(|(_, (kind, _))| *kind != "File").map(|(p, _)| p.clone()).collect();
    // What lies in a mounted directory is there already, and a mount in a read-only one may have no place to be.
    kinds.retain(|path, _| !directories.iter().any(|d| is_below(path, d)));
    let mut mounts: Vec<Mount> = Vec::new();
    for (path, (kind, read_only)) in kinds {
        let name = volume_name(&path).filter(|name| mounts.iter().all(|m| m.name != *name));
        let name = name.unwrap_or_else(|| format!("mount-{}", mounts.len()));
        mounts.push(Mount { name, path, kind, read_only });
    }
    mounts
}

/// The paths in a flag's value, which may be a list, hold several with commas, or end in `:` and something else.
fn paths(value: &serde_json::Value) -> Vec<String> {
    let texts = match value {
        serde_json::Value::Null => Vec::new(),
        serde_json::Value::Array(items) => items.iter().map(scalar_text).collect(),
        scalar => vec![scalar_text(scalar)],
    };
    let words = texts.iter().flat_map(|text| text.split([',', ':']));
    words.filter(|w| is_whole(w)).map(str::to_owned).collect()
}

/// Whether a text is an absolute path that the API takes for a mount.
fn is_whole(path: &str) -> bool {
    path.starts_with('/') && !path.contains("$(") && !path.split('/').any(|part| part == ".." || part == ".")
}

fn mount(flag: &str, path: &str) -> Option<(String, (&'static str, bool))> {
    let path = path.trim_end_matches('/');
    if let Some(shared) = SHARED.iter().find(|s| is_below(path, s) || path == **s) {
        return Some(((*shared).to_owned(), ("Directory", true)));
    }
    if WRITTEN.contains(&flag) {
        return Some((path.to_owned(), ("Directory", false)));
    }
    if is_below(path, "/var/log") {
        // The directory, because logs are rotated by renaming.
        let (folder, _) = path.rsplit_once('/')?;
        return Some((folder.to_owned(), ("DirectoryOrCreate", false)));
    }
    ["/etc/kubernetes", "/var/lib"].iter().any(|root| is_below(path, root)).then(|| (path.to_owned(), ("File", true)))
}

fn is_below(path: &str, folder: &str) -> bool {
    path.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'))
}

/// The path in the letters of a DNS label, if that gives one.
fn volume_name(path: &str) -> Option<String> {
    let letter = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    let name: String = path.trim_matches('/').chars().map(letter).collect();
    (name.len() <= 63 && !name.ends_with('-')).then_some(name)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn mounts(flags: serde_json::Value) -> Vec<String> {
        let flags: Flags = serde_json::from_value(flags).unwrap();
        let line = |m: Mount| format!("{} {} {} {}", m.name, m.path, m.kind, if m.read_only { "ro" } else { "rw" });
        named_by(&flags, &[]).into_iter().map(line).collect()
    }

    #[test]
    fn flags_call_for_what_they_name() {
        for (flags, expected) in [
            (
                json!({"a": "/etc/kubernetes/pki/ca.crt", "b": "/etc/kubernetes/pki/etcd/x.key"}),
                vec!["etc-kubernetes-pki /etc/kubernetes/pki Directory ro"],
            ),
            (
                json!({"kubeconfig": "/etc/kubernetes/scheduler.kubeconfig"}),
                vec!["etc-kubernetes-scheduler-kubeconfig /etc/kubernetes/scheduler.kubeconfig File ro"],
            ),
            (
                json!({"audit-log-path": "/var/log/kubernetes/audit.log"}),
                vec!["var-log-kubernetes /var/log/kubernetes DirectoryOrCreate rw"],
            ),
            (
                json!({"data-dir": "/var/lib/etcd", "wal-dir": "/var/lib/etcd/wal"}),
                vec!["var-lib-etcd /var/lib/etcd Directory rw"],
            ),
            (json!({"data-dir": "/var/lib/etcd/"}), vec!["var-lib-etcd /var/lib/etcd Directory rw"]),
            (
                json!({"tls-sni-cert-key": ["/etc/kubernetes/a.crt,/etc/kubernetes/B.key:*.example.com"]}),
                vec![
                    "etc-kubernetes-b-key /etc/kubernetes/B.key File ro",
                    "etc-kubernetes-a-crt /etc/kubernetes/a.crt File ro",
                ],
            ),
            (
                json!({"a": "/healthz,/readyz", "b": "-", "c": null, "d": 3, "e": "/etc/kubernetes/../shadow", "f": "/etc/kubernetes"}),
                vec![],
            ),
        ] {
            assert_eq!(mounts(flags.clone()), expected, "{flags}");
        }
    }

    #[test]
    fn names_never_clash() {
        let flags = json!({"a": "/etc/kubernetes/a.b", "b": "/etc/kubernetes/a-b", "c": "/etc/kubernetes/A-B"});
        let mut names: Vec<String> = mounts(flags).iter().map(|m| m.split(' ').next().unwrap().to_owned()).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), 3);
    }
}
