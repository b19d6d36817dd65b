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
    let slow = Limiter::builder()
        .limit("bench", Quota::token_bucket(1, seconds(100)).unwrap().capacity(1_000_000).unwrap())
        .store(MemoryStore::builder().max_keys(1_000_000).build())
        .build()
        .unwrap();
    let hot = "user-0123456789012345678".to_string();
    if which == "noclock" {
        struct C;
        impl Clock for C {
            fn now(&self) -> Timestamp {
                Timestamp::from_micros(1_700_000_000_000_000)
            }
        }
        let l = Limiter::builder()
            .limit("bench", Quota::token_bucket(10, seconds(1)).unwrap().capacity(4_000_000_000).unwrap())
            .store(MemoryStore::builder().max_keys(1_000_000).clock(C).build())
            .build()
            .unwrap();
        for op in 0..2 {
            let t = Instant::now();
            let mut a = 0;
            for _ in 0..20_000_000 {
                a += (if op == 0 { l.limit("bench", &hot) } else { l.check("bench", &hot) })
                    .now()
                    .unwrap()
                    .unwrap()
                    .allowed() as usize;
            }
            println!("noclock {op} {:.1} ns {a}", t.elapsed().as_nanos() as f64 / 2e7);
        }
        let s = MemoryStore::builder().max_keys(1_000_000).clock(C).build();
        let scope = Scope::new("", "bench");
        let key = Key::from(&hot);
        let q = Quota::token_bucket(10, seconds(1)).unwrap().capacity(4_000_000_000).unwrap();
        for op in [Op::Limit(Cost::ONE), Op::Check(Cost::ONE)] {
            let r = Request { scope: &scope, key: &key, quota: &q, op, on_store_error: OnStoreError::Open };
            let t = Instant::now();
            let mut a = 0;
            for _ in 0..20_000_000 {
                a += s.apply_now(std::hint::black_box(&r)).unwrap().unwrap().allowed() as usize;
            }
            println!("store {:?} {:.1} ns {a}", op, t.elapsed().as_nanos() as f64 / 2e7);
        }
        return;
    }
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
        let t = Instant::now();
        let mut a = 0u64;
        for k in &seq {
            a = a.wrapping_add(k.as_bytes()[20] as u64).rotate_left((a & 1) as u32);
        }
        println!("stream {:.1} {a}", t.elapsed().as_nanos() as f64 / seq.len() as f64);
        let t = Instant::now();
        let mut a = 0u64;
        for k in &seq {
            a ^= SystemClock.now().as_micros();
            a = a.wrapping_add(k.as_bytes()[20] as u64).rotate_left((a & 1) as u32);
        }
        println!("stream+clock {:.1} {a}", t.elapsed().as_nanos() as f64 / seq.len() as f64);
    }
    for _ in 0..2 {
        if which == "hot" {
            break;
        }
        let t = Instant::now();
        let mut a = 0;
        for k in &seq {
            a += slow.limit("bench", k).now().unwrap().unwrap().allowed() as usize;
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
    if which == "uni" {
        for _ in 0..5 {
            let t = Instant::now();
            let mut a = 0;
            for k in &seq {
                a += slow.limit("bench", k).now().unwrap().unwrap().allowed() as usize;
            }
            println!("uniform {:.1} ns {a}", t.elapsed().as_nanos() as f64 / seq.len() as f64);
        }
        return;
    }
    use governor::{Quota as GQ, RateLimiter};
    let g: RateLimiter<String, _, _> = RateLimiter::keyed(
        GQ::with_period(std::time::Duration::from_secs(1)).unwrap().allow_burst(4_000_000_000u32.try_into().unwrap()),
    );
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
