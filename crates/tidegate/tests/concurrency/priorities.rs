//! What is left when there is too much goes to what matters.

use tidegate::concurrency::{Concurrency, Permit, Priority};

fn take_all(pool: &Concurrency, priority: Priority) -> Vec<Permit> {
    std::iter::from_fn(|| pool.try_acquire_as(priority).ok()).collect()
}

#[test]
fn each_class_leaves_the_reserve_to_those_above() {
    let pool = Concurrency::fixed(100).reserve(10);
    let shed = take_all(&pool, Priority::Sheddable);
    let ordinary = take_all(&pool, Priority::Default);
    let critical = take_all(&pool, Priority::Critical);
    assert_eq!((shed.len(), ordinary.len(), critical.len()), (80, 10, 10));

    // The most important are served as long as anything is left at all, whoever holds the rest.
    drop(shed);
    assert_eq!(take_all(&pool, Priority::Critical).len(), 80);
}

#[test]
fn without_a_reserve_everybody_is_the_same() {
    let pool = Concurrency::fixed(5);
    assert_eq!(take_all(&pool, Priority::Sheddable).len(), 5);
    let pool = Concurrency::fixed(5);
    assert_eq!(take_all(&pool, Priority::Critical).len(), 5);
}
