//! Restarts of workerd on the same storage, after a stop or a crash.

use serde_json::json;

use crate::support::TestWorker;

#[test]
fn spent_quota_survives_a_restart() {
    assert_quota_survives(|worker| worker.restart(json!({})));
}

/// A decision is on the disk before its response.
#[test]
fn spent_quota_survives_a_crash() {
    assert_quota_survives(TestWorker::kill_and_restart);
}

fn assert_quota_survives(restart: impl Fn(TestWorker) -> TestWorker) {
    let mut worker = TestWorker::start();
    for expected in [4, 3, 2, 1, 0] {
        let (status, decision) = worker.login("u1");
        assert_eq!((status, &decision["remaining"]), (200, &json!(expected)));
        worker = restart(worker);
    }
    let (_, denied) = worker.login("u1");
    assert_eq!((&denied["allowed"], &denied["reason"]), (&json!(false), &json!("rate")));
    assert_eq!(worker.login("u2").1["remaining"], 4, "another key is not affected");
}
