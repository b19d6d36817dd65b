//! Connections that take longer to make than a call has time, and connections to a server that became read-only.

use std::net::TcpListener;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use deadpool_postgres::{Manager, Pool};
use tidegate::postgres::PostgresStore;
use tidegate::resilience::TimeoutStore;
use tidegate::store::{Op, Request, Scope};
use tidegate::{Cost, Key, OnStoreError, Quota, Store, StoreErrorKind, TokioSleeper, days, millis};
use tidegate_servers::{StallingProxy, wait_until};
use tokio_postgres::config::Host;
use tokio_postgres::{Config, NoTls};

use crate::support::{builder, run, unique_name, url};

/// The server's address.
fn server() -> std::net::SocketAddr {
    let config: Config = url().parse().unwrap();
    let [Host::Tcp(host)] = config.get_hosts() else { panic!("one address") };
    format!("{host}:{}", config.get_ports()[0]).parse().unwrap()
}

/// Returns a store with `connections` connections through a proxy, and a timeout of 50 ms.
fn store_behind(proxy: &StallingProxy, connections: usize) -> TimeoutStore<PostgresStore> {
    let proxied_url = url().replace(&server().to_string(), &proxy.address().to_string());
    assert_ne!(proxied_url, url(), "the proxy is on the way");
    let store = run(builder(&unique_name("t")).connections(connections).connect(&proxied_url)).unwrap();
    TimeoutStore::new(store, millis(50), TokioSleeper)
}

fn try_limit(store: &impl Store) -> Result<bool, StoreErrorKind> {
    let (scope, key, quota) = (Scope::new("", "api"), Key::from("u"), Quota::fixed_window(9, days(300)).unwrap());
    let (op, on_store_error) = (Op::Limit(Cost::ONE), OnStoreError::Closed);
    let request = Request { scope: &scope, key: &key, quota: &quota, op, on_store_error };
    run(store.apply(&request)).map(|decision| decision.allowed()).map_err(|error| error.kind())
}

#[test]
fn connection_is_made_after_its_call_gives_up() {
    let proxy = StallingProxy::start(server()).unwrap();
    let store = store_behind(&proxy, 8);
    let limit = || try_limit(&store);

    assert!(wait_until(|| limit().is_ok()));
    proxy.hold_connections();
    // The first call may find that its connection has ended. Calls that need a new one wait at the proxy.
    let errors: Vec<_> = (0..5).map(|_| limit().unwrap_err()).collect();
    assert_eq!(errors[4], StoreErrorKind::Timeout, "{errors:?}");
    // Only connections of calls that gave up are ready in time. A new connection comes too late for its own call.
    let limit_after_forward = || {
        proxy.forward_waiting();
        limit().is_ok()
    };
    assert!(wait_until(limit_after_forward), "connections are given up with their calls");
}

/// Otherwise the place would be occupied for the maximum time of connecting.
#[test]
fn single_place_is_free_after_its_call_gives_up() {
    let (proxy, silent) = (StallingProxy::start(server()).unwrap(), TcpListener::bind("127.0.0.1:0").unwrap());
    let store = store_behind(&proxy, 1);
    assert!(wait_until(|| try_limit(&store).is_ok()));
    proxy.hold_connections();
    let errors: Vec<_> = (0..5).map(|_| try_limit(&store).unwrap_err()).collect();
    assert_eq!(errors[4], StoreErrorKind::Timeout, "{errors:?}");
    // The waiting connections never get a reply. New ones reach a healthy server.
    proxy.set_server(silent.local_addr().unwrap());
    proxy.forward_waiting();
    proxy.set_server(server());
    let is_over = AtomicBool::new(false);
    let is_allowed = thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                proxy.forward_waiting();
                thread::yield_now();
            }
        });
        // Each call has 50 ms. Together that is less than the maximum time of connecting.
        let is_allowed = (0..120).any(|_| try_limit(&store).is_ok());
        is_over.store(true, Ordering::Relaxed);
        is_allowed
    });
    assert!(is_allowed, "a connection that says nothing has the only place");
}

/// After a failover by name, the old server comes back as a standby, and open connections still lead to it.
#[test]
fn connection_to_a_read_only_server_is_replaced() {
    let pool = Pool::builder(Manager::new(url().parse().unwrap(), NoTls)).max_size(1).build().unwrap();
    let store = run(builder(&unique_name("t")).over(pool.clone())).unwrap();
    assert_eq!(try_limit(&store), Ok(true));
    let read_only = "SET default_transaction_read_only = on";
    run(async { pool.get().await.unwrap().batch_execute(read_only).await.unwrap() });
    assert_eq!(try_limit(&store), Err(StoreErrorKind::Unavailable));
    assert_eq!(try_limit(&store), Ok(true));

    let standby = url() + "%20-c%20default_transaction_read_only%3Don";
    let refused = run(builder(&unique_name("t")).connect(&standby)).unwrap_err();
    assert!(refused.is_retryable(), "{refused}");
}
