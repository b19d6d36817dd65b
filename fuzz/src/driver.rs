//! A driver that runs a target on its corpus and on mutations of it, always in the same order.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tidegate_testkit::Random;

/// The default time of a run.
const DEFAULT_SPAN: Duration = Duration::from_secs(5);
/// The maximum length of an input.
const MAX_INPUT_BYTES: usize = 512;

/// Words for mutations. Random bytes find a comma, but not an address.
const WORDS: &[&[u8]] = &[
    b",",
    b";",
    b"\"",
    b"\\",
    b"[",
    b"]",
    b":",
    b"|",
    b"%",
    b"%25",
    b"%7c",
    b"%s0",
    b"%a|",
    b"%c|",
    b"\n",
    b"\x1f",
    b"for=",
    b"For=\"",
    b"unknown",
    b"_hidden",
    b"10.0.0.1",
    b"203.0.113.9",
    b"::1",
    b"[2001:db8::17]:4711",
    b"::ffff:10.0.0.1",
    b"fe80::1%eth0",
    b"010.0.0.1",
    b"256.1.1.1",
    "🌊".as_bytes(),
    b"\xff",
    b"\r\n",
    b"*1\r\n$4\r\nPING\r\n",
    b"*5\r\n",
    b"$8193\r\n",
    b"TG.LIMIT",
    b"\x81\x8e\0\0\0\0{\"type\":\"ASK\"}",
    b"\x01\x80\0\0\0\0",
    b"\x80\x80\0\0\0\0",
    b"\x89\x80\0\0\0\0",
    b"\xfe\x7e",
];

/// Replays the corpus of the target, and then mutations of it. The first argument is the time in seconds, with a
/// default of a few.
///
/// # Panics
/// When the target does. It first saves the input and prints its path.
#[allow(clippy::print_stdout, clippy::disallowed_methods)] // a program that prints, and is bounded in time
pub fn drive(name: &str, target: fn(&[u8])) {
    let span =
        std::env::args().nth(1).map_or(DEFAULT_SPAN, |seconds| Duration::from_secs(seconds.parse().expect("seconds")));
    let corpus = read_corpus(name);
    corpus.iter().for_each(|input| run_once(name, target, input));
    let (mut random, mut runs, start) = (Random::new(0), 0_u64, Instant::now());
    while start.elapsed() < span {
        // The clock is read only once in a thousand runs.
        for _ in 0..1_000 {
            run_once(name, target, &mutate(&corpus, &mut random));
        }
        runs += 1_000;
    }
    println!("{name}: {} kept, {runs} others", corpus.len());
}

fn folder(what: &str, name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(what).join(name)
}

fn read_corpus(name: &str) -> Vec<Vec<u8>> {
    let folder = folder("corpus", name);
    let files = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut paths: Vec<_> = files.map(|file| file.expect("a file").path()).collect();
    paths.sort();
    assert!(!paths.is_empty(), "{} is empty", folder.display());
    paths.iter().map(|path| fs::read(path).expect("a file")).collect()
}

#[allow(clippy::print_stdout)]
fn run_once(name: &str, target: fn(&[u8]), input: &[u8]) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| target(input))) {
        let folder = folder("artifacts", name);
        fs::create_dir_all(&folder).expect("a folder");
        let path = folder.join("failed");
        fs::write(&path, input).expect("a file");
        println!("{name}: {:?} breaks a promise; it is in {}", input.escape_ascii().to_string(), path.display());
        resume_unwind(panic);
    }
}

/// Returns a mutation of one of the inputs.
fn mutate(corpus: &[Vec<u8>], random: &mut Random) -> Vec<u8> {
    let mut input = corpus[below(random, corpus.len())].clone();
    for _ in 0..=random.below(6) {
        let at = below(random, input.len() + 1);
        let end = (at + below(random, 8)).min(input.len());
        match random.below(5) {
            0 => drop(input.drain(at..end)),
            1 => input.insert(at, random.next() as u8),
            2 => drop(input.splice(at..end, WORDS[below(random, WORDS.len())].iter().copied())),
            3 => {
                let other = &corpus[below(random, corpus.len())];
                input.truncate(at);
                input.extend_from_slice(&other[below(random, other.len() + 1)..]);
            }
            _ => input.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= 1 << random.below(8)),
        }
    }
    input.truncate(MAX_INPUT_BYTES);
    input
}

fn below(random: &mut Random, end: usize) -> usize {
    random.below(end as u64) as usize
}
