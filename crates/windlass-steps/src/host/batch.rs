//! Many small files at once, as safe as one by one and much faster: all contents are brought to the disk side by side
//! before the first name appears.

use std::collections::BTreeSet;
use std::path::Path;

use super::temp::Temp;
use super::{HostError, Mode, sync_dir};

/// Syncs in flight: the file system commits those that arrive together as one.
const SIDE_BY_SIDE: usize = 8;

/// Files written but not yet visible. Dropped without [`Batch::commit`] it leaves nothing.
///
/// Each file keeps a descriptor open until the commit, so a batch is for hundreds of files, not for ten thousand.
#[derive(Default)]
#[must_use = "nothing is visible before the commit"]
pub struct Batch {
    temps: Vec<Temp>,
}

impl Batch {
    /// Writes the content beside its final name, in a directory that exists.
    pub fn write(&mut self, path: impl AsRef<Path>, bytes: impl AsRef<[u8]>, mode: Mode) -> Result<(), HostError> {
        self.temps.push(Temp::write(path.as_ref(), bytes.as_ref(), mode)?);
        Ok(())
    }

    /// Makes the files visible, in the order in which they were written, and lasting.
    ///
    /// Each file is whole at every moment, but the set is not one unit: after a failure or a kill some files are new and
    /// some old. A file that vouches for the others is therefore written on its own, after the commit.
    pub fn commit(self) -> Result<(), HostError> {
        let mut dirs = BTreeSet::new();
        for temp in sync_all(self.temps)? {
            dirs.insert(temp.rename()?);
        }
        dirs.into_iter().try_for_each(sync_dir)
    }
}

fn sync_all(temps: Vec<Temp>) -> Result<Vec<Temp>, HostError> {
    let share = temps.len().div_ceil(SIDE_BY_SIDE).max(1);
    let mut rest = temps.into_iter();
    let mut shares = Vec::new();
    loop {
        let taken: Vec<Temp> = rest.by_ref().take(share).collect();
        if taken.is_empty() {
            break;
        }
        shares.push(taken);
    }
    let synced: Vec<Result<Vec<Temp>, HostError>> = std::thread::scope(|scope| {
        let sync_share = |temps: Vec<Temp>| temps.into_iter().map(Temp::sync).collect();
        let threads: Vec<_> = shares.into_iter().map(|temps| scope.spawn(move || sync_share(temps))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(|p| std::panic::resume_unwind(p))).collect()
    });
    let shares: Vec<Vec<Temp>> = synced.into_iter().collect::<Result<_, _>>()?;
    Ok(shares.into_iter().flatten().collect())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::{read_file, write_file};
    use super::*;

    #[test]
    fn files_appear_at_the_commit_and_not_before() {
        for count in [0, 1, 7, 8, 9, 60] {
            let dir = tempfile::tempdir().unwrap();
            let mut batch = Batch::default();
            for n in 0..count {
                batch.write(dir.path().join(n.to_string()), format!("content {n}"), Mode::PRIVATE_FILE).unwrap();
            }
            assert!(!dir.path().join("0").exists());
            batch.commit().unwrap();
            assert_eq!(fs::read_dir(dir.path()).unwrap().count(), count);
            for n in 0..count {
                let bytes = read_file(dir.path().join(n.to_string()), 100).unwrap();
                assert_eq!(bytes, format!("content {n}").as_bytes());
            }
        }
    }

    #[test]
    fn a_dropped_batch_leaves_old_contents_and_nothing_new() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        write_file(&path, "old", Mode::PUBLIC).unwrap();
        let mut batch = Batch::default();
        batch.write(&path, "new", Mode::PUBLIC).unwrap();
        drop(batch);
        assert_eq!(read_file(&path, 100).unwrap(), b"old");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn of_two_writes_to_one_name_the_later_one_stays() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        let mut batch = Batch::default();
        batch.write(&path, "first", Mode::PUBLIC).unwrap();
        batch.write(&path, "second", Mode::PUBLIC).unwrap();
        batch.commit().unwrap();
        assert_eq!(read_file(&path, 100).unwrap(), b"second");
    }
}
