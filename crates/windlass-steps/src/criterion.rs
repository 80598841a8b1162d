//! Statements about the world that can be true, each with a way to look. A step is done when all of its criteria hold, and
//! one that was never looked at does not. The answer "not yet" always comes with a reason, because the reason is what
//! a person waits with, and a change of reason is how a wait tells slow from stuck.

use std::borrow::Cow;
use std::error::Error;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use futures_util::future::LocalBoxFuture;
use tokio::sync::Notify;

/// Why a look failed; it says nothing about the statement.
pub type LookError = Box<dyn Error + Send + Sync>;

type Look<'a> = Box<dyn Fn() -> LocalBoxFuture<'a, Result<Observation, LookError>> + 'a>;

/// A statement about the world, and a way to look. The look may borrow from the step and from its result.
pub struct Criterion<'a> {
    statement: Cow<'static, str>,
    look: Look<'a>,
    wake: Option<Arc<Notify>>,
}

/// What a look found. `Err` from a look means "could not look", which is neither of these.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Observation {
    /// The statement is true now.
    Holds,
    /// It is not true, but may become so without anyone doing more.
    NotYet(Reason),
    /// It is not true and waiting will not change that.
    Never(Reason),
}

/// Why a statement is not true, in words that name the state of the world and not the time spent waiting: a reason that
/// no criterion has given before counts as progress, so one with a clock in it would never stall.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason {
    text: String,
    mark: Option<u64>,
}

/// Makes a [`Reason`] the way `format!` makes a string: `reason!("{up} of {want} members answer")`.
#[macro_export]
macro_rules! reason {
    ($($arg:tt)*) => { $crate::criterion::Reason::new(::std::format!($($arg)*)) };
}

impl<'a> Criterion<'a> {
    /// Pairs a statement ("every node is registered") with a look, which is called again and again until it holds.
    pub fn new<L, F>(statement: impl Into<Cow<'static, str>>, look: L) -> Self
    where
        L: Fn() -> F + 'a,
        F: Future<Output = Result<Observation, LookError>> + 'a,
    {
        Self { statement: statement.into(), look: Box::new(move || Box::pin(look())), wake: None }
    }

    /// A statement that the step's own result proves, such as "the file is on the disk" after a synced write.
    ///
    /// A step that has nothing to look at says so with this; an empty list of criteria never holds.
    pub fn by_construction(statement: impl Into<Cow<'static, str>>) -> Self {
        Self::new(statement, || async { Ok(Observation::Holds) })
    }

    /// Lets the next look happen as soon as this is notified (with `notify_one`), instead of at the next poll.
    pub fn woken_by(mut self, wake: Arc<Notify>) -> Self {
        self.wake = Some(wake);
        self
    }

    /// What is to be true.
    pub fn statement(&self) -> &str {
        &self.statement
    }

    /// Looks once. Only a wait and tests call this.
    pub async fn look(&self) -> Result<Observation, LookError> {
        (self.look)().await
    }

    pub(crate) fn wake(&self) -> Option<&Notify> {
        self.wake.as_deref()
    }
}

impl fmt::Debug for Criterion<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Criterion").field(&self.statement).finish()
    }
}

impl Reason {
    /// Takes the text as it is; [`reason!`](crate::reason) formats one.
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), mark: None }
    }

    /// Judges progress by this mark instead of the text: bytes copied so far under a text that stays, or a constant
    /// under a text that flickers.
    pub fn at(mut self, mark: u64) -> Self {
        self.mark = Some(mark);
        self
    }

    /// The words.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Stands for this reason when progress is judged.
    pub(crate) fn fingerprint(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        match self.mark {
            Some(mark) => (1, mark).hash(&mut hasher),
            None => (2, &self.text).hash(&mut hasher),
        }
        hasher.finish()
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_look_may_borrow_and_may_fail() {
        let up = 2;
        let looks = [
            Criterion::new("borrows", || async { Ok(Observation::NotYet(reason!("{up} of 3"))) }),
            Criterion::new("fails", || async { Err("refused".into()) }),
            Criterion::by_construction("is written"),
        ];
        assert_eq!(looks[0].look().await.unwrap(), Observation::NotYet(Reason::new("2 of 3")));
        assert_eq!(looks[1].look().await.unwrap_err().to_string(), "refused");
        assert_eq!(looks[2].look().await.unwrap(), Observation::Holds);
        assert_eq!(looks[2].statement(), "is written");
    }

    #[test]
    fn a_mark_replaces_the_text_when_progress_is_judged() {
        let cases = [
            (reason!("a"), reason!("a"), true),
            (reason!("a"), reason!("b"), false),
            (reason!("a").at(1), reason!("b").at(1), true),
            (reason!("a").at(1), reason!("a").at(2), false),
            (reason!("a").at(1), reason!("a"), false),
        ];
        for (one, other, same) in cases {
            assert_eq!(one.fingerprint() == other.fingerprint(), same, "{one:?} {other:?}");
        }
    }
}
