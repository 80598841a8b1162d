//! What machines are for.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What a machine is for; it decides what it may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// The first machine, which goes away once the others stand on their own.
    Bootstrap,
    /// Runs the cluster.
    Master,
    /// Runs what the cluster is for.
    Worker,
}

impl Role {
    /// As it is written.
    pub fn as_str(self) -> &'static str {
        match self {
            Role::Bootstrap => "bootstrap",
            Role::Master => "master",
            Role::Worker => "worker",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
