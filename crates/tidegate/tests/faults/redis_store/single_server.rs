//! A single server that is killed, is paused, or loses its connections.

use std::cell::RefCell;
use std::future::IntoFuture;
use std::net::SocketAddr;

use tidegate::millis;
use tidegate_servers::StallingProxy;
use tokio::time::Instant;

use super::server;
use crate::support::{CAPACITY, keys, run, sleep, spawn};

#[test]
fn killed_server_admits_again_after_empty_restart() {
    let server = RefCell::new(server::start());
    let service = server::service(&server.borrow());
    let outage = service.run_outage(|| server.borrow_mut().kill(), || server.borrow_mut().restart());
    // Twice in all, because the second server knows nothing of the first one's.
    outage.log.assert_admitted_by_store(CAPACITY, |began| began < outage.began);
    outage.log.assert_admitted_by_store(CAPACITY, |began| began >= outage.interrupted);
}

#[test]
fn paused_and_resumed_server_forgets_nothing() {
    let server = server::start();
    let outage = server::service(&server).run_outage(|| server.pause(), || server.resume());
    // It forgot nothing, and calls that had timed out consumed quota all the same.
    outage.log.assert_admitted_by_store(CAPACITY, |_| true);
}

#[test]
fn client_waits_as_long_as_the_timeout_store_allows() {
    let server = server::start();
    let service = server::patient_service(&server);
    server.pause();
    let limiter = service.limiter.clone();
    let call = spawn(async move { limiter.limit("closed", "u").into_future().await });
    // Longer than the client would wait by itself.
    sleep(millis(1_000));
    assert!(!call.is_finished(), "the client has given up: {:?}", run(call));
    server.resume();
    assert_eq!(run(call).unwrap().unwrap().remaining(), CAPACITY - 1);
}

#[test]
fn cut_connections_are_replaced() {
    let server = server::start();
    let service = server::service(&server);
    let load = service.start_load(1);
    load.wait_until_used_up();

    let struck = Instant::now();
    for _ in 0..3 {
        load.inject_fault(|| assert_ne!(server.cli(&["CLIENT", "KILL", "TYPE", "normal"]), "0"));
        service.wait_for_recovery(&keys(1));
    }
    let resumed = Instant::now();
    load.wait_until_served();

    let log = load.stop();
    log.assert_local_share(struck, resumed);
    log.assert_served(resumed);
    log.assert_admitted_by_store(CAPACITY, |_| true);
}

/// A failover by name keeps old connections open, to a server that takes no writes any more.
#[test]
fn demoted_server_is_left_for_the_new_primary() {
    let [before, after] = [server::start(), server::start()];
    let address = |port: u16| SocketAddr::from(([127, 0, 0, 1], port));
    let proxy = StallingProxy::start(address(before.port())).unwrap();
    let service = server::service_at(&format!("redis://{}", proxy.address()));
    service.wait_for_recovery(&keys(1));
    proxy.set_server(address(after.port()));
    assert_eq!(before.cli(&["REPLICAOF", "127.0.0.1", &after.port().to_string()]), "OK");
    // Another key, which has not been denied yet: a denial would be no write.
    service.wait_for_recovery(&["another".to_owned()]);
}
