//! The conformance suite and the oracle on the remote store.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use tidegate::remote::RemoteStore;
use tidegate_testkit::{Subject, conformance_tests, oracle};

use super::{run, store};
use crate::serve::program::Program;

/// A remote store on an empty server. Concurrent tests share the server, each under its own prefix; the last of them stops
/// it, which a static would not.
fn subject() -> Subject<RemoteStore> {
    static SHARED: Mutex<(Weak<Program>, u64)> = Mutex::new((Weak::new(), 0));
    let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    let program = shared.0.upgrade().unwrap_or_else(|| {
        let program = Arc::new(Program::start(&["--testing", "--grpc", "off", "--resp", "off"]));
        shared.0 = Arc::downgrade(&program);
        program
    });
    shared.1 += 1;
    Subject::new(store(&program)).with_prefix(format!("test-{}-", shared.1)).with_runner(move |future| {
        let _stays = &program;
        run(future);
    })
}

conformance_tests!(on_a_server, subject());

/// How many random traces; `cargo xtask deep` runs more. Fewer than for other stores, because each step is a request.
fn seed_count() -> u64 {
    let configured = std::env::var("TIDEGATE_ORACLE_SEEDS").ok().and_then(|seeds| seeds.parse().ok());
    configured.unwrap_or(40).min(1_000)
}

#[test]
fn random_traces_agree_on_a_server() {
    for seed in 0..seed_count() {
        if let Err(mismatch) = run(oracle::run(&subject(), seed, 60)) {
            panic!("{mismatch}");
        }
    }
}
