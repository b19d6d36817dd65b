//! axum with a limit in this process's memory: `cargo run -p tidegate-examples --example axum_memory`

use std::error::Error;
use std::net::SocketAddr;

use axum::{Router, routing::get};
use tidegate::tower::RateLimitLayer;
use tidegate::{Quota, seconds};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    // A burst of three for each client, and then one every ten seconds.
    let limit = RateLimitLayer::new(Quota::token_bucket(1, seconds(10))?.capacity(3)?);
    let app = Router::new().route("/", get(|| async { "Hello!\n" })).layer(limit);

    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:3000".to_owned());
    let listener = tokio::net::TcpListener::bind(address).await?;
    println!("Try: curl -i http://{}/", listener.local_addr()?);
    // Expose peer addresses. The layer limits by client IP and answers 500 without one.
    Ok(axum::serve(listener, app.into_make_service_with_connect_info::<SocketAddr>()).await?)
}
