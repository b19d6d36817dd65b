//! The adapter suite in poem.

use poem::endpoint::make_sync;
use poem::http::StatusCode;
use poem::listener::TcpAcceptor;
use poem::middleware::Middleware;
use poem::{Body, EndpointExt, Request, Response, Route, Server};
use tidegate::enforce::Outcome;
use tidegate_poem::GateMiddleware;
use tidegate_testkit::adapter_tests;
use tidegate_testkit::adapters::{Adapter, AddressSender, App};

struct Poem;

impl Adapter for Poem {
    const HTTP2: bool = true;

    fn serve(app: App, sender: AddressSender) {
        // Around each endpoint, where the route is known.
        let at = |page: fn(&App, &Request) -> Response| {
            let behind = app.clone();
            GateMiddleware::new(app.gate()).transform(make_sync(move |request| page(&behind, &request))).boxed()
        };
        let routes = Route::new()
            .at("/", at(|app, _| app.page().into()))
            .at("/users/:id", at(|app, _| app.page().into()))
            .at(
                "/fails",
                at(|app, _| {
                    Response::builder().status(StatusCode::UNAUTHORIZED).header("x-app", "mine").body(app.failure())
                }),
            )
            .at("/outcome", at(|app, request| app.outcome(request.data::<Outcome>()).into()))
            .at("/stream", at(|app, _| Body::from_bytes_stream(app.stream()).into()));
        sender.serve_on_tokio(async |listener| {
            let acceptor = TcpAcceptor::from_tokio(listener).unwrap();
            Server::new_with_acceptor(acceptor).run(routes).await.unwrap();
        });
    }
}

adapter_tests!(suite, Poem);
