//! Names that become parts of paths and URLs, so that nothing in them may need interpreting.

use std::fmt;

const LENGTH: usize = 64;

/// Why a text is not a name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a {what}: letters, digits and `.`, `_`, `+`, `~`, `-` are wanted, a letter or digit first")]
pub struct NameError {
    what: &'static str,
    text: String,
}

macro_rules! name {
    ($(#[$doc:meta])* $name:ident, $what:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(String);

        impl $name {
            /// Takes a text that is safe as one component of a path or URL.
            pub fn parse(text: &str) -> Result<Self, NameError> {
                match is_plain(text) {
                    true => Ok($name(text.to_owned())),
                    false => Err(NameError { what: $what, text: text.chars().take(LENGTH).collect() }),
                }
            }

            /// The text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

name!(
    /// A kind of machine, as Container Linux named them: `amd64-usr`.
    Board,
    "board"
);
name!(
    /// A version of the operating system: `VERSION_ID` of its `os-release`.
    OsVersion,
    "version of an operating system"
);
name!(
    /// A package of a torcx manifest: `containerd`, `kubelet`.
    PackageName,
    "package"
);
name!(
    /// A version of a package.
    AddonVersion,
    "version of a package"
);

impl Board {
    /// The one that windlass makes addons for.
    pub fn amd64() -> Self {
        Board("amd64-usr".to_owned())
    }
}

fn is_plain(text: &str) -> bool {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"._+~-".contains(&b);
    let first = text.bytes().next().is_some_and(|b| b.is_ascii_alphanumeric());
    first && text.len() <= LENGTH && text.bytes().all(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_safe_in_paths_and_urls() {
        for good in ["12", "base-1", "1520.5.0", "1.36.3", "2.0~rc.1+git"] {
            assert_eq!(OsVersion::parse(good).unwrap().to_string(), good);
        }
        for bad in ["", ".", "..", "../x", "a/b", "-a", "a b", "a\n", "a%2e", "ä", &"1".repeat(65)] {
            assert!(Board::parse(bad).is_err(), "{bad:?}");
        }
    }
}
