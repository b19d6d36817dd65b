//! The adapter suite, over sockets: a small app in each framework, behind the same gates.

mod actix;
mod axum;
mod graphql;
mod head;
mod hyper;
mod jsonrpsee;
mod lambda;
mod ntex;
mod outgoing;
mod poem;
mod rocket;
mod salvo;
mod setting;
mod warp;

use tidegate_testkit::adapters::Listening;
use tokio::net::TcpListener;

/// Serves whatever `serve` makes of a socket, on a runtime of its own.
fn on_tokio<F: Future<Output = ()>>(listening: Listening, serve: impl FnOnce(TcpListener) -> F) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        listening.at(listener.local_addr().unwrap());
        serve(listener).await;
    });
}
