//! The commands of a build, as values: the same input always gives the same binary, whatever the user's Go is set to.

use std::path::Path;

use windlass_steps::host::{CommandSpec, cmd};

use crate::digest::{Algorithm, Digest, Hasher};
use crate::pins::{Binary, Cgo};
use crate::release::Arch;

/// Lists the packages of a build, one per line; on the way Go gets the modules that they are in.
pub(super) fn list(binary: &Binary, arch: Arch, dir: &Path) -> CommandSpec {
    let list = go(binary, arch, dir).args(["list", "-deps", "-mod=readonly"]);
    tagged(list, binary).args(["-f", "{{.ImportPath}}"]).arg(&binary.package)
}

/// Builds the binary, and names each package as it is compiled. Go works in `room`, so that what a killed build leaves
/// goes with it; the module must lie deeper, or cgo's temporary paths would get into the binary as the module's own.
pub(super) fn build(binary: &Binary, arch: Arch, dir: &Path, room: &Path, out: &Path) -> CommandSpec {
    let build = go(binary, arch, dir).env("GOTMPDIR", room).args([
        "build",
        "-v",
        "-trimpath",
        "-buildvcs=false",
        "-mod=readonly",
    ]);
    tagged(build, binary).arg("-ldflags").arg(ldflags(binary)).arg("-o").arg(out).arg(&binary.package)
}

/// Everything that decides what the binary will be, but for the Go toolchain itself.
pub(super) fn inputs(binary: &Binary, arch: Arch, module: &Digest) -> Digest {
    let mut hasher = Hasher::new(Algorithm::Sha256);
    let cgo = cgo(binary);
    let parts = [arch.as_str(), cgo, &binary.package, &binary.tags.join(","), &ldflags(binary), module.hex()];
    for part in parts {
        hasher.update(&(part.len() as u64).to_be_bytes());
        hasher.update(part.as_bytes());
    }
    hasher.finish()
}

/// Go by itself, to see whether it is there.
pub(super) fn version() -> CommandSpec {
    cmd("go").arg("version").env("GOTOOLCHAIN", "local")
}

/// Go, deaf to the user's settings, and killed when we are: an orphan would go on for minutes, at the side of the next
/// run. `GOFLAGS` is not empty, because an empty one yields to `go env -w`.
fn go(binary: &Binary, arch: Arch, dir: &Path) -> CommandSpec {
    cmd("setpriv")
        .args(["--pdeathsig", "KILL", "go"])
        .current_dir(dir)
        .env("GOFLAGS", "-mod=readonly")
        .env("GOWORK", "off")
        .env("GOTOOLCHAIN", "local")
        .env("GOOS", "linux")
        .env("GOARCH", arch.as_str())
        .env("GOAMD64", "v1")
        .env("CGO_ENABLED", cgo(binary))
        .env("LC_ALL", "C")
}

fn tagged(command: CommandSpec, binary: &Binary) -> CommandSpec {
    match binary.tags.is_empty() {
        true => command,
        false => command.arg("-tags").arg(binary.tags.join(",")),
    }
}

fn ldflags(binary: &Binary) -> String {
    let ours = ["-s", "-w", "-buildid="].map(str::to_owned);
    ours.into_iter().chain(binary.ldflags.iter().cloned()).collect::<Vec<_>>().join(" ")
}

fn cgo(binary: &Binary) -> &'static str {
    match binary.cgo {
        Cgo::On => "1",
        Cgo::Off => "0",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pins::Check;

    fn binary() -> Binary {
        Binary {
            name: "runc".into(),
            package: "example.org/runc".into(),
            cgo: Cgo::On,
            tags: vec!["seccomp".into(), "netgo".into()],
            ldflags: vec!["-X main.v=1".into(), "-extldflags -static".into()],
            links: Vec::new(),
            check: Check { run: vec!["runc".into()], prints: "1".into() },
        }
    }

    #[test]
    fn a_build_is_one_line_that_can_be_repeated() {
        let line = build(&binary(), Arch::Amd64, Path::new("/m"), Path::new("/r"), Path::new("/o")).line();
        let wanted = "setpriv --pdeathsig KILL go build -v -trimpath -buildvcs=false -mod=readonly -tags seccomp,netgo \
                      -ldflags '-s -w -buildid= -X main.v=1 -extldflags -static' -o /o example.org/runc";
        assert_eq!(line, wanted);
    }

    #[test]
    fn whatever_decides_the_result_is_among_the_inputs() {
        let module = Digest::of(Algorithm::Sha256, b"module");
        let first = inputs(&binary(), Arch::Amd64, &module);
        assert_eq!(inputs(&binary(), Arch::Amd64, &module), first);
        let changes: [fn(&mut Binary); 4] =
            [|b| b.cgo = Cgo::Off, |b| b.tags.clear(), |b| b.ldflags.push("-x".into()), |b| b.package.push('x')];
        for change in changes {
            let mut other = binary();
            change(&mut other);
            assert_ne!(inputs(&other, Arch::Amd64, &module), first);
        }
        assert_ne!(inputs(&binary(), Arch::Arm64, &module), first);
        assert_ne!(inputs(&binary(), Arch::Amd64, &Digest::of(Algorithm::Sha256, b"other")), first);
    }
}
