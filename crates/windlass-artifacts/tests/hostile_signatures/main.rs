//! Signatures that must not count, each made here for one reason, and a few that must.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed, in its helpers too")]

mod maker;
mod minisign;
mod openpgp;
mod skipped;
