//! Which kernel features there are, without loading any: built in, loaded, or lying ready as modules.

use std::fs::{self, File};
use std::io::Read as _;
use std::path::Path;

use flate2::read::GzDecoder;

/// No kernel's configuration is longer.
const LIMIT: u64 = 4 << 20;

/// What machines need of the kernel: the option, the module that it may be, and what it is for.
const FEATURES: [(&str, Option<&str>, &str); 12] = [
    ("CONFIG_OVERLAY_FS", Some("overlay"), "the roots of machines and containers"),
    ("CONFIG_BLK_DEV_LOOP", Some("loop"), "the disks of machines"),
    ("CONFIG_NET_NS", None, "the networks of clusters, machines and pods"),
    ("CONFIG_CGROUP_PIDS", None, "bounds on processes"),
    ("CONFIG_NF_TABLES", Some("nf_tables"), "the packet rules of machines and services"),
    ("CONFIG_NF_CONNTRACK", Some("nf_conntrack"), "the connections of services"),
    ("CONFIG_NFT_CT", Some("nft_ct"), "the connections of services"),
    ("CONFIG_NFT_NAT", Some("nft_nat"), "the addresses of services"),
    ("CONFIG_NFT_MASQ", Some("nft_masq"), "what pods say to the outside"),
    ("CONFIG_VETH", Some("veth"), "the links of machines and pods"),
    ("CONFIG_BRIDGE", Some("bridge"), "the networks of machines and pods"),
    ("CONFIG_VXLAN", Some("vxlan"), "the network between pods"),
];

/// What is known about a kernel.
#[derive(Debug, Clone, Default)]
pub(super) struct Kernel {
    /// Its configuration, if it can be read.
    pub(super) config: Option<String>,
    /// Modules that are loaded, or built in with parameters.
    pub(super) loaded: Vec<String>,
    /// Modules that could be loaded.
    pub(super) ready: String,
}

impl Kernel {
    pub(super) fn of_this_host() -> Self {
        let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        let release = release.trim();
        let loaded = fs::read_dir("/sys/module").into_iter().flatten().flatten();
        let modules = format!("/lib/modules/{release}/modules.dep");
        Kernel {
            config: unpacked(Path::new("/proc/config.gz"))
                .or_else(|| fs::read_to_string(format!("/boot/config-{release}")).ok()),
            loaded: loaded.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect(),
            ready: fs::read_to_string(modules).unwrap_or_default(),
        }
    }

    /// Whether a feature is there; what cannot be found out is not held against the host.
    fn has(&self, option: &str, module: Option<&str>) -> bool {
        if module.is_some_and(|module| self.loaded.iter().any(|name| name == module)) {
            return true;
        }
        let Some(config) = &self.config else { return true };
        let value = config.lines().find_map(|line| line.strip_prefix(option)?.strip_prefix('='));
        match value {
            Some("y") => true,
            Some("m") => module.is_some_and(|module| self.ready.contains(&format!("/{module}.ko"))),
            Some(_) | None => false,
        }
    }
}

/// The features that are needed and not there.
pub(super) fn lacking(kernel: &Kernel) -> Vec<String> {
    let missing = FEATURES.iter().filter(|(option, module, _)| !kernel.has(option, *module));
    let told = |(option, module, purpose): &(&str, Option<&str>, &str)| match module {
        Some(module) => format!("{module} ({option}, for {purpose})"),
        None => format!("{option} (for {purpose})"),
    };
    missing.map(told).collect()
}

fn unpacked(path: &Path) -> Option<String> {
    let mut text = String::new();
    let file = File::open(path).ok()?;
    GzDecoder::new(file).take(LIMIT).read_to_string(&mut text).ok()?;
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn built_in_loaded_and_loadable_features_are_there() {
        let config = "CONFIG_OVERLAY_FS=y\nCONFIG_NF_TABLES=m\nCONFIG_VETH=m\n# CONFIG_BRIDGE is not set\n\
            CONFIG_BLK_DEV_LOOP=m\nCONFIG_NET_NS=y\n# CONFIG_CGROUP_PIDS is not set\nCONFIG_NF_CONNTRACK=y\n\
            CONFIG_NFT_CT=y\nCONFIG_NFT_NAT=y\n";
        let kernel = Kernel {
            config: Some(config.to_owned()),
            loaded: vec!["veth".to_owned()],
            ready: "kernel/net/netfilter/nf_tables.ko.xz:\n".to_owned(),
        };
        let lacking = lacking(&kernel);
        let names: Vec<&str> = lacking.iter().filter_map(|line| line.split(' ').next()).collect();
        assert_eq!(names, ["loop", "CONFIG_CGROUP_PIDS", "nft_masq", "bridge", "vxlan"]);
    }

    #[test]
    fn a_kernel_that_tells_nothing_is_not_refused() {
        assert_eq!(lacking(&Kernel::default()), Vec::<String>::new());
    }
}
