//! Tests that decisions in process allocate nothing.

mod counting;
mod decisions;
#[cfg(feature = "tower")]
mod layer;
#[cfg(feature = "tokio")]
mod two_tier;

#[test]
fn allocations_are_counted() {
    let ((), allocations) = counting::count_allocations(|| drop(std::hint::black_box(Box::new(1_u64))));
    assert_eq!(allocations, 1);
}
