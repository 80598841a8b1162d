//! The servers that machines speak to before there is a cluster, as programs of their own, over TLS on loopback: what
//! honest machines get, what hostile ones do not, and how many can come at once.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed, in its helpers too")]

mod crowd;
mod honest;
mod hostile;
mod support;
