//! Whether the server serves, as gRPC asks it.

use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_service_server::SERVICE_NAME;
use tonic_health::ServingStatus;
use tonic_health::pb::health_server::{Health, HealthServer};

use crate::serve::shutdown::Shutdown;

/// What the paths of the health service begin with.
pub(super) const PATH: &str = "/grpc.health.v1.Health/";

/// The call that everybody may make. Who watches keeps a call for as long as it likes.
pub(super) const CHECK: &str = "/grpc.health.v1.Health/Check";

/// The server as a whole, and its one service.
const SERVICES: [&str; 2] = ["", SERVICE_NAME];

/// The health service: not serving once it ends, and gone at the very last.
pub(super) async fn service(mut shutdown: Shutdown, mut last: Shutdown) -> HealthServer<impl Health> {
    let (mut reporter, health) = tonic_health::server::health_reporter();
    for service in SERVICES {
        reporter.set_service_status(service, ServingStatus::Serving).await;
    }
    tokio::spawn(async move {
        shutdown.begun().await;
        for service in SERVICES {
            reporter.set_service_status(service, ServingStatus::NotServing).await;
        }
        // Whoever watches would keep its connection, and so the server, until the end of the grace period.
        last.begun().await;
        for service in SERVICES {
            reporter.clear_service_status(service).await;
        }
    });
    health
}
