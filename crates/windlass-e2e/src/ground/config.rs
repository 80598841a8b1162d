//! What a machine boots with: a master's Ignition config, with what a test puts in the way.

use std::fs;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::lone::MARK;
use crate::Installation;

const ARGS: &str = "/etc/kubernetes/installer/bootstrap.env";
const INSTALLER: &str = "/etc/kubernetes/installer/kubelet.env";
const KEYS: [&str; 2] = ["/etc/windlass/addon-keys.asc", "/etc/windlass/addon-key.minisign"];
/// Reads a request to the end of its head, so that whoever asked is not reset, and says the same to everybody.
const ANSWER: &str = "#!/bin/bash\nwhile read -r line && [ \"$line\" != $'\\r' ]; do :; done\n\
                      printf 'HTTP/1.1 @STATUS@ Said\\r\\nContent-Length: 0\\r\\nConnection: close\\r\\n\\r\\n'\n";
const SERVER: &str = "[Unit]\nDescription=Somebody where the API should be\nBefore=k8s-node-bootstrap.service\n\n\
                      [Service]\nExecStart=/usr/bin/socat OPENSSL-LISTEN:6443,bind=127.0.0.1,reuseaddr,fork,verify=0,\
                      cert=@PKI@.crt,key=@PKI@.key EXEC:/opt/drill/answer\nRestart=always\n\n\
                      [Install]\nWantedBy=multi-user.target\n";
/// One line for each boot. The journal would not do: what it has of a boot that was cut off early may be lost.
const COUNT: &str = "[Unit]\nDescription=Counts boots\nDefaultDependencies=no\nAfter=local-fs.target\n\
                     Before=sysinit.target\n\n[Service]\nType=oneshot\n\
                     ExecStart=/bin/sh -c 'echo boot >> /var/lib/drill-boots; sync /var/lib/drill-boots'\n\n\
                     [Install]\nWantedBy=sysinit.target\n";
/// Once in the life of a machine, before its extensions are merged.
const REMAKE: &str = "[Unit]\nDescription=Was made otherwise\nDefaultDependencies=no\nAfter=local-fs.target\n\
                      Before=systemd-sysext.service sysinit.target\nConditionPathExists=!/var/lib/drill-remade\n\n\
                      [Service]\nType=oneshot\nExecStart=/opt/drill/remake\n\n[Install]\nWantedBy=sysinit.target\n";
const OLDER: &str = "rm -r *-os2; mv containerd-2.2.9-os1 containerd-2.2.8-os1; touch /var/lib/containerd/left; \
                     cd containerd-2.2.8-os1/usr/lib/extension-release.d; \
                     mv extension-release.containerd-2.2.9-os1 extension-release.containerd-2.2.8-os1";
const NO_NEXT_OS: &str = "rm -r *-os2; touch @MARK@";
const NO_KUBELET: &str = "rm -r kubelet-1.36.3-os1";

/// A machine's config.
pub struct Config {
    ignition: Value,
    domain: String,
}

/// Whose signatures on addons count.
#[derive(Debug, Clone)]
pub struct Keys {
    texts: [String; 2],
}

/// Who is where a machine looks for the API.
#[derive(Debug, Clone, Copy)]
pub enum OnApi<'a> {
    /// Nobody: connections are refused.
    Nobody,
    /// One that says this to everybody, with the cluster's own certificate.
    Says(u16),
    /// One with this certificate and key, which the cluster's authority did not sign.
    Impostor(&'a str, &'a str),
}

impl Keys {
    /// A cluster's own.
    pub(super) fn of(cluster: &Installation) -> Self {
        let config: Value = serde_json::from_str(&cluster.read("assets/master.ign")).expect("a config is JSON");
        Keys { texts: KEYS.map(|path| text_of(&config, path)) }
    }

    /// Those of a host that publishes.
    pub(super) fn of_cache(cache: &Path) -> Self {
        let read = |name| fs::read_to_string(cache.join("keys").join(name)).expect("the host has published something");
        Keys { texts: [read("public.asc"), read("public.minisign")] }
    }
}

impl Config {
    pub(super) fn of(cluster: &Installation) -> Self {
        let ignition = serde_json::from_str(&cluster.read("assets/master.ign")).expect("a config is JSON");
        let args = text_of(&ignition, ARGS);
        let domain = args.split("objects.internal.").nth(1).and_then(|rest| rest.split('/').next());
        let domain = domain.expect("the bucket is in the cluster's domain").to_owned();
        Config { ignition, domain }.unit("drill-boots.service", COUNT)
    }

    pub(super) fn text(&self) -> String {
        self.ignition.to_string()
    }

    /// Other flags for the node flow; where the bucket is stays as it was.
    pub fn arguments(self, flags: &str) -> Self {
        let text = text_of(&self.ignition, ARGS);
        let url =
            text.split_whitespace().find(|word| word.contains("--torcx-manifest-url")).expect("the flag is there");
        let url = url.trim_end_matches('\'').to_owned();
        self.file(ARGS, &format!("BOOTSTRAP_ARGS='{flags} {url}'\n"), 0o600)
    }

    /// Another prefix for the bucket.
    pub fn bucket(self, prefix: &str) -> Self {
        let text = text_of(&self.ignition, ARGS).replace("/addons/", &format!("/{prefix}/"));
        self.file(ARGS, &text, 0o600)
    }

    /// Trusts these keys, and not its cluster's.
    pub fn trusts(self, keys: &Keys) -> Self {
        let [openpgp, minisign] = &keys.texts;
        self.file(KEYS[0], openpgp, 0o644).file(KEYS[1], minisign, 0o644)
    }

    /// Trusts the OpenPGP key of these, and asks for no other signature.
    pub fn trusts_openpgp(mut self, keys: &Keys) -> Self {
        self = self.file(KEYS[0], &keys.texts[0], 0o644);
        files(&mut self.ignition).retain(|file| file["path"] != KEYS[1]);
        self
    }

    /// A machine that may ask the API: with a token, which nobody here looks at.
    pub fn on_api(self, who: OnApi<'_>) -> Self {
        let hosts = format!("127.0.0.1 localhost api.{0} api.internal.{0}\n", self.domain);
        let asking = self.file("/etc/windlass/join-token", "drill", 0o600).file("/etc/hosts", &hosts, 0o644);
        let serving = |config: Config, status: u16, pki: &str| {
            let answer = ANSWER.replace("@STATUS@", &status.to_string());
            let unit = SERVER.replace("@PKI@", pki);
            config.file("/opt/drill/answer", &answer, 0o755).unit("drill-api.service", &unit)
        };
        match who {
            OnApi::Nobody => asking,
            OnApi::Says(status) => serving(asking, status, "/etc/kubernetes/pki/apiserver"),
            OnApi::Impostor(certificate, key) => {
                let asking = asking.file("/opt/drill/impostor.crt", certificate, 0o600);
                serving(asking.file("/opt/drill/impostor.key", key, 0o600), 200, "/opt/drill/impostor")
            }
        }
    }

    /// A machine that may ask the API by its name, behind the balancer.
    pub fn with_token(self) -> Self {
        self.file("/etc/windlass/join-token", "drill", 0o600)
    }

    /// A machine whose installer was of another version of Kubernetes.
    pub fn installer_says(self, version: &str) -> Self {
        let text = text_of(&self.ignition, INSTALLER);
        let line = |line: &str| match line.starts_with("KUBELET_VERSION=") {
            true => format!("KUBELET_VERSION=v{version}\n"),
            false => format!("{line}\n"),
        };
        self.file(INSTALLER, &text.lines().map(line).collect::<String>(), 0o600)
    }

    /// A machine that was made with an older version of the container runtime, has data of it, and nothing for
    /// another operating system.
    pub fn older(self) -> Self {
        self.remade(OLDER)
    }

    /// A machine that was made with nothing for another operating system, and whose runtime's data is marked.
    pub fn without_next_os(self) -> Self {
        self.remade(&NO_NEXT_OS.replace("@MARK@", MARK))
    }

    /// A machine that was made without a kubelet, and has to fetch one.
    pub fn without_kubelet(self) -> Self {
        self.remade(NO_KUBELET)
    }

    fn remade(self, script: &str) -> Self {
        let script =
            format!("#!/bin/bash\nset -e\ncd /var/lib/extensions\n{script}\ntouch /var/lib/drill-remade\nsync\n");
        self.file("/opt/drill/remake", &script, 0o755).unit("drill-remake.service", REMAKE)
    }

    /// A machine on which these units cannot start.
    pub fn masked(mut self, names: &[&str]) -> Self {
        units(&mut self.ignition).extend(names.iter().map(|name| json!({"name": name, "mask": true})));
        self
    }

    /// One more unit.
    pub fn unit(mut self, name: &str, text: &str) -> Self {
        units(&mut self.ignition).push(json!({"name": name, "enabled": true, "contents": text}));
        self
    }

    /// A file, or another content for one that is there.
    pub fn file(mut self, path: &str, text: &str, mode: u32) -> Self {
        let source = format!("data:;base64,{}", STANDARD.encode(text));
        let file = json!({"path": path, "overwrite": true, "mode": mode, "contents": {"source": source}});
        let files = files(&mut self.ignition);
        files.retain(|file| file["path"] != path);
        files.push(file);
        self
    }
}

fn files(config: &mut Value) -> &mut Vec<Value> {
    config["storage"]["files"].as_array_mut().expect("a config has files")
}

fn units(config: &mut Value) -> &mut Vec<Value> {
    config["systemd"]["units"].as_array_mut().expect("a config has units")
}

fn text_of(config: &Value, path: &str) -> String {
    let files = config["storage"]["files"].as_array().expect("a config has files");
    let file = files.iter().find(|file| file["path"] == path).unwrap_or_else(|| panic!("{path} is not there"));
    let source = file["contents"]["source"].as_str().expect("a file has contents");
    let encoded = source.strip_prefix("data:;base64,").expect("windlass wrote it");
    String::from_utf8(STANDARD.decode(encoded).expect("it is base64")).expect("it is text")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> Config {
        let ignition = json!({"storage": {"files": []}, "systemd": {"units": []}});
        let args = "BOOTSTRAP_ARGS='--a --torcx-manifest-url=http://objects.internal.demo.test/o/addons/x'\n";
        Config { ignition, domain: "demo.test".to_owned() }.file(ARGS, args, 0o600)
    }

    #[test]
    fn flags_and_buckets_change_and_the_rest_stays() {
        let changed = config().bucket("addons/bad").arguments("--upgrade-os=false");
        let want = "BOOTSTRAP_ARGS='--upgrade-os=false --torcx-manifest-url=http://objects.internal.demo.test/o/addons/bad/x'\n";
        assert_eq!(text_of(&changed.ignition, ARGS), want);
        assert_eq!(changed.ignition["storage"]["files"].as_array().map(Vec::len), Some(1));
    }

    #[test]
    fn the_openpgp_key_alone_is_trusted_where_that_is_asked_for() {
        let keys = Keys { texts: ["pgp".to_owned(), "mini".to_owned()] };
        let trusting = config().trusts(&keys);
        assert_eq!(text_of(&trusting.ignition, KEYS[1]), "mini");
        let alone = trusting.trusts_openpgp(&keys);
        assert!(!alone.text().contains(KEYS[1]) && alone.text().contains(KEYS[0]));
    }

    #[test]
    fn a_machine_is_remade_before_its_extensions_are_merged_and_all_of_that_is_durable() {
        let config = config().without_next_os();
        let script = text_of(&config.ignition, "/opt/drill/remake");
        let lines: Vec<&str> = script.lines().collect();
        let remade = format!("rm -r *-os2; touch {MARK}");
        let want = ["#!/bin/bash", "set -e", "cd /var/lib/extensions", &remade, "touch /var/lib/drill-remade", "sync"];
        assert_eq!(lines, want);
        let unit = config.ignition["systemd"]["units"][0]["contents"].as_str().expect("a unit");
        assert!(unit.contains("Before=systemd-sysext.service"), "{unit}");
    }

    #[test]
    fn somebody_on_the_api_says_what_he_is_told_to() {
        let config = config().on_api(OnApi::Says(403));
        assert!(text_of(&config.ignition, "/opt/drill/answer").contains("HTTP/1.1 403 "));
        assert!(text_of(&config.ignition, "/etc/hosts").contains("api.internal.demo.test"));
        let unit = config.ignition["systemd"]["units"][0]["contents"].as_str().expect("a unit");
        assert!(
            unit.contains("cert=/etc/kubernetes/pki/apiserver.crt,key=/etc/kubernetes/pki/apiserver.key"),
            "{unit}"
        );
    }
}
