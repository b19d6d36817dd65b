//! What a caller wants of a thread, and the answer.

use tidegate_core::{Cost, Decision, Entry, JointDecision, Op, Quota, StoreError, Timestamp};
use tokio::sync::oneshot;

use super::batch::{Batch, Decided};
use super::row::When;

/// What a caller wants, and where it waits for the answer.
pub(super) struct Job {
    pub(super) work: Work,
    pub(super) answer: oneshot::Sender<Reply>,
}

pub(super) type Reply = Result<Answer, StoreError>;

/// What a caller wants.
pub(super) enum Work {
    /// One operation.
    One(Step),
    /// Some operations, each on its own, in order.
    Each(Vec<Step>),
    /// All or nothing.
    All(JointWork),
    /// Rows that may go are deleted, as many as go at a time.
    Sweep,
    /// So many rows were added by somebody else, who waits for nothing.
    Added(usize),
    /// What is as good as new then is forgotten, and the rest counted.
    #[cfg(feature = "testing")]
    Held(Timestamp),
}

/// The answer, to each kind of work its own.
pub(super) enum Answer {
    One(Decision),
    Each(Vec<Result<Decision, StoreError>>),
    All(JointDecision),
    Count(usize),
}

/// One operation on one row.
pub(super) struct Step {
    pub(super) name: Vec<u8>,
    pub(super) quota: Quota,
    pub(super) op: Op,
    /// The time, when a test says it.
    pub(super) at: Option<Timestamp>,
}

/// Operations that are taken all or nothing.
pub(super) struct JointWork {
    pub(super) names: Vec<Vec<u8>>,
    /// Quota, cost, and which of the names.
    pub(super) entries: Vec<(Quota, Cost, usize)>,
    /// The time, when a test says it.
    pub(super) at: Option<Timestamp>,
}

impl Job {
    /// Whether somebody waits for the answer. A call that was given up, as a timeout does, spends nothing.
    pub(super) fn is_wanted(&self) -> bool {
        matches!(self.work, Work::Added(_)) || !self.answer.is_closed()
    }

    pub(super) fn answer(self, reply: Reply) {
        // Whoever has gone away in the meantime gets no answer.
        let _ = self.answer.send(reply);
    }
}

impl Work {
    /// Whether it is decided in a transaction with others.
    pub(super) fn is_decision(&self) -> bool {
        self.steps() > 0
    }

    /// How many operations it is.
    pub(super) fn steps(&self) -> usize {
        match self {
            Work::One(_) => 1,
            Work::Each(steps) => steps.len(),
            Work::All(work) => work.entries.len(),
            _ => 0,
        }
    }

    /// Decides, with `now` as the time unless a test says another.
    pub(super) fn decide<'a>(&'a self, batch: &mut Batch<'a>, now: Timestamp) -> Decided<Answer> {
        Ok(match self {
            Work::One(step) => step.decide(batch, now)?.map(Answer::One),
            Work::Each(steps) => {
                let decisions: Result<_, _> = steps.iter().map(|step| step.decide(batch, now)).collect();
                Ok(Answer::Each(decisions?))
            }
            Work::All(JointWork { names, entries, at }) => {
                let entry =
                    |(quota, cost, state): &'a (Quota, Cost, usize)| Entry { quota, cost: *cost, state: *state };
                let entries: Vec<_> = entries.iter().map(entry).collect();
                batch.all(names, &entries, when(*at, now))?.map(Answer::All)
            }
            _ => unreachable!("only what is a decision is decided"),
        })
    }
}

impl Step {
    fn decide<'a>(&'a self, batch: &mut Batch<'a>, now: Timestamp) -> Decided<Decision> {
        batch.step(&self.name, &self.quota, self.op, when(self.at, now))
    }
}

pub(super) fn when(at: Option<Timestamp>, now: Timestamp) -> When {
    When { at: at.unwrap_or(now), given: at.is_some() }
}

impl Answer {
    pub(super) fn one(self) -> Decision {
        match self {
            Answer::One(decision) => decision,
            _ => unreachable!("one operation was asked for"),
        }
    }

    pub(super) fn each(self) -> Vec<Result<Decision, StoreError>> {
        match self {
            Answer::Each(decisions) => decisions,
            _ => unreachable!("a list of operations was asked for"),
        }
    }

    pub(super) fn all(self) -> JointDecision {
        match self {
            Answer::All(all) => all,
            _ => unreachable!("all or nothing was asked for"),
        }
    }

    pub(super) fn count(self) -> usize {
        match self {
            Answer::Count(count) => count,
            _ => unreachable!("a number was asked for"),
        }
    }
}
