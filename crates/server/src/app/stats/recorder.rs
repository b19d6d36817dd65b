//! The Prometheus recorder of the process. It also feeds the store's calls to the dashboard.

use std::sync::{Arc, LazyLock, OnceLock};
use std::time::Duration;

use metrics::{
    Counter, CounterFn, Gauge, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder, SharedString, Unit,
};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle, PrometheusRecorder};

use super::store_calls::StoreCalls;

/// The library's metrics of a store's calls.
const STORE_SECONDS: &str = "tidegate_store_seconds";
const STORE_ERRORS: &str = "tidegate_store_errors_total";

/// From a tenth of a millisecond, for a store nearby, to a second, which is far beyond any timeout.
const BUCKETS: [f64; 13] = [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0];

/// Returns the recorder of the process, and installs it on the first call. Call it before a store is made, or the
/// descriptions of its metrics are lost.
pub(crate) fn handle() -> &'static PrometheusHandle {
    static HANDLE: OnceLock<PrometheusHandle> = OnceLock::new();
    HANDLE.get_or_init(|| {
        let seconds = Matcher::Full(STORE_SECONDS.to_owned());
        let builder = PrometheusBuilder::new().set_buckets_for_metric(seconds, &BUCKETS).expect("there are buckets");
        let prometheus = builder.build_recorder();
        let handle = prometheus.handle();
        let recorder = StoreCallRecorder { inner: prometheus, calls: store_calls() };
        metrics::set_global_recorder(recorder).expect("there is no other recorder in this process");
        handle
    })
}

/// Returns the calls of the store outside, of which a process has at most one.
pub(crate) fn store_calls() -> Arc<StoreCalls> {
    static CALLS: LazyLock<Arc<StoreCalls>> = LazyLock::new(Arc::default);
    Arc::clone(&CALLS)
}

/// Passes everything on to a recorder, and the latency and errors of the store's calls to the dashboard as well. The library
/// measures each call once, for both.
struct StoreCallRecorder<R = PrometheusRecorder> {
    inner: R,
    calls: Arc<StoreCalls>,
}

impl<R: Recorder> Recorder for StoreCallRecorder<R> {
    fn describe_counter(&self, key: KeyName, unit: Option<Unit>, description: SharedString) {
        self.inner.describe_counter(key, unit, description);
    }

    fn describe_gauge(&self, key: KeyName, unit: Option<Unit>, description: SharedString) {
        self.inner.describe_gauge(key, unit, description);
    }

    fn describe_histogram(&self, key: KeyName, unit: Option<Unit>, description: SharedString) {
        self.inner.describe_histogram(key, unit, description);
    }

    fn register_counter(&self, key: &Key, metadata: &Metadata<'_>) -> Counter {
        let counter = self.inner.register_counter(key, metadata);
        if key.name() != STORE_ERRORS {
            return counter;
        }
        Counter::from_arc(Arc::new(ErrorCounter { counter, calls: Arc::clone(&self.calls) }))
    }

    fn register_gauge(&self, key: &Key, metadata: &Metadata<'_>) -> Gauge {
        self.inner.register_gauge(key, metadata)
    }

    fn register_histogram(&self, key: &Key, metadata: &Metadata<'_>) -> Histogram {
        let histogram = self.inner.register_histogram(key, metadata);
        if key.name() != STORE_SECONDS {
            return histogram;
        }
        Histogram::from_arc(Arc::new(LatencyHistogram { histogram, calls: Arc::clone(&self.calls) }))
    }
}

struct ErrorCounter {
    counter: Counter,
    calls: Arc<StoreCalls>,
}

impl CounterFn for ErrorCounter {
    fn increment(&self, value: u64) {
        self.counter.increment(value);
        self.calls.record_errors(value);
    }

    fn absolute(&self, value: u64) {
        self.counter.absolute(value);
    }
}

struct LatencyHistogram {
    histogram: Histogram,
    calls: Arc<StoreCalls>,
}

impl HistogramFn for LatencyHistogram {
    fn record(&self, seconds: f64) {
        self.histogram.record(seconds);
        self.calls.record(Duration::from_secs_f64(seconds.max(0.0)));
    }
}

#[cfg(test)]
mod tests {
    use metrics::NoopRecorder;
    use tidegate::resilience::InstrumentedStore;
    use tidegate::store::{Capabilities, Request};
    use tidegate::{
        Decision, JointDecision, Limiter, ManualClock, MemoryStore, Quota, Store, StoreError, StoreErrorKind, seconds,
    };

    use super::*;

    /// A store that takes 8 ms for one request, and fails several.
    struct SlowStore(MemoryStore, ManualClock);

    fn unavailable() -> StoreError {
        StoreError::new(StoreErrorKind::Unavailable, "not now")
    }

    impl Store for SlowStore {
        fn capabilities(&self) -> Capabilities {
            self.0.capabilities()
        }

        fn try_apply(&self, _request: &Request<'_>) -> Option<Result<Decision, StoreError>> {
            None
        }

        async fn apply(&self, request: &Request<'_>) -> Result<Decision, StoreError> {
            self.1.advance(Duration::from_millis(8));
            self.0.apply(request).await
        }

        async fn apply_all(&self, _requests: &[Request<'_>]) -> Result<JointDecision, StoreError> {
            Err(unavailable())
        }

        async fn apply_each(&self, requests: &[Request<'_>]) -> Vec<Result<Decision, StoreError>> {
            requests.iter().map(|_| Err(unavailable())).collect()
        }

        async fn close(&self) {}
    }

    #[tokio::test]
    async fn store_calls_are_timed_and_errors_are_counted() {
        let calls = Arc::new(StoreCalls::default());
        let recorder = StoreCallRecorder { inner: NoopRecorder, calls: Arc::clone(&calls) };
        let _recorder = metrics::set_default_local_recorder(&recorder);
        let clock = ManualClock::default();
        let store = InstrumentedStore::new(SlowStore(MemoryStore::new(), clock.clone()), "slow").clock(clock);
        let quota = Quota::token_bucket(9, seconds(1)).expect("a quota");
        let limiter =
            Limiter::builder().limit("api", quota).limit("login", quota).bare_store(store).build().expect("built");
        let _ = limiter.limit("api", "u1").await.expect("decided");
        calls.tick();
        limiter.limit_all([limiter.limit("api", "u1"), limiter.limit("login", "u1")]).await.expect_err("broken");
        let each = limiter.batch([limiter.limit("api", "u1"), limiter.limit("login", "u1")]).await;
        assert!(each.iter().all(Result::is_err));
        calls.tick();
        let samples = calls.samples();
        assert_eq!((samples[0].calls, samples[0].errors), (1, 0));
        assert!((8_000..=9_000).contains(&samples[0].p99.expect("called")), "{samples:?}");
        assert_eq!((samples[1].calls, samples[1].errors), (2, 3));
    }
}
