//! Permits of several processes while their server is paused.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use tidegate::concurrency::DistributedConcurrency;
use tidegate::redis::RedisStore;
use tidegate::resilience::Resilience;
use tidegate::{Limit, Limiter, OnStoreError, Quota, millis, seconds};
use tidegate_testkit::Random;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::server::{self, Redis, wait_until};
use crate::stalls;
use crate::support::{run, sleep, spawn};

const CAPACITY: u32 = 10;
const TTL: Duration = seconds(3);
const CALL_TIMEOUT: Duration = millis(200);

/// Outages that are survived are shorter: three quarters of the time to live, minus the timeout, which is longer than a
/// sixteenth of it.
const BOUND: Duration = millis(2_050);

/// The part of the bound that calls and signals take, on a machine that is busy with other tests.
const OVERHEAD: Duration = millis(100);

/// The number of outages; `cargo xtask deep` sets more.
fn outage_count() -> u32 {
    std::env::var("TIDEGATE_OUTAGES").map_or(4, |count| count.parse().expect("a number of outages"))
}

/// More workers than there are places, in several processes.
struct Workload {
    state: Arc<WorkState>,
    workers: Vec<JoinHandle<()>>,
}

#[derive(Default)]
struct WorkState {
    stop: AtomicBool,
    at_work: AtomicU32,
    /// The most at once.
    most: AtomicU32,
}

impl Workload {
    fn start(server: &Redis) -> Self {
        let state = Arc::new(WorkState::default());
        let processes = (0..3).map(|_| process(server));
        let workers = processes.zip(0..).flat_map(|(process, number)| {
            let (process, state) = (process.clone(), Arc::clone(&state));
            (0..8).map(move |worker| spawn(work(process.clone(), Arc::clone(&state), 8 * number + worker)))
        });
        Workload { workers: workers.collect(), state }
    }

    fn wait_until_full(&self) {
        let is_full = wait_until(|| self.state.at_work.load(Ordering::SeqCst) >= CAPACITY);
        assert!(is_full, "at most {} are at work at once", self.most());
    }

    /// Returns the most at work at once since the last [`Self::forget_most`].
    fn most(&self) -> u32 {
        self.state.most.load(Ordering::SeqCst)
    }

    fn forget_most(&self) {
        self.state.most.store(self.state.at_work.load(Ordering::SeqCst), Ordering::SeqCst);
    }

    fn stop(self) {
        self.state.stop.store(true, Ordering::SeqCst);
        self.workers.into_iter().for_each(|worker| run(worker).unwrap());
    }
}

/// A process of its own as far as the server knows, with a connection and a circuit breaker of its own.
fn process(server: &Redis) -> DistributedConcurrency {
    let limit = Limit::new(Quota::concurrency(CAPACITY.into(), TTL).unwrap()).on_store_error(OnStoreError::Closed);
    let store = run(RedisStore::connect(server.url())).unwrap();
    let resilience = Resilience::default().timeout(CALL_TIMEOUT);
    let limiter = Limiter::builder().prefix("fault").limit("work", limit).store(store).resilience(resilience).build();
    DistributedConcurrency::new(&limiter.unwrap(), "work")
}

async fn work(process: DistributedConcurrency, state: Arc<WorkState>, seed: u64) {
    let mut random = Random::new(seed);
    while !state.stop.load(Ordering::SeqCst) {
        if let Ok(permit) = process.try_acquire("a").await {
            let at_work = state.at_work.fetch_add(1, Ordering::SeqCst) + 1;
            state.most.fetch_max(at_work, Ordering::SeqCst);
            tokio::time::sleep(millis(random.between(50, 12_000))).await;
            state.at_work.fetch_sub(1, Ordering::SeqCst);
            drop(permit);
        }
        tokio::time::sleep(millis(random.between(10, 50))).await;
    }
}

#[test]
fn outages_below_the_bound_admit_no_more_than_the_capacity() {
    stalls::start_watch();
    let server = server::start();
    let workload = Workload::start(&server);
    let (count, mut counted, mut random) = (outage_count(), 0, Random::new(1));
    let [shortest, longest] = [millis(500), BOUND - OVERHEAD];
    for outage in 0..count {
        let span = shortest + (longest - shortest) * outage / (count - 1).max(1);
        sleep(millis(random.below(1_000)));
        // Leases that could not be released in the last outage expire first.
        workload.wait_until_full();
        let began = Instant::now();
        server.pause();
        sleep(span);
        server.resume();
        let ended = Instant::now();
        // Until every lease that was not renewed in time has expired, and its place is taken again.
        sleep(TTL);
        workload.wait_until_full();
        let stalled = stalls::stalled_time(began - TTL, Instant::now());
        // A machine that stands still for longer makes a longer outage.
        if ended - began + stalled < BOUND {
            counted += 1;
            assert_eq!(workload.most(), CAPACITY, "at work at once, after an outage of {span:?}");
        }
        workload.forget_most();
    }
    workload.stop();
    assert!(2 * counted >= count, "only {counted} of {count} outages were below the bound on this machine");
}
