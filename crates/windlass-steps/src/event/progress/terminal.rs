//! Spinners, for a terminal.

use std::collections::HashMap;
use std::io;
use std::time::{Duration, Instant};

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

use super::super::{Event, Kind, Reader};
use super::open::{Open, Unmet};
use super::{Key, key, title, words};

const TICK: Duration = Duration::from_millis(120);
const STEP: &str = "{spinner} {prefix} {elapsed}";
const UNMET: &str = "    {elapsed} {wide_msg:.dim}";

/// One spinner per running step with the time it has taken, and below it a line for each criterion that does not hold,
/// with its reason and for how long; a line when the step ends.
#[derive(Debug)]
pub struct TerminalProgress {
    screen: MultiProgress,
    running: HashMap<Key, Drawn>,
    open: Open,
}

/// What is drawn of one step.
#[derive(Debug)]
struct Drawn {
    spinner: ProgressBar,
    unmet: Vec<(String, ProgressBar)>,
}

impl TerminalProgress {
    /// Draws on this screen; whoever else writes to the terminal meanwhile does it through the same screen.
    pub fn on(screen: MultiProgress) -> Self {
        Self { screen, running: HashMap::new(), open: Open::default() }
    }

    fn take_in(&mut self, event: &Event, now: Instant) -> io::Result<()> {
        self.open.read(event, now);
        let key = key(event);
        match event.kind {
            Kind::Started => self.start(key, event),
            Kind::Observed => self.observe(&key, now),
            Kind::Finished | Kind::Failed => self.end(&key, event)?,
        }
        Ok(())
    }

    fn start(&mut self, key: Key, event: &Event) {
        let spinner = self.screen.add(ProgressBar::new_spinner().with_style(style(STEP)));
        spinner.set_prefix(title(event));
        spinner.enable_steady_tick(TICK);
        self.running.insert(key, Drawn { spinner, unmet: Vec::new() });
    }

    fn observe(&mut self, key: &Key, now: Instant) {
        let Some(drawn) = self.running.get_mut(key) else { return };
        let open: Vec<&Unmet> = self.open.of(key).collect();
        drawn.unmet.retain(|(criterion, line)| {
            let stays = open.iter().any(|unmet| unmet.criterion == *criterion);
            if !stays {
                erase(&self.screen, line);
            }
            stays
        });
        for unmet in open {
            let words = format!("{}: not yet, {}", unmet.criterion, unmet.reason);
            if let Some((_, line)) = drawn.unmet.iter().find(|(criterion, _)| *criterion == unmet.criterion) {
                line.set_message(words);
                continue;
            }
            let line = ProgressBar::new_spinner().with_style(style(UNMET)).with_message(words);
            let line = line.with_elapsed(now.saturating_duration_since(unmet.since));
            let last = drawn.unmet.last().map_or(&drawn.spinner, |(_, line)| line);
            let line = self.screen.insert_after(last, line);
            line.enable_steady_tick(TICK);
            drawn.unmet.push((unmet.criterion.clone(), line));
        }
    }

    fn end(&mut self, key: &Key, event: &Event) -> io::Result<()> {
        if let Some(Drawn { spinner, unmet }) = self.running.remove(key) {
            unmet.iter().for_each(|(_, line)| erase(&self.screen, line));
            erase(&self.screen, &spinner);
        }
        let mark = if event.kind == Kind::Finished { '✓' } else { '✗' };
        self.screen.println(format!("{mark} {}: {}", title(event), words(event)))
    }
}

impl Reader for TerminalProgress {
    fn read(&mut self, event: &Event) -> io::Result<()> {
        self.take_in(event, Instant::now())
    }
}

fn erase(screen: &MultiProgress, bar: &ProgressBar) {
    bar.finish_and_clear();
    screen.remove(bar);
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).expect("the templates are constants that a test parses")
}

#[cfg(test)]
mod tests {
    use indicatif::ProgressDrawTarget;

    use super::super::tests::{etcd, story};
    use super::*;

    fn hidden() -> TerminalProgress {
        TerminalProgress::on(MultiProgress::with_draw_target(ProgressDrawTarget::hidden()))
    }

    /// What stands below the spinners.
    fn lines(terminal: &TerminalProgress) -> Vec<String> {
        let drawn = terminal.running.values().flat_map(|drawn| &drawn.unmet);
        drawn.map(|(_, line)| line.message()).collect()
    }

    #[test]
    fn a_terminal_shows_a_spinner_for_each_running_step_and_none_for_ended_ones() {
        let mut terminal = hidden();
        let running: Vec<usize> = story()
            .iter()
            .map(|event| {
                terminal.read(event).unwrap();
                terminal.running.len()
            })
            .collect();
        assert_eq!(running, [1, 2, 2, 1, 1, 0]);
    }

    #[test]
    fn one_criterion_that_holds_does_not_hide_another_that_does_not() {
        let began = Instant::now();
        let mut terminal = hidden();
        terminal.read(&story()[0]).unwrap();
        let mut after = |seconds, event: Event| {
            terminal.take_in(&event, began + Duration::from_secs(seconds)).unwrap();
            let since: Vec<u64> = terminal.open.of(&key(&event)).map(|unmet| (unmet.since - began).as_secs()).collect();
            (lines(&terminal), since)
        };
        let told = |words: &[&str]| words.iter().map(|words| (*words).to_owned()).collect::<Vec<_>>();
        let (a, b) = ("a quorum answers", "a leader is known");
        assert_eq!(after(1, etcd(a, Some("1 of 3"))), (told(&["a quorum answers: not yet, 1 of 3"]), vec![1]));
        let both = told(&["a quorum answers: not yet, 1 of 3", "a leader is known: not yet, none"]);
        assert_eq!(after(2, etcd(b, Some("none"))), (both, vec![1, 2]));
        assert_eq!(after(3, etcd(b, None)), (told(&["a quorum answers: not yet, 1 of 3"]), vec![1]));
        let other = told(&["a quorum answers: not yet, 2 of 3"]);
        assert_eq!(after(4, etcd(a, Some("2 of 3"))), (other, vec![1]), "another reason is no other beginning");
        let again = told(&["a quorum answers: not yet, 2 of 3", "a leader is known: not yet, lost"]);
        assert_eq!(after(5, etcd(b, Some("lost"))), (again, vec![1, 5]), "what held in between begins anew");
        assert_eq!(after(6, etcd(a, None)).0, told(&["a leader is known: not yet, lost"]));
    }
}
