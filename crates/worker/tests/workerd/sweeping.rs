//! Sweeps, which evict only expired keys.

use std::sync::Arc;

use serde_json::json;
use tidegate::remote::RemoteStore;
use tidegate::store::{Capabilities, Request, TestableStore};
use tidegate::{Decision, JointDecision, Store, StoreError, Timestamp};
use tidegate_servers::wait_until;
use tidegate_testkit::{Applicability, Subject, suite};

use crate::run;
use crate::support::TestWorker;

/// The remote store of a Worker, whose objects can be swept at any time.
struct SweepableStore {
    store: RemoteStore,
    worker: Arc<TestWorker>,
}

impl SweepableStore {
    fn new(worker: Arc<TestWorker>) -> Self {
        SweepableStore { store: worker.store(), worker }
    }
}

impl Store for SweepableStore {
    fn capabilities(&self) -> Capabilities {
        self.store.capabilities()
    }

    fn try_apply(&self, request: &Request<'_>) -> Option<Result<Decision, StoreError>> {
        self.store.try_apply(request)
    }

    async fn apply(&self, request: &Request<'_>) -> Result<Decision, StoreError> {
        self.store.apply(request).await
    }

    async fn apply_all(&self, requests: &[Request<'_>]) -> Result<JointDecision, StoreError> {
        self.store.apply_all(requests).await
    }

    async fn apply_each(&self, requests: &[Request<'_>]) -> Vec<Result<Decision, StoreError>> {
        self.store.apply_each(requests).await
    }

    async fn close(&self) {
        self.store.close().await;
    }
}

impl TestableStore for SweepableStore {
    async fn apply_at(&self, request: &Request<'_>, at: Timestamp) -> Result<Decision, StoreError> {
        self.store.apply_at(request, at).await
    }

    async fn apply_all_at(&self, requests: &[Request<'_>], at: Timestamp) -> Result<JointDecision, StoreError> {
        self.store.apply_all_at(requests, at).await
    }

    async fn sweep_at(&self, at: Timestamp) -> Option<usize> {
        let worker = self.worker.clone();
        let remaining = tokio::task::spawn_blocking(move || worker.sweep_at(at.as_micros())).await.unwrap();
        usize::try_from(remaining).ok()
    }
}

/// These cases count the keys of a store, so each needs its own Worker.
#[test]
fn eviction_cases_of_the_suite_hold() {
    for case in [
        "idle_keys_are_evicted",
        "busy_keys_are_not_evicted",
        "eviction_changes_no_decision",
        "expired_leases_are_evicted",
    ] {
        let subject = Subject::new(SweepableStore::new(Arc::new(TestWorker::start()))).with_runner(run);
        assert_eq!(run(suite::run(&subject, case)), Some(Applicability::Ran), "{case}");
    }
}

const DAY: u64 = 86_400_000_000;
const NOW: u64 = 1_700_006_400_000_000;

fn take(worker: &TestWorker, key: &str, period_us: u64) -> bool {
    let quota = json!({"algorithm": "fixed_window", "rate": 1, "period_us": period_us});
    let request = json!({"limit": "api", "key": key, "op": "limit", "quota": quota});
    let (status, answer) =
        worker.post("/v1/apply", json!({"mode": "each", "requests": [request], "at_us": NOW}).to_string());
    assert_eq!(status, 200, "{answer}");
    answer["decisions"][0]["allowed"].as_bool().unwrap()
}

/// 2,400 keys in one object are three pages. An exhausted key stays exhausted, however long it is idle.
#[test]
fn object_is_swept_in_pages() {
    let worker = TestWorker::with_variables(json!({"TIDEGATE_SHARDS": "1"}));
    for page in 0..3 {
        let quota = json!({"algorithm": "token_bucket", "rate": 1, "period_us": DAY});
        let requests: Vec<_> = (0..800)
            .map(|n| json!({"limit": "api", "key": format!("{page}-{n}"), "op": "limit", "quota": quota}))
            .collect();
        let call = json!({"mode": "each", "requests": requests, "at_us": NOW}).to_string();
        assert_eq!(worker.post("/v1/apply", call).0, 200);
    }
    assert!(take(&worker, "spent", 300 * DAY));
    assert_eq!(worker.sweep_at(NOW + DAY - 1), 2_401, "a microsecond early");
    assert_eq!(worker.sweep_at(NOW + DAY), 1);
    assert_eq!(worker.sweep_at(NOW + 2 * DAY), 1, "idle for longer than a day");
    assert!(!take(&worker, "spent", 300 * DAY));
}

/// The alarm itself, every 200 ms here instead of every hour.
#[test]
fn alarm_repeats() {
    let worker = TestWorker::with_variables(json!({"TIDEGATE_SHARDS": "2", "TIDEGATE_SWEEP_MS": "200"}));
    for key in ["a", "b", "c", "d"] {
        for round in 0..2 {
            // Keys that are as good as new before the first alarm or only after it.
            let quota = json!({"algorithm": "token_bucket", "rate": 1, "period_us": 1_000 * (1 + 999 * round)});
            let request = json!({"limit": format!("api-{round}"), "key": key, "op": "limit", "quota": quota});
            let (status, answer) = worker.post("/v1/apply", json!({"mode": "each", "requests": [request]}).to_string());
            assert_eq!(status, 200, "{answer}");
        }
    }
    assert_eq!(worker.login("stays").0, 200);
    // A sweep at the time of a test evicts none of these keys and returns their number.
    assert!(wait_until(|| worker.sweep_at(0) == 1), "{} left", worker.sweep_at(0));
    let (_, decision) = worker.login("stays");
    assert_eq!(decision["remaining"], 3);
}
