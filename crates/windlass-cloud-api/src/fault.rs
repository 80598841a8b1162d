//! Faults that a test or a drill asks for.

use serde::{Deserialize, Serialize};

use crate::Label;

/// Something wrong with the network, until it is taken back.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "kind", deny_unknown_fields)]
pub enum Fault {
    /// Two machines do not reach each other.
    Cut {
        /// One.
        one: Label,
        /// The other.
        other: Label,
    },
    /// These machines reach each other, but none else, nor names, balancers and objects.
    Isolate {
        /// The machines on the far side.
        machines: Vec<Label>,
    },
    /// Some of the packets between two machines are lost.
    Lose {
        /// One.
        one: Label,
        /// The other.
        other: Label,
        /// How many in a hundred.
        percent: u8,
    },
    /// Packets between two machines take longer.
    Delay {
        /// One.
        one: Label,
        /// The other.
        other: Label,
        /// By how much.
        milliseconds: u32,
    },
}
