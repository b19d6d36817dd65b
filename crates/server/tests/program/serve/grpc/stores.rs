//! The gRPC service on a broken store.

use std::path::Path;

use tidegate_servers::{Redis, required_env};
use tonic::Code;

use super::{GrpcServer, RULES, descriptor, request, response_summary};
use crate::serve::write_file;

async fn start_server(policy: &str) -> (Redis, GrpcServer) {
    let [server, cli] = ["TIDEGATE_REDIS_SERVER", "TIDEGATE_REDIS_CLI"].map(required_env);
    let redis = Redis::start(Path::new(&server), Path::new(&cli), &[]).expect("a server");
    write_file(&format!("grpc-store-{policy}.yaml"), RULES);
    let config = format!(
        "[defaults]\non_store_error = \"{policy}\"\nstore_timeout = \"10s\"\n[envoy]\nconfigs = [\"grpc-store-{policy}.yaml\"]\n"
    );
    let config = write_file(&format!("grpc-store-{policy}.toml"), config);
    let server = GrpcServer::start_with(&["--config", &config, "--store", &redis.url()]).await;
    (redis, server)
}

fn login_and_path() -> [envoy_types::pb::envoy::extensions::common::ratelimit::v3::RateLimitDescriptor; 2] {
    [descriptor("path", "/login"), descriptor("path", "/a")]
}

#[tokio::test]
async fn a_broken_store_is_unavailable_under_closed() {
    let (mut redis, mut server) = start_server("closed").await;
    assert_eq!(server.limit_shop(&login_and_path()).await, "OK [OK 1 of 2, OK 4 of 5]");
    redis.kill();
    for descriptors in [&login_and_path()[..], &[descriptor("path", "/a")]] {
        let refused = server.send(request("shop", descriptors)).await.unwrap_err();
        assert_eq!(refused.code(), Code::Unavailable, "{refused}");
    }
    // A request without a rule needs no store.
    assert_eq!(
        server.limit_shop(&[descriptor("internal", "x"), descriptor("nobody", "x")]).await,
        "OK [OK 4294967295, OK 0]"
    );
}

#[tokio::test]
async fn a_broken_store_admits_under_open() {
    let (mut redis, mut server) = start_server("open").await;
    for _ in 0..2 {
        server.limit_shop(&[descriptor("path", "/login")]).await;
    }
    assert_eq!(server.limit_shop(&login_and_path()).await, "OVER_LIMIT [OVER_LIMIT 0 of 2, OK 5 of 5]");
    redis.kill();
    // A key that was denied stays denied. Everything else is admitted.
    for (descriptors, code) in [(&login_and_path()[..], 2), (&[descriptor("path", "/a")], 1)] {
        let response = server.send(request("shop", descriptors)).await.unwrap();
        assert_eq!(response.overall_code, code, "{}", response_summary(&response));
    }
}
