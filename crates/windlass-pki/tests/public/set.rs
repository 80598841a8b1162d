//! Making, keeping, writing and reading whole sets.

use proptest::prelude::*;
use windlass_pki::table::{AUTHORITIES, LEAVES};
use windlass_pki::{Authority, Certificate, Contents, Leaf, Pki, PkiError, RandomKeys};

use crate::support::{DAY, NOW, files, make, pki, spec};

/// The paths whose bytes differ between two sets.
fn changed(before: &Pki, after: &Pki) -> Vec<String> {
    let after = files(after);
    files(before).into_iter().filter(|(path, bytes)| after[path] != *bytes).map(|(path, _)| path).collect()
}

#[test]
fn the_same_seed_and_moment_give_the_same_bytes() {
    assert_eq!(make(&spec("demo.test"), None, "demo", NOW).files(), pki().files());
}

#[test]
fn another_seed_changes_every_file() {
    let other = make(&spec("demo.test"), None, "other", NOW);
    assert_eq!(changed(pki(), &other).len(), pki().files().len());
}

#[test]
fn random_sets_differ_in_every_file() {
    let random = || Pki::make(&spec("demo.test"), None, &mut RandomKeys::from_os().unwrap(), NOW).unwrap();
    assert_eq!(changed(&random(), &random()).len(), pki().files().len());
}

#[test]
fn a_set_has_these_files_in_this_order() {
    let paths: Vec<String> = pki().files().into_iter().map(|file| file.path).collect();
    let want = "pki/ca.crt pki/ca.key pki/etcd-ca.crt pki/etcd-ca.key pki/front-proxy-ca.crt pki/front-proxy-ca.key \
                pki/machine-config-ca.crt pki/machine-config-ca.key pki/sa.pub pki/sa.key pki/machine-token.pub \
                pki/machine-token.key pki/apiserver.crt pki/apiserver.key pki/apiserver-kubelet-client.crt \
                pki/apiserver-kubelet-client.key pki/apiserver-etcd-client.crt pki/apiserver-etcd-client.key \
                pki/etcd-healthcheck-client.crt pki/etcd-healthcheck-client.key pki/front-proxy-client.crt \
                pki/front-proxy-client.key pki/admin.crt pki/admin.key pki/kube-controller-manager.crt \
                pki/kube-controller-manager.key pki/kube-scheduler.crt pki/kube-scheduler.key pki/checkpointer.crt \
                pki/checkpointer.key pki/machine-config-server.crt pki/machine-config-server.key pki/etcd-signer.crt \
                pki/etcd-signer.key";
    assert_eq!(paths, want.split_whitespace().collect::<Vec<_>>());
}

#[test]
fn private_keys_and_nothing_else_are_secret_files() {
    for file in pki().files() {
        let secret = matches!(file.contents, Contents::Secret(_));
        assert_eq!(secret, file.path.ends_with(".key"), "{}", file.path);
    }
}

#[test]
fn reading_what_was_written_gives_the_same_set() {
    let files = files(pki());
    assert_eq!(Pki::read(|path| files.get(path).cloned()).unwrap(), *pki());
}

#[test]
fn a_missing_file_is_named() {
    let whole = files(pki());
    for missing in whole.keys() {
        let mut files = whole.clone();
        files.remove(missing);
        let error = Pki::read(|path| files.get(path).cloned()).unwrap_err();
        assert!(matches!(&error, PkiError::FindFile { path } if path == missing), "{error}");
    }
}

#[test]
fn a_garbled_file_is_named() {
    let whole = files(pki());
    for garbled in whole.keys() {
        let mut files = whole.clone();
        files.get_mut(garbled).unwrap().truncate(100);
        let error = Pki::read(|path| files.get(path).cloned()).unwrap_err();
        assert!(error.to_string().contains(garbled), "{garbled}: {error}");
    }
}

#[test]
fn a_public_half_of_another_key_is_named() {
    let other = files(&make(&spec("demo.test"), None, "other", NOW));
    for foreign in ["pki/ca.crt", "pki/apiserver.crt", "pki/sa.pub"] {
        let mut files = files(pki());
        files.insert(foreign.to_owned(), other[foreign].clone());
        let error = Pki::read(|path| files.get(path).cloned()).unwrap_err();
        assert!(matches!(&error, PkiError::MatchKey { path, .. } if path == foreign), "{error}");
    }
}

#[test]
fn nothing_changes_when_nothing_has_to() {
    // Another seed: whatever were drawn again would differ.
    let again = make(&spec("demo.test"), Some(pki()), "other", NOW + DAY * 30);
    assert_eq!(changed(pki(), &again), Vec::<String>::new());
    assert_eq!(again, *pki());
}

#[test]
fn another_domain_reissues_the_servers_and_keeps_every_key() {
    let moved = make(&spec("moved.test"), Some(pki()), "other", NOW + DAY);
    assert_eq!(changed(pki(), &moved), ["pki/apiserver.crt", "pki/etcd-signer.crt", "pki/machine-config-server.crt"]);
}

#[test]
fn a_fourth_and_fifth_master_reissue_what_names_the_masters() {
    let mut larger = spec("demo.test");
    larger.spec.instance_groups[0].count = 5;
    let grown = make(&larger, Some(pki()), "other", NOW + DAY);
    assert_eq!(changed(pki(), &grown), ["pki/apiserver.crt", "pki/machine-config-server.crt"]);
}

#[test]
fn a_renamed_cluster_reissues_every_certificate_and_keeps_every_key() {
    let mut renamed = spec("demo.test");
    renamed.metadata.name = windlass_spec::ClusterName::parse("other").unwrap();
    let renamed = make(&renamed, Some(pki()), "other", NOW + DAY);
    let changed = changed(pki(), &renamed);
    assert_eq!(changed.len(), AUTHORITIES.len() + LEAVES.len());
    assert!(changed.iter().all(|path| path.ends_with(".crt")), "{changed:?}");
}

#[test]
fn an_expired_leaf_is_reissued_alone() {
    let expiries = LEAVES.map(|row| (pki().certificate(row.leaf).not_after(), row));
    let (expiry, row) = expiries.into_iter().min_by_key(|(expiry, _)| *expiry).unwrap();
    let renewed = make(&spec("demo.test"), Some(pki()), "other", expiry + DAY / 24);
    assert_eq!(changed(pki(), &renewed), [format!("pki/{}.crt", row.name)]);
    assert!(renewed.certificate(row.leaf).not_after() > expiry + DAY * 200);
}

#[test]
fn an_expired_authority_is_reissued_with_its_key() {
    let late = NOW + DAY * 3651;
    let renewed = make(&spec("demo.test"), Some(pki()), "other", late);
    assert_eq!(renewed.key(Authority::Cluster), pki().key(Authority::Cluster));
    assert!(renewed.certificate(Authority::Cluster).is_valid_at(late));
    assert!(renewed.certificate(Leaf::Admin).is_signed_by(renewed.certificate(Authority::Cluster)));
}

#[test]
fn a_leaf_of_another_authority_is_reissued() {
    let mut mixed = files(pki());
    let other = files(&make(&spec("demo.test"), None, "other", NOW));
    for path in ["pki/ca.crt", "pki/ca.key"] {
        mixed.insert(path.to_owned(), other[path].clone());
    }
    let mixed = Pki::read(|path| mixed.get(path).cloned()).unwrap();
    let mended = make(&spec("demo.test"), Some(&mixed), "third", NOW);
    let of_the_cluster = LEAVES.iter().filter(|row| row.signer == Authority::Cluster);
    for row in of_the_cluster {
        assert!(mended.certificate(row.leaf).is_signed_by(mended.certificate(Authority::Cluster)), "{}", row.name);
    }
    assert_eq!(mended.certificate(Leaf::ApiServerEtcdClient), pki().certificate(Leaf::ApiServerEtcdClient));
}

#[test]
fn no_leaf_outlives_its_authority() {
    let almost = NOW + DAY * 3200;
    let late = make(&spec("demo.test"), Some(pki()), "other", almost);
    for row in &LEAVES {
        let authority = late.certificate(row.signer);
        assert!(late.certificate(row.leaf).not_after() <= authority.not_after(), "{}", row.name);
    }
}

#[test]
fn certificates_start_an_hour_back_and_expire_on_different_days() {
    let pki = pki();
    let authorities = AUTHORITIES.iter().map(|row| pki.certificate(row.authority));
    let certificates: Vec<_> = authorities.chain(LEAVES.iter().map(|row| pki.certificate(row.leaf))).collect();
    assert!(certificates.iter().all(|c| c.not_before() == NOW - DAY / 24));
    let days: std::collections::HashSet<_> = certificates.iter().map(|c| c.not_after().date()).collect();
    assert_eq!(days.len(), certificates.len());
}

proptest! {
    #[test]
    fn a_certificate_with_a_changed_byte_never_panics_nor_passes_as_signed(
        place in any::<prop::sample::Index>(), flip in 1..=u8::MAX,
    ) {
        let mut der = pki().certificate(Leaf::ApiServer).der().to_vec();
        let place = place.index(der.len());
        der[place] ^= flip;
        if let Ok(certificate) = Certificate::parse_der(&der) {
            prop_assert!(!certificate.is_signed_by(pki().certificate(Authority::Cluster)));
        }
    }
}
