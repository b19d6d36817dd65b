//! Batches: several independent calls at once.

use tidegate::{Call, Decision, Error, Limit, Limiter, Quota, Reason, minutes};
use tidegate_testkit::{FaultyStore, Random, block_on};

use crate::support::{bucket, builder, clock, left, memory};

/// Creates a limiter with a plain, a sharded and a shadow limit.
fn limiter() -> Limiter {
    let shared = Limit::new(Quota::token_bucket(12, minutes(1)).unwrap()).shards(3).unwrap();
    let watched = Limit::new(bucket(2)).shadow(true);
    let limits = builder(&clock()).limit("plain", bucket(3)).limit("shared", shared);
    limits.limit("watched", watched).deny("plain", ["mallory"]).unwrap().build().unwrap()
}

/// Returns a random call, the same for the same seed.
fn random_call<'a>(limiter: &'a Limiter, random: &mut Random) -> Call<'a> {
    let name = ["plain", "shared", "watched", "unknown"][random.below(4) as usize];
    let key = ["u", "v", "mallory"][random.below(3) as usize];
    let call = match random.below(5) {
        0 => limiter.check(name, key),
        1 => limiter.refund(name, key),
        2 => limiter.reset(name, key),
        _ => limiter.limit(name, key),
    };
    call.cost(random.below(3))
}

/// Converts an answer to a form that can be compared.
fn comparable(answer: &Result<Decision, Error>) -> Result<Decision, String> {
    answer.as_ref().copied().map_err(Error::to_string)
}

#[test]
fn batch_decides_like_sequential_calls() {
    for seed in 0..200 {
        let (batched, sequential) = (limiter(), limiter());
        let (mut first, mut second) = (Random::new(seed), Random::new(seed));
        for _ in 0..5 {
            let calls: Vec<_> = (0..8).map(|_| random_call(&batched, &mut first)).collect();
            let answers = block_on(batched.batch(calls));
            for answer in answers {
                let expected = block_on(random_call(&sequential, &mut second).into_future());
                assert_eq!(comparable(&answer), comparable(&expected), "seed {seed}");
            }
        }
    }
}

#[test]
fn batch_is_one_call_of_the_store() {
    let clock = clock();
    let store = FaultyStore::new(memory(&clock));
    let faults = store.faults();
    let limiter = Limiter::builder().limit("a", bucket(3)).limit("b", bucket(1)).bare_store(store).build().unwrap();
    let calls = [limiter.limit("a", "u"), limiter.limit("b", "u"), limiter.limit("b", "u"), limiter.check("a", "u")];
    let answers = block_on(limiter.batch(calls));
    let allowed: Vec<_> = answers.iter().map(|answer| answer.as_ref().unwrap().allowed()).collect();
    assert_eq!((allowed, faults.calls().decisions()), (vec![true, true, false, true], 1));
}

#[test]
fn failing_call_does_not_affect_the_others() {
    let limiter = limiter();
    let other = limiter.clone();
    let foreign_limiter = self::limiter();
    let answers = block_on(limiter.batch([
        limiter.limit("plain", "u"),
        limiter.limit("unknown", "u"),
        limiter.limit("plain", "mallory"),
        limiter.limit("plain", "u").cost(0),
        limiter.acquire("plain", "u", minutes(1)),
        foreign_limiter.limit("plain", "u"),
        other.limit("plain", "u"),
    ]));
    let [first, unknown, denied, cost, acquire, foreign, last] = &answers[..] else { panic!("one answer each") };
    assert!(first.as_ref().unwrap().allowed() && last.as_ref().unwrap().allowed());
    assert!(matches!(unknown, Err(Error::UnknownLimit(_))));
    assert_eq!(denied.as_ref().unwrap().reason(), Some(Reason::Deny));
    assert!(matches!(cost, Err(Error::InvalidCost(_))));
    assert!(matches!((acquire, foreign), (Err(Error::Unsupported(_)), Err(Error::Unsupported(_)))));
    assert_eq!(left(&limiter, "plain", "u"), 1);
}

#[test]
fn closed_limiter_rejects_every_call_of_a_batch() {
    let limiter = limiter();
    block_on(limiter.close());
    let answers = block_on(limiter.batch([limiter.limit("plain", "u"), limiter.check("plain", "u")]));
    assert!(answers.iter().all(|answer| matches!(answer, Err(Error::Closed))), "{answers:?}");
}
