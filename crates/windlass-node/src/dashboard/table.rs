//! Tables that grow page by page and stay small: the rows that need attention come first, and what does not fit is
//! counted.

use std::cmp::Ordering;

use serde::Serialize;

/// One line of a table.
pub trait Row {
    /// How many lines are shown at most.
    const MOST: usize;
    /// Which line comes first.
    fn order(&self, other: &Self) -> Ordering;
    /// Whether somebody should look at it.
    fn concern(&self) -> Concern;
}

/// Whether somebody should look at a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Concern {
    /// Yes.
    Look,
    /// All is well.
    None,
}

/// Rows in order, and how many objects they stand for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Table<R> {
    /// The first rows.
    pub rows: Vec<R>,
    /// How many objects were looked at.
    pub objects: usize,
    /// How many rows somebody should look at, shown or not.
    pub concerns: usize,
    /// How many rows are not shown.
    pub omitted: usize,
    /// Whether the cluster has more objects than were looked at.
    pub extent: Extent,
}

/// How much of the cluster a table covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Extent {
    /// Every object was looked at.
    Whole,
    /// There are more.
    Part,
}

impl<R: Row> Table<R> {
    /// Of no objects yet.
    pub fn new() -> Self {
        Self { rows: Vec::new(), objects: 0, concerns: 0, omitted: 0, extent: Extent::Whole }
    }

    /// Adds what was seen on one page of a list.
    pub fn add(&mut self, objects: usize, rows: Vec<R>) {
        self.objects += objects;
        self.concerns += rows.iter().filter(|row| row.concern() == Concern::Look).count();
        self.rows.extend(rows);
        self.rows.sort_by(R::order);
        self.omitted += self.rows.len().saturating_sub(R::MOST);
        self.rows.truncate(R::MOST);
    }
}

impl<R: Row> Default for Table<R> {
    fn default() -> Self {
        Self::new()
    }
}

/// What came of asking for one kind of object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "lowercase")]
pub enum Section<R> {
    /// The API listed them.
    Listed(Table<R>),
    /// The cluster does not know this kind.
    Absent,
    /// The API did not list them.
    Failed {
        /// Why.
        reason: String,
    },
}

impl<R> Section<R> {
    /// The table, if there is one.
    pub fn table(&self) -> Option<&Table<R>> {
        match self {
            Section::Listed(table) => Some(table),
            Section::Absent | Section::Failed { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Row for u32 {
        const MOST: usize = 3;

        fn order(&self, other: &Self) -> Ordering {
            self.cmp(other)
        }

        fn concern(&self) -> Concern {
            if *self < 10 { Concern::Look } else { Concern::None }
        }
    }

    #[test]
    fn a_table_keeps_the_first_rows_and_counts_the_rest() {
        let mut table = Table::new();
        table.add(4, vec![30, 2]);
        table.add(9, vec![1, 20, 3, 40]);
        let want = Table { rows: vec![1, 2, 3], objects: 13, concerns: 3, omitted: 3, extent: Extent::Whole };
        assert_eq!(table, want);
    }
}
