//! warp with a limit in this process's memory: `cargo run -p tidegate-warp --example warp_memory`

#![allow(clippy::print_stdout, reason = "an example talks")]

use std::error::Error;

use tidegate::http::Gate;
use tidegate::{Quota, seconds};
use tidegate_warp::{recover, wrap};
use warp::Filter;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    // Three at once for each client, and then one every ten seconds.
    let gate = Gate::new(Quota::token_bucket(1, seconds(10))?.capacity(3)?);
    let hello = warp::path::end().and(wrap(&gate, warp::get().map(|| "Hello!\n")));

    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:3000".to_owned());
    let listener = tokio::net::TcpListener::bind(address).await?;
    println!("Try: curl -i http://{}/", listener.local_addr()?);
    warp::serve(hello.recover(recover)).incoming(listener).run().await;
    Ok(())
}
