//! The life of a limiter: invalid builders, invalid calls, shared state, and `close`.

use std::sync::Arc;
use std::thread;

use tidegate::{
    BuildError, Error, InvalidCost, Key, Limit, Limiter, ManualClock, Reason, StoreError, StoreErrorKind, millis,
};
use tidegate_testkit::{FaultyStore, block_on};

use crate::support::{bucket, builder, clock, decide, expect_error, left, limit_all, memory, window};

fn login(clock: &ManualClock) -> Limiter {
    builder(clock).limit("login", bucket(3)).build().unwrap()
}

#[test]
fn error_is_two_words() {
    assert!(size_of::<Error>() <= 16, "{}", size_of::<Error>());
}

#[test]
fn calls_are_send() {
    fn is_send<T: Send>(value: T) -> T {
        value
    }
    fn is_shared<T: Send + Sync>(_: &T) {}
    let limiter = login(&clock());
    is_shared(&limiter);
    let one = is_send(limiter.limit("login", "u"));
    drop(is_send(IntoFuture::into_future(limiter.acquire("login", "u", millis(1)))));
    let both = is_send(limiter.limit_all([one, limiter.limit("login", "u")]));
    assert!(block_on(both).unwrap().allowed());
    block_on(is_send(limiter.close()));
}

#[test]
fn call_does_nothing_until_it_is_awaited() {
    let limiter = login(&clock());
    let call = limiter.limit("login", "u");
    let future = IntoFuture::into_future(call.clone());
    drop((call.clone(), future));
    assert_eq!(left(&limiter, "login", "u"), 3);
    assert_eq!(decide(call.clone()).remaining(), 2);
    assert_eq!(decide(call).remaining(), 1);
}

#[test]
fn try_now_and_await_decide_alike() {
    let (one, other) = (login(&clock()), login(&clock()));
    for _ in 0..5 {
        assert_eq!(one.limit("login", 7_u64).try_now().unwrap(), decide(other.limit("login", 7_u64)));
    }
    assert_eq!(one.refund("login", 7_u64).try_now().unwrap(), decide(other.refund("login", 7_u64)));
    assert_eq!(one.check("login", 7_u64).try_now().unwrap(), decide(other.check("login", 7_u64)));
    assert_eq!(one.reserve("login", 7_u64).cost(3).try_now().unwrap(), decide(other.reserve("login", 7_u64).cost(3)));
    assert_eq!(one.reset("login", 7_u64).try_now().unwrap(), decide(other.reset("login", 7_u64)));
    assert_eq!(left(&one, "login", 7_u64), 3);
}

#[test]
fn every_operation_has_its_effect() {
    let clock = clock();
    let limiter = login(&clock);
    assert_eq!(decide(limiter.limit("login", "u").cost(2)).remaining(), 1);
    assert_eq!(decide(limiter.check("login", "u").cost(2)).reason(), Some(Reason::Rate));
    assert_eq!(left(&limiter, "login", "u"), 1);
    let debt = decide(limiter.reserve("login", "u").cost(2));
    assert!(debt.allowed() && debt.remaining() == 0);
    // One unit of debt at 3 a minute.
    assert_eq!(debt.retry_after(), Some(millis(20_000)));
    assert!(!decide(limiter.limit("login", "u")).allowed());
    assert_eq!(decide(limiter.refund("login", "u").cost(2)).remaining(), 1);
    assert_eq!(decide(limiter.refund("login", "u").cost(100)).remaining(), 3);
    let _ = decide(limiter.limit("login", "u").cost(3));
    assert_eq!(decide(limiter.reset("login", "u")).remaining(), 3);
    assert_eq!(decide(limiter.limit("login", "u").cost(4)).reason(), Some(Reason::CostExceedsCapacity));
    assert_eq!(left(&limiter, "login", "u"), 3);
}

#[test]
fn unknown_limit_error_lists_the_known_limits() {
    let clock = clock();
    let limiter = builder(&clock).limit("send", bucket(1)).limit("login", bucket(1)).build().unwrap();
    let calls = [
        limiter.limit("logn", "u"),
        limiter.check("logn", "u"),
        limiter.reserve("logn", "u"),
        limiter.refund("logn", "u"),
        limiter.reset("logn", "u"),
        limiter.acquire("logn", "u", millis(1)),
    ];
    for call in calls {
        let error = expect_error(call);
        assert!(error.is_misuse() && !error.is_retryable());
        assert_eq!(error.to_string(), "there is no limit named \"logn\": expected one of login, send");
        let Error::UnknownLimit(unknown) = error else { panic!("{error:?}") };
        assert_eq!(
            (unknown.name.as_str(), unknown.known.as_slice()),
            ("logn", ["login", "send"].map(String::from).as_slice())
        );
    }
    assert!(matches!(limiter.quota("logn"), Err(Error::UnknownLimit(_))));
    assert!(matches!(limiter.get("logn"), Err(Error::UnknownLimit(_))));
    assert!(matches!(limiter.set_quota("logn", bucket(1)), Err(Error::UnknownLimit(_))));
    assert!(matches!(limiter.replace("logn", bucket(1).into()), Err(Error::UnknownLimit(_))));
    assert_eq!(limiter.names(), ["login", "send"]);
}

#[test]
fn limits_with_similar_names_are_distinct() {
    // Names of equal length with equal ends, which a quick hash could confuse.
    let names =
        ["", "a", "b", "ab", "ba", "aXXXXXXb", "aYYYYYYb", "abcdefgh-middle1-abcdefgh", "abcdefgh-middle2-abcdefgh"];
    let clock = clock();
    let limits = names.iter().zip(1..).map(|(name, rate)| (*name, bucket(rate)));
    let limiter = builder(&clock).limits(limits).build().unwrap();
    for (name, rate) in names.iter().zip(1..) {
        assert_eq!(decide(limiter.limit(name, "u").cost(rate)).limit(), rate, "{name:?}");
        assert_eq!(left(&limiter, name, "u"), 0, "{name:?}");
    }
}

#[test]
fn cost_of_zero_is_an_error_before_the_store_is_called() {
    let store = FaultyStore::new(memory(&clock()));
    let faults = store.faults();
    let limiter = Limiter::builder().limit("login", bucket(3)).bare_store(store).sleeper(clock()).build().unwrap();
    let calls = [
        limiter.limit("login", "u"),
        limiter.check("login", "u"),
        limiter.reserve("login", "u"),
        limiter.refund("login", "u"),
        limiter.acquire("login", "u", millis(1)),
    ];
    for call in calls {
        let error = expect_error(call.cost(0));
        assert!(matches!(error, Error::InvalidCost(InvalidCost)) && error.is_misuse(), "{error:?}");
    }
    assert!(matches!(
        block_on(limiter.limit_all([limiter.limit("login", "u"), limiter.limit("login", "u").cost(0)])),
        Err(Error::InvalidCost(_))
    ));
    assert_eq!(faults.calls().decisions(), 0);
}

#[test]
fn largest_cost_is_accepted() {
    let limiter = login(&clock());
    assert_eq!(decide(limiter.limit("login", "u").cost(u64::MAX)).reason(), Some(Reason::CostExceedsCapacity));
    assert_eq!(decide(limiter.reserve("login", "u").cost(u64::MAX)).reason(), Some(Reason::CostExceedsCapacity));
    assert!(decide(limiter.limit("login", "u").cost(3)).allowed());
    assert_eq!(decide(limiter.refund("login", "u").cost(u64::MAX)).remaining(), 3);
    let twice = [limiter.limit("login", "u").cost(u64::MAX), limiter.limit("login", "u").cost(u64::MAX)];
    assert!(!limit_all(&limiter, twice).allowed());
    assert_eq!(left(&limiter, "login", "u"), 3);
}

#[test]
fn build_error_names_the_limit() {
    let clock = clock();
    let twice = builder(&clock).limit("a", bucket(1)).limit("b", bucket(1)).limit("a", bucket(2)).build();
    assert_eq!(twice.unwrap_err(), BuildError::DuplicateLimit("a".to_owned()));
    let nobody = builder(&clock).limit("a", bucket(1)).deny("b", ["u"]).unwrap().build();
    assert!(matches!(nobody.unwrap_err(), BuildError::UnknownLimit { name, .. } if name == "b"));
}

#[test]
fn deny_list_can_precede_its_limit() {
    let clock = clock();
    let limiter = builder(&clock).deny("a", ["u"]).unwrap().limit("a", bucket(1)).build().unwrap();
    assert_eq!(decide(limiter.limit("a", "u")).reason(), Some(Reason::Deny));
}

#[test]
fn limiter_without_limits_rejects_every_name() {
    let limiter = builder(&clock()).build().unwrap();
    assert!(limiter.names().is_empty());
    assert!(matches!(expect_error(limiter.limit("", Key::GLOBAL)), Error::UnknownLimit(_)));
}

#[test]
fn settings_can_be_read_back() {
    let limit = Limit::new(window(5)).shadow(true).deny(["mallory"]).unwrap();
    let limiter = builder(&clock()).limit("a", limit.clone()).limit("b", bucket(2)).build().unwrap();
    assert_eq!(limiter.get("a").unwrap(), limit);
    assert_eq!((limiter.quota("a").unwrap(), limiter.quota("b").unwrap()), (window(5), bucket(2)));
    assert!(limiter.get("a").unwrap().is_shadow() && !limiter.get("b").unwrap().is_shadow());
    assert_eq!(limiter.get("b").unwrap().quota(), &bucket(2));
    assert!(format!("{limiter:?}").contains("\"a\", \"b\""), "{limiter:?}");
}

#[test]
fn clones_share_one_limiter() {
    let limiter = login(&clock());
    let clone = limiter.clone();
    assert_eq!(decide(limiter.limit("login", "u")).remaining(), 2);
    assert_eq!(decide(clone.limit("login", "u")).remaining(), 1);
    clone.set_quota("login", bucket(10)).unwrap();
    assert_eq!(left(&limiter, "login", "u"), 8);
    assert!(limit_all(&limiter, [clone.limit("login", "u")]).allowed());
    block_on(clone.close());
    assert!(matches!(expect_error(limiter.limit("login", "u")), Error::Closed));
}

#[test]
fn clones_in_threads_share_one_quota() {
    let clock = clock();
    let limiter = builder(&clock).limit("login", bucket(1_000)).build().unwrap();
    let threads: Vec<_> = (0..8)
        .map(|_| {
            let limiter = limiter.clone();
            thread::spawn(move || (0..200).filter(|_| decide(limiter.limit("login", "u")).allowed()).count())
        })
        .collect();
    let admitted: usize = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
    assert_eq!(admitted, 1_000);
}

#[test]
fn limits_keys_and_prefixes_are_isolated() {
    let clock = clock();
    let store = Arc::new(memory(&clock));
    // Names and prefixes that would be equal if they were only concatenated.
    let limiter = |prefix: &str| {
        let names = ["a", "a|b", "b", "a%7cb", ""];
        let limits = names.map(|name| (name, bucket(1)));
        (Limiter::builder().limits(limits).prefix(prefix).store(store.clone()).build().unwrap(), names)
    };
    for (limiter, names) in ["", "a", "b", "a|b", "a|", "|a"].map(limiter) {
        for name in names {
            for key in ["", "a", "b", "a|b", "a%7cb", "|"] {
                assert!(decide(limiter.limit(name, key)).allowed(), "{name:?} {key:?}");
            }
            for key in [("a", "b"), ("", ""), ("a|b", ""), ("", "a|b")] {
                assert!(decide(limiter.limit(name, key)).allowed(), "{name:?} {key:?}");
            }
            assert!(decide(limiter.limit(name, Key::GLOBAL)).allowed(), "{name:?}");
        }
    }
}

#[test]
fn limiters_with_the_same_prefix_share_the_state_in_the_store() {
    let clock = clock();
    let store = Arc::new(memory(&clock));
    let build = |prefix: &str| {
        Limiter::builder().limit("login", bucket(3)).prefix(prefix).store(store.clone()).build().unwrap()
    };
    let (one, same, other) = (build("eu"), build("eu"), build("us"));
    let _ = decide(one.limit("login", "u").cost(2));
    assert_eq!((left(&same, "login", "u"), left(&other, "login", "u")), (1, 3));
    // Settings are not shared: each limiter has its own limits, and the store has the usage.
    same.set_quota("login", bucket(10)).unwrap();
    assert_eq!((left(&same, "login", "u"), left(&one, "login", "u")), (8, 1));
    // Closing is not shared either.
    block_on(one.close());
    assert!(decide(same.limit("login", "u")).allowed());
}

#[test]
fn thread_with_many_limiters_never_mixes_them_up() {
    let clock = clock();
    let limiters: Vec<_> = (1..=40).map(|rate| builder(&clock).limit("a", bucket(rate)).build().unwrap()).collect();
    for round in 0..3 {
        for (limiter, rate) in limiters.iter().zip(1..) {
            assert_eq!(decide(limiter.check("a", "u")).limit(), rate + round);
            limiter.set_quota("a", bucket(rate + round + 1)).unwrap();
            assert_eq!(decide(limiter.check("a", "u")).limit(), rate + round + 1);
        }
    }
}

#[test]
fn closed_limiter_rejects_calls_without_the_store() {
    let clock = clock();
    let store = FaultyStore::new(memory(&clock));
    let faults = store.faults();
    let limiter =
        Limiter::builder().limit("login", bucket(3)).bare_store(store).sleeper(clock.clone()).build().unwrap();
    let _ = decide(limiter.limit("login", "u"));
    let asked = faults.calls().decisions();
    for _ in 0..3 {
        block_on(limiter.close());
        assert_eq!(faults.calls().close, 1);
    }
    let calls = [
        limiter.limit("login", "u"),
        limiter.check("login", "u"),
        limiter.reserve("login", "u"),
        limiter.refund("login", "u"),
        limiter.reset("login", "u"),
        limiter.acquire("login", "u", millis(1)),
    ];
    for call in calls {
        let error = expect_error(call);
        assert!(matches!(error, Error::Closed) && !error.is_misuse() && !error.is_retryable());
    }
    assert!(matches!(block_on(limiter.limit_all([limiter.limit("login", "u")])), Err(Error::Closed)));
    assert_eq!(faults.calls().decisions(), asked);
}

#[test]
fn store_error_tells_whether_a_retry_can_help() {
    let clock = clock();
    let store = FaultyStore::new(memory(&clock));
    let faults = store.faults();
    let limiter =
        Limiter::builder().limit("login", bucket(3)).bare_store(store).sleeper(clock.clone()).build().unwrap();
    for (kind, retryable) in [(StoreErrorKind::Unavailable, true), (StoreErrorKind::Corrupt, false)] {
        faults.fail(StoreError::new(kind, "unplugged"));
        for call in [limiter.limit("login", "u"), limiter.acquire("login", "u", millis(1))] {
            let error = expect_error(call);
            assert!(matches!(&error, Error::Store(error) if error.kind() == kind), "{error:?}");
            assert_eq!((error.is_retryable(), error.is_misuse()), (retryable, false));
        }
        assert!(matches!(block_on(limiter.limit_all([limiter.limit("login", "u")])), Err(Error::Store(_))));
    }
    faults.pass();
    assert_eq!(decide(limiter.limit("login", "u")).remaining(), 2);
}
