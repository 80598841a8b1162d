//! `/usr/lib/os-release`, by the rules of os-release(5): assignments with shell quoting, without anything else of a
//! shell.

use std::collections::BTreeMap;

use super::AddonError;

const SIZE_LIMIT: usize = 1 << 16;

/// Which operating system this is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OsRelease {
    values: BTreeMap<String, String>,
}

impl OsRelease {
    /// Reads the file's content; a later assignment wins, as in a shell.
    pub fn parse(bytes: &[u8]) -> Result<Self, AddonError> {
        let wrong = |line, what| AddonError::ParseOsRelease { line, what };
        if bytes.len() > SIZE_LIMIT {
            return Err(wrong(1, "the file is too long"));
        }
        let text = std::str::from_utf8(bytes).map_err(|_| wrong(1, "the file is not UTF-8"))?;
        let mut values = BTreeMap::new();
        for (at, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let (key, value) = line.split_once('=').ok_or_else(|| wrong(at + 1, "an assignment is wanted"))?;
            if !is_key(key) {
                return Err(wrong(at + 1, "the name of a variable is wanted"));
            }
            values.insert(key.to_owned(), unquote(value).map_err(|what| wrong(at + 1, what))?);
        }
        Ok(OsRelease { values })
    }

    /// `ID`; `linux` if there is none, as the manual says.
    pub fn id(&self) -> &str {
        self.value("ID").unwrap_or("linux")
    }

    /// `VERSION_ID`, which rolling distributions do not have.
    pub fn version_id(&self) -> Option<&str> {
        self.value("VERSION_ID")
    }

    /// `BUILD_ID`, which names the image that the system was installed from.
    pub fn build_id(&self) -> Option<&str> {
        self.value("BUILD_ID")
    }

    /// Any other variable; one with an empty value counts as not set.
    pub fn value(&self, key: &str) -> Option<&str> {
        self.values.get(key).map(String::as_str).filter(|value| !value.is_empty())
    }
}

fn is_key(key: &str) -> bool {
    let letter = |b: u8| b.is_ascii_alphabetic() || b == b'_';
    key.bytes().next().is_some_and(letter) && key.bytes().all(|b| letter(b) || b.is_ascii_digit())
}

fn unquote(value: &str) -> Result<String, &'static str> {
    let unquoted = match value.chars().next() {
        Some(quote @ ('"' | '\'')) => {
            let inner = value[1..].strip_suffix(quote).ok_or("a quote is not closed")?;
            if quote == '\'' { single(inner)? } else { double(inner)? }
        }
        _ => plain(value)?,
    };
    if unquoted.contains(char::is_control) { Err("the value has control characters") } else { Ok(unquoted) }
}

fn single(inner: &str) -> Result<String, &'static str> {
    if inner.contains('\'') { Err("quoted parts may not be joined") } else { Ok(inner.to_owned()) }
}

/// Only these four lose their backslash, as in a shell.
fn double(inner: &str) -> Result<String, &'static str> {
    let mut value = String::new();
    let mut chars = inner.chars();
    while let Some(c) = chars.next() {
        match c {
            '"' => return Err("quoted parts may not be joined"),
            '$' | '`' => return Err("nothing is expanded here"),
            '\\' => match chars.next() {
                Some(c @ ('"' | '$' | '\\' | '`')) => value.push(c),
                Some(c) => value.extend(['\\', c]),
                None => return Err("a quote is not closed"),
            },
            c => value.push(c),
        }
    }
    Ok(value)
}

fn plain(value: &str) -> Result<String, &'static str> {
    let special = |c: char| c.is_whitespace() || "\"'$`\\;&|<>()#*?[]~".contains(c);
    if value.contains(special) { Err("the value needs quotes") } else { Ok(value.to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEBIAN: &str = "PRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\nNAME=\"Debian GNU/Linux\"\nVERSION_ID=\"12\"\n\
        VERSION=\"12 (bookworm)\"\nVERSION_CODENAME=bookworm\nID=debian\nHOME_URL=\"https://www.debian.org/\"\n";

    #[test]
    fn a_real_file_is_read() {
        let release = OsRelease::parse(DEBIAN.as_bytes()).unwrap();
        assert_eq!((release.id(), release.version_id(), release.build_id()), ("debian", Some("12"), None));
        assert_eq!(release.value("PRETTY_NAME"), Some("Debian GNU/Linux 12 (bookworm)"));
    }

    #[test]
    fn quoting_follows_the_manual() {
        let cases = [
            ("A=b", "b"),
            ("A='b c'", "b c"),
            ("A=\"b c\"", "b c"),
            ("A=\"\\$\\\\\\`\\\"\"", "$\\`\""),
            ("A=\"\\n\"", "\\n"),
            ("A='\\n$'", "\\n$"),
            ("# x\n\n  A=b  \n", "b"),
            ("A=1\nA=2", "2"),
            ("A=base-1.2_3", "base-1.2_3"),
        ];
        for (text, want) in cases {
            assert_eq!(OsRelease::parse(text.as_bytes()).unwrap().value("A"), Some(want), "{text}");
        }
        assert_eq!(OsRelease::parse(b"").unwrap().id(), "linux");
        assert_eq!(OsRelease::parse(b"ID=\nVERSION_ID=''").unwrap().version_id(), None);
    }

    #[test]
    fn what_a_shell_would_do_is_refused() {
        let cases = [
            "A",
            "=b",
            "1A=b",
            "A B=c",
            "export A=b",
            "A=b c",
            "A=$B",
            "A=`b`",
            "A=\"$B\"",
            "A=\"b",
            "A='b",
            "A='b'c",
            "A=\"b\"\"c\"",
            "A=b;c",
            "A=\"\\",
            "A=\"",
            "A='",
            "A='a\u{7}'",
            "A=b\\",
        ];
        for text in cases {
            assert!(OsRelease::parse(text.as_bytes()).is_err(), "{text}");
        }
        assert!(OsRelease::parse(b"A=\xff").is_err());
        assert!(OsRelease::parse(&vec![b'#'; SIZE_LIMIT + 1]).is_err());
    }
}
