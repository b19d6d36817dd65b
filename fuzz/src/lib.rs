//! Fuzz targets: functions that take any bytes, and panic when a promise is broken.
//!
//! `cargo xtask test` replays `corpus/` and then mutates it for a while, with a generator that always starts with the
//! same seed. `cargo xtask deep` runs these targets under libFuzzer, which follows code coverage. It adds inputs with
//! new coverage to `corpus/`.
#![forbid(unsafe_code)]

mod driver;
pub mod targets;

pub use driver::drive;

/// Creates a program of a target, under libFuzzer if it is built for that.
#[macro_export]
macro_rules! fuzz {
    ($target:ident) => {
        #[cfg(fuzzing)]
        libfuzzer_sys::fuzz_target!(|data: &[u8]| $crate::targets::$target(data));

        #[cfg(not(fuzzing))]
        fn main() {
            $crate::drive(stringify!($target), $crate::targets::$target);
        }
    };
}
