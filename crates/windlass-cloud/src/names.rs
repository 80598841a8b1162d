//! Names of a cluster: one authoritative zone, kept as a value that is replaced as a whole when it changes, and a
//! server that answers from whichever value is current. Answers live for one second, so that a change is seen at once.

pub mod domain;
pub mod server;
pub mod upstream;
pub mod zone;
