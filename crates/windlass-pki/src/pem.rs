//! PEM as RFC 7468 has it, by label: a document under another label is not what was asked for.

use p256::pkcs8::LineEnding;
use p256::pkcs8::der::pem::{decode_vec, encode_string};

/// The document as text, 64 characters a line.
pub(crate) fn encode(label: &str, der: &[u8]) -> String {
    encode_string(label, LineEnding::LF, der).expect("a document far below the format's size limit has a PEM form")
}

/// The document under this label, or nothing if the text holds no such document.
pub(crate) fn decode(label: &str, text: &[u8]) -> Option<Vec<u8>> {
    let (found, der) = decode_vec(text).ok()?;
    (found == label).then_some(der)
}
