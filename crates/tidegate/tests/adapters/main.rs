//! The adapter suite, over sockets: a small app in each framework whose feature is on, behind the same gates.

#[cfg(feature = "actix")]
mod actix;
#[cfg(feature = "axum")]
mod axum;
#[cfg(feature = "graphql")]
mod graphql;
#[cfg(feature = "tower")]
mod hyper;
#[cfg(feature = "jsonrpsee")]
mod jsonrpsee;
#[cfg(feature = "lambda")]
mod lambda;
#[cfg(feature = "ntex")]
mod ntex;
#[cfg(feature = "reqwest")]
mod outgoing;
#[cfg(feature = "poem")]
mod poem;
#[cfg(feature = "rocket")]
mod rocket;
#[cfg(feature = "salvo")]
mod salvo;
#[cfg(any(feature = "actix", feature = "rocket", feature = "warp"))]
mod setting;
#[cfg(feature = "warp")]
mod warp;

use tidegate_testkit::adapters::Listening;
use tokio::net::TcpListener;

/// Serves whatever `serve` makes of a socket, on a runtime of its own.
#[allow(dead_code, reason = "each framework has a feature, and some bring their own runtime")]
fn on_tokio<F: Future<Output = ()>>(listening: Listening, serve: impl FnOnce(TcpListener) -> F) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        listening.at(listener.local_addr().unwrap());
        serve(listener).await;
    });
}
