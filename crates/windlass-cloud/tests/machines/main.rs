//! The whole cloud on real machines, driven from outside: the daemon as people start it, asked over its socket. Each test
//! has a daemon of its own with its own directories; they take turns, because each may look at the whole host.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed, in its helpers too")]
#![expect(clippy::print_stderr, reason = "seeds and times are for whoever runs the tests")]

mod apart;
#[path = "../machine/artifact.rs"]
mod artifact;
mod boots;
mod cloud;
mod fencing;
mod kills;
mod processes;
mod services;
mod traces;
