//! The dashboard over HTTP, against an API server that the test is.

#![expect(clippy::unwrap_used, reason = "a test stops where it cannot go on")]

mod browser;
mod cluster;
mod fake;
mod http;
mod serve;
