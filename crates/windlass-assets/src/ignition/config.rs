//! The format itself, as much of Ignition's spec 3.3 as windlass writes.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

/// How a data URL of base64 begins.
const ENCODED: &str = "data:;base64,";

/// An Ignition config.
#[derive(Serialize)]
pub(super) struct Config {
    ignition: Header,
    #[serde(skip_serializing_if = "Storage::is_empty")]
    storage: Storage,
    #[serde(skip_serializing_if = "Systemd::is_empty")]
    systemd: Systemd,
}

#[derive(Serialize)]
struct Header {
    version: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    config: Option<Merge>,
    #[serde(skip_serializing_if = "Option::is_none")]
    security: Option<Security>,
}

#[derive(Serialize)]
struct Merge {
    merge: Vec<Source>,
}

#[derive(Serialize)]
struct Source {
    source: String,
    #[serde(rename = "httpHeaders", skip_serializing_if = "Vec::is_empty")]
    http_headers: Vec<HttpHeader>,
}

#[derive(Serialize)]
struct HttpHeader {
    name: &'static str,
    value: String,
}

#[derive(Serialize)]
struct Security {
    tls: Tls,
}

#[derive(Serialize)]
struct Tls {
    #[serde(rename = "certificateAuthorities")]
    certificate_authorities: Vec<Source>,
}

#[derive(Default, Serialize)]
struct Storage {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    directories: Vec<Directory>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    files: Vec<FileEntry>,
}

impl Storage {
    fn is_empty(&self) -> bool {
        self.directories.is_empty() && self.files.is_empty()
    }
}

#[derive(Serialize)]
struct Directory {
    path: String,
    mode: u32,
}

/// A file that Ignition writes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FileEntry {
    /// Where.
    pub path: String,
    /// Whether it replaces what is there.
    pub overwrite: bool,
    /// With which permissions; JSON has no octal, so this reads as decimal.
    pub mode: u32,
    /// What is in it, as a data URL.
    pub contents: Contents,
}

/// The contents of a [`FileEntry`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Contents {
    /// A data URL.
    pub source: String,
}

#[derive(Default, Serialize)]
struct Systemd {
    units: Vec<UnitEntry>,
}

impl Systemd {
    fn is_empty(&self) -> bool {
        self.units.is_empty()
    }
}

/// A unit that Ignition writes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct UnitEntry {
    /// Its name.
    pub name: String,
    /// Whether it is enabled; a unit without an `[Install]` part says nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// Its text; a unit of the machine's own system has it already.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub contents: String,
}

impl Config {
    pub(super) fn new() -> Self {
        let header = Header { version: "3.3.0", config: None, security: None };
        Config { ignition: header, storage: Storage::default(), systemd: Systemd::default() }
    }

    /// Merges another config from a URL, with a bearer token if that is wanted.
    pub(super) fn merge(mut self, source: String, token: Option<&str>) -> Self {
        let header = |t: &str| HttpHeader { name: "Authorization", value: format!("Bearer {t}") };
        let http_headers = token.map(header).into_iter().collect();
        let merge = self.ignition.config.get_or_insert(Merge { merge: Vec::new() });
        merge.merge.push(Source { source, http_headers });
        self
    }

    /// Trusts an authority for the sources above.
    pub(super) fn trust(mut self, certificate: &str) -> Self {
        let authority = Source { source: data_url(certificate.as_bytes()), http_headers: Vec::new() };
        self.ignition.security = Some(Security { tls: Tls { certificate_authorities: vec![authority] } });
        self
    }

    pub(super) fn directory(mut self, path: &str, mode: u32) -> Self {
        self.storage.directories.push(Directory { path: path.to_owned(), mode });
        self
    }

    pub(super) fn file(self, path: impl Into<String>, contents: impl AsRef<[u8]>) -> Self {
        self.file_with_mode(path, contents, 0o600)
    }

    pub(super) fn file_with_mode(mut self, path: impl Into<String>, contents: impl AsRef<[u8]>, mode: u32) -> Self {
        let contents = Contents { source: data_url(contents.as_ref()) };
        self.storage.files.push(FileEntry { path: path.into(), overwrite: true, mode, contents });
        self
    }

    /// A file whose contents the platform fills in: in clear, so that the slot can be found, and what goes into it needs
    /// no quoting in a URL.
    pub(super) fn slot(mut self, path: &str, slot: &str) -> Self {
        let contents = Contents { source: format!("data:,{slot}") };
        self.storage.files.push(FileEntry { path: path.to_owned(), overwrite: true, mode: 0o600, contents });
        self
    }

    /// The same for what needs quoting in a URL: the platform fills it in as base64.
    pub(super) fn encoded_slot(mut self, path: &str, slot: &str) -> Self {
        let contents = Contents { source: format!("{ENCODED}{slot}") };
        self.storage.files.push(FileEntry { path: path.to_owned(), overwrite: true, mode: 0o600, contents });
        self
    }

    /// Enables a unit that the machine's own system has.
    pub(super) fn enable(self, name: &str) -> Self {
        self.unit(name, "", Some(true))
    }

    pub(super) fn unit(mut self, name: impl Into<String>, text: &str, enabled: Option<bool>) -> Self {
        self.systemd.units.push(UnitEntry { name: name.into(), enabled, contents: text.to_owned() });
        self
    }

    pub(super) fn to_text(&self) -> String {
        serde_json::to_string(self).expect("texts and numbers have a JSON form") + "\n"
    }
}

/// Bytes as a data URL.
pub(super) fn data_url(bytes: &[u8]) -> String {
    format!("{ENCODED}{}", STANDARD.encode(bytes))
}

/// What a data URL of a [`FileEntry`] holds, if windlass wrote it.
pub fn contents_of(entry: &FileEntry) -> Option<Vec<u8>> {
    let encoded = entry.contents.source.strip_prefix(ENCODED)?;
    STANDARD.decode(encoded).ok()
}
