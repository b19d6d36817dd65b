//! The program that `cargo xtask instructions` runs under callgrind to count the instructions of each hot path.
//!
//! Without an argument it lists them, each with how many calls of it count. With a name it takes that path [`ROUNDS`] times
//! over [`CALLS`] keys to warm up, and then once more in [`counted_round`], where callgrind counts what is within
//! [`counted_call`].
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout)] // it tells the names to whoever counts

mod fixtures;
mod http;
mod limiter;
mod memory;
mod permits;
mod service;

use std::hint::black_box;
use std::process::ExitCode;

/// One call of a hot path about the key of that number: whether the answer was the expected one. What of it counts is within
/// [`counted_call`]; what is made for it and what is left of it is not.
type Path = Box<dyn FnMut(usize) -> bool>;
/// The hot paths by name, and what makes each of them ready.
type Paths = &'static [(&'static str, fn() -> Path)];

/// How many keys are asked about, each once: where a key happens to lie in a table is luck, and the mean of many is not.
const CALLS: usize = 1_000;
/// Rounds before the one that counts: then no key is new, logs are full, and denials have begun.
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
    // A path that answers something else is another path.
    assert_eq!(counted_round(&mut *path), CALLS, "{wanted}: not what was expected");
    ExitCode::SUCCESS
}

fn round(path: &mut dyn FnMut(usize) -> bool) -> usize {
    (0..CALLS).filter(|key| path(*key)).count()
}

/// The round that counts: callgrind knows it by its name, and forgets at its beginning what it has counted before.
#[inline(never)]
fn counted_round(path: &mut dyn FnMut(usize) -> bool) -> usize {
    black_box(round(path))
}

/// What counts of a call: callgrind knows it by its name, and counts from its beginning to its end.
#[inline(never)]
fn counted_call<T>(call: impl FnOnce() -> T) -> T {
    call()
}
