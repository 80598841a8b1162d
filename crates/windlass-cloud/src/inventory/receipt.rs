//! What is handed out after a removal: what there was, what was taken away, and what is left and why.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{Inventory, Item};

/// The proof of a removal. It is clean only if a second look found nothing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Receipt {
    /// What there was.
    pub before: Inventory,
    /// What is gone.
    pub removed: Vec<Removed>,
    /// What a second look found, and what could not be looked at.
    pub left: Vec<Left>,
}

/// One thing that is gone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Removed {
    /// What it was.
    pub what: Item,
    /// How long it took, in seconds.
    pub took: f64,
}

/// One thing that is not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Left {
    /// What it is, in words.
    pub what: String,
    /// Why it is still there.
    pub why: String,
}

impl Receipt {
    /// Whether nothing is left.
    pub fn is_clean(&self) -> bool {
        self.left.is_empty()
    }
}

impl fmt::Display for Left {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what, self.why)
    }
}
