//! A HEAD that is denied, over HTTP/2: frameworks on hyper send a body if there is one, and clients do not take it.

use std::net::SocketAddr;

use poem::EndpointExt;
use poem::endpoint::make_sync;
use reqwest::{Client, Response};
use salvo_core::handler;
use salvo_core::prelude::Router;
use tidegate::warp::{gated, recover};
use tokio::net::TcpListener;
use warp::Filter;

use super::setting::gate;

async fn bound() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

/// Asks a server that admits one request.
async fn ask(address: SocketAddr) {
    let client = Client::builder().no_proxy().http2_prior_knowledge().build().unwrap();
    let url = format!("http://{address}/");
    let length = |response: &Response| response.headers()["content-length"].to_str().unwrap().to_owned();
    assert_eq!(client.get(&url).send().await.unwrap().status(), 200);
    let denied = client.get(&url).send().await.unwrap();
    let head = client.head(&url).send().await.unwrap();
    assert_eq!((denied.status().as_u16(), head.status().as_u16()), (429, 429));
    assert_eq!(length(&head), length(&denied));
    assert_eq!(head.headers()["ratelimit"], denied.headers()["ratelimit"]);
    assert_eq!(head.text().await.unwrap(), "");
}

#[tokio::test]
async fn of_poem() {
    let app = make_sync(|_| "ok").with(gate("api", 1));
    let (listener, address) = bound().await;
    let acceptor = poem::listener::TcpAcceptor::from_tokio(listener).unwrap();
    tokio::spawn(poem::Server::new_with_acceptor(acceptor).run(app));
    ask(address).await;
}

#[handler]
async fn page() -> &'static str {
    "ok"
}

#[tokio::test]
async fn of_salvo() {
    let router = Router::new().hoop(gate("api", 1)).goal(page);
    let (listener, address) = bound().await;
    let acceptor = salvo_core::conn::tcp::TcpAcceptor::try_from(listener).unwrap();
    tokio::spawn(salvo_core::Server::new(acceptor).serve(router));
    ask(address).await;
}

#[tokio::test]
async fn of_warp() {
    let filter = gated(&gate("api", 1), warp::path::end().map(|| "ok")).recover(recover);
    let (listener, address) = bound().await;
    tokio::spawn(warp::serve(filter).incoming(listener).run());
    ask(address).await;
}
