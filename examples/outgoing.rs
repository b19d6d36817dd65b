//! A client that limits its own requests and backs off when a server asks for it.
//!
//! `cargo run -p tidegate-examples --example outgoing`

use std::error::Error;
use std::net::SocketAddr;

use axum::{Router, routing::get};
use reqwest::Client;
use tidegate::client::OutgoingLayer;
use tidegate::tower::RateLimitLayer;
use tidegate::{Limiter, Quota, millis, seconds};
use tower::{Layer, ServiceExt};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    // A server that admits a burst of three, and one more every ten seconds.
    let limit = RateLimitLayer::new(Quota::token_bucket(1, seconds(10))?.capacity(3)?);
    let router = Router::new().route("/", get(|| async { "Hello!" })).layer(limit);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let server = axum::serve(listener, router.into_make_service_with_connect_info::<SocketAddr>());
    tokio::spawn(async { server.await });

    // A client that sends at most twenty requests a second to each host. A request waits up to half a second.
    let limiter = Limiter::builder().limit("calls", Quota::token_bucket(20, seconds(1))?.capacity(1)?).build()?;
    let client = OutgoingLayer::new(&limiter, "calls")?.max_wait(millis(500)).layer(Client::new());

    for call in 1..=5 {
        let request = Client::new().get(format!("http://{address}/")).build()?;
        match client.clone().oneshot(request).await {
            Ok(response) => println!("call {call}: {}", response.status()),
            // The third response said that nothing remains, so the fourth request is not sent.
            Err(error) => println!("call {call}: {error}"),
        }
    }
    Ok(())
}
