//! From `build` to `close`: what cannot be built, what cannot be asked, and who shares what with whom.

use std::sync::Arc;
use std::thread;

use tidegate::{
    BuildError, Error, InvalidCost, Key, Limit, Limiter, ManualClock, Reason, StoreError, StoreErrorKind, millis,
};
use tidegate_testkit::{FaultyStore, block_on};

use crate::support::{all, ask, bucket, builder, clock, left, memory, refused, window};

fn login(clock: &ManualClock) -> Limiter {
    builder(clock).limit("login", bucket(3)).build().unwrap()
}

#[test]
fn an_error_is_two_words() {
    assert!(size_of::<Error>() <= 16, "{}", size_of::<Error>());
}

#[test]
fn calls_can_be_sent_to_other_threads() {
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
fn nothing_happens_until_a_call_is_awaited() {
    let limiter = login(&clock());
    let call = limiter.limit("login", "u");
    let future = IntoFuture::into_future(call.clone());
    drop((call.clone(), future));
    assert_eq!(left(&limiter, "login", "u"), 3);
    assert_eq!(ask(call.clone()).remaining(), 2);
    assert_eq!(ask(call).remaining(), 1);
}

#[test]
fn the_answer_is_the_same_with_and_without_waiting() {
    let (one, other) = (login(&clock()), login(&clock()));
    for _ in 0..5 {
        assert_eq!(one.limit("login", 7_u64).try_now().unwrap(), ask(other.limit("login", 7_u64)));
    }
    assert_eq!(one.refund("login", 7_u64).try_now().unwrap(), ask(other.refund("login", 7_u64)));
    assert_eq!(one.check("login", 7_u64).try_now().unwrap(), ask(other.check("login", 7_u64)));
    assert_eq!(one.reserve("login", 7_u64).cost(3).try_now().unwrap(), ask(other.reserve("login", 7_u64).cost(3)));
    assert_eq!(one.reset("login", 7_u64).try_now().unwrap(), ask(other.reset("login", 7_u64)));
    assert_eq!(left(&one, "login", 7_u64), 3);
}

#[test]
fn every_operation_does_what_its_name_says() {
    let clock = clock();
    let limiter = login(&clock);
    assert_eq!(ask(limiter.limit("login", "u").cost(2)).remaining(), 1);
    assert_eq!(ask(limiter.check("login", "u").cost(2)).reason(), Some(Reason::Rate));
    assert_eq!(left(&limiter, "login", "u"), 1);
    let debt = ask(limiter.reserve("login", "u").cost(2));
    assert!(debt.allowed() && debt.remaining() == 0);
    // One unit of debt at 3 a minute.
    assert_eq!(debt.retry_after(), Some(millis(20_000)));
    assert!(!ask(limiter.limit("login", "u")).allowed());
    assert_eq!(ask(limiter.refund("login", "u").cost(2)).remaining(), 1);
    assert_eq!(ask(limiter.refund("login", "u").cost(100)).remaining(), 3);
    let _ = ask(limiter.limit("login", "u").cost(3));
    assert_eq!(ask(limiter.reset("login", "u")).remaining(), 3);
    assert_eq!(ask(limiter.limit("login", "u").cost(4)).reason(), Some(Reason::CostExceedsCapacity));
    assert_eq!(left(&limiter, "login", "u"), 3);
}

#[test]
fn an_unknown_limit_is_named_with_those_that_are_known() {
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
        let error = refused(call);
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
fn names_that_resemble_each_other_are_told_apart() {
    // Of equal length, with equal ends: what a quick hash of names could take for the same.
    let names =
        ["", "a", "b", "ab", "ba", "aXXXXXXb", "aYYYYYYb", "abcdefgh-middle1-abcdefgh", "abcdefgh-middle2-abcdefgh"];
    let clock = clock();
    let limits = names.iter().zip(1..).map(|(name, rate)| (*name, bucket(rate)));
    let limiter = builder(&clock).limits(limits).build().unwrap();
    for (name, rate) in names.iter().zip(1..) {
        assert_eq!(ask(limiter.limit(name, "u").cost(rate)).limit(), rate, "{name:?}");
        assert_eq!(left(&limiter, name, "u"), 0, "{name:?}");
    }
}

#[test]
fn a_cost_of_nothing_is_an_error_before_anything_is_asked() {
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
        let error = refused(call.cost(0));
        assert!(matches!(error, Error::InvalidCost(InvalidCost)) && error.is_misuse(), "{error:?}");
    }
    assert!(matches!(
        block_on(limiter.limit_all([limiter.limit("login", "u"), limiter.limit("login", "u").cost(0)])),
        Err(Error::InvalidCost(_))
    ));
    assert_eq!(faults.calls().decisions(), 0);
}

#[test]
fn the_largest_cost_is_a_cost() {
    let limiter = login(&clock());
    assert_eq!(ask(limiter.limit("login", "u").cost(u64::MAX)).reason(), Some(Reason::CostExceedsCapacity));
    assert_eq!(ask(limiter.reserve("login", "u").cost(u64::MAX)).reason(), Some(Reason::CostExceedsCapacity));
    assert!(ask(limiter.limit("login", "u").cost(3)).allowed());
    assert_eq!(ask(limiter.refund("login", "u").cost(u64::MAX)).remaining(), 3);
    let twice = [limiter.limit("login", "u").cost(u64::MAX), limiter.limit("login", "u").cost(u64::MAX)];
    assert!(!all(&limiter, twice).allowed());
    assert_eq!(left(&limiter, "login", "u"), 3);
}

#[test]
fn what_cannot_be_built_is_named() {
    let clock = clock();
    let twice = builder(&clock).limit("a", bucket(1)).limit("b", bucket(1)).limit("a", bucket(2)).build();
    assert_eq!(twice.unwrap_err(), BuildError::DuplicateLimit("a".to_owned()));
    let nobody = builder(&clock).limit("a", bucket(1)).deny("b", ["u"]).unwrap().build();
    assert!(matches!(nobody.unwrap_err(), BuildError::UnknownLimit { name, .. } if name == "b"));
}

#[test]
fn a_deny_list_may_be_given_before_its_limit() {
    let clock = clock();
    let limiter = builder(&clock).deny("a", ["u"]).unwrap().limit("a", bucket(1)).build().unwrap();
    assert_eq!(ask(limiter.limit("a", "u")).reason(), Some(Reason::Deny));
}

#[test]
fn a_limiter_without_limits_knows_no_limit() {
    let limiter = builder(&clock()).build().unwrap();
    assert!(limiter.names().is_empty());
    assert!(matches!(refused(limiter.limit("", Key::GLOBAL)), Error::UnknownLimit(_)));
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
fn a_clone_is_the_same_limiter() {
    let limiter = login(&clock());
    let clone = limiter.clone();
    assert_eq!(ask(limiter.limit("login", "u")).remaining(), 2);
    assert_eq!(ask(clone.limit("login", "u")).remaining(), 1);
    clone.set_quota("login", bucket(10)).unwrap();
    assert_eq!(left(&limiter, "login", "u"), 8);
    assert!(all(&limiter, [clone.limit("login", "u")]).allowed());
    block_on(clone.close());
    assert!(matches!(refused(limiter.limit("login", "u")), Error::Closed));
}

#[test]
fn cloning_into_threads_multiplies_nothing() {
    let clock = clock();
    let limiter = builder(&clock).limit("login", bucket(1_000)).build().unwrap();
    let threads: Vec<_> = (0..8)
        .map(|_| {
            let limiter = limiter.clone();
            thread::spawn(move || (0..200).filter(|_| ask(limiter.limit("login", "u")).allowed()).count())
        })
        .collect();
    let admitted: usize = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
    assert_eq!(admitted, 1_000);
}

#[test]
fn limits_keys_and_prefixes_do_not_meet() {
    let clock = clock();
    let store = Arc::new(memory(&clock));
    // Names and prefixes that would be the same if they were only put behind each other.
    let limiter = |prefix: &str| {
        let names = ["a", "a|b", "b", "a%7cb", ""];
        let limits = names.map(|name| (name, bucket(1)));
        (Limiter::builder().limits(limits).prefix(prefix).store(store.clone()).build().unwrap(), names)
    };
    for (limiter, names) in ["", "a", "b", "a|b", "a|", "|a"].map(limiter) {
        for name in names {
            for key in ["", "a", "b", "a|b", "a%7cb", "|"] {
                assert!(ask(limiter.limit(name, key)).allowed(), "{name:?} {key:?}");
            }
            for key in [("a", "b"), ("", ""), ("a|b", ""), ("", "a|b")] {
                assert!(ask(limiter.limit(name, key)).allowed(), "{name:?} {key:?}");
            }
            assert!(ask(limiter.limit(name, Key::GLOBAL)).allowed(), "{name:?}");
        }
    }
}

#[test]
fn limiters_with_the_same_prefix_share_what_is_in_the_store() {
    let clock = clock();
    let store = Arc::new(memory(&clock));
    let build = |prefix: &str| {
        Limiter::builder().limit("login", bucket(3)).prefix(prefix).store(store.clone()).build().unwrap()
    };
    let (one, same, other) = (build("eu"), build("eu"), build("us"));
    let _ = ask(one.limit("login", "u").cost(2));
    assert_eq!((left(&same, "login", "u"), left(&other, "login", "u")), (1, 3));
    // Settings are not shared: the limits are the limiter's own, what was used is the store's.
    same.set_quota("login", bucket(10)).unwrap();
    assert_eq!((left(&same, "login", "u"), left(&one, "login", "u")), (8, 1));
    // Neither is being open.
    block_on(one.close());
    assert!(ask(same.limit("login", "u")).allowed());
}

#[test]
fn a_thread_that_uses_many_limiters_by_turns_never_mixes_them_up() {
    let clock = clock();
    let limiters: Vec<_> = (1..=40).map(|rate| builder(&clock).limit("a", bucket(rate)).build().unwrap()).collect();
    for round in 0..3 {
        for (limiter, rate) in limiters.iter().zip(1..) {
            assert_eq!(ask(limiter.check("a", "u")).limit(), rate + round);
            limiter.set_quota("a", bucket(rate + round + 1)).unwrap();
            assert_eq!(ask(limiter.check("a", "u")).limit(), rate + round + 1);
        }
    }
}

#[test]
fn after_close_nothing_is_answered_and_nothing_is_asked() {
    let clock = clock();
    let store = FaultyStore::new(memory(&clock));
    let faults = store.faults();
    let limiter =
        Limiter::builder().limit("login", bucket(3)).bare_store(store).sleeper(clock.clone()).build().unwrap();
    let _ = ask(limiter.limit("login", "u"));
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
        let error = refused(call);
        assert!(matches!(error, Error::Closed) && !error.is_misuse() && !error.is_retryable());
    }
    assert!(matches!(block_on(limiter.limit_all([limiter.limit("login", "u")])), Err(Error::Closed)));
    assert_eq!(faults.calls().decisions(), asked);
}

#[test]
fn a_broken_store_is_an_error_that_says_whether_a_retry_can_help() {
    let clock = clock();
    let store = FaultyStore::new(memory(&clock));
    let faults = store.faults();
    let limiter =
        Limiter::builder().limit("login", bucket(3)).bare_store(store).sleeper(clock.clone()).build().unwrap();
    for (kind, retryable) in [(StoreErrorKind::Unavailable, true), (StoreErrorKind::Corrupt, false)] {
        faults.fail(StoreError::new(kind, "unplugged"));
        for call in [limiter.limit("login", "u"), limiter.acquire("login", "u", millis(1))] {
            let error = refused(call);
            assert!(matches!(&error, Error::Store(error) if error.kind() == kind), "{error:?}");
            assert_eq!((error.is_retryable(), error.is_misuse()), (retryable, false));
        }
        assert!(matches!(block_on(limiter.limit_all([limiter.limit("login", "u")])), Err(Error::Store(_))));
    }
    faults.pass();
    assert_eq!(ask(limiter.limit("login", "u")).remaining(), 2);
}
