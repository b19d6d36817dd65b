//! What is decided in process allocates nothing.

mod counting;
mod decisions;
#[cfg(feature = "tower")]
mod layer;
#[cfg(feature = "tokio")]
mod two_tier;

#[test]
fn allocations_are_counted() {
    let ((), allocations) = counting::counted(|| drop(std::hint::black_box(Box::new(1_u64))));
    assert_eq!(allocations, 1);
}
