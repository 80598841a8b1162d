//! Doing things in order and knowing that they are done: the [`Step`](step::Step)s of a flow, the
//! [`Criterion`](criterion::Criterion)s that tell when one is done, the [`Run`](run::Run) that drives them and keeps the
//! journal. Also the one door to the host, [`host`], for commands and files.
//!
//! It is not for deciding what to do (that is the spec and the assets), and it knows nothing about Kubernetes.

pub mod clock;
pub mod criterion;
pub mod event;
pub mod host;
pub mod interrupt;
pub mod journal;
pub mod report;
pub mod run;
pub mod step;
pub mod wait;
