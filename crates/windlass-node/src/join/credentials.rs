//! The kubelet's certificate, key and kubeconfig as the kubelet itself would keep them: one file with both, named by its
//! time, and a link that says which is current. The kubelet takes over from there and renews them.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use serde_json::json;
use thiserror::Error;
use time::OffsetDateTime;
use time::format_description::BorrowedFormatItem;
use time::macros::format_description;
use windlass_pki::{Certificate, KeyError, KeySource as _, PkiError, PrivateKey, RandomKeys};
use windlass_spec::yaml::emit;
use windlass_steps::host::{HostError, Mode, make_dir, read_file, sync_dir, write_file};

use crate::facts::Facts;
use crate::places::Places;

const LIMIT: u64 = 1 << 20;
const CURRENT: &str = "kubelet-client-current.pem";
/// A key that is being certified, so that a machine that starts again asks for the same certificate.
const PENDING: &str = "kubelet-client-pending.key";
const KEY_LABEL: &str = "PRIVATE KEY-----";
const NAMED_BY_TIME: &[BorrowedFormatItem<'_>] =
    format_description!("kubelet-client-[year]-[month]-[day]-[hour]-[minute]-[second].pem");

/// Why credentials are not on the disk.
#[derive(Debug, Error)]
pub enum KeepError {
    /// There is no randomness to make a key of.
    #[error("cannot draw a key")]
    DrawKey {
        /// Why not.
        source: PkiError,
    },
    /// A file cannot be read or written.
    #[error("cannot use the kubelet's directory")]
    UseFile {
        /// Why not.
        source: HostError,
    },
    /// The key that was kept is none.
    #[error("cannot understand {}", .path.display())]
    ReadKey {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: KeyError,
    },
    /// The link cannot be made.
    #[error("cannot make {} the current certificate", .path.display())]
    Link {
        /// The file.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
}

/// Whether a certificate for this machine, still valid, is there with its key.
pub fn are_held(places: &Places, facts: &Facts, now: OffsetDateTime) -> bool {
    let bytes = read_file(places.kubelet_pki().join(CURRENT), LIMIT).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let blocks = blocks(&text);
    let certificate = blocks.iter().find_map(|block| Certificate::parse_pem(block.as_bytes()).ok());
    let key = blocks.iter().find(|b| b.contains(KEY_LABEL)).and_then(|b| PrivateKey::parse_pem(b.as_bytes()).ok());
    let (Some(certificate), Some(key)) = (certificate, key) else { return false };
    certificate.public_key() == key.public()
        && certificate.is_valid_at(now)
        && certificate.subject().common_name == format!("system:node:{}", facts.name)
}

/// The key to be certified: the one from an earlier try, or a new one.
pub fn pending_key(places: &Places) -> Result<PrivateKey, KeepError> {
    let path = places.kubelet_pki().join(PENDING);
    if path.exists() {
        let bytes = read_file(&path, LIMIT).map_err(|source| KeepError::UseFile { source })?;
        return PrivateKey::parse_pem(&bytes).map_err(|source| KeepError::ReadKey { path, source });
    }
    let key = RandomKeys::from_os().map_err(|source| KeepError::DrawKey { source })?.key("kubelet-client");
    let written = make_dir(places.kubelet_pki(), Mode::PRIVATE_DIR)
        .and_then(|_| write_file(&path, key.to_pem().expose(), Mode::PRIVATE_FILE));
    written.map_err(|source| KeepError::UseFile { source })?;
    Ok(key)
}

/// Keeps certificate and key as the kubelet's current ones.
pub fn keep(places: &Places, certificate: &str, key: &PrivateKey, now: OffsetDateTime) -> Result<(), KeepError> {
    let folder = places.kubelet_pki();
    let name = now.format(NAMED_BY_TIME).expect("a date and a time have every component of the format");
    let text = format!("{}\n{}", certificate.trim_end(), key.to_pem().expose());
    write_file(folder.join(&name), text, Mode::PRIVATE_FILE).map_err(|source| KeepError::UseFile { source })?;
    link(&folder, &name)?;
    match fs::remove_file(folder.join(PENDING)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(KeepError::Link { path: folder.join(PENDING), source: error })
        }
        _ => Ok(()),
    }
}

/// Points the kubelet at its current certificate, whichever that is, and at the API by its inside name.
pub fn write_kubeconfig(places: &Places, facts: &Facts) -> Result<(), KeepError> {
    let text = kubeconfig(places, facts);
    let path = places.kubeconfig("kubelet");
    write_file(path, text, Mode::PRIVATE_FILE).map_err(|source| KeepError::UseFile { source })
}

fn kubeconfig(places: &Places, facts: &Facts) -> String {
    let current = places.kubelet_pki().join(CURRENT);
    let cluster = &facts.cluster;
    emit(&json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{ "name": cluster, "cluster": {
            "certificate-authority": places.pki("ca.crt"),
            "server": facts.api_server(),
        } }],
        "users": [{ "name": "kubelet", "user": { "client-certificate": current, "client-key": current } }],
        "contexts": [{ "name": "kubelet", "context": { "cluster": cluster, "user": "kubelet" } }],
        "current-context": "kubelet",
    }))
}

/// A link is made beside its final name and renamed, so that it always leads somewhere.
fn link(folder: &Path, name: &str) -> Result<(), KeepError> {
    let trouble = |source| KeepError::Link { path: folder.join(name), source };
    let beside = folder.join(format!(".{CURRENT}.new"));
    match fs::remove_file(&beside) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(trouble(error)),
        _ => {}
    }
    symlink(name, &beside).map_err(trouble)?;
    fs::rename(&beside, folder.join(CURRENT)).map_err(trouble)?;
    sync_dir(folder).map_err(|source| KeepError::UseFile { source })
}

/// The PEM documents of a text, each with its first and last line.
fn blocks(text: &str) -> Vec<String> {
    let mut blocks = Vec::new();
    let mut block: Option<String> = None;
    for line in text.lines() {
        if line.starts_with("-----BEGIN ") {
            block = Some(String::new());
        }
        let Some(lines) = &mut block else { continue };
        lines.push_str(line);
        lines.push('\n');
        if line.starts_with("-----END ") {
            blocks.extend(block.take());
        }
    }
    blocks
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;
    use std::time::Duration;

    use time::macros::datetime;
    use windlass_cloud_api::Role;
    use windlass_pki::signer::self_sign;
    use windlass_pki::{SeededKeys, Signer, Subject, Template, Usages};

    use super::*;

    const NOW: OffsetDateTime = datetime!(2026-11-16 03:04:05 UTC);
    const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);

    fn facts() -> Facts {
        Facts {
            name: "workers-0".into(),
            cluster: "demo-abcde".into(),
            domain: "demo.test".into(),
            role: Role::Worker,
            address: [10, 0, 0, 9].into(),
            etcd_index: None,
        }
    }

    fn certify(key: &PrivateKey, name: &str) -> String {
        let mut keys = SeededKeys::new("ca");
        let ca_key = keys.key("ca");
        let subject = Subject { common_name: "ca".into(), organization: None };
        let ca = self_sign(&subject, &ca_key, keys.serial("ca"), NOW, YEAR).unwrap();
        let template = Template {
            subject: Subject { common_name: name.into(), organization: Some("system:nodes".into()) },
            sans: Vec::new(),
            usages: Usages::Client,
            lifetime: YEAR / 2,
        };
        let signer = Signer::new(ca, ca_key).unwrap();
        signer.sign(&template, key.public(), keys.serial("leaf"), NOW).unwrap().to_pem()
    }

    #[test]
    fn the_same_key_is_asked_for_until_it_is_certified() {
        let dir = tempfile::tempdir().unwrap();
        let places = Places::below(dir.path());
        let key = pending_key(&places).unwrap();
        assert_eq!(pending_key(&places).unwrap(), key);
        assert!(!are_held(&places, &facts(), NOW));
        keep(&places, &certify(&key, "system:node:workers-0"), &key, NOW).unwrap();
        assert!(are_held(&places, &facts(), NOW));
        assert!(!places.kubelet_pki().join(PENDING).exists());
        let current = places.kubelet_pki().join(CURRENT);
        let target = current.read_link().unwrap();
        assert_eq!(target, Path::new("kubelet-client-2026-11-16-03-04-05.pem"));
        assert_eq!(current.metadata().unwrap().mode() & 0o777, 0o600);
        let text = String::from_utf8(read_file(&current, LIMIT).unwrap()).unwrap();
        let labels: Vec<&str> = text.lines().filter(|l| l.starts_with("-----BEGIN")).collect();
        assert_eq!(labels, ["-----BEGIN CERTIFICATE-----", "-----BEGIN PRIVATE KEY-----"]);
    }

    #[test]
    fn what_is_not_this_machines_or_not_valid_any_more_is_not_held() {
        let dir = tempfile::tempdir().unwrap();
        let places = Places::below(dir.path());
        let (key, other) = (pending_key(&places).unwrap(), SeededKeys::new("x").key("x"));
        let mine = certify(&key, "system:node:workers-0");
        let later = NOW + YEAR;
        for (certificate, key, now, held) in [
            (mine.clone(), &key, NOW, true),
            (certify(&key, "system:node:workers-1"), &key, NOW, false),
            (mine.clone(), &other, NOW, false),
            (mine.clone(), &key, later, false),
            (String::new(), &key, NOW, false),
            // A chain: the first is the machine's.
            (format!("{mine}{}", certify(&other, "someone")), &key, NOW, true),
        ] {
            keep(&places, &certificate, key, NOW).unwrap();
            assert_eq!(are_held(&places, &facts(), now), held, "{certificate}");
        }
    }

    #[test]
    fn the_kubeconfig_points_at_the_current_certificate() {
        let text = kubeconfig(&Places::default(), &facts());
        for line in [
            "client-certificate: /var/lib/kubelet/pki/kubelet-client-current.pem",
            "client-key: /var/lib/kubelet/pki/kubelet-client-current.pem",
            "certificate-authority: /etc/kubernetes/pki/ca.crt",
            "server: https://api.internal.demo.test:6443",
        ] {
            assert!(text.contains(line), "{text}");
        }
        assert_eq!(serde_free_context(&text), "kubelet");
    }

    fn serde_free_context(text: &str) -> &str {
        text.lines().find_map(|line| line.strip_prefix("current-context: ")).unwrap()
    }
}
