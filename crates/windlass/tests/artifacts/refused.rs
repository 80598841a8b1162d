//! What the command refuses, with which code and in which words. The library's own tests know many more ways to cheat.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use windlass_artifacts::cache::Cache;
use windlass_artifacts::release::Arch;
use windlass_artifacts::{keys, store};
use windlass_steps::clock::{Clock as _, SystemClock};
use windlass_steps::host::{CommandSpec, Mode, Output, cmd, make_dir, run_blocking, write_file};

use crate::cached::{Artifact, Content, Place, VERSION, artifacts, full, list};
use crate::daemon::{Daemon, wait_for};
use crate::server::{Answer, Server};

/// A host with four small artifacts, and the signed bundle that it made of them.
struct Bench {
    place: Place,
    bundle: PathBuf,
    key: PathBuf,
}

impl Bench {
    fn new() -> Self {
        let place = Place::new(Content::Empty);
        let plugin = |a: &&Artifact| ["bridge", "host-local", "loopback", "portmap"].contains(&a.name.as_str());
        list(&full()).iter().filter(plugin).for_each(|artifact| place.copy(artifact));
        let entries = Cache::open(place.cache()).unwrap().list().unwrap();
        assert_eq!(entries.len(), 4);
        let (bundle, now) = (place.beside("bundle"), SystemClock::new().now());
        let own = keys::own(&place.cache(), now).unwrap();
        store::bundle(&bundle, VERSION, &entries, &own, now).unwrap();
        let key = place.cache().join("keys/public.asc");
        Bench { place, bundle, key }
    }

    /// The bundle with something done to its bytes.
    fn spoilt(&self, name: &str, spoil: impl Fn(&mut Vec<u8>)) -> String {
        let mut bytes = fs::read(&self.bundle).unwrap();
        spoil(&mut bytes);
        let path = self.place.beside(name);
        write_file(&path, bytes, Mode::PUBLIC).unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// The bundle without some of its members.
    fn without(&self, name: &str, members: &[&str]) -> String {
        let path = self.spoilt(name, |_| ());
        run_blocking(cmd("tar").args(["--delete", "--file", &path]).args(members)).unwrap();
        path
    }

    /// Fetches from a bundle into a new cache.
    fn fetch(&self, arguments: &[&str]) -> Output {
        let cache = tempfile::tempdir_in(self.place.beside("")).unwrap();
        let arguments = [&["fetch", "--bundle"], arguments].concat();
        run_blocking(artifacts(&self.place.program, cache.path(), &arguments)).unwrap()
    }
}

fn check(what: &str, output: &Output, code: i32, says: &str) {
    assert_eq!(output.code, code, "{what}: {}", output.stderr);
    assert!(output.stderr.contains(says), "{what} should say {says:?}: {}", output.stderr);
    assert!(code == 0 || output.stderr.contains("\nnext: "), "{what}: {}", output.stderr);
}

#[test]
#[ignore = "needs root and every artifact"]
fn a_bundle_is_taken_only_whole_and_from_whom_we_trust() {
    let bench = Bench::new();
    let stranger = Place::new(Content::Empty);
    keys::own(&stranger.cache(), SystemClock::new().now()).unwrap();
    let stranger = stranger.cache().join("keys/public.asc");
    let (stranger, key) = (stranger.to_str().unwrap(), bench.key.to_str().unwrap());
    let good = bench.bundle.to_str().unwrap();
    let flipped_blob = bench.spoilt("flipped-blob", |b| {
        let middle = b.len() / 2;
        b[middle] ^= 1;
    });
    let flipped_list = bench.spoilt("flipped-list", |b| b[600] ^= 1);
    let cut = bench.spoilt("cut", |b| b.truncate(b.len() / 2));
    let unsigned = bench.without("unsigned", &["bundle.json.asc", "bundle.json.minisig"]);
    let half_signed = bench.without("half-signed", &["bundle.json.asc"]);
    let text = bench.spoilt("text", |b| *b = b"not a bundle".to_vec());
    let unchecked = "--no-verify-signatures";
    let cases: &[(&str, &[&str], i32, &str)] = &[
        ("a good bundle", &[good, "--trusted-key", key], 0, ""),
        ("a flipped byte in a blob", &[&flipped_blob, "--trusted-key", key], 9, "does not have the digest"),
        ("a flipped byte in the list", &[&flipped_list, "--trusted-key", key], 9, "signature"),
        ("a bundle cut in half", &[&cut, "--trusted-key", key], 9, "bundle"),
        ("no key to trust", &[good], 9, "trusted"),
        ("a stranger's key", &[good, "--trusted-key", stranger], 9, "signature"),
        ("no signature", &[&unsigned, "--trusted-key", key], 9, "bundle.json.asc"),
        ("no signature of the trusted kind", &[&half_signed, "--trusted-key", key], 9, "bundle.json.asc"),
        ("something else", &[&text, "--trusted-key", key], 9, "bundle"),
        ("no file", &["/nonexistent", "--trusted-key", key], 1, "/nonexistent"),
        ("a stranger's key that nobody looks at", &[good, "--trusted-key", stranger, unchecked], 0, "warning: "),
        ("no key where nobody looks", &[good, unchecked], 0, "warning: "),
        ("a flipped byte where nobody looks at signatures", &[&flipped_blob, unchecked], 9, "does not have the digest"),
    ];
    for (what, arguments, code, says) in cases {
        check(what, &bench.fetch(arguments), *code, says);
    }
}

/// Something done to a file.
type Spoil = fn(&Path);

#[test]
#[ignore = "needs root and every artifact"]
fn a_file_of_the_cache_that_changed_is_found() {
    let flip = |path: &Path| {
        let mut bytes = fs::read(path).unwrap();
        bytes[1000] ^= 1;
        write_file(path, bytes, Mode::PUBLIC).unwrap();
    };
    let cut = |path: &Path| fs::OpenOptions::new().write(true).open(path).unwrap().set_len(1000).unwrap();
    let remove = |path: &Path| fs::remove_file(path).unwrap();
    let lead_elsewhere = |path: &Path| {
        fs::rename(path, path.with_extension("moved")).unwrap();
        symlink(path.with_extension("moved"), path).unwrap();
    };
    let cases: [(_, Spoil); 4] = [("flipped", flip), ("cut", cut), ("removed", remove), ("a link", lead_elsewhere)];
    for (what, spoil) in cases {
        let place = Bench::new().place;
        check("as it was", &place.run(&["list", "--verify"]), 0, "4 artifacts are what they should be");
        let spoilt = &list(&place.cache())[0];
        spoil(&spoilt.path);
        check(what, &place.run(&["list", "--verify"]), 9, &spoilt.digest["sha256:".len()..]);
    }
}

/// The first file that a fetch asks a mirror for.
fn first() -> String {
    format!("/release/v{VERSION}/bin/linux/{}/kube-apiserver", Arch::of_this_host().as_str())
}

/// Fetches the first file of a release into an empty cache.
fn from_mirror(place: &Place, base: &str) -> CommandSpec {
    let cache = tempfile::tempdir_in(place.beside("")).unwrap().keep();
    let arguments = ["fetch", "--source", "release", "--mirror", base, "--registry", "127.0.0.1:1"];
    artifacts(&place.program, &cache, &arguments)
}

#[test]
#[ignore = "needs root and every artifact"]
fn a_mirror_is_not_believed_and_not_waited_for_for_ever() {
    let place = Place::new(Content::Empty);
    let file = place.beside("file");
    write_file(&file, "a program", Mode::PUBLIC).unwrap();
    let cases = [
        (
            "a tampered file",
            Answer::Bytes(b"a pr0gram".into()),
            9,
            "kube-apiserver is not trusted: it should be sha512:",
        ),
        ("an endless file", Answer::Endless, 9, "larger than"),
        ("a failing server", Answer::Status(500), 1, "500"),
        ("a file that is not there", Answer::Status(404), 1, "is not there"),
        ("a server that stalls", Answer::Stall, 1, "stalled"),
    ];
    for (what, answer, code, says) in cases {
        let server = Server::start();
        server.publish(&first(), &file);
        server.put(&first(), answer);
        let started = Instant::now();
        let output = run_blocking(from_mirror(&place, &server.base)).unwrap();
        check(what, &output, code, says);
        assert!(started.elapsed() < Duration::from_secs(90), "{what} took {:?}", started.elapsed());
    }
    check("plain http", &run_blocking(from_mirror(&place, "http://192.0.2.1")).unwrap(), 2, "use https");
}

#[test]
#[ignore = "needs root, openssl and every artifact"]
fn a_redirect_from_https_to_plain_http_is_not_followed() {
    let place = Place::new(Content::Empty);
    let open = Server::start();
    open.put("/checksum", Answer::Bytes(b"anything".into()));
    let (key, certificate) = (place.beside("tls.key"), place.beside("tls.crt"));
    let make = cmd("openssl").args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]);
    let make = make.args(["-subj", "/CN=mirror", "-addext", "subjectAltName=IP:127.0.0.1", "-days", "1"]);
    let make = make.args(["-addext", "basicConstraints=critical,CA:FALSE"]).arg("-keyout").arg(&key);
    run_blocking(make.arg("-out").arg(&certificate)).unwrap();
    // `s_server -HTTP` sends files as they are, the answer's head included.
    let elsewhere = format!("HTTP/1.1 302 X\r\nLocation: {}/checksum\r\nContent-Length: 0\r\n\r\n", open.base);
    let path = place.beside("site").join(format!("{}.sha512", &first()[1..]));
    make_dir(path.parent().unwrap(), Mode::PUBLIC_DIR).unwrap();
    write_file(path, elsewhere, Mode::PUBLIC).unwrap();
    let address = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let serve = cmd("openssl").args(["s_server", "-quiet", "-HTTP", "-accept", &address]).arg("-key").arg(&key);
    let _mirror = Daemon::start(serve.arg("-cert").arg(&certificate).current_dir(place.beside("site")));
    wait_for("the mirror answers", || {
        std::net::TcpStream::connect(&address).map(drop).map_err(|error| error.to_string())
    });
    let fetch = from_mirror(&place, &format!("https://{address}")).env("SSL_CERT_FILE", &certificate);
    check("a redirect", &run_blocking(fetch).unwrap(), 9, "from https to http://");
    assert_eq!(open.asked(), Vec::<String>::new());
}
