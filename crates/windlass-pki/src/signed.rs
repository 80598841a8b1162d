//! The frame that certificates and requests share: a signed body, an algorithm, a signature. The
//! frame itself is not protected by the signature and the X.509 reader takes it lightly, so that it
//! is read strictly here: one document has exactly one form.

use p256::pkcs8::der::asn1::BitStringRef;
use p256::pkcs8::der::{Decode as _, Error, Reader as _, SliceReader};

/// The algorithm of every signature that windlass makes: ecdsa-with-SHA256, without parameters.
const ECDSA_WITH_SHA256: &[u8] = &[0x30, 0x0a, 0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02];

/// A signed document in its three parts.
pub(crate) struct Signed<'a> {
    /// What is signed, as it was signed.
    pub body: &'a [u8],
    algorithm: &'a [u8],
    /// The signature over the body.
    pub signature: &'a [u8],
}

impl<'a> Signed<'a> {
    /// Takes a document apart; whatever is not exactly such a document gives nothing.
    pub fn parse(bytes: &'a [u8]) -> Option<Self> {
        let mut reader = SliceReader::new(bytes).ok()?;
        let (body, algorithm, signature) = reader.sequence(parts).ok()?;
        reader.finish().ok()?;
        Some(Signed { body, algorithm, signature: signature.as_bytes()? })
    }

    /// Whether the signature is of the one kind that windlass makes.
    pub fn is_ecdsa_with_sha256(&self) -> bool {
        self.algorithm == ECDSA_WITH_SHA256
    }
}

fn parts<'a>(reader: &mut SliceReader<'a>) -> Result<(&'a [u8], &'a [u8], BitStringRef<'a>), Error> {
    Ok((reader.tlv_bytes()?, reader.tlv_bytes()?, BitStringRef::decode(reader)?))
}
