use std::time::Instant;
use tidegate::*;
fn main() {
    let n = 1_000_000usize;
    let which = std::env::args().nth(1).unwrap_or_default();
    let limiter = Limiter::builder()
        .limit("bench", Quota::token_bucket(1000, seconds(1)).unwrap().capacity(4_000_000_000).unwrap())
        .store(MemoryStore::builder().max_keys(1_000_000).build())
        .build()
        .unwrap();
    let hot = "user-0123456789012345678".to_string();
    if which == "count" {
        let m: usize = std::env::args().nth(2).unwrap().parse().unwrap();
        let mut a = 0;
        for _ in 0..m {
            a += limiter.limit("bench", &hot).now().unwrap().unwrap().allowed() as usize;
        }
        println!("{a}");
        return;
    }
    let mut x = 88172645463325252u64;
    let seq: Vec<String> = (0..4_000_000)
        .map(|_| {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            format!("user-{:019}", (x % n as u64) * 7919)
        })
        .collect();
    for _ in 0..2 {
        if which == "hot" {
            break;
        }
        let t = Instant::now();
        let mut a = 0;
        for k in &seq {
            a += limiter.limit("bench", k).now().unwrap().unwrap().allowed() as usize;
        }
        println!("uniform {:.1} ns {a}", t.elapsed().as_nanos() as f64 / seq.len() as f64);
    }
    let t = Instant::now();
    let mut a = 0;
    for _ in 0..20_000_000 {
        a += limiter.limit("bench", &hot).now().unwrap().unwrap().allowed() as usize;
    }
    println!("hot {:.1} ns {a}", t.elapsed().as_nanos() as f64 / 2e7);
    if which == "hot" {
        return;
    }
    use governor::{Quota as GQ, RateLimiter};
    let g: RateLimiter<String, _, _> =
        RateLimiter::keyed(GQ::per_second(1000.try_into().unwrap()).allow_burst(4_000_000_000u32.try_into().unwrap()));
    for _ in 0..2 {
        let t = Instant::now();
        let mut a = 0;
        for k in &seq {
            a += g.check_key(k).is_ok() as usize;
        }
        println!("gov uniform {:.1} ns {a}", t.elapsed().as_nanos() as f64 / seq.len() as f64);
    }
    let t = Instant::now();
    let mut a = 0;
    for _ in 0..4_000_000 {
        a += g.check_key(&hot).is_ok() as usize;
    }
    println!("gov hot {:.1} ns {a}", t.elapsed().as_nanos() as f64 / 4e6);
    let t = Instant::now();
    let mut a = 0;
    for _ in 0..4_000_000 {
        a ^= SystemClock.now().as_micros();
    }
    println!("clock {:.1} ns {a}", t.elapsed().as_nanos() as f64 / 4e6);
}
