//! Several calls at once, each on its own.

use tidegate::{Call, Decision, Error, Limit, Limiter, Quota, Reason, minutes};
use tidegate_testkit::{FaultyStore, Random, block_on};

use crate::support::{bucket, builder, clock, left, memory};

/// One limit of each kind that goes to the store in a way of its own.
fn limiter() -> Limiter {
    let shared = Limit::new(Quota::token_bucket(12, minutes(1)).unwrap()).shards(3).unwrap();
    let watched = Limit::new(bucket(2)).shadow(true);
    let limits = builder(&clock()).limit("plain", bucket(3)).limit("shared", shared);
    limits.limit("watched", watched).deny("plain", ["mallory"]).unwrap().build().unwrap()
}

/// A call at random; the same for the same numbers.
fn drawn<'a>(limiter: &'a Limiter, random: &mut Random) -> Call<'a> {
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

/// What an answer says, to compare.
fn said(answer: &Result<Decision, Error>) -> Result<Decision, String> {
    answer.as_ref().copied().map_err(Error::to_string)
}

#[test]
fn the_answers_are_those_of_one_after_the_other() {
    for seed in 0..200 {
        let (together, apart) = (limiter(), limiter());
        let (mut first, mut second) = (Random::new(seed), Random::new(seed));
        for _ in 0..5 {
            let calls: Vec<_> = (0..8).map(|_| drawn(&together, &mut first)).collect();
            let answers = block_on(together.batch(calls));
            for answer in answers {
                let expected = block_on(drawn(&apart, &mut second).into_future());
                assert_eq!(said(&answer), said(&expected), "seed {seed}");
            }
        }
    }
}

#[test]
fn those_that_go_to_the_store_go_together() {
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
fn a_call_that_fails_fails_alone() {
    let limiter = limiter();
    let other = limiter.clone();
    let apart = self::limiter();
    let answers = block_on(limiter.batch([
        limiter.limit("plain", "u"),
        limiter.limit("unknown", "u"),
        limiter.limit("plain", "mallory"),
        limiter.limit("plain", "u").cost(0),
        limiter.acquire("plain", "u", minutes(1)),
        apart.limit("plain", "u"),
        other.limit("plain", "u"),
    ]));
    let [first, unknown, denied, cost, acquire, stranger, last] = &answers[..] else { panic!("one answer each") };
    assert!(first.as_ref().unwrap().allowed() && last.as_ref().unwrap().allowed());
    assert!(matches!(unknown, Err(Error::UnknownLimit(_))));
    assert_eq!(denied.as_ref().unwrap().reason(), Some(Reason::Deny));
    assert!(matches!(cost, Err(Error::InvalidCost(_))));
    assert!(matches!((acquire, stranger), (Err(Error::Unsupported(_)), Err(Error::Unsupported(_)))));
    assert_eq!(left(&limiter, "plain", "u"), 1);
}

#[test]
fn a_limiter_that_is_closed_answers_none_of_them() {
    let limiter = limiter();
    block_on(limiter.close());
    let answers = block_on(limiter.batch([limiter.limit("plain", "u"), limiter.check("plain", "u")]));
    assert!(answers.iter().all(|answer| matches!(answer, Err(Error::Closed))), "{answers:?}");
}
