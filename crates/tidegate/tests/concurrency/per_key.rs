//! Concurrency limits per key.

use tidegate::Key;
use tidegate::concurrency::{Completion, PerKey};

#[test]
fn keys_have_limits_of_their_own() {
    let keys = PerKey::new(1);
    let alice = keys.try_acquire("alice").unwrap();
    assert!(keys.try_acquire("alice").is_err());
    assert!(keys.try_acquire(Key::from("bob")).is_ok());

    let _first = keys.try_acquire(("a:b", "c")).unwrap();
    assert!(keys.try_acquire(("a", "b:c")).is_ok(), "parts are escaped");
    let _global = keys.try_acquire(Key::GLOBAL).unwrap();
    assert!(keys.try_acquire("").is_ok(), "an empty part is not the same as none");

    alice.release(Completion::Success);
    assert_eq!(keys.in_flight("alice"), 0);
    assert!(keys.try_acquire("alice").is_ok());
}

#[test]
fn rejection_of_a_key_is_not_shared() {
    let keys = PerKey::new(2);
    let _held = [keys.try_acquire("a").unwrap(), keys.try_acquire("a").unwrap()];
    let refused = keys.try_acquire("a").unwrap_err();
    assert!(!refused.is_shared());
    assert_eq!(refused.limit(), 2);
}

#[test]
fn limit_of_zero_counts_as_one() {
    assert!(PerKey::new(0).try_acquire("a").is_ok());
    assert_eq!(PerKey::new(0).limit(), 1);
}
