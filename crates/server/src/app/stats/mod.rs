//! `Stats`: decisions by limit, for metrics, the log and the dashboard. Its memory is bounded for all input of clients.

mod counts;
mod history;
mod key_display;
pub(crate) mod recorder;
mod store_calls;
mod top_keys;

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use arc_swap::{ArcSwap, ArcSwapOption};
use tidegate::{
    Clock, Decision, Error, JointDecision, Key, StoreError, StoreErrorKind, SystemClock, Timestamp, ceil_millis,
};
use tokio::time::Instant;
use tracing::{info, warn};

pub(crate) use counts::{DecisionCounters, DecisionCounts};
use history::History;
pub(crate) use history::{HISTORY_SECONDS, Sample};
use key_display::KeyDisplay;
pub(crate) use store_calls::StoreCalls;
pub(crate) use top_keys::{Counter, KeyKind, TopKeys};

use crate::log_throttle::LogThrottle;
use crate::request::{DecisionRequest, decisive};
use crate::runtime::TimeSlice;

/// How many denials of a limit are logged in a second.
const LOGGED_DENIALS: u32 = 5;

/// How often an error of the store is logged: the breaker reports an outage by itself.
const STORE_ERROR_LOG_PERIOD: Duration = Duration::from_secs(60);

/// The statistics of limits, by name.
type LimitMap = HashMap<String, Arc<LimitStats>, ahash::RandomState>;
type SortedLimitMap = BTreeMap<String, Arc<LimitStats>>;

/// Decisions by limit.
pub(crate) struct Stats {
    /// The limits that are served. Clients only look names up here, so they cannot choose names that collide: only the
    /// author of the config could. That allows a fast hash.
    served: ArcSwap<LimitMap>,
    /// Every limit since the start, so that a limit that is added again continues its counts.
    known: ArcSwap<SortedLimitMap>,
    /// The last minutes of all limits together.
    history: Mutex<History>,
    keys: KeyDisplay,
    pub(crate) reloads: Reloads,
    store_error_log: LogThrottle,
    pub(crate) started: Timestamp,
    running_since: Instant,
    seconds: AtomicU64,
}

impl Stats {
    pub(crate) fn new(names: Vec<String>) -> Self {
        let stats = Stats {
            served: ArcSwap::from_pointee(LimitMap::with_hasher(hasher())),
            known: ArcSwap::default(),
            history: Mutex::default(),
            keys: KeyDisplay::default(),
            reloads: Reloads::new(),
            store_error_log: LogThrottle::new(STORE_ERROR_LOG_PERIOD),
            started: SystemClock.now(),
            running_since: Instant::now(),
            seconds: AtomicU64::new(0),
        };
        stats.set_served_limits(stats.limit_stats_for(names));
        stats
    }

    /// Sets whether only a hash of each key is kept and shown.
    pub(crate) fn hide_keys(mut self, hides_keys: bool) -> Self {
        self.keys.hides_keys = hides_keys;
        self
    }

    /// Sets whether keys are logged in clear.
    pub(crate) fn log_keys(mut self, logs_keys: bool) -> Self {
        self.keys.logs_keys = logs_keys;
        self
    }

    /// Returns the statistics of limits with these names, which are new or continued.
    pub(crate) fn limit_stats_for(&self, names: Vec<String>) -> LimitMap {
        let known = self.known.load();
        let limit = |name: String| match known.get(&name) {
            Some(limit) => (name, Arc::clone(limit)),
            None => (name.clone(), Arc::new(LimitStats::new(name))),
        };
        let mut limits = LimitMap::with_capacity_and_hasher(names.len(), hasher());
        limits.extend(names.into_iter().map(limit));
        limits
    }

    /// Counts these limits, too, until [`set_served_limits`](Self::set_served_limits) replaces them. Returns the previous
    /// ones.
    pub(crate) fn add_served_limits(&self, limits: &LimitMap) -> Arc<LimitMap> {
        let served = self.served.load_full();
        let mut both = LimitMap::clone(&served);
        both.extend(limits.iter().map(|(name, limit)| (name.clone(), Arc::clone(limit))));
        self.served.store(Arc::new(both));
        served
    }

    /// Counts only these limits from now on, and returns the previous ones. The counts of others are kept.
    pub(crate) fn set_served_limits(&self, limits: impl Into<Arc<LimitMap>>) -> Arc<LimitMap> {
        let limits = limits.into();
        let previous = self.served.swap(Arc::clone(&limits));
        self.known.rcu(|known| {
            let mut known = SortedLimitMap::clone(known);
            known.extend(limits.iter().map(|(name, limit)| (name.clone(), Arc::clone(limit))));
            known
        });
        previous
    }

    /// Records the result of a request.
    #[inline]
    pub(crate) fn record(&self, request: &DecisionRequest<'_>, result: &Result<Decision, Error>) {
        let allowed = result.as_ref().is_ok_and(Decision::allowed);
        // A limit that a reload has just removed is no failure: Envoy's requests are decided again.
        if !request.op.is_counted(allowed) || matches!(result, Err(Error::UnknownLimit(_))) {
            return;
        }
        if let Err(Error::Store(error)) = result {
            self.log_store_error(request.limit, error);
        }
        if let Some(limit) = self.served.load().get(request.limit) {
            limit.record(&request.key, result, &self.keys);
        }
    }

    /// Logs the error of a store. The client only gets its kind.
    #[cold]
    fn log_store_error(&self, limit: &str, error: &StoreError) {
        if error.kind() != StoreErrorKind::Unsupported
            && let Some(left_out) = self.store_error_log.admit()
        {
            warn!(limit, %error, left_out, "the store cannot decide");
        }
    }

    /// Records the result of a joint decision.
    pub(crate) fn record_joint(&self, requests: &[DecisionRequest<'_>], result: Result<&JointDecision, Error>) {
        match result {
            Ok(joint) => decisive(requests, joint).for_each(|(request, one)| self.record(request, &Ok(*one))),
            Err(error) => requests.iter().for_each(|request| self.record(request, &Err(error.clone()))),
        }
    }

    /// Returns every limit since the start.
    pub(crate) fn all_limits(&self) -> Arc<SortedLimitMap> {
        self.known.load_full()
    }

    /// Returns the limits that are served.
    pub(crate) fn served_limits(&self) -> Arc<LimitMap> {
        self.served.load_full()
    }

    /// Returns the last minutes of all limits together, a sample a second, the newest last.
    pub(crate) fn samples(&self) -> Vec<Sample> {
        self.history.lock().map(|history| history.samples().iter().copied().collect()).unwrap_or_default()
    }

    /// Whether only a hash of each key is shown.
    pub(crate) fn hides_keys(&self) -> bool {
        self.keys.hides_keys
    }

    pub(crate) fn uptime(&self) -> Duration {
        self.running_since.elapsed()
    }

    /// Ends a second.
    pub(crate) async fn tick(&self) {
        let seconds = self.seconds.fetch_add(1, Ordering::Relaxed) + 1;
        let (mut total, mut slice) = (DecisionCounts::default(), TimeSlice::begin());
        for limit in self.all_limits().values() {
            slice.pause_if_due().await;
            total = total.plus(&limit.tick());
            if seconds.is_multiple_of(HISTORY_SECONDS as u64) {
                limit.top_keys.rotate();
            }
        }
        if let Ok(mut history) = self.history.lock() {
            history.tick(total);
        }
    }
}

fn hasher() -> ahash::RandomState {
    ahash::RandomState::with_seeds(1, 2, 3, 4)
}

/// The statistics of one limit.
#[derive(Debug, Default)]
pub(crate) struct LimitStats {
    pub(crate) name: String,
    pub(crate) counts: DecisionCounters,
    pub(crate) top_keys: TopKeys,
    history: Mutex<History>,
    denials_this_second: AtomicU32,
}

impl LimitStats {
    fn new(name: String) -> Self {
        LimitStats { name, ..LimitStats::default() }
    }

    #[inline]
    fn record(&self, key: &Key<'_>, result: &Result<Decision, Error>, keys: &KeyDisplay) {
        self.counts.count(result);
        if let Ok(decision) = result
            && !decision.allowed()
        {
            self.record_denial(key, decision, keys);
        }
    }

    fn record_denial(&self, key: &Key<'_>, decision: &Decision, keys: &KeyDisplay) {
        let id = keys.id(key);
        self.top_keys.count(id, |shown| keys.show(key, id, shown));
        if self.denials_this_second.fetch_add(1, Ordering::Relaxed) < LOGGED_DENIALS {
            let reason = decision.reason().map(|reason| reason.as_str());
            let retry_after_ms = decision.retry_after().map(ceil_millis);
            info!(limit = self.name, key = keys.log_text(key, id), reason, retry_after_ms, "denied");
        }
    }

    /// Ends a second, and returns the counts so far.
    fn tick(&self) -> DecisionCounts {
        let left_out = self.denials_this_second.swap(0, Ordering::Relaxed).saturating_sub(LOGGED_DENIALS);
        if left_out > 0 {
            info!(limit = self.name, left_out, "denied more than is logged");
        }
        let counts = self.counts.total();
        if let Ok(mut history) = self.history.lock() {
            history.tick(counts);
        }
        counts
    }

    /// Returns the last minutes, a sample a second, the newest last. Before the first there was no request.
    pub(crate) fn samples(&self) -> Vec<Sample> {
        self.history.lock().map(|history| history.samples().iter().copied().collect()).unwrap_or_default()
    }

    /// Returns the requests of the last minutes.
    pub(crate) fn traffic(&self) -> u64 {
        self.history.lock().map(|history| history.traffic()).unwrap_or_default()
    }
}

/// The results of reloading the config.
#[derive(Debug)]
pub(crate) struct Reloads {
    succeeded: AtomicU64,
    failed: AtomicU64,
    /// When the active config was read, in microseconds.
    active_since: AtomicU64,
    /// The errors of the last reload; `None` if it succeeded.
    errors: ArcSwapOption<String>,
}

impl Reloads {
    fn new() -> Self {
        Reloads {
            succeeded: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            active_since: AtomicU64::new(now_micros()),
            errors: ArcSwapOption::empty(),
        }
    }

    pub(crate) fn record_success(&self) {
        self.succeeded.fetch_add(1, Ordering::Relaxed);
        self.active_since.store(now_micros(), Ordering::Relaxed);
        self.errors.store(None);
    }

    pub(crate) fn record_failure(&self, errors: &str) {
        self.failed.fetch_add(1, Ordering::Relaxed);
        self.errors.store(Some(Arc::new(errors.to_owned())));
    }

    pub(crate) fn succeeded(&self) -> u64 {
        self.succeeded.load(Ordering::Relaxed)
    }

    pub(crate) fn failed(&self) -> u64 {
        self.failed.load(Ordering::Relaxed)
    }

    /// Returns when the active config was read.
    pub(crate) fn active_since(&self) -> Timestamp {
        Timestamp::from_micros(self.active_since.load(Ordering::Relaxed))
    }

    /// Returns the errors of the last reload; `None` if it succeeded.
    pub(crate) fn errors(&self) -> Option<Arc<String>> {
        self.errors.load_full()
    }
}

fn now_micros() -> u64 {
    SystemClock.now().as_micros()
}

#[cfg(test)]
mod tests {
    use tidegate::Reason;
    use tidegate::api::Op;

    use super::*;

    fn request<'a>(op: Op, limit: &'a str, key: &'a str) -> DecisionRequest<'a> {
        DecisionRequest::new(op, limit, Key::from(key))
    }

    fn stats(names: &[&str]) -> Stats {
        Stats::new(names.iter().map(|name| (*name).to_owned()).collect())
    }

    fn counts(stats: &Stats, name: &str) -> DecisionCounts {
        stats.all_limits()[name].counts.total()
    }

    #[test]
    fn taking_requests_and_refused_checks_of_served_limits_are_counted() {
        let stats = stats(&["api"]);
        let denied = Ok(Decision::denied_by_list(5));
        for op in [Op::Limit, Op::Check, Op::Reserve, Op::Refund, Op::Reset] {
            stats.record(&request(op, "api", "u1"), &denied);
        }
        stats.record(&request(Op::Check, "api", "u1"), &Ok(Decision::admitted_without_store(5)));
        stats.record(&request(Op::Limit, "elsewhere", "u1"), &denied);
        let counted: Vec<_> = counts(&stats, "api").iter().filter(|(.., count)| *count > 0).collect();
        assert_eq!(counted, [("denied", Some(Reason::Deny.as_str()), 3)]);
        assert_eq!(stats.all_limits().len(), 1, "a name that a client chose takes no memory");
    }

    #[test]
    fn a_limit_that_comes_back_continues_its_counts() {
        let stats = stats(&["api", "login"]);
        let admitted = Ok(Decision::admitted_without_store(5));
        stats.record(&request(Op::Limit, "api", "u1"), &admitted);
        stats.set_served_limits(stats.limit_stats_for(vec!["login".to_owned()]));
        stats.record(&request(Op::Limit, "api", "u1"), &admitted);
        assert_eq!(counts(&stats, "api").without_store(), 1, "a removed limit is not counted, and keeps its counts");
        stats.set_served_limits(stats.limit_stats_for(vec!["api".to_owned()]));
        stats.record(&request(Op::Limit, "api", "u1"), &admitted);
        assert_eq!(counts(&stats, "api").without_store(), 2);
    }

    #[test]
    fn only_denied_keys_are_top_keys() {
        let stats = stats(&["api"]);
        stats.record(&request(Op::Limit, "api", "good"), &Ok(Decision::admitted_without_store(5)));
        stats.record(&request(Op::Limit, "api", "bad"), &Ok(Decision::denied_by_list(5)));
        let top: Vec<String> =
            stats.all_limits()["api"].top_keys.counters().into_iter().map(|one| one.shown.text).collect();
        assert_eq!(top, ["bad"]);
    }
}
