//! Connections that take longer to make than a call has time.

use std::net::TcpListener;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use deadpool_postgres::{Manager, Pool};
use tidegate::postgres::PostgresStore;
use tidegate::resilience::TimeoutStore;
use tidegate::store::{Op, Request, Scope};
use tidegate::{Cost, Key, OnStoreError, Quota, Store, StoreErrorKind, TokioSleeper, days, millis};
use tidegate_servers::{Door, wait_until};
use tokio_postgres::config::Host;
use tokio_postgres::{Config, NoTls};

use crate::support::{builder, run, unique, url};

/// The server's address.
fn server() -> std::net::SocketAddr {
    let config: Config = url().parse().unwrap();
    let [Host::Tcp(host)] = config.get_hosts() else { panic!("one address") };
    format!("{host}:{}", config.get_ports()[0]).parse().unwrap()
}

/// A store with so many connections behind a door, whose calls have 50 ms.
fn behind(door: &Door, connections: usize) -> TimeoutStore<PostgresStore> {
    let through = url().replace(&server().to_string(), &door.address().to_string());
    assert_ne!(through, url(), "the door is on the way");
    let store = run(builder(&unique("t")).connections(connections).connect(&through)).unwrap();
    TimeoutStore::new(store, millis(50), TokioSleeper)
}

fn ask(store: &impl Store) -> Result<bool, StoreErrorKind> {
    let (scope, key, quota) = (Scope::new("", "api"), Key::from("u"), Quota::fixed_window(9, days(300)).unwrap());
    let (op, on_store_error) = (Op::Limit(Cost::ONE), OnStoreError::Closed);
    let request = Request { scope: &scope, key: &key, quota: &quota, op, on_store_error };
    run(store.apply(&request)).map(|decision| decision.allowed()).map_err(|error| error.kind())
}

#[test]
fn are_made_though_their_calls_give_up() {
    let door = Door::before(server()).unwrap();
    let store = behind(&door, 8);
    let asked = || ask(&store);

    assert!(wait_until(|| asked().is_ok()));
    door.close();
    // The first may find that its connection has ended; those who want another one wait at the door.
    let ends: Vec<_> = (0..5).map(|_| asked().unwrap_err()).collect();
    assert_eq!(ends[4], StoreErrorKind::Timeout, "{ends:?}");
    // Those of calls that have given up, and nobody else: what a call begins comes too late for it.
    let let_in = || {
        door.let_in();
        asked().is_ok()
    };
    assert!(wait_until(let_in), "connections are given up with their calls");
}

/// Its place would be taken for as long as connecting may take in all.
#[test]
fn the_only_one_is_not_waited_for_once_its_call_has_given_up() {
    let (door, silent) = (Door::before(server()).unwrap(), TcpListener::bind("127.0.0.1:0").unwrap());
    let store = behind(&door, 1);
    assert!(wait_until(|| ask(&store).is_ok()));
    door.close();
    let ends: Vec<_> = (0..5).map(|_| ask(&store).unwrap_err()).collect();
    assert_eq!(ends[4], StoreErrorKind::Timeout, "{ends:?}");
    // Those who wait never hear anything; who comes now finds a server that is well.
    door.lead_to(silent.local_addr().unwrap());
    door.let_in();
    door.lead_to(server());
    let over = AtomicBool::new(false);
    let is_found = thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                door.let_in();
                thread::yield_now();
            }
        });
        // Each has 50 ms: together less than connecting may take.
        let is_found = (0..120).any(|_| ask(&store).is_ok());
        over.store(true, Ordering::Relaxed);
        is_found
    });
    assert!(is_found, "a connection that says nothing has the only place");
}

/// As a failover by name has it: the old server comes back as a standby, and whoever is connected stays so.
#[test]
fn to_a_server_that_takes_no_writes_are_left() {
    let pool = Pool::builder(Manager::new(url().parse().unwrap(), NoTls)).max_size(1).build().unwrap();
    let store = run(builder(&unique("t")).over(pool.clone())).unwrap();
    assert_eq!(ask(&store), Ok(true));
    let read_only = "SET default_transaction_read_only = on";
    run(async { pool.get().await.unwrap().batch_execute(read_only).await.unwrap() });
    assert_eq!(ask(&store), Err(StoreErrorKind::Unavailable));
    assert_eq!(ask(&store), Ok(true));

    let standby = url() + "%20-c%20default_transaction_read_only%3Don";
    let refused = run(builder(&unique("t")).connect(&standby)).unwrap_err();
    assert!(refused.is_retryable(), "{refused}");
}
