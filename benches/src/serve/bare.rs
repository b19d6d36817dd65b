//! A bare axum server: the baseline, which reads the body and returns a constant response.

use axum::Router;
use axum::body::Bytes;
use axum::http::header::CONTENT_TYPE;
use axum::routing::post;

const DECISION: &str =
    r#"{"allowed":true,"limit":1000000,"remaining":999999,"retry_after_ms":null,"reset_after_ms":1,"reason":null}"#;

/// Serves until it is killed, with tokio's default number of threads.
pub(crate) fn serve(port: &str) {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    let router =
        Router::new().route("/v1/limit", post(|_: Bytes| async { ([(CONTENT_TYPE, "application/json")], DECISION) }));
    runtime.block_on(async {
        let port = port.parse::<u16>().expect("a port");
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", port)).await.expect("a free port");
        axum::serve(listener, router).await.expect("served");
    });
}
