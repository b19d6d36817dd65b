//! One server that is killed, stopped, or loses its connections.

use std::future::IntoFuture;

use tidegate::millis;
use tokio::time::Instant;

use super::server;
use crate::support::{CAPACITY, keys, pause, run, spawn};

#[test]
fn a_server_that_is_killed_and_restarted_empty() {
    let mut server = server::start();
    let service = server::service(&server);
    let load = service.load(1);
    pause(millis(300));

    let struck = Instant::now();
    server.kill();
    let killed = Instant::now();
    service.notices();
    pause(millis(400));
    let away = Instant::now();
    server.restart();
    service.resumes(&keys(1));
    let resumed = Instant::now();
    pause(millis(200));

    let log = load.stop();
    log.assert_away(killed, away);
    log.assert_share(struck, away);
    log.assert_share_was_served(away);
    log.assert_served(resumed);
    // Twice in all, because the second server knows nothing of the first one's.
    log.assert_admitted_by_store(CAPACITY, |began| began < struck);
    log.assert_admitted_by_store(CAPACITY, |began| began >= killed);
}

#[test]
fn a_server_that_stops_answering_and_goes_on() {
    let server = server::start();
    let service = server::service(&server);
    let load = service.load(1);
    pause(millis(300));

    let struck = Instant::now();
    server.stop_answering();
    // A signal is not there at once; that calls fail shows that this one is.
    service.notices();
    let noticed = Instant::now();
    pause(millis(400));
    let away = Instant::now();
    server.go_on();
    service.resumes(&keys(1));
    let resumed = Instant::now();
    pause(millis(200));

    let log = load.stop();
    log.assert_away(noticed, away);
    log.assert_share(struck, away);
    log.assert_share_was_served(away);
    log.assert_served(resumed);
    // It forgot nothing, and what nobody waited for any more was taken all the same.
    log.assert_admitted_by_store(CAPACITY, |_| true);
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
    pause(millis(300));

    let struck = Instant::now();
    for _ in 0..3 {
        load.struck_by(|| assert_ne!(server.cli(&["CLIENT", "KILL", "TYPE", "normal"]), "0"));
        service.resumes(&keys(1));
    }
    let resumed = Instant::now();
    pause(millis(200));

    let log = load.stop();
    log.assert_share(struck, resumed);
    log.assert_served(resumed);
    log.assert_admitted_by_store(CAPACITY, |_| true);
}
