//! The crate's public face, seen from outside: whole sets, real `openssl`, hostile requests.

#![expect(clippy::unwrap_used, reason = "all of this is tests, also what clippy does not take for one")]

mod canary;
mod chains;
mod requests;
mod set;
mod support;
