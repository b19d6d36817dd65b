//! ntex with a limit in this process's memory: `cargo run -p tidegate-ntex --example ntex_memory`

#![allow(clippy::print_stdout, reason = "an example talks")]

use std::error::Error;
use std::net::TcpListener;

use ntex::web::{self, App, HttpResponse, HttpServer};
use tidegate::{Quota, seconds};
use tidegate_ntex::GateMiddleware;

fn main() -> Result<(), Box<dyn Error>> {
    // Three at once for each client, and then one every ten seconds. All workers share them.
    let gate = GateMiddleware::new(Quota::token_bucket(1, seconds(10))?.capacity(3)?);
    let app = async move || {
        App::new().middleware(gate.clone()).route("/", web::get().to(async || HttpResponse::Ok().body("Hello!\n")))
    };

    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:3000".to_owned());
    let listener = TcpListener::bind(address)?;
    println!("Try: curl -i http://{}/", listener.local_addr()?);
    ntex::rt::System::new("example", ntex::rt::DefaultRuntime)
        .block_on(async move { HttpServer::new(app).listen(listener)?.run().await })?;
    Ok(())
}
