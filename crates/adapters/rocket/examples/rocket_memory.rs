//! rocket with a limit in this process's memory: `cargo run -p tidegate-rocket --example rocket_memory`

#![allow(clippy::print_stdout, reason = "an example talks")]

use std::error::Error;
use std::net::SocketAddr;

use rocket::fairing::AdHoc;
use rocket::{Config, get, routes};
use tidegate::{Quota, seconds};
use tidegate_rocket::{GateFairing, GateGuard};

/// The name of the gate.
struct Api;

#[get("/")]
fn hello(_guard: GateGuard<Api>) -> &'static str {
    "Hello!\n"
}

#[rocket::main]
async fn main() -> Result<(), Box<dyn Error>> {
    // Three at once for each client, and then one every ten seconds.
    let gates = GateFairing::new().gate::<Api>(Quota::token_bucket(1, seconds(10))?.capacity(3)?);

    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:3000".to_owned()).parse::<SocketAddr>()?;
    let config = Config { address: address.ip(), port: address.port(), ..Config::default() };
    let invitation = AdHoc::on_liftoff("invitation", |rocket| {
        Box::pin(async move { println!("Try: curl -i http://{}:{}/", rocket.config().address, rocket.config().port) })
    });
    let config = Config { log_level: rocket::config::LogLevel::Off, ..config };
    let rocket = rocket::custom(config).attach(gates).attach(invitation);
    rocket.mount("/", routes![hello]).launch().await?;
    Ok(())
}
