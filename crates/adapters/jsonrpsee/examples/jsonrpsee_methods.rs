//! jsonrpsee: a method with a limit of its own. `cargo run -p tidegate-jsonrpsee --example jsonrpsee_methods`

#![allow(clippy::print_stdout, reason = "an example talks")]

use std::error::Error;

use jsonrpsee::RpcModule;
use jsonrpsee::server::Server;
use jsonrpsee::server::middleware::rpc::RpcServiceBuilder;
use tidegate::{Key, Limiter, Quota, seconds};
use tidegate_jsonrpsee::RpcLimitLayer;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let limiter = Limiter::builder()
        .limit("api", Quota::token_bucket(100, seconds(1))?)
        .limit("search", Quota::token_bucket(1, seconds(10))?.capacity(2)?)
        .build()?;
    // All clients share one key here. A server takes its users from the extensions, where an HTTP middleware puts them.
    let limits = RpcLimitLayer::new(limiter.enforcer("api")?)
        .method("search", limiter.enforcer("search")?)
        .key(|_| Some(Key::GLOBAL));

    let middleware = RpcServiceBuilder::new().layer(limits);
    let server = Server::builder().set_rpc_middleware(middleware).build("127.0.0.1:0").await?;
    let address = server.local_addr()?;
    let mut module = RpcModule::new(());
    module.register_method("search", |_, _, _| "found")?;
    let handle = server.start(module);

    let call = r#"{"jsonrpc":"2.0","id":1,"method":"search"}"#;
    for _ in 0..3 {
        let mut socket = TcpStream::connect(address).await?;
        let head = "POST / HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\nconnection: close";
        socket.write_all(format!("{head}\r\ncontent-length: {}\r\n\r\n{call}", call.len()).as_bytes()).await?;
        let mut answer = String::new();
        socket.read_to_string(&mut answer).await?;
        println!("{}", answer.lines().last().unwrap_or_default());
    }
    handle.stop()?;
    Ok(())
}
