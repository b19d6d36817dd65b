//! `simulate --store`: the same decisions on every store, and no key left behind.

mod bad_input;
mod leftovers;
mod neighbours;
mod same;

/// A test for each function and each store but memory.
macro_rules! on_each_store {
    ($($test:ident)*) => {
        on_each_store!(sqlite: $($test)*);
        on_each_store!(redis: $($test)*);
        on_each_store!(valkey: $($test)*);
        on_each_store!(postgres: $($test)*);
    };
    ($store:ident: $($test:ident)*) => {
        mod $store {
            $(
                #[test]
                fn $test() {
                    super::$test(&crate::cli::store::Store::$store());
                }
            )*
        }
    };
}

use on_each_store;
