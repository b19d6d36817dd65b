//! Permits of several processes while their store is away.
//!
//! An outage is survived if it is shorter than three quarters of the time to live, minus a sixteenth of it or the
//! timeout, whichever is longer.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tidegate::concurrency::{AcquireError, Completion, Concurrency, DistributedConcurrency, Permit, Priority};
use tidegate::enforce::{Caller, ConcurrencyGuards};
use tidegate::resilience::Resilience;
use tidegate::{Limit, Limiter, OnStoreError, Quota, millis, seconds};
use tidegate_testkit::Random;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};

use crate::unsteady_store::{LATENCY, Outage, PausedClock, UnsteadyStore};

const CAPACITY: u64 = 10;

/// The timeouts of a store call: shorter than the time between two retries, equal to it, and longer.
const TIMEOUTS: [Duration; 3] = [millis(50), millis(200), millis(400)];

/// A time to live of which a quarter and a sixteenth are whole milliseconds, as tokio's timer measures.
const TTL: Duration = millis(3_200);

/// The outage that is survived.
fn bound(ttl: Duration, timeout: Duration) -> Duration {
    ttl * 3 / 4 - timeout.max(ttl / 16)
}

/// A fleet whose processes share one store.
struct Fleet {
    clock: PausedClock,
    store: Arc<UnsteadyStore>,
    ttl: Duration,
    timeout: Duration,
    policy: OnStoreError,
}

impl Fleet {
    fn new(ttl: Duration, timeout: Duration) -> Self {
        let clock = PausedClock::start();
        Fleet { clock, store: Arc::new(UnsteadyStore::new(clock)), ttl, timeout, policy: OnStoreError::Closed }
    }

    fn limiter(&self) -> Limiter {
        let limit = Limit::new(Quota::concurrency(CAPACITY, self.ttl).unwrap()).on_store_error(self.policy);
        let store =
            Resilience::new(self.clock).timeout(self.timeout).expected_replicas(4).build(Arc::clone(&self.store));
        Limiter::builder().limit("work", limit).store(store).build().unwrap()
    }

    /// Another process.
    fn process(&self) -> DistributedConcurrency {
        DistributedConcurrency::with_sleeper(&self.limiter(), "work", self.clock)
    }

    async fn run_outage(&self, outage: Outage, span: Duration) {
        self.store.begin(outage);
        sleep(span).await;
        self.store.end();
    }
}

async fn acquire(process: &DistributedConcurrency, count: u64) -> Vec<Permit> {
    let mut permits = Vec::new();
    for _ in 0..count {
        permits.push(process.try_acquire("a").await.unwrap());
    }
    permits
}

/// The number of workers at work now, and the most that ever were.
#[derive(Default)]
struct Workload {
    now: AtomicU32,
    most: AtomicU32,
}

impl Workload {
    async fn work(&self, work: impl Future<Output = ()>) {
        let now = self.now.fetch_add(1, Ordering::Relaxed) + 1;
        self.most.fetch_max(now, Ordering::Relaxed);
        work.await;
        self.now.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Runs three processes with more work than places, while the store is away for `span`. Returns the most workers that
/// were at work at once.
async fn run_workload(seed: u64, outage: Outage, span: Duration, fleet: &Fleet, stops_when_lost: bool) -> u32 {
    let load = Arc::new(Workload::default());
    let mut workers = JoinSet::new();
    for process in 0..3 {
        let permits = fleet.process();
        for worker in 0..8 {
            let (permits, load) = (permits.clone(), Arc::clone(&load));
            let mut random = Random::new(seed * 1_000 + process * 100 + worker);
            workers.spawn(async move {
                loop {
                    if let Ok(permit) = permits.try_acquire("a").await {
                        let work = sleep(millis(random.between(50, 8_000)));
                        let work = async {
                            tokio::select! {
                                () = work => {}
                                () = permit.lost(), if stops_when_lost => {}
                            }
                        };
                        load.work(work).await;
                    }
                    sleep(millis(random.between(50, 400))).await;
                }
            });
        }
    }
    // Long enough that leases are of every age.
    sleep(millis(Random::new(seed).between(2_000, 4_000))).await;
    fleet.run_outage(outage, span).await;
    sleep(fleet.ttl).await;
    workers.shutdown().await;
    load.most.load(Ordering::Relaxed)
}

#[tokio::test(start_paused = true)]
async fn outages_below_the_bound_admit_no_more_than_the_capacity() {
    let (ttl, timeout) = (seconds(3), millis(200));
    let [shortest, longest] = [millis(500), bound(ttl, timeout) - millis(10)];
    for run in 0..100 {
        let span = shortest + (longest - shortest) * run / 99;
        let fleet = Fleet::new(ttl, timeout);
        let outage = Outage::ALL[run as usize % 4];
        let most = run_workload(u64::from(run), outage, span, &fleet, false).await;
        assert_eq!(u64::from(most), CAPACITY, "at work at once, with the store {outage:?} for {span:?}");
    }
}

/// At the edge: a lease that was about to be renewed when the outage began.
#[tokio::test(start_paused = true)]
async fn outage_of_the_bound_loses_no_lease() {
    for timeout in TIMEOUTS {
        for outage in Outage::ALL {
            for before_renewal in [0, 1, 2, 3, 5, 10, 100, 199, 400, 600, 797] {
                for count in [1, CAPACITY] {
                    let fleet = Fleet::new(TTL, timeout);
                    let began = Instant::now();
                    let permits = acquire(&fleet.process(), count).await;
                    sleep_until(began + TTL / 4 - millis(before_renewal)).await;
                    // The last failed call and those that renew all leases are in flight for a moment.
                    let calls = if count == 1 { 2 } else { 6 };
                    fleet.run_outage(outage, bound(TTL, timeout) - calls * LATENCY).await;
                    sleep(2 * TTL).await;
                    let lost = permits.iter().filter(|permit| permit.is_lost()).count();
                    assert_eq!(lost, 0, "of {count}, {timeout:?}, {outage:?}, {before_renewal} ms before the renewal");
                }
            }
        }
    }
}

/// The bound is no lower than it must be.
#[tokio::test(start_paused = true)]
async fn outage_beyond_the_bound_loses_a_lease() {
    for timeout in TIMEOUTS {
        let fleet = Fleet::new(TTL, timeout);
        let began = Instant::now();
        let permits = acquire(&fleet.process(), 1).await;
        sleep_until(began + TTL / 4).await;
        fleet.run_outage(Outage::Lost, bound(TTL, timeout) + 2 * LATENCY).await;
        sleep(TTL).await;
        assert!(permits[0].is_lost(), "{timeout:?}");
    }
}

/// Work that stops with its permit never exceeds the limit, in an outage of any length.
#[tokio::test(start_paused = true)]
async fn work_that_stops_when_its_permit_is_lost_stays_within_the_capacity() {
    let mut exceeded = 0;
    for run in 0..24 {
        let span = millis(2_500) + millis(250) * run;
        let outage = Outage::ALL[run as usize % 4];
        let [stops, goes_on] = [true, false];
        let most = run_workload(u64::from(run), outage, span, &Fleet::new(seconds(3), millis(200)), stops).await;
        assert_eq!(u64::from(most), CAPACITY, "at work at once, with the store {outage:?} for {span:?}");
        let most = run_workload(u64::from(run), outage, span, &Fleet::new(seconds(3), millis(200)), goes_on).await;
        exceeded += u32::from(u64::from(most) > CAPACITY);
    }
    assert!(exceeded > 0, "no outage was too long: the test shows nothing");
}

#[tokio::test(start_paused = true)]
async fn lost_permit_is_reported_when_its_lease_may_expire() {
    let fleet = Fleet::new(TTL, millis(50));
    let process = fleet.process();
    let began = Instant::now();
    let permit = process.try_acquire("a").await.unwrap();
    fleet.store.begin(Outage::Lost);
    sleep_until(began + TTL - millis(1)).await;
    assert!(!permit.is_lost());
    permit.lost().await;
    assert_eq!((began.elapsed(), permit.is_lost()), (TTL, true));
    // A permit stays lost, because the work may have stopped.
    fleet.store.end();
    sleep(TTL).await;
    assert!(permit.is_lost());
    permit.lost().await;
}

#[tokio::test(start_paused = true)]
async fn released_permit_is_never_reported_as_lost() {
    let fleet = Fleet::new(TTL, millis(50));
    let permit = fleet.process().try_acquire("a").await.unwrap();
    let lost = permit.lost();
    permit.release(Completion::Success);
    assert!(tokio::time::timeout(4 * TTL, lost).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn request_is_lost_with_one_of_its_permits() {
    let fleet = Fleet::new(TTL, millis(50));
    let guards = ConcurrencyGuards::new().and(fleet.process()).and(Concurrency::fixed(1));
    let permits = guards.admit(Some(&Caller::new("a")), Priority::Default).await.unwrap();
    assert!(!permits.is_lost());
    fleet.store.begin(Outage::Lost);
    permits.lost().await;
    assert!(permits.is_lost());
}

/// A store that was restarted without its data, for instance.
#[tokio::test(start_paused = true)]
async fn lease_that_the_store_has_lost_is_taken_again_while_there_is_room() {
    let fleet = Fleet::new(TTL, millis(50));
    let (limiter, other) = (fleet.limiter(), fleet.process());
    let held = acquire(&fleet.process(), 4).await;
    assert!(limiter.reset("work", "a").await.unwrap().allowed());
    let others = acquire(&other, 8).await;
    sleep(TTL / 2).await;
    let lost = |permits: &[Permit]| permits.iter().filter(|permit| permit.is_lost()).count();
    assert_eq!((lost(&held), lost(&others)), (2, 0), "there are two places for four");
    let Err(AcquireError::Rejected(_)) = other.try_acquire("a").await else { panic!("ten are in flight") };
    let first_lost = held.iter().find(|permit| permit.is_lost()).unwrap();
    first_lost.lost().await;
}

/// `open` admits work without a lease, and `local` admits it within a part of the quota. The store's leases do not
/// change.
#[tokio::test(start_paused = true)]
async fn leases_survive_an_outage_under_every_policy() {
    for policy in OnStoreError::ALL {
        for outage in Outage::ALL {
            let fleet = Fleet { policy, ..Fleet::new(TTL, millis(50)) };
            let permits = acquire(&fleet.process(), CAPACITY).await;
            sleep(TTL / 8).await;
            fleet.run_outage(outage, bound(TTL, millis(50)) - 6 * LATENCY).await;
            sleep(2 * TTL).await;
            assert!(permits.iter().all(|permit| !permit.is_lost()), "{policy:?}, {outage:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn permit_without_a_lease_is_never_lost() {
    let fleet = Fleet { policy: OnStoreError::Open, ..Fleet::new(TTL, millis(50)) };
    fleet.store.begin(Outage::Refused);
    let permit = fleet.process().try_acquire("a").await.unwrap();
    assert!(tokio::time::timeout(4 * TTL, permit.lost()).await.is_err());
    assert!(!permit.is_lost());
}

#[tokio::test(start_paused = true)]
async fn permit_of_a_limit_in_shadow_mode_is_never_lost() {
    let fleet = Fleet::new(TTL, millis(50));
    let limiter = fleet.limiter();
    limiter.replace("work", limiter.get("work").unwrap().shadow(true)).unwrap();
    let process = DistributedConcurrency::with_sleeper(&limiter, "work", fleet.clock);
    let permit = process.try_acquire("a").await.unwrap();
    fleet.run_outage(Outage::Lost, 2 * TTL).await;
    sleep(TTL).await;
    assert!(!permit.is_lost());
}

/// Many leases of one key on a store where each renewal takes its time: all of them together take longer than the timeout.
#[tokio::test(start_paused = true)]
async fn long_batches_that_time_out_lose_no_lease() {
    let clock = PausedClock::start();
    let store = UnsteadyStore::new(clock).with_work(millis(10));
    let limit = Limit::new(Quota::concurrency(100, TTL).unwrap()).on_store_error(OnStoreError::Closed);
    let store = Resilience::new(clock).timeout(millis(50)).build(store);
    let limiter = Limiter::builder().limit("work", limit).store(store).build().unwrap();
    let permits = acquire(&DistributedConcurrency::with_sleeper(&limiter, "work", clock), 40).await;
    sleep(8 * TTL).await;
    assert!(permits.iter().all(|permit| !permit.is_lost()));
}
