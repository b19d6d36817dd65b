//! The limiter and the enforcer, on the memory store.

use tidegate::enforce::{Action, Caller};
use tidegate::{Quota, minutes};

use crate::fixtures::{keys, large_quota, limiter, poll_once, quota_of_one, texts};
use crate::{Path, Paths, counted_call};

pub(crate) const PATHS: Paths = &[
    ("limiter/now/allowed", || try_now(large_quota(), true)),
    ("limiter/now/denied", || try_now(quota_of_one(), false)),
    ("limiter/await/allowed", await_call),
    ("limiter/all-of-two/allowed", limit_all),
    ("limiter/admit-release", admit_and_release),
    ("enforcer/allowed", || try_enforce(large_quota(), true)),
    ("enforcer/denied", || try_enforce(quota_of_one(), false)),
];

fn try_now(quota: Quota, allowed: bool) -> Path {
    let (limiter, texts) = (limiter(&[("api", quota)]), texts());
    Box::new(move |key| {
        counted_call(|| {
            let result = limiter.limit("api", texts[key].as_str()).try_now();
            result.is_ok_and(|decision| decision.allowed() == allowed)
        })
    })
}

fn await_call() -> Path {
    let (limiter, texts) = (limiter(&[("api", large_quota())]), texts());
    Box::new(move |key| {
        let call = async { limiter.limit("api", texts[key].as_str()).await };
        counted_call(|| poll_once(call).is_ok_and(|decision| decision.allowed()))
    })
}

fn limit_all() -> Path {
    let (limiter, texts) = (limiter(&[("user", large_quota()), ("tenant", large_quota())]), texts());
    Box::new(move |key| {
        let text = texts[key].as_str();
        let all = || poll_once(limiter.limit_all([limiter.limit("user", text), limiter.limit("tenant", text)]));
        counted_call(all).is_ok_and(|all| all.allowed())
    })
}

fn admit_and_release() -> Path {
    let quota = Quota::concurrency(10, minutes(1)).expect("a valid quota");
    let (limiter, texts) = (limiter(&[("work", quota)]), texts());
    Box::new(move |key| {
        let text = texts[key].as_str();
        counted_call(|| {
            let admitted = limiter.admit("work", text).try_now().ok().and_then(|admitted| admitted.lease());
            let released = admitted.and_then(|lease| limiter.release("work", text, lease).try_now().ok());
            released.is_some_and(|decision| decision.allowed())
        })
    })
}

fn try_enforce(quota: Quota, allowed: bool) -> Path {
    let enforcer = limiter(&[("api", quota)]).enforcer("api").unwrap();
    let callers: Vec<Caller<'static>> = keys().into_iter().map(Caller::new).collect();
    Box::new(move |key| {
        let outcome = counted_call(|| enforcer.try_apply(&callers[key], 1, Action::Limit));
        outcome.is_some_and(|outcome| outcome.is_allowed() == allowed)
    })
}
