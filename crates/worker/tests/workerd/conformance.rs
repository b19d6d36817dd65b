//! The conformance suite and the oracle over the remote store.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use tidegate::remote::RemoteStore;
use tidegate_testkit::{Subject, conformance_tests, oracle};

use crate::run;
use crate::support::TestWorker;

/// Returns a store behind a Worker. Concurrent tests share one Worker, each under its own prefix. It ends with the last
/// of them, which a static would not.
fn subject() -> Subject<RemoteStore> {
    static SHARED: Mutex<(Weak<TestWorker>, u64)> = Mutex::new((Weak::new(), 0));
    let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    let worker = shared.0.upgrade().unwrap_or_else(|| {
        let worker = Arc::new(TestWorker::start());
        shared.0 = Arc::downgrade(&worker);
        worker
    });
    shared.1 += 1;
    Subject::new(worker.store()).with_prefix(format!("test-{}-", shared.1)).with_runner(move |future| {
        let _keep_alive = &worker;
        run(future);
    })
}

conformance_tests!(on_workerd, subject());

/// Returns the number of random traces. `cargo xtask deep` sets a larger one, capped below that of other stores: each
/// step is a request to the Worker and one to an object.
fn seeds() -> u64 {
    let configured = std::env::var("TIDEGATE_ORACLE_SEEDS").ok().and_then(|seeds| seeds.parse().ok());
    configured.unwrap_or(40).min(300)
}

#[test]
fn random_traces_agree_on_workerd() {
    for seed in 0..seeds() {
        if let Err(mismatch) = run(oracle::run(&subject(), seed, 60)) {
            panic!("{mismatch}");
        }
    }
}
