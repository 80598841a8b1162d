//! The kernel's table of mounts, as `/proc/<pid>/mountinfo` tells it. Names in it may hold anything: spaces, tabs, line
//! breaks and backslashes come as octal escapes, and the optional fields in the middle vary in number.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// One mount.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mount {
    /// The device of the file system, as `major:minor`.
    pub device: String,
    /// What part of the file system is mounted; for a pinned namespace `net:[4026532000]` or the like.
    pub root: PathBuf,
    /// Where it is mounted.
    pub target: PathBuf,
    /// The type of the file system; `nsfs` for a pinned namespace.
    pub kind: String,
    /// What the file system is on: a device, a path, or a mere word.
    pub source: PathBuf,
}

impl Mount {
    /// Whether it is a namespace that was bound to a file to keep it.
    pub fn is_pin(&self) -> bool {
        self.kind == "nsfs"
    }
}

/// The mounts of our own mount namespace, in the order in which they were made.
pub fn own() -> io::Result<Vec<Mount>> {
    of(Path::new("/proc/self/mountinfo"))
}

/// The mounts that a process sees; `path` is its `mountinfo`.
pub fn of(path: &Path) -> io::Result<Vec<Mount>> {
    parse(&fs::read(path)?).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "a line is not a mount"))
}

/// Reads a whole `mountinfo`; nothing if a line of it cannot be understood, because half a table is worse than none.
pub fn parse(table: &[u8]) -> Option<Vec<Mount>> {
    table.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).map(parse_line).collect()
}

fn parse_line(line: &[u8]) -> Option<Mount> {
    let mut fields = line.split(|byte| *byte == b' ');
    let device = text(fields.nth(2)?)?;
    let (root, target) = (path(fields.next()?), path(fields.next()?));
    let _options = fields.next()?;
    fields.by_ref().find(|field| *field == b"-")?;
    let kind = text(fields.next()?)?;
    let source = path(fields.next()?);
    Some(Mount { device, root, target, kind, source })
}

fn text(field: &[u8]) -> Option<String> {
    String::from_utf8(field.to_vec()).ok()
}

fn path(field: &[u8]) -> PathBuf {
    PathBuf::from(OsString::from_vec(unescape(field)))
}

/// Turns `\040` back into a space, and so on; a backslash that begins no octal number stays.
fn unescape(field: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(field.len());
    let mut rest = field;
    while let [first, after @ ..] = rest {
        match octal(rest) {
            Some(byte) => {
                plain.push(byte);
                rest = &rest[4..];
            }
            None => {
                plain.push(*first);
                rest = after;
            }
        }
    }
    plain
}

fn octal(field: &[u8]) -> Option<u8> {
    let [b'\\', a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', ..] = field else { return None };
    Some((a - b'0') << 6 | (b - b'0') << 3 | (c - b'0'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mount(device: &str, root: &str, target: &str, kind: &str, source: &str) -> Mount {
        let (root, target, source) = (root.into(), target.into(), source.into());
        Mount { device: device.to_owned(), root, target, kind: kind.to_owned(), source }
    }

    #[test]
    fn lines_of_every_shape_are_read() {
        let cases: [(&str, Mount); 6] = [
            ("24 1 254:0 / / rw,relatime - ext4 /dev/vda rw", mount("254:0", "/", "/", "ext4", "/dev/vda")),
            (
                "30 24 0:26 / /run rw shared:5 master:1 - tmpfs tmpfs rw,size=1k",
                mount("0:26", "/", "/run", "tmpfs", "tmpfs"),
            ),
            (
                r"31 24 7:0 / /a\040b\011c\012d\134040 rw - ext4 /dev/loop0 rw",
                mount("7:0", "/", "/a b\tc\nd\\040", "ext4", "/dev/loop0"),
            ),
            (
                "32 30 0:4 net:[4026532261] /run/windlass/clusters/a/net rw - nsfs nsfs rw",
                mount("0:4", "net:[4026532261]", "/run/windlass/clusters/a/net", "nsfs", "nsfs"),
            ),
            (r"33 24 0:5 /x\y\9 /m\400 rw - fuse.a a rw", mount("0:5", r"/x\y\9", r"/m\400", "fuse.a", "a")),
            ("34 24 0:6 / /empty rw -  - rw", mount("0:6", "/", "/empty", "", "-")),
        ];
        for (line, want) in &cases {
            assert_eq!(parse(line.as_bytes()), Some(vec![want.clone()]), "{line}");
        }
        let table: String = cases.iter().map(|(line, _)| format!("{line}\n")).collect();
        assert_eq!(parse(table.as_bytes()), Some(cases.into_iter().map(|(_, mount)| mount).collect()));
    }

    #[test]
    fn a_table_with_a_broken_line_is_refused() {
        for bad in ["x", "24 1 254:0 / /", "24 1 254:0 / / rw ext4 /dev/vda rw", "24 1 254:0 / / rw - ext4"] {
            assert_eq!(parse(format!("24 1 254:0 / / rw - ext4 /dev/vda rw\n{bad}\n").as_bytes()), None, "{bad}");
        }
        assert_eq!(parse(b""), Some(Vec::new()));
    }

    #[test]
    fn a_name_that_is_not_text_stays_as_it_is() {
        let table = b"1 1 0:1 / /\xff\\377 rw - tmpfs t rw\n";
        let mounts = parse(table).unwrap();
        assert_eq!(mounts[0].target, PathBuf::from(OsString::from_vec(b"/\xff\xff".to_vec())));
    }

    #[test]
    fn our_own_table_has_a_root() {
        assert!(own().unwrap().iter().any(|mount| mount.target == Path::new("/")));
    }
}
