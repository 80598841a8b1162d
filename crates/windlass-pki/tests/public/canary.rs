//! No key ever shows: not in `Debug`, not in errors, not in listings.

use std::sync::LazyLock;

use windlass_pki::{Authority, Kubeconfig, Leaf, Listing, Pair, Pki, SeededKeys};

use crate::support::{NOW, files, pki, spec};

/// The middle lines of every private key, in PEM.
fn key_lines() -> &'static [String] {
    static LINES: LazyLock<Vec<String>> = LazyLock::new(read_key_lines);
    &LINES
}

fn read_key_lines() -> Vec<String> {
    let keys = files(pki()).into_iter().filter(|(path, _)| path.ends_with(".key"));
    let lines: Vec<String> = keys
        .flat_map(|(_, pem)| String::from_utf8(pem).unwrap().lines().map(str::to_owned).collect::<Vec<_>>())
        .filter(|line| line.len() == 64)
        .collect();
    assert!(lines.len() >= pki().files().len() / 2);
    lines
}

fn assert_clean(what: &str, shown: &str) {
    assert!(!shown.contains("PRIVATE KEY"), "{what}");
    assert!(key_lines().iter().all(|line| !shown.contains(line)), "{what}");
    // The bytes of a PEM document, as a derived `Debug` would show them.
    assert!(!shown.contains("45, 45, 45, 45, 45, 66, 69, 71, 73, 78, 32, 80, 82, 73"), "{what}");
}

#[test]
fn debug_output_shows_no_key() {
    let pki = pki();
    assert_clean("Pki", &format!("{pki:?} {pki:#?}"));
    assert_clean("PkiFile", &format!("{:?}", pki.files()));
    assert_clean("Issued", &format!("{:?}", pki.leaf(Leaf::Admin)));
    assert_clean("PrivateKey", &format!("{:?} {:?}", pki.key(Pair::ServiceAccount), pki.key(Leaf::Admin).to_pem()));
    assert_clean("Signer", &format!("{:?}", pki.signer(Authority::Etcd).unwrap()));
    let kubeconfig = Kubeconfig::Admin.render(&spec("demo.test"), pki);
    assert!(kubeconfig.expose().contains("client-key-data"));
    assert_eq!(format!("{kubeconfig:?}"), "Secret(…)");
    assert!(!format!("{:?}", SeededKeys::new("canary")).contains("canary"));
}

#[test]
fn errors_show_no_key() {
    let whole = files(pki());
    for garbled in whole.keys() {
        let mut files = whole.clone();
        let key = files["pki/ca.key"].clone();
        let bytes = files.get_mut(garbled).unwrap();
        *bytes = [b"x".as_slice(), &key[5..]].concat();
        let error = Pki::read(|path| files.get(path).cloned()).unwrap_err();
        let mut shown = format!("{error} {error:?}");
        let mut cause = std::error::Error::source(&error);
        while let Some(next) = cause {
            shown.push_str(&format!("{next} {next:?}"));
            cause = next.source();
        }
        assert_clean(garbled, &shown);
    }
}

#[test]
fn listings_show_no_key() {
    let listing = Listing::of(pki(), NOW);
    assert_clean("text", &listing.to_text());
    assert_clean("data", &serde_json::to_string(&listing).unwrap());
}
