//! `App`: the state that all protocols share. The limits, the store, the statistics and the active config.

mod clock_jump;
pub(crate) mod config;
pub(crate) mod reload;
mod snapshot;
pub(crate) mod stats;
pub(crate) mod store;

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use http::HeaderMap;
use tidegate::http::{Client, ForwardingWarning};
use tidegate::{BuildError, Clock, Decision, Error, JointDecision, Limiter, SystemClock};
use tokio::sync::Mutex;
use tokio::task::yield_now;
use tokio::time::{Instant, MissedTickBehavior, interval_at};
use tracing::warn;

use crate::net::buffer_budget::BufferBudget;
use crate::net::shutdown::Shutdown;
use crate::request::DecisionRequest;
use clock_jump::ClockJumpDetector;
use config::{ActiveConfig, has_inline_quota};
use stats::{Stats, recorder};
use store::AppStore;

/// The period of the statistics.
const STATS_PERIOD: Duration = Duration::from_secs(1);

/// The state that every door shares. There is one in the process, behind an `Arc`.
pub(crate) struct App {
    pub(crate) limiter: Limiter,
    /// The limiter for requests that carry their own quota, on the same store.
    inline_quota: Limiter,
    pub(crate) store: AppStore,
    pub(crate) stats: Stats,
    pub(crate) config: ArcSwap<ActiveConfig>,
    /// The bytes that connections and pages may hold.
    pub(crate) buffers: Arc<BufferBudget>,
    /// Held while another config becomes active.
    activation_lock: Mutex<()>,
    /// Warns once of a proxy that the config does not mention.
    forwarding_warning: ForwardingWarning,
    /// Whether tests may pass the time.
    pub(crate) is_testing: bool,
    draining: Arc<AtomicBool>,
}

impl App {
    /// Serves a config from a store.
    pub(crate) fn new(store: AppStore, config: ActiveConfig, is_testing: bool) -> Result<Self, BuildError> {
        let limiter = store.attach_to(config.limiter()).build()?;
        let inline_quota = store.attach_to(config.inline_quota_limiter()).build()?;
        let stats = Stats::new(config.names());
        Ok(App {
            limiter,
            inline_quota,
            store,
            stats,
            config: ArcSwap::from_pointee(config),
            buffers: BufferBudget::new(usize::MAX),
            activation_lock: Mutex::new(()),
            forwarding_warning: ForwardingWarning::new(),
            is_testing,
            draining: Arc::default(),
        })
    }

    /// Changes how the statistics show keys.
    pub(crate) fn with_stats(mut self, change: impl FnOnce(Stats) -> Stats) -> Self {
        self.stats = change(self.stats);
        self
    }

    /// Bounds the bytes that connections and pages hold. Without, there is no bound.
    pub(crate) fn with_buffers(mut self, budget: Arc<BufferBudget>) -> Self {
        self.buffers = budget;
        self
    }

    /// Makes another config the active one. The usage of keys is kept.
    pub(crate) async fn activate(&self, config: ActiveConfig) -> Result<(), BuildError> {
        let activation_lock = self.activation_lock.lock().await;
        // Slow steps with many limits stay out of the swap: inside it, a rule's limit may be missing.
        let (limiter, inline_quota) = (config.limiter(), config.inline_quota_limiter());
        let (served, config) = (self.stats.limit_stats_for(config.names()), Arc::new(config));
        // Before the first decision of a new limit.
        let previous = self.stats.add_served_limits(&served);
        if let Err(error) = self.limiter.replace_all(limiter) {
            self.stats.set_served_limits(previous);
            return Err(error);
        }
        let before = self.config.swap(Arc::clone(&config));
        drop(activation_lock);
        let both = self.stats.set_served_limits(served);
        self.inline_quota.replace_all(inline_quota)?;
        self.stats.reloads.record_success();
        let (old, new) = (before.config.defaults(), config.config.defaults());
        if old.prefix != new.prefix {
            warn!(before = old.prefix, now = new.prefix, "the prefix is another: every key begins anew");
        }
        if (old.store_timeout, old.expected_replicas) != (new.store_timeout, new.expected_replicas) {
            warn!(
                "store_timeout and expected_replicas are settled at the start: they change when the server is started again"
            );
        }
        tokio::join!(free_unread(previous), free_unread(both), free_unread(before));
        Ok(())
    }

    /// Waits until no other config is becoming active.
    pub(crate) async fn wait_for_activation(&self) {
        drop(self.activation_lock.lock().await);
    }

    /// Finds the client of a request with these headers from `peer`.
    pub(crate) fn client(&self, peer: IpAddr, headers: &HeaderMap) -> Client {
        self.config.load().client_address.find_and_warn(&self.forwarding_warning, peer, headers)
    }

    /// Whether the server is about to end, so that a balancer should send no new clients.
    pub(crate) fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }

    /// Returns the flag behind [`is_draining`](Self::is_draining).
    pub(crate) fn draining_flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.draining)
    }

    pub(crate) fn drain(&self) {
        self.draining.store(true, Ordering::Relaxed);
    }

    /// Closes the store, so that it can release what it holds. No request is answered afterwards.
    pub(crate) async fn close(&self) {
        self.limiter.close().await;
        self.inline_quota.close().await;
    }

    /// Hints that a request follows soon.
    pub(crate) fn prefetch(&self, request: &DecisionRequest<'_>) {
        request.call(self.limiter_for(request)).prefetch();
    }

    /// Decides without waiting. Returns `None` if the store must be awaited. Nothing was done then.
    #[inline]
    pub(crate) fn try_decide(&self, request: &DecisionRequest<'_>) -> Option<Result<Decision, Error>> {
        let result = match request.call(self.limiter_for(request)).try_now() {
            Err(Error::WouldBlock) => return None,
            result => result,
        };
        self.stats.record(request, &result);
        Some(result)
    }

    /// Decides, and waits for the store only if that is necessary.
    pub(crate) async fn decide(&self, request: &DecisionRequest<'_>) -> Result<Decision, Error> {
        let call = request.call(self.limiter_for(request));
        let result = match call.try_now() {
            Err(Error::WouldBlock) => call.await,
            result => result,
        };
        self.stats.record(request, &result);
        result
    }

    /// Decides about each request on its own; the results are in order.
    pub(crate) async fn decide_batch(&self, requests: &[DecisionRequest<'_>]) -> Vec<Result<Decision, Error>> {
        let mut results = Vec::with_capacity(requests.len());
        for run in requests.chunk_by(|one, next| std::ptr::eq(self.limiter_for(one), self.limiter_for(next))) {
            let limiter = self.limiter_for(&run[0]);
            results.extend(limiter.batch(run.iter().map(|request| request.call(limiter))).await);
        }
        requests.iter().zip(&results).for_each(|(request, result)| self.stats.record(request, result));
        results
    }

    /// Takes all or nothing; each request has to be [`Op::Limit`](tidegate::api::Op::Limit).
    pub(crate) async fn decide_jointly(&self, requests: &[DecisionRequest<'_>]) -> Result<JointDecision, Error> {
        let joint =
            self.limiter.limit_all(requests.iter().map(|request| request.call(self.limiter_for(request)))).await;
        self.stats.record_joint(requests, joint.as_ref().map_err(Error::clone));
        joint
    }

    #[inline]
    fn limiter_for(&self, request: &DecisionRequest<'_>) -> &Limiter {
        if request.quota.is_some() && has_inline_quota(request.limit) { &self.inline_quota } else { &self.limiter }
    }

    /// Ends every second of the statistics, until the server ends. With many limits that takes long: it belongs on the
    /// background thread.
    pub(crate) async fn tick(self: Arc<Self>, mut shutdown: Shutdown) {
        let mut seconds = interval_at(Instant::now() + STATS_PERIOD, STATS_PERIOD);
        seconds.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut clock_jumps = ClockJumpDetector::new(SystemClock.now(), Instant::now());
        loop {
            tokio::select! {
                _ = seconds.tick() => {
                    clock_jumps.observe(SystemClock.now(), Instant::now());
                    self.stats.tick().await;
                    self.store.calls().inspect(|calls| calls.tick());
                    // The recorder keeps samples one by one until then.
                    recorder::handle().run_upkeep();
                }
                () = shutdown.wait() => {
                    // Logs how many denials of the last second were left out.
                    self.stats.tick().await;
                    return;
                }
            }
        }
    }
}

/// How often the readers of a value that was replaced have a turn to end. Nearly all read for less than a microsecond.
const READER_TURNS: usize = 1_000;

/// Frees a value that decisions may still read. The last reader would free a large one in the middle of a decision.
async fn free_unread<T>(value: Arc<T>) {
    for _ in 0..READER_TURNS {
        if Arc::strong_count(&value) == 1 {
            break;
        }
        yield_now().await;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use tidegate::api::Op;
    use tidegate::config::envoy::Domains;
    use tidegate::config::{Config, Syntax};
    use tidegate::{Key, MemoryStore};

    use super::*;

    fn config_with_limit(name: usize) -> ActiveConfig {
        let text = format!("[limits.n{name}]\nalgorithm = \"fixed_window\"\nrate = 5\nperiod = \"1d\"\n");
        let config = Config::parse(&text, Syntax::Toml, "test.toml").expect("a config");
        ActiveConfig::new(config, Domains::default(), Vec::new(), Vec::new(), false)
    }

    /// A value that notes whether its reader had ended when it was freed.
    struct Watched {
        reader_has_ended: Arc<AtomicBool>,
        was_freed_after: Arc<AtomicBool>,
    }

    impl Drop for Watched {
        fn drop(&mut self) {
            self.was_freed_after.store(self.reader_has_ended.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }

    #[tokio::test]
    async fn a_replaced_value_is_not_freed_by_its_reader() {
        let (reader_has_ended, was_freed_after) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let value =
            Watched { reader_has_ended: Arc::clone(&reader_has_ended), was_freed_after: was_freed_after.clone() };
        let value = Arc::new(value);
        let read = Arc::clone(&value);
        tokio::spawn(async move {
            yield_now().await;
            drop(read);
            reader_has_ended.store(true, Ordering::Relaxed);
        });
        free_unread(value).await;
        assert!(was_freed_after.load(Ordering::Relaxed));
    }

    /// A client requests each limit again and again until it exists.
    #[tokio::test]
    async fn the_first_decision_of_a_new_limit_is_counted() {
        const LIMITS: usize = 1_000;
        let store = AppStore::Memory(Arc::new(MemoryStore::builder().max_keys(1_000).build()));
        let app = Arc::new(App::new(store, config_with_limit(0), false).expect("an app"));
        let (client_app, decided) = (Arc::clone(&app), Arc::new(AtomicUsize::new(0)));
        let counter = Arc::clone(&decided);
        let client = std::thread::spawn(move || {
            for name in (0..LIMITS).map(|name| format!("n{name}")) {
                let request = DecisionRequest::new(Op::Limit, &name, Key::from("u"));
                while client_app.try_decide(&request).is_none_or(|result| result.is_err()) {}
                counter.fetch_add(1, Ordering::Relaxed);
            }
        });
        for name in 1..LIMITS {
            while decided.load(Ordering::Relaxed) < name {
                std::thread::yield_now();
            }
            app.activate(config_with_limit(name)).await.expect("active");
        }
        client.join().expect("every limit was there");
        let limits = app.stats.all_limits();
        let missed = limits.values().filter(|limit| limit.name.starts_with('n') && limit.counts.total().allowed() != 1);
        assert_eq!(missed.count(), 0);
    }
}
