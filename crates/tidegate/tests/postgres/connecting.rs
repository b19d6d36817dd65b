//! Connections that take longer to make than a call has time.

use tidegate::resilience::Timeout;
use tidegate::{Cost, Key, OnStoreError, Op, Quota, Request, Scope, Store, StoreErrorKind, TokioSleeper, days, millis};
use tidegate_servers::{Door, wait_until};
use tokio_postgres::Config;
use tokio_postgres::config::Host;

use crate::support::{builder, run, unique, url};

/// The server's address.
fn server() -> std::net::SocketAddr {
    let config: Config = url().parse().unwrap();
    let [Host::Tcp(host)] = config.get_hosts() else { panic!("one address") };
    format!("{host}:{}", config.get_ports()[0]).parse().unwrap()
}

#[test]
fn are_made_though_their_calls_give_up() {
    let (server, table) = (server(), unique("t"));
    let door = Door::before(server).unwrap();
    let through = url().replace(&server.to_string(), &door.address().to_string());
    assert_ne!(through, url(), "the door is on the way");
    let store = Timeout::new(run(builder(&table).connect(&through)).unwrap(), millis(50), TokioSleeper);
    let (scope, key, quota) = (Scope::new("", "api"), Key::from("u"), Quota::fixed_window(9, days(300)).unwrap());
    let (op, on_store_error) = (Op::Limit(Cost::ONE), OnStoreError::Closed);
    let request = Request { scope: &scope, key: &key, quota: &quota, op, on_store_error };
    let asked = || run(store.apply(&request)).map_err(|error| error.kind());

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
