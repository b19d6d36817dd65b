//! Rules that change while they are served.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::{GrpcServer, RULES, descriptor, request};
use crate::serve::{url, write_file};

const SERVED: &str = "the new config is served";

#[tokio::test]
async fn a_wrong_reload_reports_its_position_and_keeps_the_old_rules() {
    let config = write_file("grpc-reload.yaml", RULES);
    let mut server = GrpcServer::start_with(&["--config", &config]).await;
    assert_eq!(server.limit_shop(&[descriptor("path", "/login")]).await, "OK [OK 1 of 2]");

    // In the fifth line, where the first rule begins, and in the sixth.
    let wrong = RULES.replacen("value: /login", "valeu: /login", 1).replacen("unit: year", "unit: eon", 1);
    write_file("grpc-reload.yaml", wrong);
    server.program.signal("HUP");
    let message = server.program.wait_for_log("the new config is wrong");
    assert!(message.starts_with("the new config is wrong, and the old one stays:\n"), "{message}");
    for place in ["5:5: ", "6:24: "] {
        assert!(message.contains(&format!("{config}:{place}")), "{place} in {message}");
    }
    assert_eq!(server.limit_shop(&[descriptor("path", "/login")]).await, "OK [OK 0 of 2]");
    assert_eq!(server.limit_shop(&[descriptor("path", "/login")]).await, "OVER_LIMIT [OVER_LIMIT 0 of 2]");

    // Usage is kept under the new rules.
    write_file("grpc-reload.yaml", RULES.replacen("requests_per_unit: 2", "requests_per_unit: 4", 1));
    server.program.signal("HUP");
    server.program.wait_for_log(SERVED);
    assert_eq!(server.limit_shop(&[descriptor("path", "/login")]).await, "OK [OK 1 of 4]");
}

#[tokio::test]
async fn a_file_named_by_a_config_is_watched_with_it() {
    write_file("grpc-named-rules.yaml", RULES);
    let config = write_file("grpc-named.toml", "[envoy]\nconfigs = [\"grpc-named-rules.yaml\"]\n");
    let mut server = GrpcServer::start_with(&["--config", &config]).await;
    assert_eq!(server.limit_shop(&[descriptor("path", "/login")]).await, "OK [OK 1 of 2]");
    // Without a signal: the server polls the file.
    let path = write_file("grpc-named-rules.yaml", "domain: shop\ndescriptors: [{kay: path}]\n");
    let message = server.program.wait_for_log("the new config is wrong");
    assert!(message.contains(&format!("{path}:2:16: ")), "{message}");
    assert_eq!(server.limit_shop(&[descriptor("path", "/login")]).await, "OK [OK 0 of 2]");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_request_fails_during_reloads() {
    // Enough rules to make a reload slow.
    let many = |turn: u32| (0..2_000).map(move |number| format!("{turn}-{number}"));
    let rule = |key: String| format!("  - {{key: {key}, rate_limit: {{unit: year, requests_per_unit: 7}}}}\n");
    let rules = |turn: u32| {
        let path = if turn.is_multiple_of(2) { "path" } else { "path, value: /a" };
        let rules = std::iter::once(path.to_owned()).chain(many(turn)).map(rule);
        format!("domain: shop\ndescriptors:\n{}", rules.collect::<String>())
    };
    let config = write_file("grpc-race.yaml", rules(0));
    let server = GrpcServer::start_with(&["--config", &config]).await;
    let done = Arc::new(AtomicBool::new(false));
    let hammers: Vec<_> = (0..4)
        .map(|_| {
            let (mut client, done) = (server.client.clone(), Arc::clone(&done));
            tokio::spawn(async move {
                while !done.load(Ordering::Relaxed) {
                    let twice = [descriptor("path", "/a"), descriptor("path", "/a")];
                    client.should_rate_limit(request("shop", &twice)).await.expect("an answer");
                }
            })
        })
        .collect();
    for turn in 1..=6 {
        write_file("grpc-race.yaml", rules(turn));
        server.program.signal("HUP");
        server.program.wait_for_log(SERVED);
    }
    done.store(true, Ordering::Relaxed);
    for hammer in hammers {
        hammer.await.expect("no request has failed");
    }
    let page = reqwest::get(url(&server.program, "/metrics")).await.expect("answered").text().await.expect("a text");
    assert!(page.contains("outcome=\"denied\"") && !page.contains("outcome=\"invalid\""), "none was wrong");
}
