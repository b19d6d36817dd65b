//! The Postgres store while its server breaks.

use std::cell::RefCell;
use std::future::IntoFuture;
use std::path::PathBuf;
use std::time::Duration;

use tidegate::postgres::PostgresStore;
use tidegate::{OnStoreError, millis};
use tidegate_servers::{Postgres, required_env};
use tokio::time::Instant;

use crate::support::{Answer, CAPACITY, Service, TIMEOUT, keys, run, sleep};

fn start_server() -> Postgres {
    Postgres::start(&PathBuf::from(required_env("TIDEGATE_POSTGRES_PROGRAMS")), &[Postgres::NO_FSYNC]).unwrap()
}

fn service(server: &Postgres) -> Service<PostgresStore> {
    Service::new(run(PostgresStore::connect(&server.url())).unwrap(), TIMEOUT)
}

/// A service whose timeout is so long that only an error of the store makes a call fail.
fn patient_service(server: &Postgres) -> Service<PostgresStore> {
    Service::new(run(PostgresStore::connect(&server.url())).unwrap(), Duration::from_secs(10))
}

/// Runs an outage after which the server has all its data, and asserts that no unit is admitted twice.
fn assert_outage_forgets_nothing(interrupt: impl FnOnce(&mut Postgres), restore: impl FnOnce(&mut Postgres)) {
    let server = RefCell::new(start_server());
    let service = service(&server.borrow());
    let outage = service.run_outage(|| interrupt(&mut server.borrow_mut()), || restore(&mut server.borrow_mut()));
    outage.log.assert_admitted_by_store(CAPACITY, |_| true);
}

#[test]
fn stopped_and_started_server_forgets_nothing() {
    assert_outage_forgets_nothing(Postgres::stop, Postgres::restart);
}

#[test]
fn crashed_and_recovered_server_forgets_nothing() {
    assert_outage_forgets_nothing(Postgres::crash, Postgres::restart);
}

#[test]
fn paused_and_resumed_server_forgets_nothing() {
    assert_outage_forgets_nothing(|server| server.pause(), |server| server.resume());
}

#[test]
fn cut_connections_are_replaced() {
    let server = start_server();
    let service = service(&server);
    let load = service.start_load(1);
    load.wait_until_used_up();
    let mut cuts = 0;
    for _ in 0..20 {
        let cut = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE backend_type = 'client backend' \
                   AND pid <> pg_backend_pid()";
        cuts += server.sql(cut).parse::<u64>().unwrap();
        sleep(millis(20));
    }
    assert!(cuts > 0, "nothing was cut");
    service.wait_for_recovery(&keys(1));
    let resumed = Instant::now();
    load.wait_until_served();
    let log = load.stop();
    log.assert_served(resumed);
    log.assert_admitted_by_store(CAPACITY, |_| true);
}

/// Units admitted before a crash are spent after it: a commit is on disk before it is acknowledged.
#[test]
fn crash_refunds_nothing() {
    let mut server = start_server();
    let service = patient_service(&server);
    let limit = |policy: OnStoreError, key: &str| {
        Answer::from_result(policy, run(service.limiter.limit(policy.as_str(), key).into_future()))
    };
    let keys = keys(5);
    for key in &keys {
        for _ in 0..CAPACITY {
            assert_eq!(limit(OnStoreError::Closed, key), Answer::Store { allowed: true });
        }
    }
    server.crash();
    server.restart();
    service.wait_for_recovery(&keys);
    for key in &keys {
        assert_eq!(limit(OnStoreError::Closed, key), Answer::Store { allowed: false });
    }
}
