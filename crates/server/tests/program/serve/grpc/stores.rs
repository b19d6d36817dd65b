//! A store that breaks.

use std::path::Path;

use tidegate_servers::{Redis, variable};
use tonic::Code;

use super::{Asked, RULES, on, request, told};
use crate::serve::file;

async fn serving(policy: &str) -> (Redis, Asked) {
    let [server, cli] = ["TIDEGATE_REDIS_SERVER", "TIDEGATE_REDIS_CLI"].map(variable);
    let redis = Redis::start(Path::new(&server), Path::new(&cli), &[]).expect("a server");
    file(&format!("grpc-store-{policy}.yaml"), RULES);
    let config = format!(
        "[defaults]\non_store_error = \"{policy}\"\nstore_timeout = \"10s\"\n[envoy]\nconfigs = [\"grpc-store-{policy}.yaml\"]\n"
    );
    let config = file(&format!("grpc-store-{policy}.toml"), config);
    let asked = Asked::serving(&["--config", &config, "--store", &redis.url()]).await;
    (redis, asked)
}

fn both() -> [envoy_types::pb::envoy::extensions::common::ratelimit::v3::RateLimitDescriptor; 2] {
    [on("path", "/login"), on("path", "/a")]
}

#[tokio::test]
async fn a_broken_store_is_unavailable_under_closed() {
    let (mut redis, mut asked) = serving("closed").await;
    assert_eq!(asked.shop(&both()).await, "OK [OK 1 of 2, OK 4 of 5]");
    redis.kill();
    for descriptors in [&both()[..], &[on("path", "/a")]] {
        let refused = asked.ask(request("shop", descriptors)).await.unwrap_err();
        assert_eq!(refused.code(), Code::Unavailable, "{refused}");
    }
    // A request without a rule needs no store.
    assert_eq!(asked.shop(&[on("internal", "x"), on("nobody", "x")]).await, "OK [OK 4294967295, OK 0]");
}

#[tokio::test]
async fn a_broken_store_admits_under_open() {
    let (mut redis, mut asked) = serving("open").await;
    for _ in 0..2 {
        asked.shop(&[on("path", "/login")]).await;
    }
    assert_eq!(asked.shop(&both()).await, "OVER_LIMIT [OVER_LIMIT 0 of 2, OK 5 of 5]");
    redis.kill();
    for descriptors in [&both()[..], &[on("path", "/login")]] {
        let response = asked.ask(request("shop", descriptors)).await.unwrap();
        assert_eq!(response.overall_code, 1, "{}", told(&response));
    }
}
