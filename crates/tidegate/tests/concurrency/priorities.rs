//! Priorities: under overload, the rest of the limit goes to important work.

use tidegate::concurrency::{Concurrency, Permit, Priority};

fn take_all(pool: &Concurrency, priority: Priority) -> Vec<Permit> {
    std::iter::from_fn(|| pool.try_acquire_as(priority).ok()).collect()
}

#[test]
fn each_priority_leaves_the_reserve_to_higher_ones() {
    let pool = Concurrency::fixed(100).reserve(10);
    let shed = take_all(&pool, Priority::Sheddable);
    let ordinary = take_all(&pool, Priority::Default);
    let critical = take_all(&pool, Priority::Critical);
    assert_eq!((shed.len(), ordinary.len(), critical.len()), (80, 10, 10));

    // Critical work is admitted as long as any slot is free. The priority of the permits in flight does not matter.
    drop(shed);
    assert_eq!(take_all(&pool, Priority::Critical).len(), 80);
}

#[test]
fn without_a_reserve_priorities_are_equal() {
    let pool = Concurrency::fixed(5);
    assert_eq!(take_all(&pool, Priority::Sheddable).len(), 5);
    let pool = Concurrency::fixed(5);
    assert_eq!(take_all(&pool, Priority::Critical).len(), 5);
}
