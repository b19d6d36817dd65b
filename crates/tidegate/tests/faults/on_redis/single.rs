//! One server that is killed, stopped, or loses its connections.

use std::cell::RefCell;
use std::future::IntoFuture;
use std::net::SocketAddr;

use tidegate::millis;
use tidegate_servers::Door;
use tokio::time::Instant;

use super::server;
use crate::support::{CAPACITY, keys, pause, run, spawn};

#[test]
fn a_server_that_is_killed_and_restarted_empty() {
    let server = RefCell::new(server::start());
    let service = server::service(&server.borrow());
    let outage = service.outage(|| server.borrow_mut().kill(), || server.borrow_mut().restart());
    // Twice in all, because the second server knows nothing of the first one's.
    outage.log.assert_admitted_by_store(CAPACITY, |began| began < outage.struck);
    outage.log.assert_admitted_by_store(CAPACITY, |began| began >= outage.left);
}

#[test]
fn a_server_that_stops_answering_and_goes_on() {
    let server = server::start();
    let outage = server::service(&server).outage(|| server.stop_answering(), || server.go_on());
    // It forgot nothing, and what nobody waited for any more was taken all the same.
    outage.log.assert_admitted_by_store(CAPACITY, |_| true);
}

#[test]
fn how_long_a_call_waits_is_for_the_timeout_around_the_store() {
    let server = server::start();
    let service = server::patient(&server);
    server.stop_answering();
    let limiter = service.limiter.clone();
    let call = spawn(async move { limiter.limit("closed", "u").into_future().await });
    // Longer than the client would wait by itself.
    pause(millis(1_000));
    assert!(!call.is_finished(), "the client has given up: {:?}", run(call));
    server.go_on();
    assert_eq!(run(call).unwrap().unwrap().remaining(), CAPACITY - 1);
}

#[test]
fn connections_that_are_cut() {
    let server = server::start();
    let service = server::service(&server);
    let load = service.load(1);
    load.uses_up();

    let struck = Instant::now();
    for _ in 0..3 {
        load.struck_by(|| assert_ne!(server.cli(&["CLIENT", "KILL", "TYPE", "normal"]), "0"));
        service.resumes(&keys(1));
    }
    let resumed = Instant::now();
    load.is_served();

    let log = load.stop();
    log.assert_share(struck, resumed);
    log.assert_served(resumed);
    log.assert_admitted_by_store(CAPACITY, |_| true);
}

/// As a failover by name has it: who is connected stays connected to a server that takes no writes any more.
#[test]
fn a_server_that_becomes_a_replica_is_left_for_the_one_that_its_name_leads_to() {
    let [before, after] = [server::start(), server::start()];
    let address = |port: u16| SocketAddr::from(([127, 0, 0, 1], port));
    let door = Door::before(address(before.port())).unwrap();
    let service = server::service_at(&format!("redis://{}", door.address()));
    service.resumes(&keys(1));
    door.lead_to(address(after.port()));
    assert_eq!(before.cli(&["REPLICAOF", "127.0.0.1", &after.port().to_string()]), "OK");
    // Of another key, to which nobody has said no yet: that would be no write.
    service.resumes(&["another".to_owned()]);
}
