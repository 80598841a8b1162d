//! Values that must not be seen: private keys and tokens. A [`Secret`] cannot be displayed, its
//! `Debug` is redacted, and it is not serialisable; only code that asks by name gets at the value.

use std::fmt;

/// A value that no log, journal, plan or error may show.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret<T>(T);

impl<T> Secret<T> {
    /// Marks a value as secret.
    pub fn new(value: T) -> Self {
        Secret(value)
    }

    /// The value itself, for the one place that writes it to a 0600 file or signs with it.
    pub fn expose(&self) -> &T {
        &self.0
    }
}

impl<T> fmt::Debug for Secret<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_output_hides_the_value() {
        let shown = format!("{:?} {:#?}", Secret::new("canary"), Some(Secret::new("canary")));
        assert!(!shown.contains("canary"), "{shown}");
    }
}
