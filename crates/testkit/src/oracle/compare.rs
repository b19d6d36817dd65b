//! Comparison of a store with the model, or with another store, step by step.

use std::fmt;

use tidegate_core::{Cost, DecisionParts, Key, OnStoreError, Op, Quota, Request, Scope, TestableStore, Timestamp};

use super::generate::generate;
use super::trace::Step;
use super::{Model, Trace};
use crate::{Random, Subject};

/// The counts of a run without a mismatch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RunReport {
    /// The number of calls.
    pub steps: usize,
    /// The number of compared decisions. A batch has several.
    pub decisions: usize,
    /// The number of denials among them.
    pub denied: usize,
}

/// A difference between a store and the model.
#[derive(Debug, Clone, thiserror::Error)]
pub struct Mismatch {
    /// The seed of the trace.
    pub seed: u64,
    /// The index of the step in the seed's trace, from 0.
    pub step: usize,
    /// The shortest failing history that was found. Its last step fails.
    pub history: Vec<Step>,
    /// The decisions of the model at the last step of the history.
    pub expected: Vec<DecisionParts>,
    /// The decisions of the store, or its error.
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

/// The maximum number of attempts to shorten a failing history.
const MAX_TRIES: usize = 400;

/// Replays the trace of `seed` through the store and through the model, and compares every field of every decision. It
/// shortens the history of a mismatch first, each attempt under a prefix of its own.
pub async fn run<S: TestableStore + 'static>(
    subject: &Subject<S>,
    seed: u64,
    steps: usize,
) -> Result<RunReport, Mismatch> {
    let (steps, expected) = generate(seed, steps);
    let mut difference = match compare_steps(subject, &format!("oracle-{seed}"), &steps, expected).await {
        Ok(report) => return Ok(report),
        Err(difference) => difference,
    };
    let step = difference.step;
    let mut history = steps[..=step].to_vec();
    let mut size = history.len().div_ceil(2);
    let (mut from, mut tries) = (0, 0);
    while size > 0 && tries < MAX_TRIES {
        // The last step is the failing one and must stay.
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

/// Replays a trace through the store under the limits of the case `case`. It compares every decision with the model's,
/// as far as stores must agree. The mismatch of a handmade trace has the seed 0.
pub async fn replay<S: TestableStore + 'static>(
    subject: &Subject<S>,
    case: &str,
    trace: &Trace,
) -> Result<RunReport, Mismatch> {
    // Decided step by step with the store, so that a mismatch ends the run early.
    let mut model = Model::new();
    let certain = trace.steps.iter().map_while(|step| model.is_certain(step.at).then(|| model.decide(step)));
    compare_steps(subject, case, &trace.steps, certain).await
}

async fn compare_steps<S: TestableStore + 'static>(
    subject: &Subject<S>,
    case: &str,
    steps: &[Step],
    expected: impl IntoIterator<Item = Vec<DecisionParts>>,
) -> Result<RunReport, Mismatch> {
    let mut report = RunReport::default();
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

async fn apply<S: TestableStore + 'static>(
    subject: &Subject<S>,
    case: &str,
    step: &Step,
) -> Result<Vec<DecisionParts>, String> {
    let keys: Vec<(Scope, Key<'static>)> = step
        .requests
        .iter()
        .map(|request| (subject.scope(case, &format!("limit-{}", request.limit)), Key::from(request.key as u64)))
        .collect();
    let requests: Vec<Request<'_>> = keys
        .iter()
        .zip(&step.requests)
        .map(|((scope, key), request)| Request {
            scope,
            key,
            quota: &request.quota,
            op: request.op,
            on_store_error: OnStoreError::default(),
        })
        .collect();
    let at = Timestamp::from_micros(step.at);
    let decisions = match &requests[..] {
        [request] if !step.is_joint => subject.store().apply_at(request, at).await.map(|decision| vec![decision]),
        requests => subject.store().apply_all_at(requests, at).await.map(|all| all.into_decisions()),
    };
    let decisions = decisions.map_err(|error| error.to_string())?;
    Ok(decisions.into_iter().map(|decision| decision.into_parts()).collect())
}

/// The number of steps of [`compare_stores`].
const STEPS: u64 = 150;

/// Compares the subject with a `reference` store on one key, `u1`, step by step, for a store that treats some numbers
/// specially. Each step comes up to `max_pause` microseconds later and costs at most `max_cost`. After each step,
/// `after_step` gets its number and the scope.
///
/// Panics at a difference, with the quota, the seed and the step.
pub async fn compare_stores<S: TestableStore + 'static>(
    subject: &Subject<S>,
    reference: &impl TestableStore,
    quota: &Quota,
    (seed, max_pause, max_cost): (u64, u64, u64),
    mut after_step: impl AsyncFnMut(u64, &Scope),
) {
    let (scope, key) = (subject.scope("beside", "a"), Key::from("u1"));
    let mut random = Random::new(seed);
    let mut now = 1_700_000_000_000_000;
    for step in 0..STEPS {
        now += random.below(max_pause);
        let cost = Cost::new(1 + random.below(if step % 3 == 0 { max_cost } else { max_cost.div_ceil(8) })).unwrap();
        let op = match random.below(10) {
            0..=5 => Op::Limit(cost),
            6..=7 => Op::Check(cost),
            8 => Op::Reserve(cost),
            _ => Op::Refund(cost),
        };
        let request = Request { scope: &scope, key: &key, quota, op, on_store_error: OnStoreError::Closed };
        let at = Timestamp::from_micros(now);
        let expected = reference.apply_at(&request, at).await.unwrap().into_parts();
        let got = subject.store().apply_at(&request, at).await.unwrap().into_parts();
        assert_eq!(got, expected, "{quota:?}, seed {seed}, step {step}: {op:?}");
        after_step(step, &scope).await;
    }
}
