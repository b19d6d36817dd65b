//! The table of one object: its rows and the decisions over them.

use std::cell::RefCell;

use tidegate::api::apply::ApplyMode;
use tidegate::store::{Op, Request, State, check_all, step, step_all};
use tidegate::stored::{JointRequest, decode, encode};
use tidegate::{Decision, JointDecision, Quota, StoreError, StoreErrorKind, Timestamp};

use super::cache::{Cache, CacheEntry};

/// The number of rows that one step of a sweep reads.
const SWEEP_PAGE_ROWS: u32 = 1_000;

/// The time of a decision.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DecisionTime {
    pub(crate) at: Timestamp,
    /// A test has passed in the time.
    pub(crate) is_test: bool,
}

/// An operation of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ObjectOp {
    /// Decides requests, each on its own or all or nothing.
    Apply(ApplyMode),
    /// Returns the decision of an all-or-nothing call without taking anything.
    CheckAll,
}

/// The row of a key after a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) name: String,
    /// The encoded state and its quota.
    pub(crate) value: Vec<u8>,
    /// The time from which the key is as good as new, in microseconds.
    pub(crate) new_at: u64,
    /// A test has passed in the time of the row. Sweeps by the real time skip such rows.
    pub(crate) is_test: bool,
}

/// The largest value of a row, in bytes. The storage takes two million bytes of a text or a blob. A row among others is
/// written in a text, where a byte takes two letters.
pub(crate) const MAX_VALUE_BYTES: usize = 900_000;

/// The error of a write that changed nothing.
#[derive(Debug)]
pub(crate) enum WriteError {
    /// The number of objects is not set yet. It must be set before the first write.
    UnsetShardCount,
    Store(StoreError),
}

/// The rows of one object. Each call is one statement, and the storage does nothing else meanwhile.
pub(crate) trait Rows {
    /// Reads the value of a row.
    fn read(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError>;

    /// Writes all of these rows, or none.
    fn write(&self, rows: &[Row]) -> Result<(), WriteError>;

    /// Deletes a row.
    fn delete(&self, name: &str) -> Result<(), WriteError>;

    /// Returns the last name among the next `page_rows` rows after a name, if there are that many.
    fn page_end(&self, after: &str, page_rows: u32) -> Result<Option<String>, StoreError>;

    /// Evicts the rows that are as good as new at `now`, in microseconds, after a name and up to `last` or the end.
    /// Evicts either the rows of tests or the others. Returns their names.
    fn evict(&self, after: &str, last: Option<&str>, now: u64, is_test: bool) -> Result<Vec<String>, StoreError>;
}

/// The rows of one object and a cache of them. A decision takes at most one read, and one write when something changed.
///
/// No method awaits, so calls never interleave.
pub(crate) struct ShardTable<R> {
    rows: R,
    cache: RefCell<Cache>,
}

type Results = Vec<Result<Decision, StoreError>>;

impl<R: Rows> ShardTable<R> {
    pub(crate) fn new(rows: R) -> Self {
        ShardTable { rows, cache: RefCell::default() }
    }

    pub(crate) fn rows(&self) -> &R {
        &self.rows
    }

    /// Returns the rows, which remain when the platform ends the object.
    #[cfg(test)]
    pub(crate) fn into_rows(self) -> R {
        self.rows
    }

    /// Decides each of the requests. With an error nothing was written.
    pub(crate) fn decide(
        &self,
        op: ObjectOp,
        requests: &[Request<'_>],
        time: DecisionTime,
    ) -> Result<Results, UnsetShardCount> {
        let all = match op {
            ObjectOp::Apply(ApplyMode::Each) => {
                return requests.iter().map(|request| split_error(self.apply(request, time))).collect();
            }
            ObjectOp::Apply(ApplyMode::All) => split_error(self.apply_all(requests, time, true))?,
            ObjectOp::CheckAll => split_error(self.apply_all(requests, time, false))?,
        };
        Ok(match all {
            Ok(all) => all.into_decisions().into_iter().map(Ok).collect(),
            Err(error) => requests.iter().map(|_| Err(error.clone())).collect(),
        })
    }

    /// Evicts the rows that are as good as new from the page after a name. Returns the name after which the next page
    /// begins, if there is one.
    pub(crate) fn sweep(&self, after: &str, time: DecisionTime) -> Result<Option<String>, StoreError> {
        let next = self.rows.page_end(after, SWEEP_PAGE_ROWS)?;
        let evicted = self.rows.evict(after, next.as_deref(), time.at.as_micros(), time.is_test)?;
        let mut cache = self.cache.borrow_mut();
        evicted.iter().for_each(|name| drop(cache.take(name)));
        Ok(next)
    }

    fn apply(&self, request: &Request<'_>, time: DecisionTime) -> Result<Decision, WriteError> {
        let name = row_name(request);
        let entry = match self.take(&name, request.quota) {
            // A reset needs no state, so it repairs a corrupt row.
            Err(error) if error.kind() == StoreErrorKind::Corrupt && request.op == Op::Reset => {
                self.rows.delete(&name)?;
                None
            }
            entry => entry.map_err(WriteError::Store)?,
        };
        let Some((from, mut state)) = entry else {
            let mut state = State::New;
            let outcome = step(request.quota, &mut state, request.op, time.at);
            if outcome.changed {
                self.put(name, request.quota, state, time)?;
            }
            return Ok(outcome.decision);
        };
        if from == *request.quota {
            let outcome = step(&from, &mut state, request.op, time.at);
            match outcome.changed {
                true => self.put(name, &from, state, time)?,
                false => self.cache.borrow_mut().put(name, (from, state)),
            }
            return Ok(outcome.decision);
        }
        let mut rebased = state.clone().rebase(&from, request.quota, time.at);
        let outcome = step(request.quota, &mut rebased, request.op, time.at);
        // A check or a denial writes nothing, not even the rebased state.
        match outcome.changed {
            true => self.put(name, request.quota, rebased, time)?,
            false => self.cache.borrow_mut().put(name, (from, state)),
        }
        Ok(outcome.decision)
    }

    fn apply_all(
        &self,
        requests: &[Request<'_>],
        time: DecisionTime,
        commit: bool,
    ) -> Result<JointDecision, WriteError> {
        let joint = JointRequest::new(requests, row_name).map_err(WriteError::Store)?;
        let (names, entries, quota) = (&joint.names, &joint.entries, |index| joint.quota(index));
        let mut states = Vec::with_capacity(names.len());
        for (index, name) in names.iter().enumerate() {
            let state = match self.take(name, quota(index)).map_err(WriteError::Store)? {
                None => State::New,
                Some((from, state)) => {
                    let rebased = state.clone().rebase(&from, quota(index), time.at);
                    self.cache.borrow_mut().put(name.clone(), (from, state));
                    rebased
                }
            };
            states.push(state);
        }
        if !commit {
            return Ok(check_all(entries, &mut states, time.at));
        }
        let all = step_all(entries, &mut states, time.at);
        if all.allowed() && !names.is_empty() {
            let keys = || names.iter().zip(&states).enumerate();
            let rows: Vec<_> = keys().map(|(index, (name, state))| new_row(name, quota(index), state, time)).collect();
            let written = self.rows.write(&rows);
            let mut cache = self.cache.borrow_mut();
            for (index, (name, state)) in keys() {
                cache.take(name);
                if written.is_ok() {
                    cache.put(name.clone(), (*quota(index), state.clone()));
                }
            }
            written?;
        }
        Ok(all)
    }

    /// Reads the entry of a key and takes it out of the cache. The caller puts it back.
    fn take(&self, name: &str, likely: &Quota) -> Result<Option<CacheEntry>, StoreError> {
        if let Some(entry) = self.cache.borrow_mut().take(name) {
            return Ok(Some(entry));
        }
        self.rows.read(name)?.map(|value| decode(&value, likely)).transpose()
    }

    /// Writes the state of a key, and caches it once it is written.
    fn put(&self, name: String, quota: &Quota, state: State, time: DecisionTime) -> Result<(), WriteError> {
        if state == State::New {
            return self.rows.delete(&name);
        }
        self.rows.write(&[new_row(&name, quota, &state, time)])?;
        self.cache.borrow_mut().put(name, (*quota, state));
        Ok(())
    }
}

/// The error of a write before the number of objects is set. Nothing was written.
#[derive(Debug)]
pub(crate) struct UnsetShardCount;

/// Splits a write error: the caller sets the number of objects and retries, and a store error is the result.
fn split_error<T>(result: Result<T, WriteError>) -> Result<Result<T, StoreError>, UnsetShardCount> {
    match result {
        Ok(value) => Ok(Ok(value)),
        Err(WriteError::Store(error)) => Ok(Err(error)),
        Err(WriteError::UnsetShardCount) => Err(UnsetShardCount),
    }
}

/// Returns the name of a key's row: `prefix|limit|key`, each escaped.
fn row_name(request: &Request<'_>) -> String {
    format!("{}|{}", request.scope.as_str(), request.key.to_text())
}

fn new_row(name: &str, quota: &Quota, state: &State, time: DecisionTime) -> Row {
    let new_at = state.new_at(quota).as_micros();
    Row { name: name.to_owned(), value: encode(state, quota), new_at, is_test: time.is_test }
}

#[cfg(test)]
mod tests;
