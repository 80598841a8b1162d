//! Progress for people: spinners on a terminal, single lines anywhere else. Both say the same words.

use std::collections::HashMap;
use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

use super::{Event, Kind, Reader};
use crate::step::StepName;

const TICK: Duration = Duration::from_millis(120);

/// The display that suits stderr as it is now.
pub fn progress() -> Box<dyn Reader> {
    let stderr = io::stderr();
    if stderr.is_terminal() {
        Box::new(TerminalProgress::on(MultiProgress::new()))
    } else {
        Box::new(PlainProgress::to(stderr))
    }
}

impl Reader for Box<dyn Reader> {
    fn read(&mut self, event: &Event) -> io::Result<()> {
        self.as_mut().read(event)
    }
}

/// Single lines for logs and pipes: when a step starts, ends, or has another reason to wait.
#[derive(Debug)]
pub struct PlainProgress<W> {
    writer: W,
}

impl<W: Write + Send> PlainProgress<W> {
    /// Writes to this writer from now on.
    pub fn to(writer: W) -> Self {
        Self { writer }
    }
}

impl<W: Write + Send> Reader for PlainProgress<W> {
    fn read(&mut self, event: &Event) -> io::Result<()> {
        let line = format!("{}: {}\n", title(event), words(event));
        self.writer.write_all(line.as_bytes())?;
        self.writer.flush()
    }
}

/// One spinner per running step, with its latest unmet criterion and the time it has taken; a line when it ends.
#[derive(Debug)]
pub struct TerminalProgress {
    screen: MultiProgress,
    running: HashMap<Key, ProgressBar>,
}

type Key = (StepName, Option<String>);

impl TerminalProgress {
    /// Draws on this screen; whoever else writes to the terminal meanwhile does it through the same screen.
    pub fn on(screen: MultiProgress) -> Self {
        Self { screen, running: HashMap::new() }
    }

    fn start(&mut self, key: Key, event: &Event) {
        let spinner = self.screen.add(ProgressBar::new_spinner().with_style(style()));
        spinner.set_prefix(title(event));
        spinner.enable_steady_tick(TICK);
        self.running.insert(key, spinner);
    }

    fn end(&mut self, key: &Key, event: &Event) -> io::Result<()> {
        if let Some(spinner) = self.running.remove(key) {
            spinner.finish_and_clear();
            self.screen.remove(&spinner);
        }
        let mark = if event.kind == Kind::Finished { '✓' } else { '✗' };
        self.screen.println(format!("{mark} {}: {}", title(event), words(event)))
    }
}

impl Reader for TerminalProgress {
    fn read(&mut self, event: &Event) -> io::Result<()> {
        let key = (event.step.clone(), event.machine.clone());
        match event.kind {
            Kind::Started => self.start(key, event),
            Kind::Observed => {
                if let Some(spinner) = self.running.get(&key) {
                    spinner.set_message(words(event));
                }
            }
            Kind::Finished | Kind::Failed => self.end(&key, event)?,
        }
        Ok(())
    }
}

fn style() -> ProgressStyle {
    ProgressStyle::with_template("{spinner} {prefix} {elapsed} {wide_msg:.dim}")
        .expect("the template is a constant that a test parses")
}

fn title(event: &Event) -> String {
    match &event.machine {
        Some(machine) => format!("{} on {machine}", event.step),
        None => event.step.to_string(),
    }
}

fn words(event: &Event) -> String {
    let criterion = event.criterion.as_deref().unwrap_or("a criterion");
    let took = event.took.map(|took| format!(" after {:.1} s", took.as_secs_f64())).unwrap_or_default();
    match (event.kind, event.reason.as_deref().map(one_line)) {
        (Kind::Started, _) => "started".to_owned(),
        (Kind::Observed, None) => format!("{criterion}: yes"),
        (Kind::Observed, Some(reason)) => format!("{criterion}: not yet, {reason}"),
        (Kind::Finished, _) => format!("done{took}"),
        (Kind::Failed, None) => format!("failed{took}"),
        (Kind::Failed, Some(reason)) => format!("failed{took}, {reason}"),
    }
}

fn one_line(text: &str) -> String {
    text.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use indicatif::ProgressDrawTarget;
    use time::macros::datetime;

    use super::super::Subject;
    use super::*;

    fn story() -> Vec<Event> {
        let time = datetime!(2026-11-16 03:00:00 UTC);
        let step = |name, machine: Option<&str>| Subject {
            cluster: "demo".into(),
            step: StepName::new(name),
            machine: machine.map(str::to_owned),
        };
        let (etcd, boot) = (step("form-etcd-quorum", None), step("boot", Some("master-0")));
        vec![
            etcd.started(time),
            boot.started(time),
            etcd.observed(time, "a quorum answers", Some("1 of 3\nmembers".into())),
            boot.failed(time, Duration::from_millis(2_340), "no disk".into()),
            etcd.observed(time, "a quorum answers", None),
            etcd.finished(time, Duration::from_secs(61)),
        ]
    }

    #[test]
    fn plain_progress_is_one_line_per_event() {
        let mut text = Vec::new();
        let mut plain = PlainProgress::to(&mut text);
        for event in story() {
            plain.read(&event).unwrap();
        }
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
    fn a_terminal_shows_a_spinner_for_each_running_step_and_none_for_ended_ones() {
        let mut terminal = TerminalProgress::on(MultiProgress::with_draw_target(ProgressDrawTarget::hidden()));
        let running: Vec<usize> = story()
            .iter()
            .map(|event| {
                terminal.read(event).unwrap();
                terminal.running.len()
            })
            .collect();
        assert_eq!(running, [1, 2, 2, 1, 1, 0]);
    }
}
