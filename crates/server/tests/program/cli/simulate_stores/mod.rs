//! `simulate --store`: the same decisions on every store, and no key left behind.

mod bad_input;
mod cleanup;
mod equivalence;
mod isolation;

/// A test for each function and each store but memory.
macro_rules! on_each_store {
    ($($test:ident)*) => {
        on_each_store!(sqlite: $($test)*);
        #[cfg(feature = "_real-servers")]
        on_each_store!(redis: $($test)*);
        #[cfg(feature = "_real-servers")]
        on_each_store!(valkey: $($test)*);
        #[cfg(feature = "_real-servers")]
        on_each_store!(postgres: $($test)*);
    };
    ($store:ident: $($test:ident)*) => {
        mod $store {
            $(
                #[test]
                fn $test() {
                    super::$test(&crate::cli::store::TestStore::$store());
                }
            )*
        }
    };
}

use on_each_store;
