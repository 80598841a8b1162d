//! A mirror and what lies where on it.

use std::fmt;
use std::net::IpAddr;

use crate::digest::{Algorithm, Digest};
use crate::download::{DownloadError, Downloader, Url};

use super::{PATIENCE, ReleaseError};

/// No checksum file is longer.
const CHECKSUM_LIMIT: u64 = 4 << 10;

/// What the machines are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Arch {
    /// x86-64.
    Amd64,
    /// 64-bit ARM.
    Arm64,
}

impl Arch {
    /// What this program was built for, which its machines are too.
    pub fn of_this_host() -> Self {
        match cfg!(target_arch = "aarch64") {
            true => Arch::Arm64,
            false => Arch::Amd64,
        }
    }

    /// Go's and Kubernetes' word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Arch::Amd64 => "amd64",
            Arch::Arm64 => "arm64",
        }
    }
}

/// Where releases are published in the official layout.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mirror {
    base: Url,
}

impl Mirror {
    /// Kubernetes' own.
    pub const OFFICIAL: &str = "https://dl.k8s.io";

    /// Takes an https address. Checksums come from the mirror too, so an open connection would make them worthless;
    /// plain http is taken from this host alone.
    pub fn parse(text: &str) -> Result<Self, ReleaseError> {
        let wrong = |reason: String| ReleaseError::NameMirror { text: text.to_owned(), reason };
        let mut base = Url::parse(text).map_err(|error| wrong(error.to_string()))?;
        match base.scheme() {
            "https" => {}
            "http" if is_loopback(&base) => {}
            "http" => return Err(wrong("its checksums would come by plain http: use https".to_owned())),
            other => return Err(wrong(format!("{other} is not https"))),
        }
        if base.query().is_some() || base.fragment().is_some() {
            return Err(wrong("an address without ? and # is wanted".to_owned()));
        }
        if !base.path().ends_with('/') {
            base.set_path(&format!("{}/", base.path()));
        }
        Ok(Mirror { base })
    }

    /// The address of a pinned file.
    pub(super) fn url(&self, path: &str, arch: Arch) -> Url {
        let path = path.replace("$arch", arch.as_str());
        self.base.join(&path).expect("a pinned path is relative and holds no character that a URL could mind")
    }
}

impl fmt::Display for Mirror {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.base.as_str().trim_end_matches('/'))
    }
}

fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// What a file should be, from the checksum beside it: the longer one if there is one. It is only absent if the file is
/// not there either.
pub(super) async fn checksum(downloader: &Downloader, file: &Url) -> Result<Digest, DownloadError> {
    for algorithm in [Algorithm::Sha512, Algorithm::Sha256] {
        let mut url = file.clone();
        url.set_path(&format!("{}.{}", file.path(), algorithm.as_str()));
        match downloader.text(&url, CHECKSUM_LIMIT).await {
            Ok(text) => {
                let name = file.path().rsplit('/').next().unwrap_or_default();
                return parse_checksum(algorithm, &text, name)
                    .map_err(|reason| DownloadError::BadChecksum { url: url.to_string(), reason });
            }
            // Only that it is not there leads to the next; a failing server must not make us take the weaker one.
            Err(error) if error.is_absent() => {}
            Err(error) => return Err(error),
        }
    }
    // A mirror without the file is no mirror that hides its checksum.
    match downloader.probe(file, PATIENCE).await {
        Err(absent @ DownloadError::Absent { .. }) => Err(absent),
        _ => Err(DownloadError::NoChecksum { url: file.to_string() }),
    }
}

/// Digits alone, as Kubernetes writes them, or digits and the file's name, as sha256sum does.
fn parse_checksum(algorithm: Algorithm, text: &str, file: &str) -> Result<Digest, String> {
    let mut lines = text.lines().filter(|line| !line.trim().is_empty());
    let line = lines.next().ok_or("it is empty")?;
    if lines.next().is_some() {
        return Err("it has more than one line".to_owned());
    }
    let mut words = line.split_whitespace();
    let digits = words.next().unwrap_or_default().to_ascii_lowercase();
    let named = words.next().map(|name| name.trim_start_matches('*').rsplit('/').next().unwrap_or_default());
    if let Some(name) = named.filter(|name| *name != file) {
        return Err(format!("it is about {name:?}"));
    }
    Digest::from_hex(algorithm, &digits).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mirror_is_encrypted_or_on_this_host() {
        for (text, shown) in [
            ("https://dl.k8s.io", "https://dl.k8s.io"),
            ("https://mirror.example/k8s/", "https://mirror.example/k8s"),
            ("http://127.0.0.1:8080", "http://127.0.0.1:8080"),
            ("http://[::1]:8080/x", "http://[::1]:8080/x"),
            ("http://localhost", "http://localhost"),
        ] {
            assert_eq!(Mirror::parse(text).unwrap().to_string(), shown);
        }
        for bad in ["http://mirror.example", "ftp://a", "mirror", "", "https://a?x=1", "http://127.0.0.1.evil.example"]
        {
            assert!(Mirror::parse(bad).is_err(), "{bad}");
        }
        let url = Mirror::parse("https://m.example/a").unwrap().url("release/v1/bin/linux/$arch/kubelet", Arch::Arm64);
        assert_eq!(url.as_str(), "https://m.example/a/release/v1/bin/linux/arm64/kubelet");
    }

    #[test]
    fn checksums_are_read_as_both_worlds_write_them() {
        let hex = Digest::of(Algorithm::Sha256, b"x").hex().to_owned();
        let upper = hex.to_uppercase();
        for good in [hex.clone(), format!("{hex}\n"), format!("{hex}  etcd.tgz\n"), format!("{upper} *./dir/etcd.tgz")]
        {
            assert_eq!(parse_checksum(Algorithm::Sha256, &good, "etcd.tgz").unwrap().hex(), hex, "{good}");
        }
        let cases = [
            (String::new(), "empty"),
            (format!("{hex}  other.tgz"), "about \"other.tgz\""),
            (format!("{hex}\n{hex}\n"), "more than one line"),
            ("d41d8cd98f00b204e9800998ecf8427e".to_owned(), "not a digest"),
            ("<html>".to_owned(), "not a digest"),
        ];
        for (bad, says) in cases {
            let error = parse_checksum(Algorithm::Sha256, &bad, "etcd.tgz").unwrap_err();
            assert!(error.contains(says), "{bad}: {error}");
        }
        assert!(parse_checksum(Algorithm::Sha512, &hex, "etcd.tgz").is_err());
    }
}
