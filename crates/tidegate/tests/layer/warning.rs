//! The operator is told, once, of a proxy that nobody trusts.

use std::fmt::Debug;
use std::sync::{Arc, Mutex};

use tidegate::http::{ClientAddress, RateLimit, TrustProxy};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

use crate::clients;
use crate::support::{Server, limiter, window};

/// Keeps the messages of all warnings.
#[derive(Clone, Default)]
struct Warnings(Arc<Mutex<Vec<String>>>);

impl Warnings {
    fn so_far(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

struct Message<'a>(&'a mut String);

impl Visit for Message<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == "message" {
            *self.0 = format!("{value:?}");
        }
    }
}

impl Subscriber for Warnings {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() == Level::WARN && metadata.target().starts_with("tidegate")
    }

    fn event(&self, event: &Event<'_>) {
        let mut message = String::new();
        event.record(&mut Message(&mut message));
        self.0.lock().unwrap().push(message);
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

#[tokio::test]
async fn a_layer_warns_of_a_forgotten_proxy_once() {
    let warnings = Warnings::default();
    let _guard = tracing::subscriber::set_default(warnings.clone());
    let rate_limit = RateLimit::new((&limiter(window(9)), "api"));
    let server = Server::behind(rate_limit.clone()).await;
    clients::get(server.address).await;
    assert_eq!(warnings.so_far(), [""; 0], "there is no reason yet");
    for _ in 0..3 {
        clients::get_with(server.address, &["x-forwarded-for: 192.0.2.1"]).await;
    }
    // What the same limits are in front of besides has the same proxy.
    clients::get_with(Server::behind(rate_limit).await.address, &["forwarded: for=192.0.2.1"]).await;
    let told = warnings.so_far();
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].starts_with("a request from 127.0.0.1 came with x-forwarded-for"), "{told:?}");
}

#[tokio::test]
async fn a_proxy_that_is_trusted_is_no_reason_to_warn() {
    let warnings = Warnings::default();
    let _guard = tracing::subscriber::set_default(warnings.clone());
    let trusting = ClientAddress::new().trust(TrustProxy::networks(["127.0.0.0/8"]).unwrap());
    let server = Server::behind(RateLimit::new((&limiter(window(9)), "api")).client_address(trusting)).await;
    clients::get_with(server.address, &["x-forwarded-for: 192.0.2.1"]).await;
    assert_eq!(warnings.so_far(), [""; 0]);
}
