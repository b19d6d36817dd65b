//! A store against the model.

use std::fmt;

use tidegate_core::{DecisionParts, Key, OnStoreError, Request, Scope, Testing, Timestamp};

use super::generate::decided;
use super::trace::Step;
use super::{Model, Trace};
use crate::Subject;

/// What a run that found nothing has looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Report {
    /// Calls made.
    pub steps: usize,
    /// Decisions compared: a batch has several.
    pub decisions: usize,
    /// How many of them were denials.
    pub denied: usize,
}

/// A store and the model differ.
#[derive(Debug, Clone, thiserror::Error)]
pub struct Mismatch {
    /// The seed of the trace.
    pub seed: u64,
    /// Which step of the seed's trace, from 0.
    pub step: usize,
    /// The shortest history that was found to fail; its last step is the one that does.
    pub history: Vec<Step>,
    /// What the model decides at the last step of the history.
    pub expected: Vec<DecisionParts>,
    /// What the store decided, or how it failed.
    pub got: Result<Vec<DecisionParts>, String>,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "the store and the model differ: seed {}, step {}", self.seed, self.step)?;
        writeln!(f, "the shortest history found, {} steps:", self.history.len())?;
        for step in &self.history {
            writeln!(f, "  {step}")?;
        }
        writeln!(f, "expected: {:?}", self.expected)?;
        match &self.got {
            Ok(got) => write!(f, "got:      {got:?}"),
            Err(error) => write!(f, "got an error: {error}"),
        }
    }
}

/// How often a failing history is tried again with something left out.
const TRIES: usize = 400;

/// Replays the trace of `seed` through the store and through the model, and compares every field of every decision.
/// A mismatch is cut down to a short history first, each try under a prefix of its own.
pub async fn run<S: Testing + 'static>(subject: &Subject<S>, seed: u64, steps: usize) -> Result<Report, Mismatch> {
    let (steps, expected) = decided(seed, steps);
    let mut difference = match compare(subject, &format!("oracle-{seed}"), &steps, expected).await {
        Ok(report) => return Ok(report),
        Err(difference) => difference,
    };
    let step = difference.step;
    let mut history = steps[..=step].to_vec();
    let mut size = history.len().div_ceil(2);
    let (mut from, mut tries) = (0, 0);
    while size > 0 && tries < TRIES {
        // The last step is the one that fails, and stays.
        if from + 1 >= history.len() {
            size = if size == 1 { 0 } else { size.div_ceil(2) };
            from = 0;
            continue;
        }
        let mut shorter = history.clone();
        shorter.drain(from..(from + size).min(history.len() - 1));
        tries += 1;
        match replay(subject, &format!("oracle-{seed}-{tries}"), &Trace { steps: shorter.clone() }).await {
            Err(shorter_difference) => {
                shorter.truncate(shorter_difference.step + 1);
                (history, difference) = (shorter, shorter_difference);
            }
            Ok(_) => from += size,
        }
    }
    Err(Mismatch { seed, step, history, ..difference })
}

/// Replays a trace through the store under the limits of the case `case`, and compares every decision with the
/// model's, as far as stores have to agree. The mismatch of a trace made by hand has the seed 0.
pub async fn replay<S: Testing + 'static>(subject: &Subject<S>, case: &str, trace: &Trace) -> Result<Report, Mismatch> {
    // Decided one step at a time, as the store is asked, so that a mismatch ends it early.
    let mut model = Model::new();
    let certain = trace.steps.iter().map_while(|step| model.is_certain(step.at).then(|| model.decide(step)));
    compare(subject, case, &trace.steps, certain).await
}

async fn compare<S: Testing + 'static>(
    subject: &Subject<S>,
    case: &str,
    steps: &[Step],
    expected: impl IntoIterator<Item = Vec<DecisionParts>>,
) -> Result<Report, Mismatch> {
    let mut report = Report::default();
    for (index, (step, expected)) in steps.iter().zip(expected).enumerate() {
        let got = apply(subject, case, step).await;
        report.steps += 1;
        report.decisions += expected.len();
        report.denied += expected.iter().filter(|decision| !decision.allowed).count();
        if got.as_ref() != Ok(&expected) {
            return Err(Mismatch { seed: 0, step: index, history: steps[..=index].to_vec(), expected, got });
        }
    }
    Ok(report)
}

async fn apply<S: Testing + 'static>(
    subject: &Subject<S>,
    case: &str,
    step: &Step,
) -> Result<Vec<DecisionParts>, String> {
    let places: Vec<(Scope, Key<'static>)> = step
        .asks
        .iter()
        .map(|ask| (subject.scope(case, &format!("limit-{}", ask.limit)), Key::from(ask.key as u64)))
        .collect();
    let requests: Vec<Request<'_>> = places
        .iter()
        .zip(&step.asks)
        .map(|((scope, key), ask)| Request {
            scope,
            key,
            quota: &ask.quota,
            op: ask.op,
            on_store_error: OnStoreError::default(),
        })
        .collect();
    let at = Timestamp::from_micros(step.at);
    let decisions = match &requests[..] {
        [request] if !step.all => subject.store().apply_at(request, at).await.map(|decision| vec![decision]),
        requests => subject.store().apply_all_at(requests, at).await.map(|all| all.into_decisions()),
    };
    let decisions = decisions.map_err(|error| error.to_string())?;
    Ok(decisions.into_iter().map(|decision| decision.into_parts()).collect())
}
