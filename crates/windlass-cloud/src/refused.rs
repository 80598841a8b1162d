//! How the cloud says no, inside: what was not done, why, and which class of answer that is.

use std::error::Error;
use std::fmt;

use windlass_cloud_api::Refusal;

/// The classes of refusals, as HTTP has them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// The request makes no sense: 400.
    Malformed,
    /// Whoever asks may not: 403.
    Forbidden,
    /// There is no such thing: 404.
    Unknown,
    /// Not as things are now: 409.
    Conflict,
    /// Too much of it: 413.
    TooLarge,
    /// It makes sense, but cannot be: 422.
    Impossible,
    /// It was tried and failed: 500.
    Failed,
    /// Not yet; the same again may succeed: 503.
    NotYet,
    /// There is no room: 507.
    Full,
}

impl Class {
    /// The HTTP status.
    pub fn status(self) -> u16 {
        match self {
            Class::Malformed => 400,
            Class::Forbidden => 403,
            Class::Unknown => 404,
            Class::Conflict => 409,
            Class::TooLarge => 413,
            Class::Impossible => 422,
            Class::Failed => 500,
            Class::NotYet => 503,
            Class::Full => 507,
        }
    }
}

/// A request that was not carried out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// Which class of answer.
    pub class: Class,
    /// The words.
    pub refusal: Refusal,
}

impl Refused {
    /// A refusal with what was not done.
    pub fn new(class: Class, error: impl Into<String>) -> Self {
        Refused { class, refusal: Refusal { error: error.into(), because: Vec::new(), next: None } }
    }

    /// There is no such thing.
    pub fn unknown(what: &str, name: impl fmt::Display) -> Self {
        Refused::new(Class::Unknown, format!("there is no {what} {name}"))
    }

    /// An attempt that failed, with its causes.
    pub fn failed(attempt: impl Into<String>, error: &dyn Error) -> Self {
        let mut refused = Refused::new(Class::Failed, attempt);
        let mut cause: Option<&dyn Error> = Some(error);
        while let Some(error) = cause {
            refused.refusal.because.push(error.to_string());
            cause = error.source();
        }
        refused
    }

    /// Adds why.
    pub fn because(mut self, cause: impl fmt::Display) -> Self {
        self.refusal.because.push(cause.to_string());
        self
    }

    /// Adds what to do about it.
    pub fn next(mut self, next: impl Into<String>) -> Self {
        self.refusal.next = Some(next.into());
        self
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.refusal.fmt(f)
    }
}

impl Error for Refused {}
