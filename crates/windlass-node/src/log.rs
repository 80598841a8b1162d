//! Where tracing goes: to stderr, which the container runtime or the journal keeps.

use std::io;

use tracing::level_filters::LevelFilter;
use tracing_subscriber::Layer as _;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::layer;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::args::LogLevel;

/// Starts logging for one run.
pub fn start(level: LogLevel) {
    let level = match level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    };
    // Our client library calls every request that fails an error of its own; we say what fails once, and why.
    let library = if level >= LevelFilter::DEBUG { level } else { LevelFilter::OFF };
    let targets = Targets::new().with_default(level).with_target("kube_client", library);
    let stderr = layer().with_writer(io::stderr).with_ansi(false).with_filter(targets);
    // A second start, as in tests, keeps the first.
    let _ = tracing_subscriber::registry().with(stderr).try_init();
}
