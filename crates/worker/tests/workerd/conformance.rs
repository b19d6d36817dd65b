//! The whole suite and the oracle, over the remote store.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use tidegate::remote::RemoteStore;
use tidegate_testkit::{Subject, conformance_tests, oracle};

use crate::edge::Edge;
use crate::run;

/// A store behind a Worker. Tests that run at the same time share one, each under a prefix of its own; the last of them
/// to end ends it, which a static would not.
fn subject() -> Subject<RemoteStore> {
    static SHARED: Mutex<(Weak<Edge>, u64)> = Mutex::new((Weak::new(), 0));
    let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    let edge = shared.0.upgrade().unwrap_or_else(|| {
        let edge = Arc::new(Edge::start());
        shared.0 = Arc::downgrade(&edge);
        edge
    });
    shared.1 += 1;
    Subject::new(edge.store()).prefixed(format!("test-{}-", shared.1)).run_with(move |future| {
        let _stays = &edge;
        run(future);
    })
}

conformance_tests!(on_workerd, subject());

/// How many random traces; `cargo xtask deep` asks for more. Not for as many as of other stores: each step is a request to
/// the Worker and one to an object.
fn seeds() -> u64 {
    let told = std::env::var("TIDEGATE_ORACLE_SEEDS").ok().and_then(|seeds| seeds.parse().ok());
    told.unwrap_or(40).min(300)
}

#[test]
fn random_traces_agree_on_workerd() {
    for seed in 0..seeds() {
        if let Err(mismatch) = run(oracle::run(&subject(), seed, 60)) {
            panic!("{mismatch}");
        }
    }
}
