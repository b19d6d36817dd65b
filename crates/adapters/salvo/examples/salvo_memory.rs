//! salvo with a limit in this process's memory: `cargo run -p tidegate-salvo --example salvo_memory`

#![allow(clippy::print_stdout, reason = "an example talks")]

use std::error::Error;

use salvo_core::conn::tcp::TcpAcceptor;
use salvo_core::prelude::{Router, Server, handler};
use tidegate::{Quota, seconds};
use tidegate_salvo::GateHoop;

#[handler]
async fn hello() -> &'static str {
    "Hello!\n"
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    // Three at once for each client, and then one every ten seconds.
    let gate = GateHoop::new(Quota::token_bucket(1, seconds(10))?.capacity(3)?);
    let router = Router::new().hoop(gate).get(hello);

    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:3000".to_owned());
    let listener = tokio::net::TcpListener::bind(address).await?;
    println!("Try: curl -i http://{}/", listener.local_addr()?);
    Server::new(TcpAcceptor::try_from(listener)?).serve(router).await;
    Ok(())
}
