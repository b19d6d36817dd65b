//! What became of a request.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use tidegate_core::{Decision, Reason};

use crate::Error;

/// What became of a request, with everything a transport needs to answer it.
#[derive(Debug, Clone)]
pub enum Outcome {
    /// It may go on.
    Allowed(Rulings),
    /// A limit has not enough left.
    Limited(Rulings),
    /// It is on a deny list, and waiting does not help.
    Denied(Rulings),
    /// The store could not decide, and the limit refuses then.
    Unavailable(Error),
    /// A mistake in the program, or a cost that is none: see [`Error::is_misuse`].
    Invalid(Error),
}

impl Outcome {
    pub(super) fn of(rulings: Rulings) -> Self {
        let denied = |reason| move |ruling: &Ruling| !ruling.decision.allowed() && ruling.decision.reason() == reason;
        if rulings.iter().all(|ruling| ruling.decision.allowed()) {
            Outcome::Allowed(rulings)
        } else if rulings.iter().any(denied(Some(Reason::Deny))) {
            Outcome::Denied(rulings)
        } else {
            Outcome::Limited(rulings)
        }
    }

    /// Whether the request may go on.
    pub fn is_allowed(&self) -> bool {
        matches!(self, Outcome::Allowed(_))
    }

    /// What each limit said; nothing when none could be asked.
    pub fn rulings(&self) -> &[Ruling] {
        match self {
            Outcome::Allowed(rulings) | Outcome::Limited(rulings) | Outcome::Denied(rulings) => rulings,
            Outcome::Unavailable(_) | Outcome::Invalid(_) => &[],
        }
    }

    /// What went wrong, if something did.
    pub fn error(&self) -> Option<&Error> {
        match self {
            Outcome::Unavailable(error) | Outcome::Invalid(error) => Some(error),
            _ => None,
        }
    }

    /// Whether every limit has simply said yes: none was in shadow mode and would have denied it, and no store was broken.
    /// Only then it is sure that everything was taken.
    pub fn is_ordinary(&self) -> bool {
        self.is_allowed() && self.rulings().iter().all(|ruling| ruling.decision.reason().is_none())
    }

    /// Whether it was admitted only because a limit is in shadow mode.
    pub fn is_shadowed(&self) -> bool {
        let shadowed = |ruling: &Ruling| !matches!(ruling.decision.reason(), None | Some(Reason::Store));
        self.is_allowed() && self.rulings().iter().any(shadowed)
    }

    /// Whether the store was broken and the request admitted all the same.
    pub fn is_without_store(&self) -> bool {
        self.is_allowed() && self.rulings().iter().any(|ruling| ruling.decision.reason() == Some(Reason::Store))
    }
}

/// What one limit said about a request.
#[derive(Debug, Clone)]
pub struct Ruling {
    pub(super) policy: Arc<str>,
    pub(super) window: Option<Duration>,
    pub(super) decision: Decision,
}

impl Ruling {
    /// The limit's name towards clients.
    pub fn policy(&self) -> &str {
        &self.policy
    }

    /// In what time the quota it was decided by is full when it is empty. None when that is no whole number of
    /// microseconds.
    pub fn window(&self) -> Option<Duration> {
        self.window
    }

    /// The decision.
    pub fn decision(&self) -> &Decision {
        &self.decision
    }
}

/// What each limit of an enforcer said, in order. At least one.
#[derive(Debug, Clone)]
pub struct Rulings(Kept);

/// The usual one in place: an allocation for every request would be felt.
#[derive(Debug, Clone)]
enum Kept {
    One(Ruling),
    Several(Vec<Ruling>),
}

impl Rulings {
    pub(super) fn one(ruling: Ruling) -> Self {
        Rulings(Kept::One(ruling))
    }

    pub(super) fn several(rulings: Vec<Ruling>) -> Self {
        assert!(!rulings.is_empty(), "an enforcer has a limit");
        Rulings(Kept::Several(rulings))
    }

    /// The one that binds: denied first, then the least remaining.
    pub fn binding(&self) -> &Ruling {
        self.iter()
            .min_by_key(|ruling| (ruling.decision.allowed(), ruling.decision.remaining()))
            .expect("at least one limit was asked")
    }

    /// When all of them would pass; none when they do, and when one of them never can.
    pub fn retry_after(&self) -> Option<Duration> {
        let mut waits = self.violated().map(|ruling| ruling.decision.retry_after());
        let first = waits.next()??;
        waits.try_fold(first, |longest, wait| Some(longest.max(wait?)))
    }

    /// Those that denied it.
    pub fn violated(&self) -> impl Iterator<Item = &Ruling> {
        self.iter().filter(|ruling| !ruling.decision.allowed())
    }

    /// The same, as if no limit had denied it.
    pub(super) fn shadowed(mut self) -> Self {
        let rulings = match &mut self.0 {
            Kept::One(ruling) => std::slice::from_mut(ruling),
            Kept::Several(rulings) => rulings,
        };
        rulings.iter_mut().for_each(|ruling| ruling.decision = ruling.decision.shadowed());
        self
    }
}

impl Deref for Rulings {
    type Target = [Ruling];

    fn deref(&self) -> &[Ruling] {
        match &self.0 {
            Kept::One(ruling) => std::slice::from_ref(ruling),
            Kept::Several(rulings) => rulings,
        }
    }
}
