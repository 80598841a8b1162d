use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use chacha20::ChaCha20Rng;
use chacha20::rand_core::SeedableRng as _;
use windlass_artifacts::signature::minisign::{PublicKey, SigningKey, verify};
use windlass_artifacts::signature::{Form, Reason, SignatureError};

use crate::maker::{DATA, NOW};

fn key(seed: u8) -> SigningKey {
    SigningKey::generate(&mut ChaCha20Rng::from_seed([seed; 32]))
}

/// The signature with one of its lines changed.
fn changed(text: &str, line: usize, change: impl Fn(&str) -> String) -> Vec<u8> {
    let lines: Vec<String> =
        text.lines().enumerate().map(|(at, old)| if at == line { change(old) } else { old.to_owned() }).collect();
    format!("{}\n", lines.join("\n")).into_bytes()
}

fn flip(line: &str, at: usize) -> String {
    let mut bytes = STANDARD.decode(line).unwrap();
    bytes[at] ^= 1;
    STANDARD.encode(bytes)
}

type Refused = fn(&SignatureError) -> bool;

#[test]
fn minisign_signatures_that_must_not_count_are_refused_for_their_reason() {
    let good = key(1).sign("torcx_manifest.json", DATA, NOW).unwrap();
    let other = key(2).sign("torcx_manifest.json", DATA, NOW).unwrap();
    let unreadable: Refused = |e| matches!(e, SignatureError::ReadSignature { form: Form::Minisign, .. });
    let other_data: Refused = |e| matches!(e, SignatureError::VerifyData { .. });
    let in_its_name = changed(&other, 1, |line| {
        let mut bytes = STANDARD.decode(line).unwrap();
        bytes[2..10].copy_from_slice(&STANDARD.decode(good.lines().nth(1).unwrap()).unwrap()[2..10]);
        STANDARD.encode(bytes)
    });
    let old_kind = changed(&good, 1, |line| flip(line, 1).replacen("RU", "RW", 1));
    let cases: Vec<(&str, Option<Vec<u8>>, Refused)> = vec![
        ("missing", None, |e| *e == SignatureError::Missing { form: Form::Minisign }),
        ("empty", Some(Vec::new()), unreadable),
        ("not text", Some(vec![0xff; 40]), unreadable),
        ("by another key", Some(other.clone().into()), |e| matches!(e, SignatureError::MatchKey { .. })),
        ("by another key in its name", Some(in_its_name), other_data),
        ("over other data", Some(key(1).sign("f", b"other", NOW).unwrap().into()), other_data),
        ("with a flipped bit", Some(changed(&good, 1, |line| flip(line, 40))), other_data),
        ("with a flipped bit in the second", Some(changed(&good, 3, |line| flip(line, 40))), other_data),
        ("with another comment", Some(changed(&good, 2, |line| line.replace("torcx", "other"))), other_data),
        (
            "with the second of another key",
            Some(changed(&good, 3, |_| other.lines().nth(3).unwrap().to_owned())),
            other_data,
        ),
        ("of the old kind", Some(old_kind.clone()), |e| !matches!(e, SignatureError::MatchKey { .. })),
        ("of no kind", Some(changed(&good, 1, |line| flip(line, 0))), unreadable),
        ("cut", Some(good.lines().take(3).collect::<Vec<_>>().join("\n").into()), unreadable),
        ("with more lines", Some(format!("{good}more\n").into()), unreadable),
        ("with a short line", Some(changed(&good, 1, |line| line[..40].to_owned())), unreadable),
        ("without its first line", Some(changed(&good, 0, |_| "hello".to_owned())), unreadable),
        (
            "without its trusted comment",
            Some(changed(&good, 2, |line| line.replace("trusted comment: ", ""))),
            unreadable,
        ),
        ("with control characters", Some(changed(&good, 2, |line| format!("{line}\u{1b}[2J"))), unreadable),
        ("too long", Some(format!("untrusted comment: {}\n", "x".repeat(9000)).into()), unreadable),
        ("made tomorrow", Some(key(1).sign("f", DATA, NOW + time::Duration::DAY).unwrap().into()), |e| {
            matches!(e, SignatureError::AcceptSignature { reason: Reason::Future, .. })
        }),
    ];
    for (what, minisig, refused) in cases {
        let error = verify(&key(1).public(), DATA, minisig.as_deref(), NOW).expect_err(what);
        assert!(refused(&error), "a signature {what}: {error:?}");
        assert!(error.is_trust(), "{what}");
    }
}

#[test]
fn a_good_minisign_signature_counts_and_keeps_its_comment() {
    let minisig = key(1).sign("torcx_manifest.json", DATA, NOW).unwrap();
    let signed = verify(&key(1).public(), DATA, Some(minisig.as_bytes()), NOW).unwrap();
    assert_eq!(signed.key_id, key(1).public().id());
    let comment = format!("timestamp:{}\tfile:torcx_manifest.json\thashed", NOW.unix_timestamp());
    assert_eq!(signed.trusted_comment, comment);
    assert_eq!(minisig, key(1).sign("torcx_manifest.json", DATA, NOW).unwrap());
}

/// The example of minisign's own documentation, made by the C program.
#[test]
fn a_signature_by_the_original_program_counts() {
    let key = PublicKey::parse("RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3").unwrap();
    let minisig = "untrusted comment: signature from minisign secret key\n\
        RUQf6LRCGA9i559r3g7V1qNyJDApGip8MfqcadIgT9CuhV3EMhHoN1mGTkUidF/z7SrlQgXdy8ofjb7bNJJylDOocrCo8KLzZwo=\n\
        trusted comment: timestamp:1633700835\tfile:test\tprehashed\n\
        wLMDjy9FLAuxZ3q4NlEvkgtyhrr0gtTu6KC4KBJdITbbOeAi1zBIYo0v4iTgt8jJpIidRJnp94ABQkJAgAooBQ==\n";
    verify(&key, b"test", Some(minisig.as_bytes()), NOW).unwrap();
    assert!(verify(&key, b"Test", Some(minisig.as_bytes()), NOW).is_err());
}

#[test]
fn minisign_keys_survive_their_files_and_damaged_ones_are_refused() {
    let (private, public) = (key(1).to_text(), key(1).public().to_text());
    assert_eq!(SigningKey::parse(&private).unwrap(), key(1));
    assert_eq!(PublicKey::parse(&public).unwrap(), key(1).public());
    let line = public.lines().nth(1).unwrap();
    assert_eq!(PublicKey::parse(line).unwrap(), key(1).public());
    let zero = STANDARD.encode([b"Ed".to_vec(), vec![0; 40]].concat());
    for text in ["", "x", "a\nb\nc\n", &line[..20], &line.replacen("RW", "RU", 1), &zero] {
        assert!(PublicKey::parse(text).is_err(), "{text}");
    }
    for at in [0, 2, 4, 60, 80, 150] {
        let damaged = String::from_utf8(changed(private.expose(), 1, |line| flip(line, at))).unwrap();
        let error = SigningKey::parse(&windlass_spec::Secret::new(damaged)).unwrap_err();
        assert!(!error.to_string().contains("RW"), "{error}");
    }
}

#[test]
fn file_names_cannot_smuggle_lines_into_a_signature() {
    for file in ["", "a\nb", "a\tb"] {
        assert!(key(1).sign(file, DATA, NOW).is_err());
    }
}
