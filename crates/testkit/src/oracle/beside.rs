//! A store step by step beside another one.

use tidegate_core::{Cost, Key, OnStoreError, Op, Quota, Request, Scope, Testing, Timestamp};

use crate::{Random, Subject};

/// How many steps.
const STEPS: u64 = 150;

/// Asks the subject and a `reference` the same about one key, `u1`, step by step, for a store that has something special
/// to do with some numbers. Each step comes up to `longest` microseconds later, and asks for `largest` at most. After each,
/// `after` is told its number and the scope.
///
/// Panics when they do not agree, with the quota, the seed and the step.
pub async fn beside<S: Testing + 'static>(
    subject: &Subject<S>,
    reference: &impl Testing,
    quota: &Quota,
    (seed, longest, largest): (u64, u64, u64),
    mut after: impl AsyncFnMut(u64, &Scope),
) {
    let (scope, key) = (subject.scope("beside", "a"), Key::from("u1"));
    let mut random = Random::new(seed);
    let mut now = 1_700_000_000_000_000;
    for step in 0..STEPS {
        now += random.below(longest);
        let cost = Cost::new(1 + random.below(if step % 3 == 0 { largest } else { largest.div_ceil(8) })).unwrap();
        let op = match random.below(10) {
            0..=5 => Op::Limit(cost),
            6..=7 => Op::Check(cost),
            8 => Op::Reserve(cost),
            _ => Op::Refund(cost),
        };
        let request = Request { scope: &scope, key: &key, quota, op, on_store_error: OnStoreError::Closed };
        let at = Timestamp::from_micros(now);
        let expected = reference.apply_at(&request, at).await.unwrap().into_parts();
        let found = subject.store().apply_at(&request, at).await.unwrap().into_parts();
        assert_eq!(found, expected, "{quota:?}, seed {seed}, step {step}: {op:?}");
        after(step, &scope).await;
    }
}
