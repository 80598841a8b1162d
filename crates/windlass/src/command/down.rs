//! `windlass down`.

use std::io::{self, BufRead as _, IsTerminal as _, Write};

use windlass_install::down::{DownError, Removed, down};
use windlass_install::logbook::{self, is_launched};
use windlass_install::metadata::Metadata;
use windlass_platform::{Platform as _, Receipt};

use super::launch::{logbook_failure, platform_failure};
use super::place::{block_on, local};
use super::{answer, say};
use crate::args::{Common, Down, Output};
use crate::exit::{Exit, Failure, asset_failure};

pub(super) fn run(
    common: &Common,
    command: &Down,
    out: &mut impl Write,
    err: &mut impl Write,
) -> Result<Exit, Failure> {
    let known = match &command.infra_id {
        Some(id) => Some(("local".to_owned(), id.clone())),
        None => of_directory(common)?,
    };
    let Some((platform, id)) = known else { return nothing(common, out) };
    let directory = command.infra_id.is_none().then_some(common.dir.as_path());
    let platform = local(&command.place, &platform, &id)?;
    let held = directory.map(logbook::hold).transpose().map_err(|error| logbook_failure(common, &error))?.flatten();
    let there = block_on(async { platform.is_there().await.map_err(|error| platform_failure(&error)) })?;
    if !there && held.is_none() {
        return nothing(common, out);
    }
    if there && !common.yes {
        confirm(&id, err)?;
    }
    let removed = block_on(async { Ok(down(&platform, directory, held).await) })?;
    let removed = match removed {
        Err(DownError::Residue { receipt }) if common.output != Output::Text => {
            answer(&common.output, out, &receipt, String::new)?;
            return Err(down_failure(common, &DownError::Residue { receipt }));
        }
        removed => removed.map_err(|error| down_failure(common, &error))?,
    };
    answer(&common.output, out, &removed, || text(&id, &removed))?;
    Ok(Exit::Done)
}

/// The platform and the infra-id of the directory's cluster, if there may be something of it.
fn of_directory(common: &Common) -> Result<Option<(String, String)>, Failure> {
    let Some(metadata) = Metadata::find(&common.dir).map_err(|error| asset_failure(&error))? else { return Ok(None) };
    // What was refused before anything was made needs nobody who knows its platform.
    let was_refused = logbook::read(&common.dir).is_ok_and(|history| !history.is_some_and(|h| is_launched(&h)));
    match was_refused && metadata.platform != "local" {
        true => Ok(None),
        false => Ok(Some((metadata.platform, metadata.infra_id))),
    }
}

fn nothing(common: &Common, out: &mut impl Write) -> Result<Exit, Failure> {
    let data = serde_json::json!({ "before": [], "counts": {}, "left": [] });
    answer(&common.output, out, &data, || "there is nothing to remove\n".to_owned())?;
    Ok(Exit::Done)
}

fn confirm(id: &str, err: &mut impl Write) -> Result<(), Failure> {
    let refused = |because: &str| {
        let next = "windlass down --yes removes it without a question";
        Err(Failure::new(Exit::Usage, format!("{id} was not removed"), vec![because.to_owned()], next))
    };
    if !io::stdin().is_terminal() {
        return refused("there is no terminal to ask on");
    }
    say(err, &format!("remove {id} and everything that belongs to it? [y/N] "))?;
    let mut line = String::new();
    let read = io::stdin().lock().read_line(&mut line);
    read.map_err(|error| Failure::of(Exit::Usage, &error, "use --yes"))?;
    match line.trim() {
        "y" | "Y" | "yes" => Ok(()),
        _ => refused("the answer was not yes"),
    }
}

fn text(id: &str, removed: &Removed) -> String {
    let Receipt { before, counts, .. } = &removed.receipt;
    let mut text = format!("{id}: {} things were there, none of them is left\n", before.len());
    text.extend(counts.iter().map(|(kind, count)| format!("  removed {count:>5}  {kind}\n")));
    if let Some(journal) = &removed.journal {
        text.push_str(&format!("its journal is kept as {}\n", journal.display()));
    }
    text
}

fn down_failure(common: &Common, error: &DownError) -> Failure {
    match error {
        DownError::Destroy { source } => platform_failure(source),
        DownError::Residue { receipt } => {
            let next = "mend the cause and run windlass down again; windlass cloud logs says more";
            Failure::new(Exit::PlatformFailed, error.to_string(), receipt.left.clone(), next)
        }
        DownError::Journal { source } => logbook_failure(common, source),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_receipt_counts_by_sort_what_it_removed() {
        let before = ["process 1", "process 2", "mount of x"].map(str::to_owned).to_vec();
        let counts = [("process".to_owned(), 2), ("mount".to_owned(), 1)].into();
        let receipt = Receipt { before, counts, left: Vec::new() };
        let removed = Removed { receipt, journal: Some("journal-1.jsonl".into()) };
        let want = "demo: 3 things were there, none of them is left\n  removed     1  mount\n  removed     2  process\n\
                    its journal is kept as journal-1.jsonl\n";
        assert_eq!(text("demo", &removed), want);
    }
}
