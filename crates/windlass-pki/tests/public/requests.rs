//! Requests from machines that may lie: a table of hostile ones, and arbitrary bytes.

use proptest::prelude::*;
use windlass_pki::request::{MAX_BYTES, make, proven_key};
use windlass_pki::{Authority, KeySource as _, MachineIdentity, MachineLeaf, PrivateKey, SeededKeys, Subject};
use windlass_spec::MachineName;

use crate::chains::openssl;
use crate::support::{NOW, pki, spec};

fn key() -> PrivateKey {
    SeededKeys::new("requests").key("machine")
}

fn subject() -> Subject {
    Subject { common_name: "system:node:master-0".to_owned(), organization: Some("system:nodes".to_owned()) }
}

fn honest() -> Vec<u8> {
    make(&subject(), &key()).unwrap().into_bytes()
}

fn der(pem: &[u8]) -> Vec<u8> {
    openssl(&["req", "-outform", "DER"], pem).unwrap()
}

/// A request made by `openssl req` with a new key of a kind.
fn foreign(key: &[&str], more: &[&str]) -> Vec<u8> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("key");
    openssl(&[&["genpkey", "-out", path.to_str().unwrap()], key].concat(), b"").unwrap();
    openssl(&[&["req", "-new", "-key", path.to_str().unwrap(), "-subj", "/CN=any"], more].concat(), b"").unwrap()
}

const P256: &[&str] = &["-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"];

#[test]
fn an_honest_request_yields_its_key_in_both_forms() {
    assert_eq!(proven_key(&honest()).unwrap(), *key().public());
    assert_eq!(proven_key(&der(&honest())).unwrap(), *key().public());
    openssl(&["req", "-verify", "-noout"], &honest()).unwrap();
}

#[test]
fn a_request_of_openssl_is_understood() {
    proven_key(&foreign(P256, &[])).unwrap();
}

#[test]
fn requests_without_a_proven_p256_key_are_refused() {
    let honest_der = der(&honest());
    let flipped = |n: usize| {
        let mut bytes = honest_der.clone();
        bytes[n] ^= 1;
        bytes
    };
    let other = der(&make(&subject(), &SeededKeys::new("requests").key("other")).unwrap().into_bytes());
    let point = key().public().to_pem();
    let cases: Vec<(&str, Vec<u8>, &str)> = vec![
        ("empty", vec![], "not a PEM document"),
        ("text", b"hello".to_vec(), "not a PEM document"),
        ("not UTF-8", vec![0xff; 100], "not a PEM document"),
        ("other label", point.into_bytes(), "not a PEM document"),
        ("bare sequence", vec![0x30], "not a PKCS#10"),
        ("endless length", vec![0x30, 0x84, 0xff, 0xff, 0xff, 0xff], "not a PKCS#10"),
        ("truncated DER", honest_der[..honest_der.len() - 1].to_vec(), "not a PKCS#10"),
        ("half a DER", honest_der[..honest_der.len() / 2].to_vec(), "not a PKCS#10"),
        ("trailing bytes", [&honest_der[..], b"\0"].concat(), "not a PKCS#10"),
        ("two requests", [&honest_der[..], &other[..]].concat(), "not a PKCS#10"),
        ("bad signature", flipped(honest_der.len() - 1), "not signed by its own key"),
        ("another name after signing", flipped(honest_der.windows(6).position(|w| w == b"system").unwrap()), "own key"),
        ("one byte too many", vec![0x30; MAX_BYTES + 1], "bytes, at most"),
        ("as long as allowed", vec![0x30; MAX_BYTES], "not a PKCS#10"),
        ("one MB", vec![0x30; 1 << 20], "1048576 bytes"),
        ("one MB of PEM", [&honest()[..], &vec![b'\n'; 1 << 20]].concat(), "bytes, at most"),
        ("RSA 2048", foreign(&["-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048"], &[]), "key cannot be used"),
        (
            "RSA 512",
            foreign(&["-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:512"], &["-sha1"]),
            "key cannot be used",
        ),
        ("P-384", foreign(&["-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-384"], &[]), "key cannot be used"),
        ("P-224", foreign(&["-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-224"], &[]), "key cannot be used"),
        ("Ed25519", foreign(&["-algorithm", "ED25519"], &[]), "key cannot be used"),
        ("SHA-512", foreign(P256, &["-sha512"]), "not signed with ECDSA and SHA-256"),
        ("SHA-1", foreign(P256, &["-sha1"]), "not signed with ECDSA and SHA-256"),
    ];
    for (name, bytes, want) in cases {
        let error = proven_key(&bytes).expect_err(name);
        assert!(error.to_string().contains(want), "{name}: {error}");
    }
}

#[test]
fn a_point_off_the_curve_is_refused() {
    let mut bytes = der(&honest());
    let start = bytes.windows(4).position(|w| w == [0x03, 0x42, 0x00, 0x04]).unwrap();
    bytes[start + 10] ^= 1;
    let error = proven_key(&bytes).unwrap_err();
    assert!(error.to_string().contains("key cannot be used"), "{error}");
}

#[test]
fn whatever_a_request_asks_for_the_certificate_says_what_windlass_computed() {
    let wishes: [(&str, &[&str]); 4] = [
        ("extra names", &["-addext", "subjectAltName=DNS:evil.test,IP:10.9.9.9"]),
        ("an authority", &["-addext", "basicConstraints=critical,CA:TRUE", "-addext", "keyUsage=keyCertSign"]),
        ("the administrator", &["-subj", "/O=system:masters/CN=kubernetes-admin"]),
        ("every usage", &["-addext", "extendedKeyUsage=serverAuth,clientAuth,codeSigning"]),
    ];
    let name = MachineName::parse("master-0").unwrap();
    let machine = MachineIdentity { name, address: [10, 0, 0, 10].into(), etcd_index: Some(0) };
    let template = MachineLeaf::EtcdPeer.template(&spec("demo.test"), &machine).unwrap();
    let signer = pki().signer(Authority::Etcd).unwrap();
    for (wish, arguments) in wishes {
        let key = proven_key(&foreign(P256, arguments)).unwrap_or_else(|error| panic!("{wish}: {error}"));
        let serial = SeededKeys::new("requests").serial(wish);
        let certificate = signer.sign(&template, &key, serial, NOW).unwrap();
        assert!(certificate.says(&template), "{wish}");
        assert_eq!(*certificate.public_key(), key, "{wish}");
        let shown = openssl(&["x509", "-noout", "-text"], certificate.to_pem().as_bytes()).unwrap();
        let shown = String::from_utf8(shown).unwrap();
        for word in ["evil", "10.9.9.9", "CA:TRUE", "masters", "Code Signing"] {
            assert!(!shown.contains(word), "{wish}: {shown}");
        }
    }
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..1000)) {
        prop_assert!(proven_key(&bytes).is_err());
    }

    #[test]
    fn a_sequence_of_arbitrary_bytes_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        let length = (bytes.len() as u16).to_be_bytes();
        prop_assert!(proven_key(&[&[0x30, 0x82], &length[..], &bytes].concat()).is_err());
    }

    #[test]
    fn a_changed_byte_never_panics_nor_passes(
        place in any::<prop::sample::Index>(), byte in any::<u8>(),
    ) {
        static HONEST: std::sync::LazyLock<Vec<u8>> = std::sync::LazyLock::new(|| der(&honest()));
        let mut bytes = HONEST.clone();
        let place = place.index(bytes.len());
        bytes[place] = byte;
        if let Ok(found) = proven_key(&bytes) {
            prop_assert_eq!(&bytes, &*HONEST);
            prop_assert_eq!(found, key().public().clone());
        }
    }
}
