//! A gRPC server with a limit for each client and method, and a client that waits as long as the server asks.
//!
//! `cargo run -p tidegate-examples --example tonic_backoff`

use std::error::Error;
use std::time::Duration;

use tidegate::grpc::GrpcFormat;
use tidegate::http::{RateLimit, keys};
use tidegate::tower::RateLimitLayer;
use tidegate::{Quota, ceil_millis, seconds};
use tokio::net::TcpListener;
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Channel, Server};
use tonic::{Code, Status};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;
use tonic_types::StatusExt;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    // Each client may make four calls a second to each method, two of them at once.
    let quota = Quota::token_bucket(4, seconds(1))?.capacity(2)?;
    let limits = RateLimit::new(quota).key(keys::both(keys::client(), keys::path()));
    let layer = RateLimitLayer::new(limits).with_format(GrpcFormat);

    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    // tonic's health service stands in for your service.
    let (_, health) = tonic_health::server::health_reporter();
    let server = Server::builder().layer(layer).add_service(health).serve_with_incoming(TcpIncoming::from(listener));
    tokio::spawn(server);

    let mut client = HealthClient::new(Channel::from_shared(format!("http://{address}"))?.connect().await?);
    for call in 1..=5 {
        while let Err(status) = check(&mut client).await {
            let wait = back_off(&status).ok_or(status)?;
            println!("call {call}: exhausted, again in {} ms", ceil_millis(wait));
            tokio::time::sleep(wait).await;
        }
        println!("call {call}: answered");
    }
    Ok(())
}

async fn check(client: &mut HealthClient<Channel>) -> Result<(), Status> {
    client.check(HealthCheckRequest::default()).await.map(drop)
}

/// Returns the wait that the server asks for, or `None` when a retry would not help.
fn back_off(status: &Status) -> Option<Duration> {
    match status.code() {
        Code::ResourceExhausted => status.get_details_retry_info()?.retry_delay,
        _ => None,
    }
}
