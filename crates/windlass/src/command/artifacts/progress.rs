//! How a fetch is shown: bars on a terminal, JSON lines for programs, plain lines otherwise.

use std::collections::HashMap;
use std::io::{IsTerminal as _, Write as _};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use serde_json::json;
use windlass_artifacts::progress::{Happened, Progress};
use windlass_steps::clock::{Clock as _, SystemClock, rfc3339_millis};

use crate::args::Output;

/// Whoever watches a fetch.
pub(super) struct Display {
    form: Form,
}

enum Form {
    Bars { all: MultiProgress, one: Mutex<HashMap<String, ProgressBar>> },
    Json,
    Lines,
}

impl Display {
    pub(super) fn new(output: &Output) -> Self {
        let form = match output {
            Output::Json => Form::Json,
            Output::Text | Output::File(_) if std::io::stderr().is_terminal() => {
                Form::Bars { all: MultiProgress::new(), one: Mutex::default() }
            }
            Output::Text | Output::File(_) => Form::Lines,
        };
        Display { form }
    }

    pub(super) fn tell(&self, news: &Progress) {
        match &self.form {
            Form::Bars { all, one } => bar(all, &mut one.lock().unwrap_or_else(PoisonError::into_inner), news),
            Form::Json => line(&json_line(news)),
            Form::Lines => {
                if let Some(text) = words(news).filter(|_| belongs_in_a_log(&news.happened)) {
                    line(&format!("{}: {text}", news.what));
                }
            }
        }
    }
}

/// Nobody is left to tell if stderr is closed; the work goes on.
fn line(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// A line for each tenth of a build, and none for each of a thousand modules.
fn belongs_in_a_log(happened: &Happened) -> bool {
    match happened {
        Happened::Detail(_) => false,
        Happened::Compiling { done, of, .. } => done * 10 / of.max(&1) > done.saturating_sub(1) * 10 / of.max(&1),
        Happened::Waiting(_) | Happened::Present | Happened::Started { .. } | Happened::Line(_) => true,
        Happened::Received { .. } | Happened::Finished { .. } => true,
    }
}

fn words(news: &Progress) -> Option<String> {
    match &news.happened {
        Happened::Waiting(waiting) => Some(waiting.to_string()),
        Happened::Present | Happened::Received { .. } => None,
        Happened::Started { way } => Some(format!("{way} started")),
        Happened::Line(text) | Happened::Detail(text) => Some(text.clone()),
        Happened::Compiling { binary, done, of } => Some(format!("{binary}: package {done} of at most {of}")),
        Happened::Finished { took } => Some(format!("done in {:.1} s", took.as_secs_f64())),
    }
}

/// The events' form, with what a fetch adds to it. The cache is no cluster's.
fn json_line(news: &Progress) -> String {
    let time = rfc3339_millis(SystemClock::new().now());
    let mut event = json!({ "time": time, "cluster": "", "step": "fetch-artifacts", "artifact": news.what });
    let (kind, reason) = match &news.happened {
        Happened::Started { way } => ("started", Some(way.to_string())),
        Happened::Finished { .. } => ("finished", None),
        Happened::Present => ("finished", Some("it is in the cache".to_owned())),
        Happened::Waiting(_) | Happened::Line(_) | Happened::Detail(_) => ("observed", words(news)),
        Happened::Compiling { done, of, .. } => {
            event["package"] = (*done).into();
            event["packages"] = (*of).into();
            ("observed", words(news))
        }
        Happened::Received { got, total } => {
            event["got"] = (*got).into();
            event["total"] = (*total).into();
            ("observed", None)
        }
    };
    event["kind"] = kind.into();
    if let Some(reason) = reason {
        event["reason"] = reason.into();
    }
    if let Happened::Finished { took } = &news.happened {
        event["took"] = took.as_secs_f64().into();
    }
    event.to_string()
}

fn bar(all: &MultiProgress, bars: &mut HashMap<String, ProgressBar>, news: &Progress) {
    match &news.happened {
        Happened::Present => {}
        Happened::Finished { took } => {
            if let Some(bar) = bars.remove(&news.what) {
                bar.finish_with_message(format!("done in {:.1} s", took.as_secs_f64()));
            }
        }
        Happened::Received { got, total } => {
            let bar = bars.entry(news.what.clone()).or_insert_with(|| spinner(all, &news.what));
            let total = total.map_or_else(String::new, |total| format!(" of {}", total >> 20));
            bar.set_message(format!("{}{total} MiB", got >> 20));
        }
        Happened::Waiting(_)
        | Happened::Started { .. }
        | Happened::Line(_)
        | Happened::Detail(_)
        | Happened::Compiling { .. } => {
            let bar = bars.entry(news.what.clone()).or_insert_with(|| spinner(all, &news.what));
            bar.set_message(words(news).unwrap_or_default());
        }
    }
}

fn spinner(all: &MultiProgress, what: &str) -> ProgressBar {
    let bar = all.add(ProgressBar::new_spinner());
    let style = ProgressStyle::with_template("{spinner} {prefix:<28} {elapsed:>4} {wide_msg}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
    bar.set_prefix(what.to_owned());
    bar.enable_steady_tick(Duration::from_millis(120));
    bar
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_has_a_line_for_each_tenth_of_a_build_and_none_for_a_module() {
        let compiling = |done, of| Happened::Compiling { binary: "kubernetes".to_owned(), done, of };
        for (of, want) in [(2400, 10), (10, 10), (3, 3), (1, 1)] {
            let told = (1..=of).filter(|done| belongs_in_a_log(&compiling(*done, of))).count();
            assert_eq!(told, want, "{of} packages");
        }
        assert!(!belongs_in_a_log(&Happened::Detail("go: downloading a v1".to_owned())));
        let news = Progress { what: "kubernetes 1.36.3".to_owned(), happened: compiling(12, 2400) };
        assert_eq!(words(&news).as_deref(), Some("kubernetes: package 12 of at most 2400"));
        let event: serde_json::Value = serde_json::from_str(&json_line(&news)).unwrap();
        assert_eq!((&event["package"], &event["packages"]), (&json!(12), &json!(2400)));
    }
}
