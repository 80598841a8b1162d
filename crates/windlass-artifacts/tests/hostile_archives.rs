//! Archives that must not be unpacked, and the few good ones that look a little like them.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed, in its helpers too")]

use std::error::Error;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;
use tar::{EntryType, Header};
use windlass_artifacts::archive::{
    ArchiveError, Content, ExtractedKind, FileMode, Limits, Refusal, Writer, extract, inspect,
};

const LIMITS: Limits = Limits { bytes: 8 << 20, members: 50, ratio: 100, path_length: 300 };

/// One member with whatever is asked for, written past every check of the library.
fn member(kind: EntryType, name: &str, link: &str, content: &[u8]) -> Vec<u8> {
    sized(kind, name, link, content, content.len() as u64)
}

fn sized(kind: EntryType, name: &str, link: &str, content: &[u8], size: u64) -> Vec<u8> {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(0o644);
    header.set_size(size);
    let old = header.as_old_mut();
    old.name[..name.len()].copy_from_slice(name.as_bytes());
    old.linkname[..link.len()].copy_from_slice(link.as_bytes());
    header.set_cksum();
    let mut bytes = header.as_bytes().to_vec();
    bytes.extend_from_slice(content);
    bytes.resize(bytes.len().next_multiple_of(512), 0);
    bytes
}

fn file(name: &str) -> Vec<u8> {
    member(EntryType::Regular, name, "", b"content")
}

fn pax(key: &str, value: &str) -> Vec<u8> {
    member(EntryType::XHeader, "pax", "", &record(key, value))
}

fn record(key: &str, value: &str) -> Vec<u8> {
    let rest = format!(" {key}={value}\n");
    let mut length = rest.len() + 1;
    while length.to_string().len() + rest.len() != length {
        length += 1;
    }
    format!("{length}{rest}").into_bytes()
}

fn archive(members: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = members.concat();
    bytes.extend_from_slice(&[0; 1024]);
    bytes
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn flip(mut bytes: Vec<u8>, at: usize) -> Vec<u8> {
    bytes[at] ^= 1;
    bytes
}

struct Case {
    what: &'static str,
    bytes: Vec<u8>,
    member: &'static str,
    refused: fn(&Refusal) -> bool,
}

fn case(what: &'static str, bytes: Vec<u8>, member: &'static str, refused: fn(&Refusal) -> bool) -> Case {
    Case { what, bytes, member, refused }
}

fn names() -> Vec<Case> {
    use Refusal::*;
    let long_gnu = [member(EntryType::GNULongName, "././@LongLink", "", b"../escape\0"), file("short")].concat();
    vec![
        case("an absolute path", archive(&[file("/etc/passwd")]), "/etc/passwd", |r| *r == AbsolutePath),
        case("a climbing path", archive(&[file("../escape")]), "../escape", |r| *r == ParentComponent),
        case("climbing in the middle", archive(&[file("a/../../b")]), "a/../../b", |r| *r == ParentComponent),
        case("climbing at the end", archive(&[file("a/..")]), "a/..", |r| *r == ParentComponent),
        case("an empty component", archive(&[file("a//b")]), "a//b", |r| *r == EmptyComponent),
        case("a dot component", archive(&[file("a/./b")]), "a/./b", |r| *r == EmptyComponent),
        case("an empty name", archive(&[file("")]), "", |r| *r == EmptyComponent),
        case("a newline in a name", archive(&[file("a\nb")]), "a\\nb", |r| *r == ControlCharacter),
        case("an escape sequence in a name", archive(&[file("\u{1b}[2Ja")]), "[2Ja", |r| *r == ControlCharacter),
        case("NUL in a PAX path", archive(&[pax("path", "a\0/b"), file("x")]), "a", |r| *r == ControlCharacter),
        case("a file that ends like a directory", archive(&[file("a/")]), "a/", |r| *r == FileWithSlash),
        case("the same path twice", archive(&[file("a"), file("a")]), "a", |r| *r == Duplicate),
        case("the same path in another form", archive(&[file("a"), file("./a")]), "./a", |r| *r == Duplicate),
        case("a PAX path that climbs", archive(&[pax("path", "../../x"), file("ok")]), "../../x", |r| {
            *r == ParentComponent
        }),
        case("a PAX path that is absolute", archive(&[pax("path", "/x"), file("ok")]), "/x", |r| *r == AbsolutePath),
        case("a GNU long name that climbs", archive(&[long_gnu]), "../escape", |r| *r == ParentComponent),
        case("a long path", archive(&[pax("path", &"d/".repeat(200)), file("ok")]), "d/d/d/", |r| {
            matches!(r, LongPath { .. })
        }),
    ]
}

fn links() -> Vec<Case> {
    use Refusal::*;
    let link = |name, target| member(EntryType::Symlink, name, target, b"");
    let hard = |name, target| member(EntryType::Link, name, target, b"");
    let pax_link = [pax("linkpath", "../../etc"), link("l", "ok")].concat();
    vec![
        case("a link to an absolute path", archive(&[link("l", "/etc")]), "l", |r| matches!(r, LinkOutside { .. })),
        case("a link that climbs out", archive(&[link("a/l", "../../etc")]), "a/l", |r| {
            matches!(r, LinkOutside { .. })
        }),
        case(
            "a link that climbs through a link",
            archive(&[link("p/q/x", "../../a"), link("y", "p/q/x/../..")]),
            "y",
            |r| matches!(r, LinkOutside { .. }),
        ),
        case("a PAX link target that climbs", archive(&[pax_link]), "l", |r| matches!(r, LinkOutside { .. })),
        case("a link to nothing", archive(&[link("l", "")]), "l", |r| matches!(r, LinkOutside { .. })),
        case("a file through a link", archive(&[link("l", "d"), file("l/x")]), "l/x", |r| {
            *r == ThroughMember { through: "l".to_owned() }
        }),
        case("a file through a file", archive(&[file("f"), file("f/x")]), "f/x", |r| matches!(r, ThroughMember { .. })),
        case("a file over a link", archive(&[link("l", "d"), file("l")]), "l", |r| *r == Duplicate),
        case("a hard link out", archive(&[hard("h", "/etc/passwd")]), "h", |r| matches!(r, LinkOutside { .. })),
        case("a hard link that climbs", archive(&[hard("h", "../x")]), "h", |r| matches!(r, LinkOutside { .. })),
        case("a hard link to what is not there", archive(&[hard("h", "x")]), "h", |r| matches!(r, LinkUnknown { .. })),
        case("a hard link to a link", archive(&[link("l", "x"), hard("h", "l")]), "h", |r| {
            matches!(r, LinkUnknown { .. })
        }),
    ]
}

fn kinds() -> Vec<Case> {
    use Refusal::*;
    let special = |kind, name| archive(&[member(kind, name, "", b"")]);
    let global = member(EntryType::XGlobalHeader, "g", "", &record("path", "/etc/passwd"));
    let sparse_pax = [pax("GNU.sparse.realsize", "9999999999"), file("s")].concat();
    vec![
        case("a character device", special(EntryType::Char, "null"), "null", |r| *r == Special { what: "a device" }),
        case("a block device", special(EntryType::Block, "sda"), "sda", |r| *r == Special { what: "a device" }),
        case("a FIFO", special(EntryType::Fifo, "pipe"), "pipe", |r| *r == Special { what: "a FIFO" }),
        case("a sparse file", special(EntryType::GNUSparse, "s"), "s", |r| *r == Special { what: "a sparse file" }),
        case("a kind of no standard", special(EntryType::new(b'V'), "v"), "v", |r| matches!(r, Special { .. })),
        case("a PAX size", archive(&[pax("size", "1"), file("f")]), "pax", |r| {
            *r == ExtendedKey { key: "size".to_owned() }
        }),
        case("a sparse file by PAX", archive(&[sparse_pax]), "pax", |r| matches!(r, ExtendedKey { .. })),
        case("a path for all members", archive(&[global, file("f")]), "g", |r| matches!(r, ExtendedKey { .. })),
        case("a path given twice", archive(&[pax("path", "a"), pax("path", "b"), file("f")]), "pax", |r| {
            matches!(r, Header { .. })
        }),
        case("an extended header for nobody", archive(&[pax("path", "a")]), "pax", |r| matches!(r, Header { .. })),
        case("a directory with content", archive(&[member(EntryType::Directory, "d", "", b"x")]), "d", |r| {
            matches!(r, Header { .. })
        }),
    ]
}

fn sizes() -> Vec<Case> {
    use Refusal::*;
    let whole = archive(&[file("f")]);
    let many: Vec<Vec<u8>> = (0..60).map(|n| file(&format!("f{n}"))).collect();
    let deep: Vec<Vec<u8>> = (0..4).map(|n| pax("path", &format!("{}{n}", "d/".repeat(n + 100)))).collect();
    let deep: Vec<Vec<u8>> = deep.into_iter().flat_map(|header| [header, file("f")]).collect();
    let long_record = member(EntryType::XHeader, "pax", "", &record("comment", &"x".repeat(70_000)));
    let zeros = member(EntryType::Regular, "zeros", "", &vec![0; 4 << 20]);
    vec![
        case("more than the limit says", archive(&[sized(EntryType::Regular, "big", "", b"", 9 << 20)]), "big", |r| {
            matches!(r, TooLarge { .. })
        }),
        case(
            "a size beyond all disks",
            archive(&[sized(EntryType::Regular, "big", "", b"", u64::MAX - 5)]),
            "big",
            |r| matches!(r, TooLarge { .. }),
        ),
        case("too many members", archive(&many), "f50", |r| *r == TooMany { limit: 50 }),
        case("too many implied directories", archive(&deep), "d/d/", |r| *r == TooMany { limit: 50 }),
        case("a long extended header", archive(&[long_record, file("f")]), "pax", |r| matches!(r, Header { .. })),
        case("a decompression bomb", gzip(&archive(&[zeros])), "zeros", |r| *r == Bomb { limit: 100 }),
        case("a bomb after the end", gzip(&[archive(&[file("f")]), vec![0; 4 << 20]].concat()), "", |r| {
            *r == Bomb { limit: 100 }
        }),
        case("a cut in the data", whole[..515].to_vec(), "f", |r| *r == Truncated),
        case("a cut in the header", whole[..100].to_vec(), "", |r| *r == Truncated),
        case("no end marker", whole[..1024].to_vec(), "f", |r| *r == Truncated),
        case("half an end marker", whole[..1536].to_vec(), "f", |r| *r == Truncated),
        case("nothing at all", Vec::new(), "", |r| *r == Truncated),
        case("something after the end", [whole.clone(), b"more".to_vec()].concat(), "", |r| *r == TrailingData),
        case("an archive after the archive", [whole.clone(), whole.clone()].concat(), "", |r| *r == TrailingData),
        case("something after the gzip", [gzip(&whole), b"more".to_vec()].concat(), "", |r| *r == TrailingData),
        case("a second gzip", [gzip(&whole), gzip(&whole)].concat(), "", |r| *r == TrailingData),
        case("a cut gzip", gzip(&whole)[..30].to_vec(), "", |r| *r == Truncated),
        case("a flipped byte in gzip", flip(gzip(&whole), 25), "", |r| {
            matches!(r, DamagedCompression | Header { .. } | Truncated)
        }),
        case(
            "a wrong gzip checksum",
            {
                let g = gzip(&whole);
                let at = g.len() - 8;
                flip(g, at)
            },
            "",
            |r| *r == DamagedCompression,
        ),
        case("a flipped byte in a header", flip(whole, 0), "g", |r| matches!(r, Header { .. })),
    ]
}

/// Everything below a directory, links not followed.
fn everything(dir: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let entry = entry.unwrap();
        found.push(entry.path().display().to_string());
        if entry.file_type().unwrap().is_dir() {
            found.extend(everything(&entry.path()));
        }
    }
    found.sort();
    found
}

#[test]
fn hostile_archives_are_refused_by_name_and_leave_nothing() {
    let cases: Vec<Case> = [names(), links(), kinds(), sizes()].into_iter().flatten().collect();
    assert!(cases.len() >= 15, "{}", cases.len());
    for Case { what, bytes, member, refused } in cases {
        let outside = tempfile::tempdir().unwrap();
        let destination = outside.path().join("destination");
        fs::create_dir(&destination).unwrap();
        let before = everything(outside.path());
        let error = extract(bytes.as_slice(), &LIMITS, &destination).expect_err(what);
        assert!(error.is_trust(), "{what}: {error:?}");
        let refusal = error.refusal().unwrap_or_else(|| panic!("{what}: {error:?}"));
        assert!(refused(refusal), "{what}: {refusal:?}");
        assert!(error.to_string().contains(member), "{what}: {error}");
        assert!(error.source().is_some(), "{what}");
        assert_eq!(everything(outside.path()), before, "{what}");
        let looked = inspect(bytes.as_slice(), &LIMITS).expect_err(what);
        assert_eq!(looked.to_string(), error.to_string(), "{what}");
    }
}

#[test]
fn a_destination_must_be_an_empty_directory_of_ours() {
    let dir = tempfile::tempdir().unwrap();
    let (full, link, plain) = (dir.path().join("full"), dir.path().join("link"), dir.path().join("plain"));
    fs::create_dir(&full).unwrap();
    File::create_in(&full.join("precious"));
    File::create_in(&plain);
    fs::create_dir(dir.path().join("empty")).unwrap();
    symlink(dir.path().join("empty"), &link).unwrap();
    for destination in [full.clone(), link, plain, dir.path().join("missing")] {
        let error = extract(archive(&[file("f")]).as_slice(), &LIMITS, &destination).unwrap_err();
        assert!(matches!(error, ArchiveError::UseDestination { .. }) && !error.is_trust(), "{error:?}");
    }
    assert_eq!(fs::read(full.join("precious")).unwrap(), b"precious");
    assert_eq!(fs::read_dir(dir.path().join("empty")).unwrap().count(), 0);
}

struct File;

impl File {
    fn create_in(path: &Path) {
        fs::File::create(path).unwrap().write_all(b"precious").unwrap();
    }
}

#[test]
fn a_reader_that_fails_is_not_the_archives_fault() {
    struct Broken;
    impl Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
            Err(std::io::Error::from_raw_os_error(5))
        }
    }
    let half = archive(&[file("f")]);
    for reader in [Box::new(Broken) as Box<dyn Read>, Box::new(half[..600].chain(Broken))] {
        let error = inspect(reader, &LIMITS).unwrap_err();
        assert!(matches!(error, ArchiveError::ReadArchive { .. }) && !error.is_trust(), "{error:?}");
    }
}

#[test]
fn set_id_bits_and_write_access_for_others_are_dropped() {
    let mut header = Header::new_ustar();
    header.set_path("su").unwrap();
    header.set_mode(0o6777);
    header.set_size(0);
    header.set_cksum();
    let dir = tempfile::tempdir().unwrap();
    let extracted = extract(archive(&[header.as_bytes().to_vec()]).as_slice(), &LIMITS, dir.path()).unwrap();
    assert_eq!(extracted[0].kind, ExtractedKind::File { size: 0, mode: 0o755 });
    assert_eq!(dir.path().join("su").metadata().unwrap().permissions().mode() & 0o7777, 0o755);
}

fn sample() -> Writer {
    let mut writer = Writer::new();
    writer.file("usr/bin/tool", Content::Bytes(b"#!".to_vec()), FileMode::Program).unwrap();
    writer.file("usr/bin/a", Content::Bytes(vec![7; 1000]), FileMode::Data).unwrap();
    writer.file(&format!("{}/end", ["long"; 60].join("/")), Content::Bytes(b"x".to_vec()), FileMode::Data).unwrap();
    writer.symlink("usr/lib/link", "../bin/tool").unwrap();
    writer.directory("var").unwrap();
    writer
}

#[test]
fn what_is_written_reads_back_whole() {
    let mut packed = Vec::new();
    sample().write_tar_gz(&mut packed).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let limits = Limits { members: 200, path_length: 400, ..LIMITS };
    let extracted = extract(packed.as_slice(), &limits, dir.path()).unwrap();
    assert_eq!(fs::read(dir.path().join("usr/bin/tool")).unwrap(), b"#!");
    assert_eq!(fs::read(dir.path().join("usr/lib/link")).unwrap(), b"#!");
    assert_eq!(dir.path().join("usr/bin/tool").metadata().unwrap().permissions().mode() & 0o7777, 0o755);
    assert_eq!(dir.path().join("usr/bin/a").metadata().unwrap().permissions().mode() & 0o7777, 0o644);
    assert!(dir.path().join("var").is_dir());
    let paths: Vec<_> = extracted.iter().map(|member| member.path.as_str()).collect();
    assert!(paths.is_sorted(), "{paths:?}");
    assert_eq!(inspect(packed.as_slice(), &limits).unwrap(), extracted);
}

#[test]
fn the_same_members_in_any_order_are_the_same_bytes() {
    let (mut one, mut two) = (Vec::new(), Vec::new());
    let mut forward = Writer::new();
    let mut backward = Writer::new();
    let names = ["b/c", "a", "b/a", "z/y/x"];
    for name in names {
        forward.file(name, Content::Bytes(name.into()), FileMode::Data).unwrap();
    }
    for name in names.into_iter().rev() {
        backward.file(name, Content::Bytes(name.into()), FileMode::Data).unwrap();
    }
    forward.write_tar_gz(&mut one).unwrap();
    backward.write_tar_gz(&mut two).unwrap();
    assert_eq!(one, two);
    let mut plain = Vec::new();
    forward.write_tar(&mut plain).unwrap();
    let mut entries = tar::Archive::new(plain.as_slice());
    for entry in entries.entries().unwrap() {
        let entry = entry.unwrap();
        let header = entry.header();
        assert_eq!((header.uid().unwrap(), header.gid().unwrap(), header.mtime().unwrap()), (0, 0, 0));
        assert!(matches!(entry.header().entry_type(), EntryType::Regular | EntryType::Directory));
    }
}

#[test]
fn a_writer_takes_no_member_that_a_reader_would_refuse() {
    let add = |path: &str| Writer::new().file(path, Content::Bytes(Vec::new()), FileMode::Data);
    for path in ["/a", "../a", "a/../b", "", ".", "a\0"] {
        assert!(add(path).is_err(), "{path:?}");
    }
    let mut writer = sample();
    assert!(writer.file("usr/bin/tool", Content::Bytes(Vec::new()), FileMode::Data).is_err());
    assert!(writer.file("usr/bin/tool/below", Content::Bytes(Vec::new()), FileMode::Data).is_err());
    assert!(writer.symlink("out", "../x").is_err());
    let mut missing = Writer::new();
    missing.file("a", Content::File("/no/such/file".into()), FileMode::Data).unwrap();
    assert!(matches!(missing.write_tar(Vec::new()), Err(ArchiveError::ReadSource { .. })));
}

#[test]
fn archives_with_a_dot_in_front_are_taken() {
    let root = member(EntryType::Directory, "./", "", b"");
    let comment = member(EntryType::XGlobalHeader, "pax_global_header", "", &record("comment", "0123abcd"));
    let times = pax("mtime", "1700000000.5");
    let dir = tempfile::tempdir().unwrap();
    let bytes = archive(&[comment, root, times, file("./bridge"), member(EntryType::Link, "twin", "./bridge", b"")]);
    let extracted = extract(bytes.as_slice(), &LIMITS, dir.path()).unwrap();
    assert_eq!(extracted[0].path, "bridge");
    assert_eq!(extracted[1].kind, ExtractedKind::HardLink { target: "bridge".to_owned() });
    assert_eq!(fs::read(dir.path().join("twin")).unwrap(), b"content");
}
