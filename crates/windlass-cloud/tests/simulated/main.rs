//! The cloud over its simulated world: a thousand machines, ten thousand races, and a daemon that is killed at any moment.
#![expect(clippy::unwrap_used, reason = "this file is a test as a whole")]
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "figures and seeds are read by whoever runs it")]

mod disk;
mod groups;
mod killed;
mod requests;
mod support;
mod volumes;
