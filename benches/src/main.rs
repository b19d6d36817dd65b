//! Benchmarks of Tidegate against other limiters, measured in one run and printed as ratios.
//!
//! `cargo xtask bench` runs every part, and `cargo xtask bench speed` runs one of them.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, clippy::disallowed_methods)] // a bench prints, and measures time

mod flood;
mod footprint;
mod http;
mod machine;
mod pages;
mod pauses;
mod peers;
mod permits;
mod picture;
mod postgres;
mod redis;
mod redis_benchmark;
mod scale;
mod serve;
mod server_load;
mod soak;
mod speed;
mod sqlite;
mod workload;
mod ws;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments.as_slice() {
        ["speed"] => speed::run(""),
        ["speed", draw] => speed::run(draw),
        ["scale"] => scale::run(),
        ["footprint"] => footprint::run(),
        ["footprint", peer, keys] => footprint::measure(peer, keys),
        ["flood"] => flood::run(),
        ["flood", kind] => flood::measure(kind),
        ["pages"] => pages::run(),
        ["pauses"] => pauses::run(),
        ["pauses", peer] => pauses::measure(peer),
        ["permits"] => permits::run(),
        ["redis"] => redis::run(""),
        ["redis", part] => redis::run(part),
        ["redis", "two_tier", prefix, start] => redis::process(prefix, start),
        ["postgres"] => postgres::run(),
        ["sqlite"] => sqlite::run(),
        ["http"] => http::run(),
        ["http", "serve", start] => http::serve(start),
        ["serve"] => serve::run(""),
        ["serve", "bare", port] => serve::bare(port),
        ["serve", "limitador", port] => serve::limitador(port),
        ["serve", part] => serve::run(part),
        ["ws"] => ws::run(),
        ["ws", "serve"] => ws::serve(),
        ["ws", "flood", address, kind, connections] => ws::flood(address, kind, connections),
        ["soak"] => soak::run(),
        unknown => {
            println!(
                "unknown: {unknown:?}; expected speed, scale, footprint, pauses, permits, redis, postgres, sqlite, http, serve, pages, ws, soak or flood"
            );
            std::process::exit(2);
        }
    }
}

/// Ends the program if no part has this prefix, because it would measure nothing.
fn is_one_of(only: &str, parts: &[&str]) {
    if !parts.iter().any(|part| part.starts_with(only)) {
        println!("unknown: {only:?}; expected {}", parts.join(", "));
        std::process::exit(2);
    }
}
