//! Fuzz targets: functions that take any bytes, and panic when a promise is broken.
//!
//! `cargo xtask test` replays what is in `corpus/` and goes on from there for a while, with a generator that always
//! starts alike. `cargo xtask deep` gives the same targets to libFuzzer, which looks at where the code has been, and adds
//! to `corpus/` what has led to somewhere new.
#![forbid(unsafe_code)]

mod driver;
pub mod targets;

pub use driver::drive;

/// Makes a program of a target: under libFuzzer when it is built for that, and a program of its own otherwise.
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
