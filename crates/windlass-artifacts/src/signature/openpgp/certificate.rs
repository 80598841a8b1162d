//! A trusted certificate and the question whether one of its keys may sign now. Self-signatures decide, and only
//! those that verify with a strong hash.

use pgp::composed::{SignedPublicKey, SignedPublicSubKey};
use pgp::packet::{Signature, SignatureType};
use pgp::types::{Fingerprint, KeyDetails, SignedUser, Tag};
use time::OffsetDateTime;

use super::{Reason, is_future, policy};

/// A key of a certificate that a signature names as its maker.
pub(super) struct Component<'a> {
    certificate: &'a SignedPublicKey,
    subkey: Option<&'a SignedPublicSubKey>,
}

/// The keys of this certificate that the signature names, by fingerprint if it has any, else by key id.
pub(super) fn components<'a>(certificate: &'a SignedPublicKey, signature: &Signature) -> Vec<Component<'a>> {
    let fingerprints = signature.issuer_fingerprint();
    let ids = signature.issuer_key_id();
    let named = |key: &dyn Named| match fingerprints.is_empty() {
        true => ids.iter().any(|id| key.has_id(id.as_ref())),
        false => fingerprints.iter().any(|fingerprint| key.has_fingerprint(fingerprint)),
    };
    let primary = named(&certificate.primary_key).then_some(Component { certificate, subkey: None });
    let subkeys = certificate.public_subkeys.iter().filter(|subkey| named(&subkey.key));
    primary.into_iter().chain(subkeys.map(|subkey| Component { certificate, subkey: Some(subkey) })).collect()
}

impl Component<'_> {
    pub(super) fn fingerprint(&self) -> Fingerprint {
        self.subkey.map_or_else(|| self.primary_fingerprint(), |subkey| subkey.key.fingerprint())
    }

    pub(super) fn primary_fingerprint(&self) -> Fingerprint {
        self.certificate.primary_key.fingerprint()
    }

    /// Whether it may sign now; answers with the time from which its signatures may be.
    pub(super) fn check(&self, now: OffsetDateTime) -> Result<i64, Reason> {
        let primary = &self.certificate.primary_key;
        policy::check_key(primary)?;
        if self.certificate.details.revocation_signatures.iter().any(|it| it.verify_key(primary).is_ok()) {
            return Err(Reason::KeyRevoked);
        }
        let binding = self.primary_binding(now).ok_or(Reason::KeyUnbound)?;
        check_lifetime(primary, binding, now)?;
        match self.subkey {
            None if binding.key_flags().sign() => Ok(seconds(primary)),
            None => Err(Reason::KeyPurpose),
            Some(subkey) => self.check_subkey(subkey, now),
        }
    }

    /// Whether the signature is by this key, over this data.
    pub(super) fn verifies(&self, signature: &Signature, data: &[u8]) -> bool {
        match self.subkey {
            None => signature.verify(&self.certificate.primary_key, data).is_ok(),
            Some(subkey) => signature.verify(&subkey.key, data).is_ok(),
        }
    }

    fn check_subkey(&self, subkey: &SignedPublicSubKey, now: OffsetDateTime) -> Result<i64, Reason> {
        let primary = &self.certificate.primary_key;
        policy::check_key(&subkey.key)?;
        let of_kind = |kind| {
            let matching = subkey.signatures.iter().filter(move |it| it.typ() == Some(kind));
            matching.filter(|it| it.verify_subkey_binding(primary, &subkey.key).is_ok())
        };
        if of_kind(SignatureType::SubkeyRevocation).next().is_some() {
            return Err(Reason::KeyRevoked);
        }
        let binding = newest(of_kind(SignatureType::SubkeyBinding), now).ok_or(Reason::KeyUnbound)?;
        check_lifetime(&subkey.key, binding, now)?;
        if !binding.key_flags().sign() {
            return Err(Reason::KeyPurpose);
        }
        // The subkey must agree to belong here, else anyone could claim someone else's signatures.
        let back = binding.embedded_signature().ok_or(Reason::KeyUnbound)?;
        policy::check_hash(back)?;
        match back.verify_primary_key_binding(&subkey.key, primary) {
            Ok(()) => Ok(seconds(primary).max(seconds(&subkey.key))),
            Err(_) => Err(Reason::KeyUnbound),
        }
    }

    fn primary_binding(&self, now: OffsetDateTime) -> Option<&Signature> {
        let details = &self.certificate.details;
        let primary = &self.certificate.primary_key;
        let direct = details.direct_signatures.iter();
        let direct = direct.filter(|it| it.typ() == Some(SignatureType::Key) && it.verify_key(primary).is_ok());
        let users = details.users.iter().flat_map(|user| self.certifications(user));
        newest(direct.chain(users), now)
    }

    /// The self-signatures on a user id, unless it was taken back.
    fn certifications<'b>(&self, user: &'b SignedUser) -> Vec<&'b Signature> {
        let primary = &self.certificate.primary_key;
        let own = user.signatures.iter().filter(|it| it.verify_certification(primary, Tag::UserId, &user.id).is_ok());
        let own: Vec<&Signature> = own.collect();
        match own.iter().any(|it| it.typ() == Some(SignatureType::CertRevocation)) {
            true => Vec::new(),
            false => own,
        }
    }
}

/// Keys of different types, compared by name.
trait Named {
    fn has_fingerprint(&self, fingerprint: &Fingerprint) -> bool;
    fn has_id(&self, id: &[u8]) -> bool;
}

impl<K: KeyDetails> Named for K {
    fn has_fingerprint(&self, fingerprint: &Fingerprint) -> bool {
        self.fingerprint() == *fingerprint
    }

    fn has_id(&self, id: &[u8]) -> bool {
        self.legacy_key_id().as_ref() == id
    }
}

/// The newest self-signature that counts; one from the future does not.
fn newest<'a>(signatures: impl Iterator<Item = &'a Signature>, now: OffsetDateTime) -> Option<&'a Signature> {
    let good = signatures.filter(|it| policy::check_hash(it).is_ok() && policy::check_critical(it).is_ok());
    let dated = good.filter_map(|it| Some((it.created()?.as_secs(), it)));
    dated
        .filter(|(created, _)| !is_future(i64::from(*created), now))
        .max_by_key(|(created, _)| *created)
        .map(|(_, it)| it)
}

fn check_lifetime(key: &impl KeyDetails, binding: &Signature, now: OffsetDateTime) -> Result<(), Reason> {
    let created = seconds(key);
    if is_future(created, now) {
        return Err(Reason::KeyNotYet);
    }
    let over = |lifetime: i64, from: i64| lifetime > 0 && from + lifetime <= now.unix_timestamp();
    let key_lifetime = binding.key_expiration_time().map_or(0, |time| i64::from(time.as_secs()));
    let binding_lifetime = binding.signature_expiration_time().map_or(0, |time| i64::from(time.as_secs()));
    let bound = binding.created().map_or(0, |time| i64::from(time.as_secs()));
    if over(key_lifetime, created) || over(binding_lifetime, bound) { Err(Reason::KeyExpired) } else { Ok(()) }
}

fn seconds(key: &impl KeyDetails) -> i64 {
    i64::from(key.created_at().as_secs())
}
