//! The host's own apt sources: where this host gets Debian packages, the base gets them too. No mirror is built in.

use std::fs;
use std::path::{Path, PathBuf};

use windlass_steps::host::read_file;

use super::BaseError;

/// Large enough for any list that a person keeps.
const LIMIT: u64 = 1 << 20;
/// Debian releases whose archive also has ours; others (Ubuntu's) do not.
const RELEASES: &[&str] =
    &["bookworm", "trixie", "bullseye", "forky", "sid", "stable", "oldstable", "testing", "unstable"];

/// A Debian archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mirror {
    /// Its address, as debootstrap takes it.
    pub uri: String,
    /// The releases that the host takes from it.
    pub suites: Vec<String>,
    /// The keys that sign it, if the host names a file.
    pub keyring: Option<PathBuf>,
}

impl Mirror {
    /// The archive that this host uses: one that it takes the release from, else one that must have it too.
    pub(super) fn find(directory: &Path, suite: &str) -> Result<Mirror, BaseError> {
        let mirrors: Vec<Mirror> = lists(directory).iter().flat_map(|text| parse_sources(text)).collect();
        let named = |mirror: &&Mirror, wanted: &[&str]| mirror.suites.iter().any(|own| wanted.contains(&own.as_str()));
        let exact = mirrors.iter().find(|mirror| named(mirror, &[suite]));
        let other = || mirrors.iter().find(|mirror| named(mirror, RELEASES));
        exact
            .or_else(other)
            .cloned()
            .ok_or_else(|| BaseError::FindMirror { suite: suite.to_owned(), directory: directory.to_owned() })
    }
}

/// Reads either form of apt's lists: lines that begin with `deb`, or stanzas with `Types:`. What cannot be used (source
/// packages, CD-ROMs, archives without `main`) is left out.
pub fn parse_sources(text: &str) -> Vec<Mirror> {
    let lines = text.lines().filter_map(one_line);
    lines
        .chain(stanzas(text))
        .filter(|mirror| mirror.uri.starts_with("http://") || mirror.uri.starts_with("https://"))
        .collect()
}

/// Unreadable lists are as good as none: apt itself skips them.
fn lists(directory: &Path) -> Vec<String> {
    let mut files = vec![directory.join("sources.list")];
    let parts = fs::read_dir(directory.join("sources.list.d")).into_iter().flatten().flatten();
    let mut parts: Vec<PathBuf> = parts.map(|entry| entry.path()).collect();
    parts.sort();
    files.extend(parts);
    let texts = files.iter().filter_map(|path| read_file(path, LIMIT).ok());
    texts.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).collect()
}

/// `deb [arch=amd64 signed-by=/usr/share/keyrings/x.gpg] http://host/debian bookworm main`
fn one_line(line: &str) -> Option<Mirror> {
    let rest = line.split('#').next()?.trim().strip_prefix("deb ")?.trim_start();
    let (options, rest) = match rest.strip_prefix('[') {
        Some(inside) => inside.split_once(']')?,
        None => ("", rest),
    };
    let mut words = rest.split_whitespace();
    let (uri, suite) = (words.next()?, words.next()?);
    if !words.any(|component| component == "main") {
        return None;
    }
    let keyring = options.split_whitespace().find_map(|option| option.strip_prefix("signed-by=")).and_then(key_file);
    Some(Mirror { uri: trimmed(uri), suites: vec![suite.to_owned()], keyring })
}

fn stanzas(text: &str) -> Vec<Mirror> {
    let mut found = Vec::new();
    let mut stanza: Vec<(String, String)> = Vec::new();
    for line in text.lines().chain([""]) {
        if line.trim().is_empty() {
            found.extend(stanza_mirrors(&stanza));
            stanza.clear();
        } else if line.starts_with('#') {
        } else if line.starts_with([' ', '\t']) {
            if let Some((_, value)) = stanza.last_mut() {
                value.push(' ');
                value.push_str(line.trim());
            }
        } else if let Some((key, value)) = line.split_once(':') {
            stanza.push((key.trim().to_ascii_lowercase(), value.trim().to_owned()));
        }
    }
    found
}

fn stanza_mirrors(stanza: &[(String, String)]) -> Vec<Mirror> {
    let words = |key: &str| -> Vec<&str> {
        let values = stanza.iter().filter(|(name, _)| name == key);
        values.flat_map(|(_, value)| value.split_whitespace()).collect()
    };
    let disabled = words("enabled").first().is_some_and(|word| ["no", "false", "0"].contains(word));
    if disabled || !words("types").contains(&"deb") || !words("components").contains(&"main") {
        return Vec::new();
    }
    let suites: Vec<String> = words("suites").into_iter().map(str::to_owned).collect();
    let keyring = words("signed-by").first().and_then(|word| key_file(word));
    let mirror = |uri: &str| Mirror { uri: trimmed(uri), suites: suites.clone(), keyring: keyring.clone() };
    words("uris").into_iter().map(mirror).collect()
}

/// `Signed-By` may also hold the key itself or a fingerprint; debootstrap takes only files.
fn key_file(word: &str) -> Option<PathBuf> {
    word.starts_with('/').then(|| PathBuf::from(word))
}

fn trimmed(uri: &str) -> String {
    uri.trim_end_matches('/').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mirror(uri: &str, suites: &[&str], keyring: Option<&str>) -> Mirror {
        let suites = suites.iter().map(|suite| (*suite).to_owned()).collect();
        Mirror { uri: uri.to_owned(), suites, keyring: keyring.map(PathBuf::from) }
    }

    #[test]
    fn both_forms_of_apt_sources_are_read() {
        let key = "/usr/share/keyrings/debian.gpg";
        let cases: [(&str, Vec<Mirror>); 10] = [
            (
                "deb http://m.example/debian/ bookworm main",
                vec![mirror("http://m.example/debian", &["bookworm"], None)],
            ),
            (
                "deb [arch=amd64 signed-by=/usr/share/keyrings/debian.gpg] https://m.example/debian sid contrib main # x",
                vec![mirror("https://m.example/debian", &["sid"], Some(key))],
            ),
            ("deb-src http://m.example/debian bookworm main", vec![]),
            ("# deb http://m.example/debian bookworm main", vec![]),
            ("deb http://m.example/x stable contrib", vec![]),
            ("deb cdrom:[Debian]/ bookworm main\ndeb file:/srv/debian bookworm main", vec![]),
            (
                "# c\nTypes: deb deb-src\nURIs: http://a.example/debian\n# c\nSuites: bookworm\n bookworm-updates\nComponents: main\nSigned-By: /usr/share/keyrings/debian.gpg\n",
                vec![mirror("http://a.example/debian", &["bookworm", "bookworm-updates"], Some(key))],
            ),
            ("Enabled: no\nTypes: deb\nURIs: http://a.example/debian\nSuites: bookworm\nComponents: main\n", vec![]),
            (
                "Types: deb\nURIs: http://a.example/1 http://a.example/2\nSuites: bookworm\nComponents: main\nSigned-By:\n -----BEGIN\n",
                vec![
                    mirror("http://a.example/1", &["bookworm"], None),
                    mirror("http://a.example/2", &["bookworm"], None),
                ],
            ),
            ("", vec![]),
        ];
        for (text, want) in cases {
            assert_eq!(parse_sources(text), want, "{text}");
        }
    }

    #[test]
    fn the_archive_with_our_release_comes_before_one_that_must_have_it() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = dir.path().join(name);
            windlass_steps::host::make_dir(path.parent().unwrap(), windlass_steps::host::Mode::PUBLIC_DIR).unwrap();
            windlass_steps::host::write_file(path, text, windlass_steps::host::Mode::PUBLIC).unwrap();
        };
        let found = || Mirror::find(dir.path(), "bookworm").map(|mirror| mirror.uri);
        assert!(matches!(found(), Err(BaseError::FindMirror { .. })));
        write("sources.list", "deb http://ubuntu.example/ubuntu noble main\n");
        assert!(found().is_err());
        write("sources.list.d/1.list", "deb http://trixie.example/debian trixie main\n");
        assert_eq!(found().unwrap(), "http://trixie.example/debian");
        write(
            "sources.list.d/2.sources",
            "Types: deb\nURIs: http://ours.example/debian\nSuites: bookworm\nComponents: main",
        );
        assert_eq!(found().unwrap(), "http://ours.example/debian");
    }
}
