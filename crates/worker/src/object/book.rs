//! Deciding over the rows of one object.

use std::cell::RefCell;

use tidegate::api::apply::ApplyMode;
use tidegate::store::{Op, Request, State, check_all, step, step_all};
use tidegate::stored::{Asked, decode, encode};
use tidegate::{Decision, JointDecision, Quota, StoreError, StoreErrorKind, Timestamp};

use super::cache::{Cache, Held};
use super::rows::{Row, Rows, Unwritten};

/// How many rows are looked at in one go, when the object is swept.
pub(crate) const PAGE: u32 = 1_000;

/// When something is decided.
#[derive(Debug, Clone, Copy)]
pub(crate) struct When {
    pub(crate) at: Timestamp,
    /// A test says so.
    pub(crate) given: bool,
}

/// What is asked of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asking {
    /// To decide, each on its own or all or nothing.
    Apply(ApplyMode),
    /// To say what all or nothing would come to, and take nothing.
    Look,
}

/// The rows of one object, and its memory of them. A decision is one read at most, and one write when something changed.
///
/// Nothing in here waits for anything, so nobody else is ever in between.
pub(crate) struct Book<R> {
    rows: R,
    cache: RefCell<Cache>,
}

type Answers = Vec<Result<Decision, StoreError>>;

impl<R: Rows> Book<R> {
    pub(crate) fn new(rows: R) -> Self {
        Book { rows, cache: RefCell::default() }
    }

    pub(crate) fn rows(&self) -> &R {
        &self.rows
    }

    /// What is left when the platform ends the object.
    #[cfg(test)]
    pub(crate) fn into_rows(self) -> R {
        self.rows
    }

    /// Answers each of the requests. An error means that it has to be settled first how many objects there are; nothing
    /// was written then.
    pub(crate) fn answer(&self, asking: Asking, requests: &[Request<'_>], when: When) -> Result<Answers, Unsettled> {
        let all = match asking {
            Asking::Apply(ApplyMode::Each) => {
                return requests.iter().map(|request| settled(self.apply(request, when))).collect();
            }
            Asking::Apply(ApplyMode::All) => settled(self.all(requests, when, true))?,
            Asking::Look => settled(self.all(requests, when, false))?,
        };
        Ok(match all {
            Ok(all) => all.into_decisions().into_iter().map(Ok).collect(),
            Err(error) => requests.iter().map(|_| Err(error.clone())).collect(),
        })
    }

    /// Forgets what is as good as new, one page after a name. Says where the next one begins; none when there is none.
    pub(crate) fn sweep(&self, after: &str, when: When) -> Result<Option<String>, StoreError> {
        let next = self.rows.page(after, PAGE)?;
        let forgotten = self.rows.forget(after, next.as_deref(), when.at.as_micros(), when.given)?;
        let mut cache = self.cache.borrow_mut();
        forgotten.iter().for_each(|name| drop(cache.take(name)));
        Ok(next)
    }

    fn apply(&self, request: &Request<'_>, when: When) -> Result<Decision, Unwritten> {
        let name = name(request);
        let held = match self.find(&name, request.quota) {
            // Whatever it was, it is forgotten.
            Err(error) if error.kind() == StoreErrorKind::Corrupt && request.op == Op::Reset => {
                self.rows.delete(&name)?;
                None
            }
            held => held.map_err(Unwritten::Failed)?,
        };
        let Some((from, mut state)) = held else {
            let mut state = State::New;
            let outcome = step(request.quota, &mut state, request.op, when.at);
            if outcome.changed {
                self.put(name, request.quota, state, when)?;
            }
            return Ok(outcome.decision);
        };
        if from == *request.quota {
            let outcome = step(&from, &mut state, request.op, when.at);
            match outcome.changed {
                true => self.put(name, &from, state, when)?,
                false => self.cache.borrow_mut().put(name, (from, state)),
            }
            return Ok(outcome.decision);
        }
        let mut rebased = state.clone().rebase(&from, request.quota, when.at);
        let outcome = step(request.quota, &mut rebased, request.op, when.at);
        // Not after a look or a denial: they write nothing, not even what was carried over.
        match outcome.changed {
            true => self.put(name, request.quota, rebased, when)?,
            false => self.cache.borrow_mut().put(name, (from, state)),
        }
        Ok(outcome.decision)
    }

    fn all(&self, requests: &[Request<'_>], when: When, take: bool) -> Result<JointDecision, Unwritten> {
        let asked = Asked::new(requests, name).map_err(Unwritten::Failed)?;
        let (names, entries, quota) = (&asked.names, &asked.entries, |index| asked.quota(index));
        let mut states = Vec::with_capacity(names.len());
        for (index, name) in names.iter().enumerate() {
            let state = match self.find(name, quota(index)).map_err(Unwritten::Failed)? {
                None => State::New,
                Some((from, state)) => {
                    let rebased = state.clone().rebase(&from, quota(index), when.at);
                    self.cache.borrow_mut().put(name.clone(), (from, state));
                    rebased
                }
            };
            states.push(state);
        }
        if !take {
            return Ok(check_all(entries, &mut states, when.at));
        }
        let all = step_all(entries, &mut states, when.at);
        if all.allowed() && !names.is_empty() {
            let keys = || names.iter().zip(&states).enumerate();
            let rows: Vec<_> = keys().map(|(index, (name, state))| row(name, quota(index), state, when)).collect();
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

    /// What is kept of a key, taken out of the memory: whoever asks puts it back.
    fn find(&self, name: &str, likely: &Quota) -> Result<Option<Held>, StoreError> {
        if let Some(held) = self.cache.borrow_mut().take(name) {
            return Ok(Some(held));
        }
        self.rows.read(name)?.map(|value| decode(&value, likely)).transpose()
    }

    /// Writes a key's state, and only then remembers it.
    fn put(&self, name: String, quota: &Quota, state: State, when: When) -> Result<(), Unwritten> {
        if state == State::New {
            return self.rows.delete(&name);
        }
        self.rows.write(&[row(&name, quota, &state, when)])?;
        self.cache.borrow_mut().put(name, (*quota, state));
        Ok(())
    }
}

/// It has to be settled first how many objects there are.
#[derive(Debug)]
pub(crate) struct Unsettled;

/// What was answered, unless something has to be settled first.
fn settled<T>(answer: Result<T, Unwritten>) -> Result<Result<T, StoreError>, Unsettled> {
    match answer {
        Ok(answer) => Ok(Ok(answer)),
        Err(Unwritten::Failed(error)) => Ok(Err(error)),
        Err(Unwritten::Unsettled) => Err(Unsettled),
    }
}

/// What a key is kept under: `prefix|limit|key`, each escaped.
fn name(request: &Request<'_>) -> String {
    format!("{}|{}", request.scope.as_str(), request.key.to_text())
}

fn row(name: &str, quota: &Quota, state: &State, when: When) -> Row {
    let new_at = state.new_at(quota).as_micros();
    Row { name: name.to_owned(), value: encode(state, quota), new_at, given: when.given }
}

#[cfg(test)]
mod tests;
