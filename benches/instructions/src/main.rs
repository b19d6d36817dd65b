//! The program that `cargo xtask instructions` runs under callgrind to count the instructions of each hot path.
//!
//! Without an argument it lists the paths, each with the number of counted calls. With a name it runs that path
//! [`ROUNDS`] times over [`CALLS`] keys to warm up. Then it runs the path once more in [`counted_round`], where
//! callgrind counts the instructions inside [`counted_call`].
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout)] // it lists the names for the program that counts

mod fixtures;
mod http;
mod limiter;
mod memory;
mod permits;
mod service;

use std::hint::black_box;
use std::process::ExitCode;

/// One call of a hot path with the key of that number. Returns whether the answer was the expected one. Only the part
/// inside [`counted_call`] counts, without preparation and cleanup.
type Path = Box<dyn FnMut(usize) -> bool>;
/// The hot paths: names, and functions that prepare them.
type Paths = &'static [(&'static str, fn() -> Path)];

/// The number of keys, each used once in a round. The place of a single key in a table is luck; the mean of many is
/// not.
const CALLS: usize = 1_000;
/// The number of rounds before the counted one. After them no key is new, logs are full, and denials have begun.
const ROUNDS: usize = 16;

const PATHS: [Paths; 5] = [memory::PATHS, limiter::PATHS, http::PATHS, permits::PATHS, service::PATHS];

fn main() -> ExitCode {
    let mut paths = PATHS.into_iter().flatten();
    let Some(wanted) = std::env::args().nth(1) else {
        paths.for_each(|(name, _)| println!("{name} {CALLS}"));
        return ExitCode::SUCCESS;
    };
    let Some((_, prepare)) = paths.find(|(name, _)| *name == wanted) else {
        println!("there is no path {wanted:?}");
        return ExitCode::from(2);
    };
    let mut path = prepare();
    for _ in 0..ROUNDS {
        round(&mut *path);
    }
    // A path with an unexpected answer measures something else.
    assert_eq!(counted_round(&mut *path), CALLS, "{wanted}: not what was expected");
    ExitCode::SUCCESS
}

fn round(path: &mut dyn FnMut(usize) -> bool) -> usize {
    (0..CALLS).filter(|key| path(*key)).count()
}

/// Runs the counted round. Callgrind knows it by its name, and resets its counts when it begins.
#[inline(never)]
fn counted_round(path: &mut dyn FnMut(usize) -> bool) -> usize {
    black_box(round(path))
}

/// Runs the counted part of a call. Callgrind knows it by its name, and counts while it runs.
#[inline(never)]
fn counted_call<T>(call: impl FnOnce() -> T) -> T {
    call()
}
