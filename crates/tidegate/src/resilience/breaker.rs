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

use crate::clock::{Clock, SystemClock, join_all};
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
///
/// **A timeout is a failure only when the store answered nothing meanwhile**, and nothing in the last quarter of the
/// [pause](BreakerStore::pause). Otherwise the store works and has too much to do: the call fails with
/// [`StoreErrorKind::Overloaded`], which the circuit ignores.
///
/// **Each [part](Store::partition) of a store has a circuit of its own**, so that one server of a cluster can be away alone. A
/// batch is sent to all its parts at once, as a call for each.
pub struct BreakerStore<S> {
    store: S,
    circuits: Circuits,
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
        BreakerStore { store, circuits: Circuits::new(name, 5, Duration::from_secs(1), Arc::new(SystemClock)) }
    }

    /// Sets how many failures in a row open the circuit. Defaults to 5; 0 counts as 1.
    #[must_use]
    pub fn failures(mut self, failures: u32) -> Self {
        self.circuits.failures = failures;
        self
    }

    /// Sets how long the circuit stays open before a call may probe. Defaults to 1 second.
    #[must_use]
    pub fn pause(mut self, pause: Duration) -> Self {
        self.circuits.pause = pause;
        self
    }

    /// Sets the clock that measures the pause. Defaults to the system's clock.
    #[must_use]
    pub fn clock(mut self, clock: impl Clock + 'static) -> Self {
        self.circuits.clock = Arc::new(clock);
        self
    }

    /// Returns whether calls pass: the worst state of any part of the store.
    pub fn state(&self) -> BreakerState {
        self.circuits.lock().worst()
    }

    /// Returns the wrapped store.
    pub fn inner(&self) -> &S {
        &self.store
    }

    fn report<T>(permit: CallPermit<'_>, result: Result<T, StoreError>) -> Result<T, StoreError> {
        let result = result.map_err(|error| permit.blame(error));
        permit.report(Health::from_result(&result), result.as_ref().err());
        result
    }
}

impl<S: Store> BreakerStore<S> {
    /// Returns the part of a call, by its first request: a call takes keys of one part only.
    fn part(&self, requests: &[Request<'_>]) -> usize {
        requests.first().map_or(0, |first| usize::from(self.store.partition(first.scope, first.key)) % PARTS)
    }

    async fn call<T>(
        &self,
        requests: &[Request<'_>],
        call: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let permit = self.circuits.enter(self.part(requests), are_renewals(requests))?;
        Self::report(permit, call.await)
    }

    /// Sends a batch of one part.
    async fn batch(&self, part: usize, requests: &[Request<'_>]) -> Vec<Result<Decision, StoreError>> {
        let permit = match self.circuits.enter(part, are_renewals(requests)) {
            Ok(permit) => permit,
            Err(error) => return vec![Err(error); requests.len()],
        };
        let results = self.store.apply_each(requests).await;
        let blame = |result: Result<Decision, StoreError>| result.map_err(|error| permit.blame(error));
        let results: Vec<_> = results.into_iter().map(blame).collect();
        let error = results.iter().rev().find_map(|result| result.as_ref().err());
        permit.report(Health::from_results(&results), error);
        results
    }
}

/// How many parts of a store have a circuit of their own.
const PARTS: usize = 64;

/// The state machines of a breaker, without a store.
struct Circuits {
    name: Box<str>,
    gauge: BreakerGauge,
    /// How many failures in a row open a circuit.
    failures: u32,
    /// How long it stays open before a call may probe.
    pause: Duration,
    clock: Arc<dyn Clock>,
    parts: Mutex<Parts>,
    /// Numbers the probes.
    probes: AtomicU64,
    /// The calls of renewals that pass although their circuit is not closed.
    renewals: AtomicUsize,
}

/// The circuits of all parts that were called.
struct Parts(Vec<Circuit>);

/// The circuit of one part of a store.
struct Circuit {
    state: CircuitState,
    /// How many calls the part has answered.
    answers: u64,
    /// When it answered last.
    answered_at: Timestamp,
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
    /// No evidence: as if the call had not been made.
    Unknown,
}

impl Health {
    fn from_result<T>(result: &Result<T, StoreError>) -> Self {
        match result {
            Err(error) => match error.kind() {
                StoreErrorKind::Unsupported | StoreErrorKind::Overloaded => Health::Unknown,
                StoreErrorKind::Contended => Health::Good,
                _ if error.is_retryable() => Health::Bad,
                _ => Health::Good,
            },
            Ok(_) => Health::Good,
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
    circuits: &'a Circuits,
    part: usize,
    /// How many calls the part had answered when this one was sent.
    answers: u64,
    /// The number of the probe, if this call is one.
    probe: Option<u64>,
    /// Whether it is counted in [`Circuits::renewals`].
    is_renewal: bool,
}

impl Circuits {
    fn new(name: &str, failures: u32, pause: Duration, clock: Arc<dyn Clock>) -> Self {
        telemetry::describe_metrics();
        let gauge = BreakerGauge::new(name);
        gauge.set(BreakerState::Closed as u8);
        let parts = Mutex::new(Parts(Vec::new()));
        let (probes, renewals) = (AtomicU64::new(0), AtomicUsize::new(0));
        Circuits { name: name.into(), gauge, failures, pause, clock, parts, probes, renewals }
    }

    /// Returns permission for a call to a part, or the error to fail it with.
    fn enter(&self, part: usize, is_renewal: bool) -> Result<CallPermit<'_>, StoreError> {
        let mut parts = self.lock();
        // With every call, because a recorder may be installed later than the state has changed.
        self.gauge.set(parts.worst() as u8);
        let circuit = parts.circuit(part);
        let permit = CallPermit { circuits: self, part, answers: circuit.answers, probe: None, is_renewal: false };
        match &mut circuit.state {
            CircuitState::Closed { .. } => Ok(permit),
            _ if is_renewal => self.admit_renewal(permit),
            CircuitState::Open { until } => match self.remaining_pause(until) {
                Duration::ZERO => Ok(CallPermit { probe: Some(self.probe(&mut parts, part)), ..permit }),
                left => Err(unavailable(format!("circuit open, next try in {left:?}"))),
            },
            CircuitState::HalfOpen { until, .. } => match self.remaining_pause(until) {
                Duration::ZERO => Ok(CallPermit { probe: Some(self.probe(&mut parts, part)), ..permit }),
                _ => Err(unavailable("circuit half open, another call is trying".to_owned())),
            },
        }
    }

    fn admit_renewal<'a>(&'a self, permit: CallPermit<'a>) -> Result<CallPermit<'a>, StoreError> {
        let next = |renewals| (renewals < MAX_RENEWALS).then_some(renewals + 1);
        match self.renewals.try_update(Ordering::Relaxed, Ordering::Relaxed, next) {
            Ok(_) => Ok(CallPermit { is_renewal: true, ..permit }),
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

    /// Half opens a circuit, and returns the number of its probe.
    fn probe(&self, parts: &mut Parts, part: usize) -> u64 {
        let probe = self.probes.fetch_add(1, Ordering::Relaxed);
        let until = self.clock.now().saturating_add(self.pause);
        self.set_state(parts, part, CircuitState::HalfOpen { until, probe });
        probe
    }

    /// Changes a state, under the lock, so that metrics end with the latest one.
    fn set_state(&self, parts: &mut Parts, part: usize, to: CircuitState) {
        parts.circuit(part).state = to;
        self.gauge.set(parts.worst() as u8);
    }

    /// Opens a circuit, and logs the beginning of an outage if all others are closed.
    fn open(&self, parts: &mut Parts, part: usize, error: Option<&StoreError>) {
        let is_first = parts.worst() == BreakerState::Closed;
        self.set_state(parts, part, CircuitState::Open { until: self.clock.now().saturating_add(self.pause) });
        telemetry::record_breaker_opened(&self.name);
        if is_first {
            telemetry::log_outage_begin(&self.name, error);
        }
    }

    /// Closes a circuit, and logs the end of the outage if it was the last.
    fn close(&self, parts: &mut Parts, part: usize) {
        self.set_state(parts, part, CircuitState::Closed { failures: 0 });
        if parts.worst() == BreakerState::Closed {
            telemetry::log_outage_end(&self.name);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Parts> {
        self.parts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Parts {
    fn circuit(&mut self, part: usize) -> &mut Circuit {
        if part >= self.0.len() {
            self.0.resize_with(part + 1, || Circuit {
                state: CircuitState::Closed { failures: 0 },
                answers: 0,
                answered_at: Timestamp::EPOCH,
            });
        }
        &mut self.0[part]
    }

    fn worst(&self) -> BreakerState {
        let states = self.0.iter().map(|circuit| circuit.state.breaker_state());
        states.max_by_key(|state| *state as u8).unwrap_or(BreakerState::Closed)
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
    /// Returns the error of the call, with the kind that says where the trouble is.
    fn blame(&self, error: StoreError) -> StoreError {
        if error.kind() != StoreErrorKind::Timeout {
            return error;
        }
        let Circuits { name, clock, pause, .. } = self.circuits;
        let answers = {
            let mut parts = self.circuits.lock();
            let circuit = parts.circuit(self.part);
            let (now, answered_at) = (clock.now(), circuit.answered_at);
            circuit.answers != self.answers || (answered_at <= now && now.since(answered_at) < *pause / 4)
        };
        if !answers {
            return error;
        }
        let message = "no answer in time, while other calls were answered";
        let error = StoreError::caused_by(StoreErrorKind::Overloaded, message, error);
        telemetry::record_store_error(name, &error);
        error
    }

    /// Ends the call. `error` is its error, for the log.
    fn report(mut self, health: Health, error: Option<&StoreError>) {
        let is_good = match health {
            Health::Good => true,
            Health::Bad => false,
            Health::Unknown => return,
        };
        let reported = self.probe.take();
        let (circuits, part) = (self.circuits, self.part);
        let mut parts = circuits.lock();
        let circuit = parts.circuit(part);
        if is_good {
            circuit.answers = circuit.answers.wrapping_add(1);
            circuit.answered_at = circuits.clock.now();
        }
        match &mut circuit.state {
            CircuitState::Closed { failures } if is_good => *failures = 0,
            CircuitState::Closed { failures } => {
                *failures += 1;
                if *failures >= circuits.failures {
                    circuits.open(&mut parts, part, error);
                }
            }
            CircuitState::HalfOpen { probe, .. } if reported == Some(*probe) => match is_good {
                true => circuits.close(&mut parts, part),
                false => circuits.open(&mut parts, part, error),
            },
            CircuitState::Open { until } if self.is_renewal && is_good => {
                if circuits.remaining_pause(until).is_zero() {
                    circuits.close(&mut parts, part);
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
            self.circuits.renewals.fetch_sub(1, Ordering::Relaxed);
        }
        let Some(dropped) = self.probe else { return };
        let mut parts = self.circuits.lock();
        if matches!(parts.circuit(self.part).state, CircuitState::HalfOpen { probe, .. } if probe == dropped) {
            // The next call probes.
            self.circuits.set_state(&mut parts, self.part, CircuitState::Open { until: Timestamp::EPOCH });
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

    fn partition(&self, scope: &Scope, key: &Key<'_>) -> u8 {
        self.store.partition(scope, key)
    }

    fn try_apply(&self, request: &Request<'_>) -> Option<Result<Decision, StoreError>> {
        let requests = slice::from_ref(request);
        let permit = match self.circuits.enter(self.part(requests), are_renewals(requests)) {
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
        let parts: Vec<_> = requests.iter().map(|request| self.part(slice::from_ref(request))).collect();
        let first = parts.first().copied().unwrap_or(0);
        if parts.iter().all(|part| *part == first) {
            return self.batch(first, requests).await;
        }
        let batches = (0..PARTS).map(|part| {
            let of_part = requests.iter().zip(&parts).filter(|(_, other)| **other == part);
            let batch: Vec<_> = of_part.map(|(request, _)| *request).collect();
            // A part without requests is not called.
            async move { if batch.is_empty() { Vec::new() } else { self.batch(part, &batch).await } }
        });
        let mut results: Vec<_> = join_all(batches).await.into_iter().map(Vec::into_iter).collect();
        parts.iter().map(|part| results[*part].next().expect("a result for each request")).collect()
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
