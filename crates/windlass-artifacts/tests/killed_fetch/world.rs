//! What the fetch flow finds on a host, in small: an apt configuration, a debootstrap that copies a tree of a hundred
//! files, and a program of windlass' own. Go, setpriv, unshare and cp are the host's.

use std::fs;
use std::path::{Path, PathBuf};

use windlass_steps::host::{CommandSpec, Mode, cmd, make_dir, write_file};

/// Marks a directory that a stand-in may use; `cargo test -- --ignored` must not leave a cache in the source tree.
const HERE: &str = "fetch-here";

/// Called as `debootstrap … SUITE OUT MIRROR`. File by file, so that there is time to be killed in.
const DEBOOTSTRAP: &str = r#"#!/bin/sh
set -e
while [ $# -gt 2 ]; do shift; done
cd "${0%/*}/../skeleton"
find . -type d | while read -r dir; do mkdir -p "$1/$dir"; done
find . -type f | while read -r file; do echo "I: Unpacking $file..."; cp -a "$file" "$1/$file"; done
"#;

/// The directory that a stand-in fetch works in.
pub struct World {
    dir: PathBuf,
}

impl World {
    pub fn make(dir: PathBuf) -> Self {
        let world = World { dir };
        world.write("apt/sources.list", "deb http://debian.invalid/debian bookworm main\n", Mode::PUBLIC);
        world.write("bin/debootstrap", DEBOOTSTRAP, Mode::EXECUTABLE);
        world.write("windlass-node", "#!/bin/sh\necho windlass-node\n", Mode::EXECUTABLE);
        world.skeleton();
        world.write(HERE, "", Mode::PUBLIC);
        world
    }

    /// The world that this process was started in, if it was started in one.
    pub fn here() -> Option<Self> {
        Path::new(HERE).exists().then(|| World { dir: fs::canonicalize(".").unwrap() })
    }

    /// As much of Debian as windlass looks for.
    fn skeleton(&self) {
        let own = |path: &str, text: &str| self.write(&format!("skeleton/{path}"), text, Mode::PUBLIC);
        own("etc/shadow", "root:*:20000:0:99999:7:::\n");
        own("etc/ssl/certs/ca-certificates.crt", "certificates\n");
        own("etc/systemd/system/kept.service", "[Unit]\n");
        own("usr/lib/x86_64-linux-gnu/libc.so.6", "a library\n");
        let kinds = ["", "-nft", "-legacy"];
        let names = ["iptables", "ip6tables"].into_iter().flat_map(|name| kinds.map(|kind| format!("{name}{kind}")));
        let family = names.flat_map(|name| ["", "-save", "-restore"].map(|ending| format!("{name}{ending}")));
        for tool in ["nft", "conntrack", "ipset", "ip"].into_iter().map(str::to_owned).chain(family) {
            own(&format!("usr/sbin/{tool}"), "#!/bin/sh\n");
        }
        for package in 0..40 {
            own(&format!("usr/share/doc/package-{package}/copyright"), "free\n");
            own(&format!("usr/share/doc/package-{package}/changelog"), "long\n");
        }
    }

    fn write(&self, path: &str, text: &str, mode: Mode) {
        let path = self.dir.join(path);
        make_dir(path.parent().unwrap(), Mode::PUBLIC_DIR).unwrap();
        write_file(path, text, mode).unwrap();
    }

    pub fn cache(&self) -> PathBuf {
        self.dir.join("cache")
    }

    pub fn apt(&self) -> PathBuf {
        self.dir.join("apt")
    }

    pub fn own_program(&self) -> PathBuf {
        self.dir.join("windlass-node")
    }

    /// The stand-in fetch of this test program, in this world.
    pub fn fetch(&self) -> CommandSpec {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let mut places = vec![self.dir.join("bin")];
        places.extend(std::env::split_paths(&path));
        let arguments = ["--exact", "stand_in_fetch", "--ignored", "--quiet", "--nocapture"];
        let fetch = cmd("/proc/self/exe").args(arguments).current_dir(&self.dir);
        fetch.env("PATH", std::env::join_paths(places).unwrap())
    }
}
