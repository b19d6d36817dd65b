//! What became of a request.

use std::ops::Deref;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use tidegate_core::{Decision, Reason};

use super::Axis;
use super::several::Several;
use crate::Error;
#[cfg(feature = "tokio")]
use crate::concurrency::NoPermit;
use crate::concurrency::Refused;

/// What became of a request, with everything a transport needs to answer it.
#[derive(Debug, Clone)]
#[must_use = "a denial is an answer, not an error: nothing is limited unless somebody looks at it"]
pub enum Outcome {
    /// It may go on.
    Allowed(Rulings),
    /// A limit has not enough left, or too much of the caller's own is in flight.
    Limited(Rulings),
    /// Too much is in flight, of everybody together: it is nothing that the caller has done.
    Overloaded(Refused),
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
            Outcome::Overloaded(_) | Outcome::Unavailable(_) | Outcome::Invalid(_) => &[],
        }
    }

    /// The outcome of a request that got no permit.
    pub(crate) fn refused(refused: Refused) -> Self {
        if refused.is_shared() {
            return Outcome::Overloaded(refused);
        }
        Outcome::Limited(Rulings::one(Ruling::of_concurrency(refused.decision())))
    }

    /// A mistake in the program, which is told to whoever runs it, and not to the client.
    pub(crate) fn invalid(error: Error) -> Self {
        #[cfg(feature = "tracing")]
        tracing::error!(%error, "a limit could not be applied");
        Outcome::Invalid(error)
    }

    /// The outcome of a request that got no lease.
    #[cfg(feature = "tokio")]
    pub(crate) fn without_permit(why: NoPermit) -> Self {
        match why {
            NoPermit::Refused(refused) => Outcome::refused(refused),
            NoPermit::Denied(decision) => Outcome::Denied(Rulings::one(Ruling::of_concurrency(decision))),
            NoPermit::Failed(error) if error.is_misuse() => Outcome::invalid(error),
            NoPermit::Failed(error) => Outcome::Unavailable(error),
        }
    }

    /// What there was too much of, when that is why the request may not go on.
    pub fn axis(&self) -> Option<Axis> {
        match self {
            Outcome::Limited(rulings) => rulings.violated().map(|ruling| ruling.axis).min(),
            Outcome::Overloaded(_) => Some(Axis::Concurrency),
            _ => None,
        }
    }

    /// When a request that may not go on may be worth another try; none when nobody knows, and when it never is.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Outcome::Limited(rulings) => rulings.retry_after(),
            Outcome::Overloaded(refused) => Some(refused.retry_after()),
            _ => None,
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
        self.is_allowed() && self.rulings().iter().all(|ruling| ruling.decision.is_ordinary())
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
    axis: Axis,
}

impl Ruling {
    #[inline]
    pub(super) fn new(policy: Arc<str>, window: Option<Duration>, decision: Decision, axis: Axis) -> Self {
        Ruling { policy, window, decision, axis }
    }

    /// What a guard said, which has no name of its own.
    fn of_concurrency(decision: Decision) -> Self {
        // Made once: whoever is turned away often should not cost more for it.
        static POLICY: LazyLock<Arc<str>> = LazyLock::new(|| "concurrency".into());
        Ruling::new(Arc::clone(&POLICY), None, decision, Axis::Concurrency)
    }

    /// The limit's name towards clients.
    pub fn policy(&self) -> &str {
        &self.policy
    }

    /// The same, to be kept.
    #[cfg(feature = "http")]
    pub(crate) fn shared_policy(&self) -> &Arc<str> {
        &self.policy
    }

    /// In what time the quota it was decided by is full when it is empty. None when that is no whole number of
    /// microseconds.
    pub fn window(&self) -> Option<Duration> {
        self.window
    }

    /// What the limit counts.
    pub fn axis(&self) -> Axis {
        self.axis
    }

    /// The decision.
    pub fn decision(&self) -> &Decision {
        &self.decision
    }
}

/// What each limit of an enforcer said, in order.
#[derive(Debug, Clone)]
pub struct Rulings(Kept);

/// The usual one in place, and of no more: every request carries it along.
#[derive(Debug, Clone)]
enum Kept {
    One(Ruling),
    Several(Several),
}

impl Rulings {
    pub(super) fn one(ruling: Ruling) -> Self {
        Rulings(Kept::One(ruling))
    }

    pub(super) fn several(rulings: Several) -> Self {
        Rulings(Kept::Several(rulings))
    }

    /// Those of which that is so.
    #[cfg(feature = "http")]
    pub(crate) fn only(&self, wanted: impl Fn(&Ruling) -> bool) -> Self {
        Rulings::several(self.iter().filter(|ruling| wanted(ruling)).cloned().collect())
    }

    /// Those of no limit at all.
    pub(super) fn none() -> Self {
        Rulings::several(Several::default())
    }

    /// The one that binds: denied first, then the least remaining. None without any limits.
    pub fn binding(&self) -> Option<&Ruling> {
        // Of one, nothing has to be worked out.
        if let Kept::One(ruling) = &self.0 {
            return Some(ruling);
        }
        self.iter().min_by_key(|ruling| (ruling.decision.allowed(), ruling.decision.remaining()))
    }

    /// When all of them would pass; none when they do, and when one of them never can.
    pub fn retry_after(&self) -> Option<Duration> {
        let mut waits = self.violated().map(|ruling| ruling.decision.retry_after());
        let first = waits.next()??;
        waits.try_fold(first, |longest, wait| Some(longest.max(wait?)))
    }

    /// Whether they never would pass, however long anybody waits: the request costs more than the whole quota of one of them.
    /// Without a time to [wait for](Self::retry_after) it may still be that a store has to come back.
    pub fn never_pass(&self) -> bool {
        self.violated().any(|ruling| ruling.decision.reason() == Some(Reason::CostExceedsCapacity))
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
