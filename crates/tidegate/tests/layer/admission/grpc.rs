//! Requests in flight under tonic: a call is in flight until its trailers.

use tidegate::concurrency::PerKey;
use tidegate::enforce::ConcurrencyGuards;
use tidegate::grpc::GrpcFormat;
use tidegate::tower::AdmissionLayer;
use tonic::Code;
use tonic::transport::Server as TonicServer;
use tonic::transport::server::TcpIncoming;
use tonic_types::StatusExt;

use super::{DONE, DROPPED, WatchedPool};
use crate::grpc::{Client, is_serving};
use crate::support::{LOOPBACK, Server};

async fn serve(guards: impl Into<ConcurrencyGuards>) -> Server {
    let layer = AdmissionLayer::new(guards).with_format(GrpcFormat);
    let (_, health) = tonic_health::server::health_reporter();
    let router = TonicServer::builder().layer(layer).add_service(health);
    Server::start(|listener| async move {
        router.serve_with_incoming(TcpIncoming::from(listener)).await.unwrap();
    })
    .await
}

#[tokio::test]
async fn unary_call_ends_with_its_trailers_and_stream_with_its_reset() {
    let watched = WatchedPool::new(2);
    let server = serve(watched.pool.clone()).await;
    let mut client = Client::connect(&server).await;
    assert!(is_serving(client.check().await.unwrap().get_ref()));
    assert_eq!(watched.samples().await, [DONE]);

    // A new pool has no latency to compare with, so a disconnect does not count as early.
    let watched = WatchedPool::new(2);
    let server = serve(watched.pool.clone()).await;
    let mut client = Client::connect(&server).await;
    let mut stream = client.watch().await.unwrap().into_inner();
    assert!(is_serving(&stream.message().await.unwrap().unwrap()));
    assert_eq!(watched.in_flight(), 1, "a stream that runs is in flight");
    drop(stream); // a reset
    assert_eq!(watched.samples().await, [DROPPED]);
}

#[tokio::test]
async fn full_pool_is_unavailable_and_full_key_is_exhausted() {
    let (watched, keys) = (WatchedPool::new(1), PerKey::new(1));
    let server = serve(ConcurrencyGuards::new().and(watched.pool.clone()).and(keys.clone())).await;
    let mut client = Client::connect(&server).await;

    let held = watched.pool.try_acquire().unwrap();
    let status = client.denied_status().await;
    assert_eq!(status.code(), Code::Unavailable);
    assert_eq!(status.metadata().get("grpc-retry-pushback-ms").unwrap(), "1000");
    let retry = status.get_error_details().retry_info().unwrap().retry_delay;
    assert_eq!(retry, Some(std::time::Duration::from_secs(1)));
    drop(held);

    let held = keys.try_acquire(LOOPBACK).unwrap();
    let status = client.denied_status().await;
    assert_eq!(status.code(), Code::ResourceExhausted);
    assert_eq!(status.get_error_details().quota_failure().unwrap().violations[0].subject, "concurrency");
    drop(held);
    assert!(client.check().await.is_ok());
}
