//! The command line of windlass: arguments in, an answer on stdout, words for people on stderr, an exit code.
//!
//! This crate is for parsing arguments ([`args::Arguments`]), calling one library function for each command
//! ([`command::run`]) and saying how it ended ([`exit::Exit`], [`exit::Failure`]). It is not for doing
//! anything itself.

pub mod args;
pub mod command;
pub mod exit;
pub mod log;
pub mod reference;
