//! The gRPC health service.

use tonic::{Code, Status};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

use super::{GrpcServer, channel};
use crate::serve::program::Program;

const SERVICE: &str = "envoy.service.ratelimit.v3.RateLimitService";

fn health_request(service: &str) -> HealthCheckRequest {
    HealthCheckRequest { service: service.to_owned() }
}

pub(super) async fn check_health(program: &Program, service: &str) -> Result<ServingStatus, Status> {
    let mut client = HealthClient::new(channel(program).await);
    Ok(client.check(health_request(service)).await?.into_inner().status())
}

pub(super) async fn watch_health(program: &Program) -> Result<(), Status> {
    HealthClient::new(channel(program).await).watch(health_request("")).await.map(drop)
}

#[tokio::test]
async fn health_is_serving_for_the_server_and_for_the_service() {
    let server = GrpcServer::start("health").await;
    for service in ["", SERVICE] {
        assert_eq!(check_health(&server.program, service).await.unwrap(), ServingStatus::Serving, "{service:?}");
    }
    assert_eq!(check_health(&server.program, "nobody").await.unwrap_err().code(), Code::NotFound);
}

#[tokio::test]
async fn health_is_not_serving_during_shutdown_and_watchers_do_not_delay_it() {
    let server = GrpcServer::start("health-end").await;
    let mut client = HealthClient::new(channel(&server.program).await);
    let mut watches = Vec::new();
    for service in ["", SERVICE] {
        let mut watch = client.watch(health_request(service)).await.unwrap().into_inner();
        assert_eq!(watch.message().await.unwrap().expect("a status").status(), ServingStatus::Serving);
        watches.push(watch);
    }
    server.program.signal("TERM");
    for mut watch in watches {
        assert_eq!(watch.message().await.unwrap().expect("a status").status(), ServingStatus::NotServing);
        assert!(matches!(watch.message().await, Ok(None)), "the watch ends with the server");
    }
    drop(server.client);
    // Not here: the client must continue, to learn that its connection ends.
    let (status, log) = tokio::task::spawn_blocking(move || server.program.wait_for_exit()).await.unwrap();
    assert!(status.success(), "{status}");
    assert!(!log.iter().any(|line| line.contains("not everything was finished")), "{log:?}");
}
