//! Several processes with a two-tier store each, over one shared store, with a network between and a clock of their own.

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tidegate::resilience::TimeoutStore;
use tidegate::store::{Capabilities, Request};
use tidegate::{
    Clock, Decision, JointDecision, ManualClock, MemoryStore, Quota, Sleeper, Store, StoreError, Timestamp,
    TwoTierStore, millis, seconds,
};
use tidegate_testkit::oracle::{BoundExceeded, check_admission_bound};
use tokio::task::{JoinHandle, yield_now};

use crate::support::{TestKey, clock, settle};

/// The way of a process's calls to the shared store. It delays them, and a call that its process has given up still arrives:
/// later calls can overtake it.
struct Network {
    store: Arc<MemoryStore>,
    /// The store's clock, on which delays pass.
    clock: ManualClock,
    /// How long the next calls take to arrive, in microseconds.
    delay: Arc<AtomicU64>,
}

impl Network {
    fn send(&self, requests: &[Request<'_>]) -> JoinHandle<Vec<Result<Decision, StoreError>>> {
        let (store, delay) = (Arc::clone(&self.store), Duration::from_micros(self.delay.load(Ordering::SeqCst)));
        let arrival = self.clock.sleep(delay);
        let requests: Vec<_> = requests.iter().map(|request| (TestKey::from_request(request), request.op)).collect();
        tokio::spawn(async move {
            arrival.await;
            let requests: Vec<_> = requests.iter().map(|(key, op)| key.op(*op)).collect();
            store.apply_each(&requests).await
        })
    }
}

impl Store for Network {
    fn capabilities(&self) -> Capabilities {
        self.store.capabilities()
    }

    fn try_apply(&self, _request: &Request<'_>) -> Option<Result<Decision, StoreError>> {
        None
    }

    async fn apply(&self, request: &Request<'_>) -> Result<Decision, StoreError> {
        self.send(std::slice::from_ref(request)).await.unwrap().remove(0)
    }

    async fn apply_all(&self, requests: &[Request<'_>]) -> Result<JointDecision, StoreError> {
        self.store.apply_all(requests).await
    }

    async fn apply_each(&self, requests: &[Request<'_>]) -> Vec<Result<Decision, StoreError>> {
        self.send(requests).await.unwrap()
    }

    async fn close(&self) {}
}

struct Process {
    store: Arc<TwoTierStore<TimeoutStore<Network>>>,
    clock: ManualClock,
    /// How many microseconds pass on its clock in 256 of the store's.
    rate: u64,
    delay: Arc<AtomicU64>,
}

/// The settings of a [`Fleet`].
#[derive(Clone, Copy)]
pub(crate) struct FleetConfig {
    pub(crate) quota: Quota,
    /// The rate of each process's clock: how many microseconds pass in 256 of the store's.
    pub(crate) clock_rates: &'static [u64],
    pub(crate) expected_replicas: u32,
    pub(crate) idle_after: Duration,
    pub(crate) timeout: Duration,
}

impl FleetConfig {
    pub(crate) fn new(quota: Quota, clock_rates: &'static [u64], expected_replicas: u32) -> Self {
        FleetConfig { quota, clock_rates, expected_replicas, idle_after: seconds(1), timeout: millis(50) }
    }

    pub(crate) fn build(self) -> Fleet {
        let FleetConfig { quota, clock_rates, expected_replicas, idle_after, timeout } = self;
        let clock = clock();
        let shared = Arc::new(MemoryStore::builder().max_keys(1_024).clock(clock.clone()).build());
        let process = |(number, rate): (u64, &u64)| {
            let (clock, store_clock) = (ManualClock::new(local_start(number)), clock.clone());
            let delay = Arc::new(AtomicU64::new(0));
            let network = Network { store: Arc::clone(&shared), clock: store_clock, delay: Arc::clone(&delay) };
            let store = TimeoutStore::new(network, timeout, clock.clone());
            let builder = TwoTierStore::builder().expected_replicas(expected_replicas).idle_after(idle_after);
            let store = Arc::new(builder.sleeper(clock.clone()).build(store));
            Process { store, clock, rate: *rate, delay }
        };
        let processes = (0..).zip(clock_rates).map(process).collect();
        let batch = u64::from(quota.parts().capacity / expected_replicas);
        Fleet { start: clock.now(), clock, key: TestKey::new(quota), quota, batch, processes, admitted: Arc::default() }
    }
}

/// The time at which the clock of a process starts: the clocks of processes differ by any amount.
fn local_start(number: u64) -> Timestamp {
    clock().now().saturating_add(seconds(13) * number as u32)
}

/// Returns whether a request is admitted without any time passing. Otherwise its client disconnects.
async fn is_admitted_now(request: JoinHandle<bool>) -> bool {
    for _ in 0..100 {
        if request.is_finished() {
            return request.await.unwrap();
        }
        yield_now().await;
    }
    request.abort();
    false
}

/// Several processes that share the quota of one key.
pub(crate) struct Fleet {
    clock: ManualClock,
    start: Timestamp,
    key: TestKey,
    quota: Quota,
    pub(crate) batch: u64,
    processes: Vec<Process>,
    /// When requests were admitted, and their costs.
    admitted: Arc<Mutex<Vec<(u64, u64)>>>,
}

impl Fleet {
    pub(crate) fn numbers(&self) -> std::ops::Range<usize> {
        0..self.processes.len()
    }

    /// Lets that much time pass on the store's clock.
    pub(crate) async fn advance(&self, span: Duration) {
        self.clock.advance(span);
        let elapsed = self.clock.now().since(self.start).as_micros() as u64;
        for (number, process) in (0..).zip(&self.processes) {
            process.clock.set(local_start(number).saturating_add(Duration::from_micros(elapsed * process.rate / 256)));
        }
        settle().await;
    }

    /// Lets time pass in steps, so that timers are late by a step at most.
    pub(crate) async fn advance_in_steps(&self, span: Duration, step: Duration) {
        for _ in 0..span.as_micros() / step.as_micros() {
            self.advance(step).await;
        }
    }

    /// Delays the calls that a process sends from now on.
    pub(crate) fn delay_calls(&self, number: usize, delay: Duration) {
        self.processes[number].delay.store(delay.as_micros() as u64, Ordering::SeqCst);
    }

    /// Sends a request to a process.
    pub(crate) fn send(&self, number: usize, units: u64) -> JoinHandle<bool> {
        let (store, key) = (Arc::clone(&self.processes[number].store), self.key.clone());
        let (admitted, clock) = (Arc::clone(&self.admitted), self.clock.clone());
        tokio::spawn(async move {
            let allowed = key.take_units(&*store, units).await.is_ok_and(|decision| decision.allowed());
            if allowed {
                admitted.lock().unwrap().push((clock.now().as_micros(), units));
            }
            allowed
        })
    }

    /// Fills the balance of a process: by a request whose client disconnects at once.
    pub(crate) async fn fill(&self, number: usize) {
        {
            let mut call = pin!(self.key.take_units(&*self.processes[number].store, self.batch));
            let polled = call.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            assert!(matches!(polled, Poll::Pending), "there is no balance yet");
        }
        settle().await;
    }

    /// Spends all that can be spent without any time passing, in every process. Returns how much it was.
    pub(crate) async fn drain(&self) -> u64 {
        let mut total = 0;
        loop {
            let before = total;
            for number in self.numbers() {
                while is_admitted_now(self.send(number, 1)).await {
                    total += 1;
                }
            }
            if total == before {
                return total;
            }
        }
    }

    /// Spends the balance of a process, without the store. Returns how much it was.
    pub(crate) fn spend_balance(&self, number: usize) -> u64 {
        let spent = self.key.spend(&*self.processes[number].store);
        self.admitted.lock().unwrap().push((self.clock.now().as_micros(), spent));
        spent
    }

    /// Checks everything that was admitted so far. `balances` is the sum of the balances that the bound allows.
    pub(crate) fn check_bound(&self, balances: u64) -> Result<(), BoundExceeded> {
        // A bucket admits capacity + rate * t, so the bound is that of another bucket.
        let bound = self.quota.capacity(u64::from(self.quota.parts().capacity) + balances);
        check_admission_bound(&bound.unwrap_or(self.quota), &self.admitted.lock().unwrap())
    }
}
