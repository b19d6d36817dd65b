//! The adapter suite in axum.

use std::net::SocketAddr;

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::get;
use tidegate::enforce::Outcome;
use tidegate::tower::AdmissionLayer;
use tidegate_testkit::adapter_tests;
use tidegate_testkit::adapters::{Adapter, AddressSender, App};

struct Axum;

impl Adapter for Axum {
    const HTTP2: bool = true;

    fn serve(app: App, sender: AddressSender) {
        let gate = AdmissionLayer::from(app.gate());
        let page = get(async |State(app): State<App>| app.page());
        let router = Router::new()
            .route("/", page.clone())
            .route("/users/{id}", page)
            .route(
                "/fails",
                get(async |State(app): State<App>| (StatusCode::UNAUTHORIZED, [("x-app", "mine")], app.failure())),
            )
            .route(
                "/outcome",
                get(async |State(app): State<App>, outcome: Option<Outcome>| app.outcome(outcome.as_ref())),
            )
            .route("/stream", get(async |State(app): State<App>| Body::from_stream(app.stream())))
            .with_state(app)
            .layer(gate);
        let service = router.into_make_service_with_connect_info::<SocketAddr>();
        sender.serve_on_tokio(async |listener| axum::serve(listener, service).await.unwrap());
    }
}

adapter_tests!(suite, Axum);
