//! How much a fleet admits under the policy `local`: schedules that reach the bound, and random ones, none of which may pass it.

use std::sync::Arc;

use tidegate::resilience::FallbackStore;
use tidegate::{Clock, ManualClock, OnStoreError, Quota, StoreErrorKind, millis, seconds};
use tidegate_testkit::oracle::check_admission_bound;
use tidegate_testkit::{Faults, Random};

use crate::support::{Faulty, TestRequest, clock, error, faulty};

const PROCESSES: u32 = 4;
const CAPACITY: u64 = 500;

/// Processes over one shared store.
struct Fleet {
    clock: ManualClock,
    faults: Faults,
    processes: Vec<FallbackStore<Arc<Faulty>>>,
    request: TestRequest,
    /// When requests were admitted, and how many.
    admitted: Vec<(u64, u64)>,
}

impl Fleet {
    fn new(quota: Quota) -> Self {
        let clock = clock();
        let (store, faults) = faulty(&clock);
        let store = Arc::new(store);
        let process = |_| FallbackStore::new(Arc::clone(&store)).expected_replicas(PROCESSES).clock(clock.clone());
        let processes = (0..PROCESSES).map(process).collect();
        let request = TestRequest { quota, ..TestRequest::new(1).policy(OnStoreError::Local) };
        Fleet { faults, processes, request, clock, admitted: Vec::new() }
    }

    /// Takes all that one process admits now. Returns how much it was.
    fn drain_process(&mut self, number: usize) -> u64 {
        let process = &self.processes[number];
        let taken = (0..).take_while(|_| self.request.take(process).allowed()).count() as u64;
        self.admitted.push((self.clock.now().as_micros(), taken));
        taken
    }

    /// Takes all that the processes admit now. Returns how much it was.
    fn drain(&mut self) -> u64 {
        (0..self.processes.len()).map(|number| self.drain_process(number)).sum()
    }

    fn set_broken(&self, is_broken: bool) {
        match is_broken {
            true => self.faults.fail(error(StoreErrorKind::Unavailable)),
            false => self.faults.pass(),
        }
    }

    /// Returns whether every span admitted at most what `bound` does.
    fn is_within(&self, bound: &Quota) -> bool {
        check_admission_bound(bound, &self.admitted).is_ok()
    }
}

/// A bucket of `capacities` * capacity and `rates` * rate.
fn bucket(capacities: u64, rates: u64) -> Quota {
    let bucket = Quota::token_bucket(CAPACITY * rates, seconds(1)).and_then(|q| q.capacity(CAPACITY * capacities));
    bucket.unwrap()
}

/// The capacity of the store before the outage, the shares and the rate during it, and the capacity of the store again.
#[test]
fn one_outage_reaches_three_capacities_and_the_rate() {
    let mut fleet = Fleet::new(bucket(1, 1));
    let mut total = fleet.drain();
    fleet.set_broken(true);
    total += fleet.drain();
    // As long as the store needs to be full again.
    for _ in 0..100 {
        fleet.clock.advance(millis(10));
        total += fleet.drain();
    }
    fleet.set_broken(false);
    total += fleet.drain();
    assert_eq!(total, 3 * CAPACITY + CAPACITY);
    for _ in 0..100 {
        fleet.clock.advance(millis(10));
        fleet.drain();
    }
    assert!(fleet.is_within(&bucket(3, 1)));
}

#[test]
fn any_number_of_outages_reaches_twice_the_quota() {
    let mut fleet = Fleet::new(bucket(1, 1));
    let mut total = 0;
    for round in 0..=200 {
        if round > 0 {
            fleet.clock.advance(millis(10));
        }
        for is_broken in [false, true] {
            fleet.set_broken(is_broken);
            total += fleet.drain();
        }
    }
    // The last round is two seconds after the first.
    assert_eq!(total, 2 * (CAPACITY + 2 * CAPACITY));
    assert!(fleet.is_within(&bucket(2, 2)));
    assert!(!fleet.is_within(&bucket(3, 1)), "that is for one outage");
}

#[test]
fn window_with_outages_admits_twice_its_limit() {
    let mut fleet = Fleet::new(Quota::fixed_window(CAPACITY, seconds(1)).unwrap());
    for _ in 0..3 {
        let mut total = 0;
        for _ in 0..10 {
            for is_broken in [false, true] {
                fleet.set_broken(is_broken);
                total += fleet.drain();
            }
            fleet.clock.advance(millis(100));
        }
        assert_eq!(total, 2 * CAPACITY);
    }
}

#[test]
fn random_outages_stay_within_the_bounds() {
    for seed in 0..20 {
        let (mut fleet, mut random) = (Fleet::new(bucket(1, 1)), Random::new(seed));
        for _ in 0..200 {
            match random.below(8) {
                0 => fleet.set_broken(true),
                1 => fleet.set_broken(false),
                2..=4 => fleet.clock.advance(millis(random.below(100))),
                _ => {
                    let number = random.below(PROCESSES.into()) as usize;
                    fleet.drain_process(number);
                }
            }
        }
        assert!(fleet.is_within(&bucket(2, 2)), "seed {seed}");

        // One outage, at any time and as long as it likes.
        let mut fleet = Fleet::new(bucket(1, 1));
        let (begin, end) = (random.between(1, 100), random.between(101, 200));
        for step in 0..250 {
            fleet.set_broken((begin..end).contains(&step));
            fleet.clock.advance(millis(random.below(20)));
            let number = random.below(PROCESSES.into()) as usize;
            fleet.drain_process(number);
        }
        assert!(fleet.is_within(&bucket(3, 1)), "seed {seed}");
    }
}
