//! Single lines, for logs and pipes.

use std::io::{self, Write};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use tracing::warn;

use super::super::{Event, Reader};
use super::open::Open;
use super::{title, title_of, words};

/// A criterion that stays unmet is told again this often, because a log has no clock that runs.
const REMIND: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_secs(1);

/// Single lines for logs and pipes: when a step starts, ends, or has another reason to wait.
#[derive(Debug)]
pub struct PlainProgress<W> {
    lines: Arc<Mutex<Lines<W>>>,
    /// Whoever reminds ends when this is dropped.
    reminder: Option<Sender<()>>,
}

#[derive(Debug)]
struct Lines<W> {
    writer: W,
    open: Open,
}

impl<W: Write + Send> PlainProgress<W> {
    /// Writes to this writer from now on.
    pub fn to(writer: W) -> Self {
        Self { lines: Arc::new(Mutex::new(Lines { writer, open: Open::default() })), reminder: None }
    }
}

impl<W: Write + Send + 'static> PlainProgress<W> {
    /// Says again every half a minute what is still not met, while nothing happens.
    pub fn reminding(mut self) -> Self {
        let (keep, ended) = channel::<()>();
        let lines = Arc::clone(&self.lines);
        let remind = move || {
            while ended.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
                if locked(&lines).remind(Instant::now()).is_err() {
                    break;
                }
            }
        };
        match thread::Builder::new().name("progress".to_owned()).spawn(remind) {
            Ok(_) => self.reminder = Some(keep),
            Err(error) => warn!(%error, "nobody is reminded of what is not met"),
        }
        self
    }
}

impl<W: Write + Send> Reader for PlainProgress<W> {
    fn read(&mut self, event: &Event) -> io::Result<()> {
        locked(&self.lines).read(event, Instant::now())
    }
}

impl<W: Write> Lines<W> {
    fn read(&mut self, event: &Event, now: Instant) -> io::Result<()> {
        self.open.read(event, now);
        self.line(&format!("{}: {}", title(event), words(event)))
    }

    fn remind(&mut self, now: Instant) -> io::Result<()> {
        self.open.due(REMIND, now).into_iter().try_for_each(|unmet| {
            let age = now.saturating_duration_since(unmet.since).as_secs();
            let title = title_of(&unmet.step);
            self.line(&format!("{title}: {}: not yet for {age} s, {}", unmet.criterion, unmet.reason))
        })
    }

    fn line(&mut self, line: &str) -> io::Result<()> {
        self.writer.write_all(format!("{line}\n").as_bytes())?;
        self.writer.flush()
    }
}

fn locked<W>(lines: &Mutex<Lines<W>>) -> MutexGuard<'_, Lines<W>> {
    lines.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{etcd, story};
    use super::*;

    #[test]
    fn plain_progress_is_one_line_per_event() {
        let mut text = Vec::new();
        let mut plain = PlainProgress::to(&mut text);
        for event in story() {
            plain.read(&event).unwrap();
        }
        drop(plain);
        let want = "\
form-etcd-quorum: started
boot on master-0: started
form-etcd-quorum: a quorum answers: not yet, 1 of 3; members
boot on master-0: failed after 2.3 s, no disk
form-etcd-quorum: a quorum answers: yes
form-etcd-quorum: done after 61.0 s
";
        assert_eq!(String::from_utf8(text).unwrap(), want);
    }

    #[test]
    fn what_stays_unmet_is_said_again_every_half_a_minute() {
        let began = Instant::now();
        let at = |seconds| began + Duration::from_secs(seconds);
        let mut lines = Lines { writer: Vec::new(), open: Open::default() };
        lines.read(&etcd("a quorum answers", Some("1 of 3")), at(0)).unwrap();
        lines.read(&etcd("a leader is known", Some("none")), at(10)).unwrap();
        lines.read(&etcd("a quorum answers", Some("2 of 3")), at(20)).unwrap();
        lines.writer.clear();
        for second in 21..=75 {
            lines.remind(at(second)).unwrap();
        }
        lines.read(&etcd("a quorum answers", None), at(76)).unwrap();
        lines.remind(at(110)).unwrap();
        let want = "\
form-etcd-quorum: a leader is known: not yet for 30 s, none
form-etcd-quorum: a quorum answers: not yet for 50 s, 2 of 3
form-etcd-quorum: a leader is known: not yet for 60 s, none
form-etcd-quorum: a quorum answers: yes
form-etcd-quorum: a leader is known: not yet for 100 s, none
";
        assert_eq!(String::from_utf8(lines.writer).unwrap(), want);
    }
}
