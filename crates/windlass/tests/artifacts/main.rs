//! The software that `windlass artifacts fetch` makes, and the command itself, from outside. Ring 2: root, and a cache
//! that is full for the default Kubernetes version; `cargo xtask test` fills it, and `WINDLASS_TEST_CACHE` names another
//! one than windlass' own. That cache is only read: what a test makes goes into a directory of its own.

#![expect(clippy::unwrap_used, reason = "a test stops where it cannot go on")]

mod again;
mod bundle;
mod cached;
mod concurrent;
mod daemon;
mod flags;
mod images;
mod refused;
mod released;
mod server;
mod versions;
