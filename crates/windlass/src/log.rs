//! Where tracing goes: warnings to stderr unless progress is data there, everything of the chosen level to `DIR/logs/windlass.log` once
//! the cluster directory exists.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::PathBuf;
use std::sync::Mutex;

use tracing::Level;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::Layer as _;
use tracing_subscriber::filter::{FilterExt as _, filter_fn};
use tracing_subscriber::fmt::layer;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::args::{Arguments, LogLevel, Output};

/// Starts logging for one run.
pub fn start(arguments: &Arguments) {
    let level = match arguments.common.log_level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    };
    // Progress tells people what happens; stderr gets log lines below warnings only when they are asked for.
    // An error ends the run, and its report says it better than a log line would.
    // Where progress is data, a line of words would be no line of it.
    let shown = match (&arguments.common.output, level) {
        (Output::Json, _) => LevelFilter::OFF,
        (_, level) if level > LevelFilter::INFO => level,
        (_, level) => level.min(LevelFilter::WARN),
    };
    let unreported = filter_fn(|meta| *meta.level() != Level::ERROR);
    let stderr = layer().with_writer(io::stderr).with_ansi(false).without_time().with_filter(unreported.and(shown));
    let file = Mutex::new(LogFile { directory: arguments.common.dir.clone(), file: None });
    let file = layer().with_writer(file).with_ansi(false).with_filter(level);
    // A second start, as in tests, keeps the first.
    let _ = tracing_subscriber::registry().with(stderr).with(file).try_init();
}

/// A log in a directory that may not exist yet; until it does, lines are dropped.
struct LogFile {
    directory: PathBuf,
    file: Option<File>,
}

impl LogFile {
    fn open(&mut self) -> Option<&mut File> {
        if self.file.is_none() && self.directory.join("assets.lock").is_file() {
            let folder = self.directory.join("logs");
            // If the folder is there already, opening the file tells whether it is one.
            let _ = std::fs::DirBuilder::new().mode(0o700).create(&folder);
            let path = folder.join("windlass.log");
            self.file = OpenOptions::new().create(true).append(true).mode(0o600).open(path).ok();
        }
        self.file.as_mut()
    }
}

impl Write for LogFile {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        match self.open() {
            Some(file) => file.write(line),
            None => Ok(line.len()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.as_mut().map_or(Ok(()), Write::flush)
    }
}
