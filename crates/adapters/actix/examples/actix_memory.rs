//! actix-web with a limit in this process's memory: `cargo run -p tidegate-actix --example actix_memory`

#![allow(clippy::print_stdout, reason = "an example talks")]

use std::error::Error;

use actix_web::{App, HttpServer, rt, web};
use tidegate::{Quota, seconds};
use tidegate_actix::GateMiddleware;

fn main() -> Result<(), Box<dyn Error>> {
    // Three at once for each client, and then one every ten seconds. All workers share them.
    let gate = GateMiddleware::new(Quota::token_bucket(1, seconds(10))?.capacity(3)?);
    let app = move || App::new().wrap(gate.clone()).route("/", web::get().to(async || "Hello!\n"));

    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:3000".to_owned());
    let server = HttpServer::new(app).bind(address)?;
    println!("Try: curl -i http://{}/", server.addrs()[0]);
    Ok(rt::System::new().block_on(server.run())?)
}
