//! Limits and leases with concurrent clients.

use std::sync::Arc;

use serde_json::json;
use tidegate::remote::RemoteStore;
use tidegate::store::{Op, Request, Scope};
use tidegate::{Cost, Key, OnStoreError, Quota, Store, days};
use tidegate_testkit::{Applicability, Subject, suite};

use crate::run;
use crate::support::TestWorker;

#[test]
fn concurrent_clients_on_one_key_never_exceed_the_quota() {
    let worker = TestWorker::start();
    let quotas = [
        Quota::token_bucket(100, days(300)).unwrap(),
        Quota::fixed_window(100, days(300)).unwrap(),
        Quota::sliding_window(100, days(300)).unwrap(),
        Quota::sliding_log(100, days(300)).unwrap(),
    ];
    for (number, quota) in quotas.into_iter().enumerate() {
        let client = || {
            // Each client has its own connection.
            let store = worker.store();
            tokio::spawn(async move {
                let (scope, key) = (Scope::new("", &format!("api-{number}")), Key::from("hot"));
                let (op, on_store_error) = (Op::Limit(Cost::ONE), OnStoreError::Closed);
                let request = Request { scope: &scope, key: &key, quota: &quota, op, on_store_error };
                let mut allowed = 0;
                for _ in 0..4 {
                    allowed += u32::from(store.apply(&request).await.expect("a decision").allowed());
                }
                allowed
            })
        };
        let allowed: u32 = run(async {
            let clients: Vec<_> = (0..64).map(|_| client()).collect();
            let mut allowed = 0;
            for client in clients {
                allowed += client.await.unwrap();
            }
            allowed
        });
        assert_eq!(allowed, 100, "{quota:?}");
    }
}

#[test]
fn all_or_nothing_is_atomic_in_one_object_under_concurrency() {
    let worker = Arc::new(TestWorker::with_variables(json!({"TIDEGATE_SHARDS": "1", "TIDEGATE_APART": "refuse"})));
    let store = RemoteStore::builder(worker.url("")).atomic_all(true).build().unwrap();
    let subject = Subject::new(store).with_runner(run);
    assert_eq!(run(suite::joint_requests_are_atomic_under_concurrency(&subject)), Applicability::Ran);
}

#[test]
fn leases_are_admitted_renewed_and_released_once() {
    let worker = TestWorker::start();
    let admit = || worker.post("/v1/admit", json!({"limit": "work", "key": "t1"}).to_string()).1;
    let (first, second) = (admit(), admit());
    assert_eq!(
        (&first["allowed"], &second["allowed"], &first["expires_in_ms"]),
        (&json!(true), &json!(true), &json!(3_600_000))
    );
    assert_ne!(first["lease"], second["lease"]);
    assert_eq!(admit()["allowed"], json!(false));
    let held = json!({"lease": first["lease"]}).to_string();
    assert_eq!(worker.post("/v1/renew", held.clone()).1["allowed"], json!(true));
    assert_eq!(worker.post("/v1/release", held.clone()).1["allowed"], json!(true));
    assert_eq!(worker.post("/v1/release", held).1["allowed"], json!(false), "exactly once");
    assert_eq!(admit()["allowed"], json!(true));
}
