//! Rules that change while they are served.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::{Asked, RULES, on, request};
use crate::serve::{file, url};

const SERVED: &str = "the new config is served";

#[tokio::test]
async fn a_wrong_reload_reports_its_position_and_keeps_the_old_rules() {
    let config = file("grpc-reload.yaml", RULES);
    let mut asked = Asked::serving(&["--config", &config]).await;
    assert_eq!(asked.shop(&[on("path", "/login")]).await, "OK [OK 1 of 2]");

    // In the fifth line, where the first rule begins, and in the sixth.
    let wrong = RULES.replacen("value: /login", "valeu: /login", 1).replacen("unit: year", "unit: eon", 1);
    file("grpc-reload.yaml", wrong);
    asked.program.signal("HUP");
    let told = asked.program.logged("the new config is wrong");
    assert!(told.starts_with("the new config is wrong, and the old one stays:\n"), "{told}");
    for place in ["5:5: ", "6:24: "] {
        assert!(told.contains(&format!("{config}:{place}")), "{place} in {told}");
    }
    assert_eq!(asked.shop(&[on("path", "/login")]).await, "OK [OK 0 of 2]");
    assert_eq!(asked.shop(&[on("path", "/login")]).await, "OVER_LIMIT [OVER_LIMIT 0 of 2]");

    // Usage is kept under the new rules.
    file("grpc-reload.yaml", RULES.replacen("requests_per_unit: 2", "requests_per_unit: 4", 1));
    asked.program.signal("HUP");
    asked.program.logged(SERVED);
    assert_eq!(asked.shop(&[on("path", "/login")]).await, "OK [OK 1 of 4]");
}

#[tokio::test]
async fn a_file_that_is_named_by_a_config_is_watched_with_it() {
    file("grpc-named-rules.yaml", RULES);
    let config = file("grpc-named.toml", "[envoy]\nconfigs = [\"grpc-named-rules.yaml\"]\n");
    let mut asked = Asked::serving(&["--config", &config]).await;
    assert_eq!(asked.shop(&[on("path", "/login")]).await, "OK [OK 1 of 2]");
    // Without a signal: the file is looked at by itself.
    let path = file("grpc-named-rules.yaml", "domain: shop\ndescriptors: [{kay: path}]\n");
    let told = asked.program.logged("the new config is wrong");
    assert!(told.contains(&format!("{path}:2:16: ")), "{told}");
    assert_eq!(asked.shop(&[on("path", "/login")]).await, "OK [OK 0 of 2]");
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
    let config = file("grpc-race.yaml", rules(0));
    let asked = Asked::serving(&["--config", &config]).await;
    let done = Arc::new(AtomicBool::new(false));
    let hammers: Vec<_> = (0..4)
        .map(|_| {
            let (mut client, done) = (asked.client.clone(), Arc::clone(&done));
            tokio::spawn(async move {
                while !done.load(Ordering::Relaxed) {
                    let twice = [on("path", "/a"), on("path", "/a")];
                    client.should_rate_limit(request("shop", &twice)).await.expect("an answer");
                }
            })
        })
        .collect();
    for turn in 1..=6 {
        file("grpc-race.yaml", rules(turn));
        asked.program.signal("HUP");
        asked.program.logged(SERVED);
    }
    done.store(true, Ordering::Relaxed);
    for hammer in hammers {
        hammer.await.expect("no request has failed");
    }
    let page = reqwest::get(url(&asked.program, "/metrics")).await.expect("answered").text().await.expect("a text");
    assert!(page.contains("outcome=\"denied\"") && !page.contains("outcome=\"invalid\""), "none was wrong");
}
