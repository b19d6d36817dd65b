//! poem with a limit in this process's memory: `cargo run -p tidegate-poem --example poem_memory`

#![allow(clippy::print_stdout, reason = "an example talks")]

use std::error::Error;

use poem::endpoint::make_sync;
use poem::listener::TcpAcceptor;
use poem::{EndpointExt, Route, Server};
use tidegate::{Quota, seconds};
use tidegate_poem::GateMiddleware;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    // Three at once for each client, and then one every ten seconds.
    let gate = GateMiddleware::new(Quota::token_bucket(1, seconds(10))?.capacity(3)?);
    let app = Route::new().at("/", make_sync(|_| "Hello!\n")).with(gate);

    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:3000".to_owned());
    let listener = tokio::net::TcpListener::bind(address).await?;
    println!("Try: curl -i http://{}/", listener.local_addr()?);
    Ok(Server::new_with_acceptor(TcpAcceptor::from_tokio(listener)?).run(app).await?)
}
