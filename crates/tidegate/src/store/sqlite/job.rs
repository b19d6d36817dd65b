//! Jobs that callers send to the threads of the store, and their results.

use tidegate_core::{Cost, Decision, JointDecision, JointEntry, Op, Quota, StoreError, Timestamp};
use tokio::sync::oneshot;

use super::batch::{Batch, BatchResult};
use super::row::StepTime;

/// A command for a thread of the store, and the sender for its result.
pub(super) struct Job {
    pub(super) command: Command,
    pub(super) result_sender: oneshot::Sender<JobResult>,
}

/// The result of a job.
pub(super) type JobResult = Result<JobOutput, StoreError>;

/// A command for a thread of the store.
pub(super) enum Command {
    /// Applies one operation.
    Step(Step),
    /// Applies independent operations, in order.
    Steps(Vec<Step>),
    /// Applies operations all or nothing.
    JointStep(JointStep),
    /// Deletes one batch of expired rows.
    Sweep,
    /// Reports the number of rows that a transaction of the caller has added. No caller waits for the result.
    RecordAddedRows(usize),
    /// Deletes the rows that are as good as new at that time, and counts the others.
    #[cfg(feature = "testing")]
    SweepAt(Timestamp),
}

/// The output of a job. Its variant depends on the command.
pub(super) enum JobOutput {
    Decision(Decision),
    Decisions(Vec<Result<Decision, StoreError>>),
    JointDecision(JointDecision),
    Count(usize),
}

/// One operation on one row.
pub(super) struct Step {
    pub(super) row_key: Vec<u8>,
    pub(super) quota: Quota,
    pub(super) op: Op,
    /// The time that a test chose.
    pub(super) test_time: Option<Timestamp>,
}

/// Operations that are applied all or nothing.
pub(super) struct JointStep {
    pub(super) row_keys: Vec<Vec<u8>>,
    /// The quota, the cost and the index of the row key of each operation.
    pub(super) entries: Vec<(Quota, Cost, usize)>,
    /// The time that a test chose.
    pub(super) test_time: Option<Timestamp>,
}

impl Job {
    /// Returns whether the job still has to run. A call that was given up, as by a timeout, spends nothing.
    pub(super) fn is_wanted(&self) -> bool {
        matches!(self.command, Command::RecordAddedRows(_)) || !self.result_sender.is_closed()
    }

    /// Sends the result to the caller.
    pub(super) fn complete(self, result: JobResult) {
        // The caller may have given up in the meantime.
        let _ = self.result_sender.send(result);
    }
}

impl Command {
    /// Returns whether the command is decided in a transaction with others.
    pub(super) fn is_decision(&self) -> bool {
        self.step_count() > 0
    }

    /// Returns the number of operations in the command.
    pub(super) fn step_count(&self) -> usize {
        match self {
            Command::Step(_) => 1,
            Command::Steps(steps) => steps.len(),
            Command::JointStep(joint) => joint.entries.len(),
            _ => 0,
        }
    }

    /// Decides at `now`, or at the time that a test chose.
    pub(super) fn decide<'a>(&'a self, batch: &mut Batch<'a>, now: Timestamp) -> BatchResult<JobOutput> {
        Ok(match self {
            Command::Step(step) => step.decide(batch, now)?.map(JobOutput::Decision),
            Command::Steps(steps) => {
                let decisions: Result<_, _> = steps.iter().map(|step| step.decide(batch, now)).collect();
                Ok(JobOutput::Decisions(decisions?))
            }
            Command::JointStep(JointStep { row_keys, entries, test_time }) => {
                let entry =
                    |(quota, cost, state): &'a (Quota, Cost, usize)| JointEntry { quota, cost: *cost, state: *state };
                let entries: Vec<_> = entries.iter().map(entry).collect();
                batch.step_all(row_keys, &entries, StepTime::new(*test_time, now))?.map(JobOutput::JointDecision)
            }
            _ => unreachable!("the command is not a decision"),
        })
    }
}

impl Step {
    fn decide<'a>(&'a self, batch: &mut Batch<'a>, now: Timestamp) -> BatchResult<Decision> {
        batch.step(&self.row_key, &self.quota, self.op, StepTime::new(self.test_time, now))
    }
}

impl JobOutput {
    pub(super) fn into_decision(self) -> Decision {
        match self {
            JobOutput::Decision(decision) => decision,
            _ => unreachable!("the job was one operation"),
        }
    }

    pub(super) fn into_decisions(self) -> Vec<Result<Decision, StoreError>> {
        match self {
            JobOutput::Decisions(decisions) => decisions,
            _ => unreachable!("the job was a list of operations"),
        }
    }

    pub(super) fn into_joint_decision(self) -> JointDecision {
        match self {
            JobOutput::JointDecision(joint) => joint,
            _ => unreachable!("the job was all or nothing"),
        }
    }

    pub(super) fn into_count(self) -> usize {
        match self {
            JobOutput::Count(count) => count,
            _ => unreachable!("the job was a count"),
        }
    }
}
