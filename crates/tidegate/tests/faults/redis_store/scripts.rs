//! Script flushes: a server that forgets the scripts.

use std::future::IntoFuture;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tidegate::redis::RedisStore;
use tidegate::resilience::BreakerState;
use tidegate::store::{Op, Request, Scope};
use tidegate::{Cost, Key, OnStoreError, Quota, Store, hours, millis};
use tokio::time::Instant;

use super::server::{self, Redis};
use crate::support::{Answer, CAPACITY, run, spawn};

/// The number of concurrent callers under each policy, and the calls of each.
const CALLERS: usize = 8;
const CALLS: usize = 150;

#[test]
fn flushed_scripts_are_reloaded_under_load() {
    let server = server::start();
    let service = server::patient_service(&server);
    let stop = Arc::new(AtomicBool::new(false));
    let flusher = spawn(flush_scripts(server.url(), Arc::clone(&stop)));
    let callers = OnStoreError::ALL.into_iter().flat_map(|policy| (0..CALLERS).map(move |_| policy));
    let callers: Vec<_> = callers
        .map(|policy| {
            let limiter = service.limiter.clone();
            let calls = async move {
                let mut admitted = 0;
                for _ in 0..CALLS {
                    match Answer::from_result(policy, limiter.limit(policy.as_str(), "u").into_future().await) {
                        Answer::Store { allowed } => admitted += u64::from(allowed),
                        Answer::Policy { .. } | Answer::Overloaded => panic!("{policy:?}: the call failed"),
                    }
                }
                admitted
            };
            (policy, spawn(calls))
        })
        .collect();
    let mut admitted = [0; OnStoreError::ALL.len()];
    for (policy, caller) in callers {
        admitted[policy as usize] += run(caller).expect("a caller that did not panic");
    }
    stop.store(true, Ordering::Relaxed);
    let flushes = run(flusher).unwrap();

    assert_eq!(admitted, [CAPACITY; 3]);
    assert_eq!(service.breaker(), BreakerState::Closed);
    let (callers, reloads) = (3 * CALLERS as u64, command_stat(&server, "eval", "calls"));
    assert!(reloads > 0, "no call has met a flush");
    // Every call, of which some are shared, is sent once by hash, and once at most with the source: when the server did
    // not know the hash.
    assert!(command_stat(&server, "evalsha", "calls") <= callers * CALLS as u64);
    assert_eq!(reloads, command_stat(&server, "evalsha", "failed_calls"));
    assert_eq!(command_stat(&server, "eval", "failed_calls"), 0);
    // Every caller meets a flush, or the script being unknown at first, once at most.
    assert!(reloads <= callers * (flushes + 1), "{reloads} reloads after {flushes} flushes");
}

#[test]
fn script_flush_delays_no_call() {
    let server = server::start();
    let service = server::service(&server);
    let load = service.start_load(1);
    load.wait_until_served();
    let (flushed, before) = (Instant::now(), command_stat(&server, "eval", "calls"));
    for _ in 0..100 {
        server.cli(&["SCRIPT", "FLUSH"]);
    }
    load.wait_until_served();
    // It also asserts that no call has hung.
    let log = load.stop();
    assert!(command_stat(&server, "eval", "calls") > before, "no call has met a flush");
    log.assert_served(flushed);
    log.assert_admitted_by_store(CAPACITY, |_| true);
}

#[test]
fn script_flush_costs_one_reload_per_script() {
    let server = server::start();
    let store = run(RedisStore::connect(server.url())).unwrap();
    let (scope, key) = (Scope::new("fault", "each"), Key::from("u"));
    let quotas = [
        Quota::token_bucket(10, hours(1)),
        Quota::fixed_window(10, hours(1)),
        Quota::sliding_window(10, hours(1)),
        Quota::sliding_log(10, hours(1)),
    ];
    let mut flushed = 0;
    let mut flush = || {
        assert_eq!(server.cli(&["SCRIPT", "FLUSH"]), "OK");
        flushed += 1;
    };
    for quota in quotas.map(Result::unwrap) {
        let _ = run(store.apply(&request(&scope, &key, &quota, Op::Reset))).unwrap();
        for op in [Op::Limit(Cost::ONE), Op::Check(Cost::ONE), Op::Reserve(Cost::ONE), Op::Refund(Cost::ONE)] {
            flush();
            assert!(run(store.apply(&request(&scope, &key, &quota, op))).unwrap().allowed());
        }
        flush();
        let limit = request(&scope, &key, &quota, Op::Limit(Cost::ONE));
        let all = run(store.apply_all(&[limit, limit])).unwrap();
        assert_eq!((all.allowed(), all.decisions()[1].remaining()), (true, 7), "{quota:?}");
    }
    assert_eq!((command_stat(&server, "eval", "calls"), command_stat(&server, "evalsha", "calls")), (flushed, flushed));
}

#[cfg(feature = "metrics")]
#[test]
fn script_reload_is_counted_with_its_store_label() {
    use metrics_util::debugging::{DebugValue, DebuggingRecorder};

    let server = server::start();
    let recorder = DebuggingRecorder::new();
    metrics::with_local_recorder(&recorder, || {
        let store = run(RedisStore::builder().label("forgetful").connect(server.url())).unwrap();
        let (scope, key, quota) = (Scope::new("fault", "count"), Key::from("u"), Quota::token_bucket(10, hours(1)));
        let quota = quota.unwrap();
        // Unknown at first, then known, then forgotten.
        for flushed in [false, false, true] {
            if flushed {
                server.cli(&["SCRIPT", "FLUSH"]);
            }
            let _ = run(store.apply(&request(&scope, &key, &quota, Op::Limit(Cost::ONE)))).unwrap();
        }
    });
    let recorded = recorder.snapshotter().snapshot().into_vec();
    let [(key, _, Some(_), DebugValue::Counter(2))] = &recorded[..] else { panic!("{recorded:?}") };
    let labels: Vec<_> = key.key().labels().map(|label| (label.key(), label.value())).collect();
    assert_eq!((key.key().name(), &labels[..]), ("tidegate_script_reloads_total", &[("store", "forgetful")][..]));
}

fn request<'a>(scope: &'a Scope, key: &'a Key<'_>, quota: &'a Quota, op: Op) -> Request<'a> {
    Request { scope, key, quota, op, on_store_error: OnStoreError::Closed }
}

/// Flushes the scripts until `stop` is set, and returns how often.
async fn flush_scripts(url: String, stop: Arc<AtomicBool>) -> u64 {
    let client = redis::Client::open(url).unwrap();
    let mut connection = client.get_multiplexed_async_connection().await.unwrap();
    let mut flushes = 0;
    while !stop.load(Ordering::Relaxed) {
        let () = redis::cmd("SCRIPT").arg("FLUSH").query_async(&mut connection).await.unwrap();
        flushes += 1;
        tokio::time::sleep(millis(2)).await;
    }
    flushes
}

/// A number of the server's statistics of a command.
fn command_stat(server: &Redis, command: &str, number: &str) -> u64 {
    let stats = server.cli(&["INFO", "commandstats"]);
    let line = stats.lines().find_map(|line| line.trim().strip_prefix(&format!("cmdstat_{command}:")));
    let value = line.unwrap_or_default().split(',').find_map(|part| part.strip_prefix(&format!("{number}=")));
    value.map_or(0, |value| value.parse().unwrap())
}
