//! What a fetch tells while it works. Builds and downloads report here; the command line makes bars or JSON lines of it.

use std::fmt;
use std::time::Duration;

use serde::Serialize;

use crate::cache::Waiting;

/// One piece of news about one release.
#[derive(Debug, Clone, PartialEq)]
pub struct Progress {
    /// Which one: `etcd 3.6.16`.
    pub what: String,
    /// What happened to it.
    pub happened: Happened,
}

impl Progress {
    /// Something to read about one artifact.
    pub fn said(what: impl Into<String>, text: impl Into<String>) -> Self {
        Progress { what: what.into(), happened: Happened::Line(text.into()) }
    }
}

/// What can happen to a release while it is fetched.
#[derive(Debug, Clone, PartialEq)]
pub enum Happened {
    /// Another run is at it.
    Waiting(Waiting),
    /// It is in the cache already.
    Present,
    /// Work on it begins.
    Started {
        /// How it is got.
        way: Way,
    },
    /// Something a person may want to read while waiting.
    Line(String),
    /// One of very many such lines: worth a glance on a terminal, noise in a log.
    Detail(String),
    /// Another package is being compiled.
    Compiling {
        /// What it is for.
        binary: String,
        /// How many were begun so far.
        done: usize,
        /// How many the binary is made of. What Go has in its cache is not compiled, so that the count may end before.
        of: usize,
    },
    /// A part of a download is here.
    Received {
        /// Bytes so far.
        got: u64,
        /// Bytes in all, if the server said.
        total: Option<u64>,
    },
    /// It is in the cache now.
    Finished {
        /// Since it was started.
        took: Duration,
    },
}

/// How a release is got.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Way {
    /// Built from its source.
    Build,
    /// Downloaded.
    Download,
    /// Made from what is in the cache.
    Make,
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Way::Build => "build",
            Way::Download => "download",
            Way::Make => "make",
        })
    }
}

/// Whoever wants to know.
pub type Observer<'a> = &'a (dyn Fn(Progress) + Send + Sync);

/// Tells an observer about one release.
#[derive(Clone, Copy)]
pub(crate) struct Teller<'a> {
    pub(crate) what: &'a str,
    pub(crate) observer: Observer<'a>,
}

impl Teller<'_> {
    pub(crate) fn tell(&self, happened: Happened) {
        (self.observer)(Progress { what: self.what.to_owned(), happened });
    }

    pub(crate) fn line(&self, text: impl Into<String>) {
        self.tell(Happened::Line(text.into()));
    }
}
