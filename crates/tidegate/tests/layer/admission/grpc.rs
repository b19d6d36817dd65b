//! The same under tonic: a call is in flight until its trailers.

use tidegate::concurrency::PerKey;
use tidegate::enforce::ConcurrencyGuards;
use tidegate::grpc::GrpcFormat;
use tidegate::tower::AdmissionLayer;
use tonic::Code;
use tonic::transport::Server as TonicServer;
use tonic::transport::server::TcpIncoming;
use tonic_types::StatusExt;

use super::{DONE, DROPPED, Watched};
use crate::grpc::{Client, is_serving};
use crate::support::{ME, Server};

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
async fn a_unary_call_ends_with_its_trailers_and_a_stream_when_it_is_given_up() {
    let watched = Watched::new(2);
    let server = serve(watched.pool.clone()).await;
    let mut client = Client::connect(&server).await;
    assert!(is_serving(client.check().await.unwrap().get_ref()));
    assert_eq!(watched.told().await, [DONE]);

    // Where nothing is known of how long work takes, so that nobody can be said to have left early.
    let watched = Watched::new(2);
    let server = serve(watched.pool.clone()).await;
    let mut client = Client::connect(&server).await;
    let mut stream = client.watch().await.unwrap().into_inner();
    assert!(is_serving(&stream.message().await.unwrap().unwrap()));
    assert_eq!(watched.in_flight(), 1, "a stream that runs is in flight");
    drop(stream); // a reset
    assert_eq!(watched.told().await, [DROPPED]);
}

#[tokio::test]
async fn too_many_calls_of_everybody_are_unavailable_and_of_one_client_exhausted() {
    let (watched, keys) = (Watched::new(1), PerKey::new(1));
    let server = serve(ConcurrencyGuards::new().and(watched.pool.clone()).and(keys.clone())).await;
    let mut client = Client::connect(&server).await;

    let held = watched.pool.try_acquire().unwrap();
    let status = client.turned_away().await;
    assert_eq!(status.code(), Code::Unavailable);
    assert_eq!(status.metadata().get("grpc-retry-pushback-ms").unwrap(), "1000");
    let retry = status.get_error_details().retry_info().unwrap().retry_delay;
    assert_eq!(retry, Some(std::time::Duration::from_secs(1)));
    drop(held);

    let held = keys.try_acquire(ME).unwrap();
    let status = client.turned_away().await;
    assert_eq!(status.code(), Code::ResourceExhausted);
    assert_eq!(status.get_error_details().quota_failure().unwrap().violations[0].subject, "concurrency");
    drop(held);
    assert!(client.check().await.is_ok());
}
