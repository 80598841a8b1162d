//! The servers that machines speak to before there is a cluster, as programs of their own, over TLS on loopback: what
//! honest machines get, what hostile ones do not, and how many can come at once.

mod crowd;
mod honest;
mod hostile;
mod support;
