//! Writing down at which port of this host the API is: in `metadata.json`, and in the user's kubeconfig.

use std::path::Path;

use windlass_assets::lock::{Lock, digest};
use windlass_steps::host::{HostError, Mode, read_file, write_file};

use crate::metadata::{self, Metadata};

const KUBECONFIG: &str = "auth/kubeconfig";
const LOCK: &str = "assets.lock";
const LIMIT: u64 = 4 << 20;
const SERVER: &str = "https://127.0.0.1:";

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Writes the port into both files. What is windlass' own work stays known as such; a user's edit stays an edit.
pub(super) fn settle(directory: &Path, port: u16) -> Result<(), Failure> {
    change(directory, metadata::PATH, |text| {
        let known: Metadata = serde_json::from_str(text)?;
        let changed = Metadata { api_port: Some(port), ..known };
        Ok(serde_json::to_string_pretty(&changed)? + "\n")
    })?;
    change(directory, KUBECONFIG, |text| Ok(with_port(text, port)))
}

fn change(directory: &Path, name: &str, change: impl FnOnce(&str) -> Result<String, Failure>) -> Result<(), Failure> {
    let path = directory.join(name);
    let old = String::from_utf8(read_file(&path, LIMIT)?)?;
    let new = change(&old)?;
    if new == old {
        return Ok(());
    }
    note(directory, name, &old, &new)?;
    Ok(write_file(&path, new, Mode::PRIVATE_FILE)?)
}

/// Tells the lock what is about to be written, if what is there is known to it.
fn note(directory: &Path, name: &str, old: &str, new: &str) -> Result<(), Failure> {
    let path = directory.join(LOCK);
    let bytes = match read_file(&path, LIMIT) {
        Err(HostError::ReadFile { .. }) => return Ok(()),
        read => read?,
    };
    let mut lock = Lock::parse(&bytes)?;
    if lock.files.get(name) == Some(&digest(old.as_bytes())) {
        lock.files.insert(name.to_owned(), digest(new.as_bytes()));
        write_file(&path, lock.to_text(), Mode::PRIVATE_FILE)?;
    }
    Ok(())
}

/// The kubeconfig with another port of this host.
fn with_port(text: &str, port: u16) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(SERVER) {
        out.push_str(before);
        out.push_str(&format!("{SERVER}{port}"));
        rest = after.trim_start_matches(|c: char| c.is_ascii_digit());
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_port_of_this_host_is_changed() {
        for (text, want) in [
            ("server: https://127.0.0.1:6443\nname: a", "server: https://127.0.0.1:7000\nname: a"),
            ("server: 'https://127.0.0.1:6443'", "server: 'https://127.0.0.1:7000'"),
            ("server: https://api.demo.test:6443", "server: https://api.demo.test:6443"),
        ] {
            assert_eq!(with_port(text, 7000), want);
        }
    }
}
