//! The Postgres store while the server breaks.

use std::cell::RefCell;
use std::future::IntoFuture;
use std::path::PathBuf;
use std::time::Duration;

use tidegate::postgres::PostgresStore;
use tidegate::{OnStoreError, millis};
use tidegate_servers::{Postgres, variable};
use tokio::time::Instant;

use crate::support::{Answer, CAPACITY, Service, TIMEOUT, keys, pause, run};

fn start() -> Postgres {
    Postgres::start(&PathBuf::from(variable("TIDEGATE_POSTGRES_PROGRAMS")), &[Postgres::UNSYNCED]).unwrap()
}

fn service(server: &Postgres) -> Service<PostgresStore> {
    Service::over(run(PostgresStore::connect(&server.url())).unwrap(), TIMEOUT)
}

/// One whose calls may take so long that only an error of the store makes them fail.
fn patient(server: &Postgres) -> Service<PostgresStore> {
    Service::over(run(PostgresStore::connect(&server.url())).unwrap(), Duration::from_secs(10))
}

/// Away for a while and back again, with all it had: nobody gets anything twice.
fn away_and_back(leave: impl FnOnce(&mut Postgres), come_back: impl FnOnce(&mut Postgres)) {
    let server = RefCell::new(start());
    let service = service(&server.borrow());
    let outage = service.outage(|| leave(&mut server.borrow_mut()), || come_back(&mut server.borrow_mut()));
    outage.log.assert_admitted_by_store(CAPACITY, |_| true);
}

#[test]
fn a_server_that_is_stopped_and_started() {
    away_and_back(Postgres::stop, Postgres::start_again);
}

#[test]
fn a_server_that_crashes_and_recovers() {
    away_and_back(Postgres::crash, Postgres::start_again);
}

#[test]
fn a_server_that_stops_answering_and_goes_on() {
    away_and_back(|server| server.stop_answering(), |server| server.go_on());
}

#[test]
fn connections_that_are_cut() {
    let server = start();
    let service = service(&server);
    let load = service.load(1);
    load.uses_up();
    let mut cuts = 0;
    for _ in 0..20 {
        let cut = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE backend_type = 'client backend' \
                   AND pid <> pg_backend_pid()";
        cuts += server.sql(cut).parse::<u64>().unwrap();
        pause(millis(20));
    }
    assert!(cuts > 0, "nothing was cut");
    service.resumes(&keys(1));
    let resumed = Instant::now();
    load.is_served();
    let log = load.stop();
    log.assert_served(resumed);
    log.assert_admitted_by_store(CAPACITY, |_| true);
}

/// What was admitted before a crash is spent after it: a commit is written before it is answered.
#[test]
fn a_crash_gives_nothing_back() {
    let mut server = start();
    let service = patient(&server);
    let asked = |policy: OnStoreError, key: &str| {
        Answer::of(policy, run(service.limiter.limit(policy.as_str(), key).into_future()))
    };
    let keys = keys(5);
    for key in &keys {
        for _ in 0..CAPACITY {
            assert_eq!(asked(OnStoreError::Closed, key), Answer::Store { allowed: true });
        }
    }
    server.crash();
    server.start_again();
    service.resumes(&keys);
    for key in &keys {
        assert_eq!(asked(OnStoreError::Closed, key), Answer::Store { allowed: false });
    }
}
