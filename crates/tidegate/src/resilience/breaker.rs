//! `BreakerStore`: a circuit breaker around a store.

use std::fmt;
use std::future::Future;
use std::slice;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tidegate_core::{
    Capabilities, Decision, JointDecision, Key, Op, Request, Scope, Store, StoreError, StoreErrorKind, Timestamp,
};

use crate::clock::{Clock, SystemClock};
use crate::telemetry::{self, BreakerGauge};

/// How many calls of renewals may be in flight while the circuit is not closed. A flood of them must not keep an overloaded
/// store down.
const MAX_RENEWALS: usize = 32;

/// A circuit breaker around a store: after several failures in a row, calls fail at once until a pause has passed.
///
/// | state | calls |
/// | --- | --- |
/// | closed | pass; [`BreakerStore::failures`] failures in a row open the circuit |
/// | open | fail at once with [`StoreErrorKind::Unavailable`], until [`BreakerStore::pause`] has passed |
/// | half open | exactly one passes as a probe: its success closes the circuit, its failure opens it again |
///
/// **Renewals of leases pass in every state**, up to 32 calls at once: a lease that is not renewed in time is lost while its
/// place is in use. They never probe. A renewal that succeeds after the pause closes the circuit; one that fails changes
/// nothing.
///
/// A probe that is dropped before it ends decides nothing, and the next call probes. The same holds for a probe that has not
/// ended after another pause, because the store hangs or the caller stopped polling. Put a
/// [`TimeoutStore`](super::TimeoutStore) inside, so that probes end earlier.
///
/// A failure is an error that is worth a retry. [`StoreErrorKind::Corrupt`] and [`StoreErrorKind::Contended`] count as
/// successes: they concern one key, and only a working store reports them. [`StoreErrorKind::Unsupported`] counts as
/// neither: a store may return it without calling its server. A batch fails when none of its requests was answered, or when
/// its last request timed out.
pub struct BreakerStore<S> {
    store: S,
    circuit: Circuit,
}

/// The state of a [`BreakerStore`]. The variants are in the order of their numbers in metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BreakerState {
    /// Calls pass.
    Closed,
    /// One call probes whether the store works again. All others fail.
    HalfOpen,
    /// Calls fail. The first one after the pause will probe.
    Open,
}

impl<S> BreakerStore<S> {
    /// Wraps `store`, which metrics call `name`. The circuit is closed and has the default settings.
    pub fn new(store: S, name: &str) -> Self {
        BreakerStore { store, circuit: Circuit::new(name, 5, Duration::from_secs(1), Arc::new(SystemClock)) }
    }

    /// Sets how many failures in a row open the circuit. Defaults to 5; 0 counts as 1.
    #[must_use]
    pub fn failures(mut self, failures: u32) -> Self {
        self.circuit.failures = failures;
        self
    }

    /// Sets how long the circuit stays open before a call may probe. Defaults to 1 second.
    #[must_use]
    pub fn pause(mut self, pause: Duration) -> Self {
        self.circuit.pause = pause;
        self
    }

    /// Sets the clock that measures the pause. Defaults to the system's clock.
    #[must_use]
    pub fn clock(mut self, clock: impl Clock + 'static) -> Self {
        self.circuit.clock = Arc::new(clock);
        self
    }

    /// Returns whether calls pass.
    pub fn state(&self) -> BreakerState {
        self.circuit.state()
    }

    /// Returns the wrapped store.
    pub fn inner(&self) -> &S {
        &self.store
    }

    async fn call<T>(
        &self,
        requests: &[Request<'_>],
        call: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let permit = self.circuit.enter(requests)?;
        Self::report(permit, call.await)
    }

    fn report<T>(permit: CallPermit<'_>, result: Result<T, StoreError>) -> Result<T, StoreError> {
        permit.report(Health::from_result(&result), result.as_ref().err());
        result
    }
}

/// The state machine of a breaker, without a store.
struct Circuit {
    name: Box<str>,
    gauge: BreakerGauge,
    /// How many failures in a row open it.
    failures: u32,
    /// How long it stays open before a call may probe.
    pause: Duration,
    clock: Arc<dyn Clock>,
    state: Mutex<CircuitState>,
    /// Numbers the probes.
    probes: AtomicU64,
    /// The calls of renewals that pass although the circuit is not closed.
    renewals: AtomicUsize,
}

/// The state of a circuit, with its deadlines.
enum CircuitState {
    /// Calls pass; the last `failures` of them failed, in a row.
    Closed { failures: u32 },
    /// Calls fail until then.
    Open { until: Timestamp },
    /// One call probes. The others fail until then: the probe may never be polled again.
    HalfOpen { until: Timestamp, probe: u64 },
}

/// The evidence that one call gives about the store.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Health {
    Good,
    Bad,
    /// None: as if the call had not been made.
    Unknown,
}

impl Health {
    fn from_result<T>(result: &Result<T, StoreError>) -> Self {
        match result {
            Err(error) if error.kind() == StoreErrorKind::Contended => Health::Good,
            Err(error) if error.is_retryable() => Health::Bad,
            Err(error) if error.kind() == StoreErrorKind::Unsupported => Health::Unknown,
            _ => Health::Good,
        }
    }

    /// The evidence of a batch. One answer shows that the store is reachable, but not that it is fast enough: a batch that
    /// times out is abandoned at that point.
    fn from_results<T>(results: &[Result<T, StoreError>]) -> Self {
        if results.last().is_some_and(|last| matches!(last, Err(error) if error.kind() == StoreErrorKind::Timeout)) {
            return Health::Bad;
        }
        let any = |health| results.iter().any(|result| Health::from_result(result) == health);
        [Health::Good, Health::Bad].into_iter().find(|health| any(*health)).unwrap_or(Health::Unknown)
    }
}

/// Permission for one call. Dropped without a report, it leaves the circuit as if the call had not been made.
struct CallPermit<'a> {
    circuit: &'a Circuit,
    /// The number of the probe, if this call is one.
    probe: Option<u64>,
    /// Whether it is counted in [`Circuit::renewals`].
    is_renewal: bool,
}

impl Circuit {
    fn new(name: &str, failures: u32, pause: Duration, clock: Arc<dyn Clock>) -> Self {
        telemetry::describe_metrics();
        let gauge = BreakerGauge::new(name);
        gauge.set(BreakerState::Closed as u8);
        let state = Mutex::new(CircuitState::Closed { failures: 0 });
        let (probes, renewals) = (AtomicU64::new(0), AtomicUsize::new(0));
        Circuit { name: name.into(), gauge, failures, pause, clock, state, probes, renewals }
    }

    fn state(&self) -> BreakerState {
        self.lock().breaker_state()
    }

    /// Returns permission for a call of these requests, or the error to fail it with.
    fn enter(&self, requests: &[Request<'_>]) -> Result<CallPermit<'_>, StoreError> {
        let mut state = self.lock();
        // With every call, because a recorder may be installed later than the state has changed.
        self.gauge.set(state.breaker_state() as u8);
        match &mut *state {
            CircuitState::Closed { .. } => Ok(CallPermit { circuit: self, probe: None, is_renewal: false }),
            _ if are_renewals(requests) => self.admit_renewals(),
            CircuitState::Open { until } => match self.remaining_pause(until) {
                Duration::ZERO => Ok(self.probe(&mut state)),
                left => Err(unavailable(format!("circuit open, next try in {left:?}"))),
            },
            CircuitState::HalfOpen { until, .. } => match self.remaining_pause(until) {
                Duration::ZERO => Ok(self.probe(&mut state)),
                _ => Err(unavailable("circuit half open, another call is trying".to_owned())),
            },
        }
    }

    fn admit_renewals(&self) -> Result<CallPermit<'_>, StoreError> {
        let next = |renewals| (renewals < MAX_RENEWALS).then_some(renewals + 1);
        match self.renewals.try_update(Ordering::Relaxed, Ordering::Relaxed, next) {
            Ok(_) => Ok(CallPermit { circuit: self, probe: None, is_renewal: true }),
            Err(_) => Err(unavailable(format!("circuit open, and {MAX_RENEWALS} renewals are in flight"))),
        }
    }

    /// Returns the time left until then, at most one pause: when the clock was set back, the pause restarts instead of
    /// lasting until the clock has caught up.
    fn remaining_pause(&self, until: &mut Timestamp) -> Duration {
        let now = self.clock.now();
        *until = now.saturating_add(self.pause).min(*until);
        until.since(now)
    }

    fn probe(&self, state: &mut CircuitState) -> CallPermit<'_> {
        let probe = self.probes.fetch_add(1, Ordering::Relaxed);
        self.set_state(state, CircuitState::HalfOpen { until: self.clock.now().saturating_add(self.pause), probe });
        CallPermit { circuit: self, probe: Some(probe), is_renewal: false }
    }

    /// Changes the state, under the lock, so that metrics end with the latest one.
    fn set_state(&self, state: &mut CircuitState, to: CircuitState) {
        *state = to;
        self.gauge.set(state.breaker_state() as u8);
    }

    fn open(&self, state: &mut CircuitState) {
        self.set_state(state, CircuitState::Open { until: self.clock.now().saturating_add(self.pause) });
        telemetry::record_breaker_opened(&self.name);
    }

    fn close(&self, state: &mut CircuitState) {
        self.set_state(state, CircuitState::Closed { failures: 0 });
        telemetry::log_outage_end(&self.name);
    }

    fn lock(&self) -> MutexGuard<'_, CircuitState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CircuitState {
    fn breaker_state(&self) -> BreakerState {
        match self {
            CircuitState::Closed { .. } => BreakerState::Closed,
            CircuitState::Open { .. } => BreakerState::Open,
            CircuitState::HalfOpen { .. } => BreakerState::HalfOpen,
        }
    }
}

impl CallPermit<'_> {
    /// Ends the call. `error` is its error, for the log.
    fn report(mut self, health: Health, error: Option<&StoreError>) {
        let good = match health {
            Health::Good => true,
            Health::Bad => false,
            Health::Unknown => return,
        };
        let reported = self.probe.take();
        let circuit = self.circuit;
        let mut state = circuit.lock();
        match &mut *state {
            CircuitState::Closed { failures } if good => *failures = 0,
            CircuitState::Closed { failures } => {
                *failures += 1;
                if *failures >= circuit.failures {
                    circuit.open(&mut state);
                    telemetry::log_outage_begin(&circuit.name, error);
                }
            }
            CircuitState::HalfOpen { probe, .. } if reported == Some(*probe) => match good {
                true => circuit.close(&mut state),
                false => circuit.open(&mut state),
            },
            CircuitState::Open { until } if self.is_renewal && good => {
                if circuit.remaining_pause(until).is_zero() {
                    circuit.close(&mut state);
                }
            }
            // A call that began before the circuit opened, or before the current probe, is no news.
            CircuitState::Open { .. } | CircuitState::HalfOpen { .. } => {}
        }
    }
}

impl Drop for CallPermit<'_> {
    fn drop(&mut self) {
        if self.is_renewal {
            self.circuit.renewals.fetch_sub(1, Ordering::Relaxed);
        }
        let Some(dropped) = self.probe else { return };
        let mut state = self.circuit.lock();
        if matches!(*state, CircuitState::HalfOpen { probe, .. } if probe == dropped) {
            // The next call probes.
            self.circuit.set_state(&mut state, CircuitState::Open { until: Timestamp::EPOCH });
        }
    }
}

/// Returns whether a call does nothing but renew leases.
fn are_renewals(requests: &[Request<'_>]) -> bool {
    !requests.is_empty() && requests.iter().all(|request| matches!(request.op, Op::Renew(_)))
}

fn unavailable(message: String) -> StoreError {
    StoreError::new(StoreErrorKind::Unavailable, message)
}

impl<S: fmt::Debug> fmt::Debug for BreakerStore<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BreakerStore").field("store", &self.store).field("state", &self.state()).finish_non_exhaustive()
    }
}

impl<S: Store> Store for BreakerStore<S> {
    fn capabilities(&self) -> Capabilities {
        self.store.capabilities()
    }

    fn is_immediate(&self) -> bool {
        self.store.is_immediate()
    }

    fn prefetch(&self, scope: &Scope, key: &Key<'_>) {
        self.store.prefetch(scope, key);
    }

    fn try_apply(&self, request: &Request<'_>) -> Option<Result<Decision, StoreError>> {
        let permit = match self.circuit.enter(slice::from_ref(request)) {
            Ok(permit) => permit,
            Err(error) => return Some(Err(error)),
        };
        // `None` drops the permit: the call was not made.
        let result = self.store.try_apply(request)?;
        Some(Self::report(permit, result))
    }

    async fn apply(&self, request: &Request<'_>) -> Result<Decision, StoreError> {
        self.call(slice::from_ref(request), self.store.apply(request)).await
    }

    async fn apply_all(&self, requests: &[Request<'_>]) -> Result<JointDecision, StoreError> {
        self.call(requests, self.store.apply_all(requests)).await
    }

    async fn apply_each(&self, requests: &[Request<'_>]) -> Vec<Result<Decision, StoreError>> {
        match self.circuit.enter(requests) {
            Ok(permit) => {
                let results = self.store.apply_each(requests).await;
                let error = results.iter().rev().find_map(|result| result.as_ref().err());
                permit.report(Health::from_results(&results), error);
                results
            }
            Err(error) => requests.iter().map(|_| Err(error.clone())).collect(),
        }
    }

    async fn close(&self) {
        self.store.close().await;
    }
}

#[cfg(feature = "testing")]
impl<S: tidegate_core::TestableStore> tidegate_core::TestableStore for BreakerStore<S> {
    async fn apply_at(&self, request: &Request<'_>, at: Timestamp) -> Result<Decision, StoreError> {
        self.call(slice::from_ref(request), self.store.apply_at(request, at)).await
    }

    async fn apply_all_at(&self, requests: &[Request<'_>], at: Timestamp) -> Result<JointDecision, StoreError> {
        self.call(requests, self.store.apply_all_at(requests, at)).await
    }

    async fn sweep_at(&self, at: Timestamp) -> Option<usize> {
        self.store.sweep_at(at).await
    }
}
