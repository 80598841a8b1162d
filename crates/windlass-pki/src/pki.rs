//! The whole set of keys and certificates that `prepare` makes: an asset. It is made from a
//! complete spec and, if there was one before, from the previous set, whose keys live on and whose
//! certificates are kept to the byte as long as they say what the table wants.

use time::OffsetDateTime;
use windlass_spec::Secret;
use windlass_spec::complete::CompleteSpec;

use crate::certificate::{Certificate, Kind};
use crate::error::PkiError;
use crate::key::{KeySource, PrivateKey, PublicKey};
use crate::signer::{SignError, Signer, self_sign};
use crate::table::{AUTHORITIES, Authority, AuthorityRow, LEAVES, Leaf, LeafRow, PAIRS, Pair, PairRow};

/// A certificate with its private key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Issued {
    /// What is shown to others.
    pub certificate: Certificate,
    /// What proves it.
    pub key: PrivateKey,
}

/// Every key and certificate that exists before the first machine does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pki {
    // One entry per row of the table, in its order; `make` and `read` see to it.
    authorities: Vec<Issued>,
    pairs: Vec<PrivateKey>,
    leaves: Vec<Issued>,
}

/// The name of a certificate in the set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CertificateName {
    /// An authority's own.
    Authority(Authority),
    /// A leaf.
    Leaf(Leaf),
}

impl From<Authority> for CertificateName {
    fn from(authority: Authority) -> Self {
        CertificateName::Authority(authority)
    }
}

impl From<Leaf> for CertificateName {
    fn from(leaf: Leaf) -> Self {
        CertificateName::Leaf(leaf)
    }
}

/// The name of a private key in the set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyName {
    /// An authority's.
    Authority(Authority),
    /// One without a certificate.
    Pair(Pair),
    /// A leaf's.
    Leaf(Leaf),
}

impl From<Authority> for KeyName {
    fn from(authority: Authority) -> Self {
        KeyName::Authority(authority)
    }
}

impl From<Pair> for KeyName {
    fn from(pair: Pair) -> Self {
        KeyName::Pair(pair)
    }
}

impl From<Leaf> for KeyName {
    fn from(leaf: Leaf) -> Self {
        KeyName::Leaf(leaf)
    }
}

/// A file of the set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PkiFile {
    /// Where it lies, relative to the assets: `pki/ca.crt`.
    pub path: String,
    /// What is in it.
    pub contents: Contents,
}

/// What is in a file of the set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Contents {
    /// A certificate or a public key.
    Public(Vec<u8>),
    /// A private key.
    Secret(Secret<Vec<u8>>),
}

impl Contents {
    /// The bytes themselves, for the one place that writes files.
    pub fn expose(&self) -> &[u8] {
        match self {
            Contents::Public(bytes) => bytes,
            Contents::Secret(bytes) => bytes.expose(),
        }
    }
}

impl Pki {
    /// Makes the set of a cluster. Of a previous set every key is kept, and every certificate that is
    /// valid now and still says what the table wants.
    pub fn make(
        spec: &CompleteSpec,
        previous: Option<&Pki>,
        keys: &mut impl KeySource,
        now: OffsetDateTime,
    ) -> Result<Pki, PkiError> {
        let mut pki = Pki { authorities: Vec::new(), pairs: Vec::new(), leaves: Vec::new() };
        for row in &AUTHORITIES {
            let before = previous.map(|pki| pki.authority(row.authority));
            let issued = make_authority(row, spec, before, keys, now);
            pki.authorities.push(issued.map_err(|source| PkiError::IssueCertificate { name: row.name, source })?);
        }
        for row in &PAIRS {
            let before = previous.map(|pki| pki.key(row.pair).clone());
            pki.pairs.push(before.unwrap_or_else(|| keys.key(row.name)));
        }
        for row in &LEAVES {
            let before = previous.map(|pki| pki.leaf(row.leaf));
            let issued = make_leaf(row, spec, pki.authority(row.signer), before, keys, now);
            pki.leaves.push(issued.map_err(|source| PkiError::IssueCertificate { name: row.name, source })?);
        }
        Ok(pki)
    }

    /// An authority's certificate and key.
    pub fn authority(&self, authority: Authority) -> &Issued {
        &self.authorities[authority as usize]
    }

    /// A leaf's certificate and key.
    pub fn leaf(&self, leaf: Leaf) -> &Issued {
        &self.leaves[leaf as usize]
    }

    /// A certificate of the set.
    pub fn certificate(&self, name: impl Into<CertificateName>) -> &Certificate {
        match name.into() {
            CertificateName::Authority(authority) => &self.authority(authority).certificate,
            CertificateName::Leaf(leaf) => &self.leaf(leaf).certificate,
        }
    }

    /// A private key of the set.
    pub fn key(&self, name: impl Into<KeyName>) -> &PrivateKey {
        match name.into() {
            KeyName::Authority(authority) => &self.authority(authority).key,
            KeyName::Pair(pair) => &self.pairs[pair as usize],
            KeyName::Leaf(leaf) => &self.leaf(leaf).key,
        }
    }

    /// An authority ready to sign.
    pub fn signer(&self, authority: Authority) -> Result<Signer, SignError> {
        let Issued { certificate, key } = self.authority(authority).clone();
        Signer::new(certificate, key)
    }

    /// Every file of the set, in the order of the table.
    pub fn files(&self) -> Vec<PkiFile> {
        let authorities = AUTHORITIES.iter().flat_map(|row| issued_files(row.name, self.authority(row.authority)));
        let pairs = PAIRS.iter().flat_map(|row| {
            let key = self.key(row.pair);
            [public(row.name, "pub", key.public().to_pem()), secret(row.name, key)]
        });
        let leaves = LEAVES.iter().flat_map(|row| issued_files(row.name, self.leaf(row.leaf)));
        authorities.chain(pairs).chain(leaves).collect()
    }

    /// Reads the set back from its files; `get` answers with a file's bytes by its path.
    pub fn read(get: impl Fn(&str) -> Option<Vec<u8>>) -> Result<Pki, PkiError> {
        Ok(Pki {
            authorities: AUTHORITIES.iter().map(|row| read_issued(row.name, &get)).collect::<Result<_, _>>()?,
            pairs: PAIRS.iter().map(|row| read_pair(row, &get)).collect::<Result<_, _>>()?,
            leaves: LEAVES.iter().map(|row| read_issued(row.name, &get)).collect::<Result<_, _>>()?,
        })
    }
}

fn make_authority(
    row: &AuthorityRow,
    spec: &CompleteSpec,
    before: Option<&Issued>,
    keys: &mut impl KeySource,
    now: OffsetDateTime,
) -> Result<Issued, SignError> {
    let subject = row.subject(spec);
    if let Some(issued) = before
        && *issued.certificate.subject() == subject
        && issued.certificate.kind() == Kind::Authority
        && issued.certificate.is_valid_at(now)
        && issued.certificate.is_signed_by(&issued.certificate)
    {
        return Ok(issued.clone());
    }
    let key = before.map_or_else(|| keys.key(row.name), |issued| issued.key.clone());
    let certificate = self_sign(&subject, &key, keys.serial(&serial_name(row.name, now)), now, row.lifetime())?;
    Ok(Issued { certificate, key })
}

fn make_leaf(
    row: &LeafRow,
    spec: &CompleteSpec,
    authority: &Issued,
    before: Option<&Issued>,
    keys: &mut impl KeySource,
    now: OffsetDateTime,
) -> Result<Issued, SignError> {
    let template = row.template(spec);
    if let Some(issued) = before
        && issued.certificate.says(&template)
        && issued.certificate.is_valid_at(now)
        && issued.certificate.is_signed_by(&authority.certificate)
        && issued.certificate.not_after() <= authority.certificate.not_after()
    {
        return Ok(issued.clone());
    }
    let key = before.map_or_else(|| keys.key(row.name), |issued| issued.key.clone());
    let signer = Signer::new(authority.certificate.clone(), authority.key.clone())?;
    let certificate = signer.sign(&template, key.public(), keys.serial(&serial_name(row.name, now)), now)?;
    Ok(Issued { certificate, key })
}

/// A certificate that is issued again later gets another serial number, also from a seeded source.
fn serial_name(name: &str, now: OffsetDateTime) -> String {
    format!("{name}@{}", now.unix_timestamp())
}

fn path(name: &str, extension: &str) -> String {
    format!("pki/{name}.{extension}")
}

fn public(name: &str, extension: &str, pem: String) -> PkiFile {
    PkiFile { path: path(name, extension), contents: Contents::Public(pem.into_bytes()) }
}

fn secret(name: &str, key: &PrivateKey) -> PkiFile {
    let pem = key.to_pem().expose().clone().into_bytes();
    PkiFile { path: path(name, "key"), contents: Contents::Secret(Secret::new(pem)) }
}

fn issued_files(name: &str, issued: &Issued) -> [PkiFile; 2] {
    [public(name, "crt", issued.certificate.to_pem()), secret(name, &issued.key)]
}

fn find(path: &str, get: &impl Fn(&str) -> Option<Vec<u8>>) -> Result<Vec<u8>, PkiError> {
    get(path).ok_or_else(|| PkiError::FindFile { path: path.to_owned() })
}

fn read_key(path: &str, get: &impl Fn(&str) -> Option<Vec<u8>>) -> Result<PrivateKey, PkiError> {
    PrivateKey::parse_pem(&find(path, get)?).map_err(|source| PkiError::ReadKey { path: path.to_owned(), source })
}

fn read_issued(name: &str, get: &impl Fn(&str) -> Option<Vec<u8>>) -> Result<Issued, PkiError> {
    let (crt, key_path) = (path(name, "crt"), path(name, "key"));
    let certificate = Certificate::parse_pem(&find(&crt, get)?)
        .map_err(|source| PkiError::ReadCertificate { path: crt.clone(), source })?;
    let key = read_key(&key_path, get)?;
    if certificate.public_key() != key.public() {
        return Err(PkiError::MatchKey { path: crt, key: key_path });
    }
    Ok(Issued { certificate, key })
}

fn read_pair(row: &PairRow, get: &impl Fn(&str) -> Option<Vec<u8>>) -> Result<PrivateKey, PkiError> {
    let (public, key_path) = (path(row.name, "pub"), path(row.name, "key"));
    let shown = PublicKey::parse_pem(&find(&public, get)?)
        .map_err(|source| PkiError::ReadKey { path: public.clone(), source })?;
    let key = read_key(&key_path, get)?;
    if shown != *key.public() {
        return Err(PkiError::MatchKey { path: public, key: key_path });
    }
    Ok(key)
}
