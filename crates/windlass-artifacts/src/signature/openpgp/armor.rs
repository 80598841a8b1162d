//! ASCII armour, read strictly: nothing around it, nothing inside it but headers and base64.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use pgp::packet::{Packet, PacketParser, Signature};

pub(super) const SIGNATURE: &str = "SIGNATURE";
pub(super) const PUBLIC_KEY: &str = "PUBLIC KEY BLOCK";
pub(super) const PRIVATE_KEY: &str = "PRIVATE KEY BLOCK";

/// The bytes of the one block that the text is.
pub(super) fn single_block(text: &str, kind: &str) -> Result<Vec<u8>, &'static str> {
    let mut blocks = blocks(text, kind)?;
    match (blocks.pop(), blocks.is_empty()) {
        (Some(block), true) => Ok(block),
        (Some(_), false) => Err("there is more than one armoured block"),
        (None, _) => Err("there is no armoured block"),
    }
}

/// The bytes of all blocks; between them there is only space.
pub(super) fn blocks(text: &str, kind: &str) -> Result<Vec<Vec<u8>>, &'static str> {
    let begin = format!("-----BEGIN PGP {kind}-----");
    let end = format!("-----END PGP {kind}-----");
    let mut blocks = Vec::new();
    let mut lines = text.lines().map(str::trim_end);
    while let Some(line) = lines.next() {
        if line.is_empty() {
            continue;
        }
        if line != begin {
            return Err(other_start(line));
        }
        let mut content = Vec::new();
        loop {
            match lines.next() {
                Some(line) if line == end => break,
                Some(line) => content.push(line),
                None => return Err("its armour is cut off"),
            }
        }
        blocks.push(body(&content)?);
    }
    Ok(blocks)
}

fn other_start(line: &str) -> &'static str {
    match line {
        "-----BEGIN PGP SIGNED MESSAGE-----" => "it is a clear-signed text, not a detached signature",
        "-----BEGIN PGP MESSAGE-----" => "it is a message, not a detached signature",
        _ if line.starts_with("-----BEGIN PGP ") => "it is an armoured block of another kind",
        _ => "there is something around its armour",
    }
}

fn body(lines: &[&str]) -> Result<Vec<u8>, &'static str> {
    let is_header = |line: &&&str| line.split_once(": ").is_some_and(|(key, _)| !key.is_empty());
    let headers = lines.iter().take_while(is_header).count();
    let lines = match lines.get(headers) {
        Some(&"") => &lines[headers + 1..],
        // A block without headers may lack the empty line in old files; with headers it may not.
        Some(_) if headers == 0 => lines,
        _ => return Err("its armour is damaged"),
    };
    // The checksum at the end detects accidents only, and RFC 9580 tells readers not to insist on it.
    let lines = match lines.split_last() {
        Some((last, rest)) if last.starts_with('=') && last.len() == 5 => rest,
        _ => lines,
    };
    STANDARD.decode(lines.concat()).map_err(|_| "its armour is damaged")
}

/// The signature packets that the bytes are, and nothing but signature packets.
pub(super) fn signatures(bytes: &[u8], limit: usize) -> Result<Vec<Signature>, &'static str> {
    let mut signatures = Vec::new();
    for packet in PacketParser::new(bytes) {
        match packet {
            Ok(Packet::Signature(signature)) => signatures.push(signature),
            Ok(_) => return Err("it holds more than detached signatures"),
            Err(_) => return Err("it is damaged"),
        }
        if signatures.len() > limit {
            return Err("it holds too many signatures");
        }
    }
    Ok(signatures)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(content: &str) -> String {
        format!("-----BEGIN PGP SIGNATURE-----\n{content}-----END PGP SIGNATURE-----\n")
    }

    #[test]
    fn armour_is_read_with_and_without_headers_and_checksum() {
        for content in ["\nAAEC\n", "\nAAEC\n=abcd\n", "Version: 1\nComment: x\n\nAA\nEC\n", "AAEC\r\n"] {
            assert_eq!(single_block(&block(content), SIGNATURE), Ok(vec![0, 1, 2]), "{content:?}");
        }
    }

    #[test]
    fn what_is_not_one_armoured_block_is_refused() {
        let good = block("\nAAEC\n");
        let cases = [
            String::new(),
            good.replace("END PGP SIGNATURE", "END PGP MESSAGE"),
            good.replace("AAEC", "AA!C"),
            good.replace("AAEC", "AAE"),
            format!("hello\n{good}"),
            format!("{good}hello\n"),
            format!("{good}{good}"),
            block("Version: 1\nAAEC\n"),
            good.trim_end().trim_end_matches('-').to_owned(),
        ];
        for text in cases {
            assert!(single_block(&text, SIGNATURE).is_err(), "{text:?}");
        }
    }
}
