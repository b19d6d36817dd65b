//! The adapter suite in salvo.

use salvo_core::async_trait;
use salvo_core::conn::tcp::TcpAcceptor;
use salvo_core::http::StatusCode;
use salvo_core::prelude::{Depot, FlowCtrl, Handler, Request, Response, Router, Server};
use tidegate::enforce::Outcome;
use tidegate_salvo::GateHoop;
use tidegate_testkit::adapter_tests;
use tidegate_testkit::adapters::{Adapter, AddressSender, App};

struct Salvo;

/// A page of the app.
struct Page(App, fn(&App, &Request, &mut Response));

#[async_trait]
impl Handler for Page {
    async fn handle(&self, request: &mut Request, _: &mut Depot, response: &mut Response, _: &mut FlowCtrl) {
        (self.1)(&self.0, request, response);
    }
}

impl Adapter for Salvo {
    const HTTP2: bool = true;

    fn serve(app: App, sender: AddressSender) {
        let at =
            |path: &str, page: fn(&App, &Request, &mut Response)| Router::with_path(path).get(Page(app.clone(), page));
        let router = Router::new()
            .hoop(GateHoop::new(app.gate()))
            .goal(Page(app.clone(), |app, _, response| response.render(app.page())))
            .push(at("users/{id}", |app, _, response| response.render(app.page())))
            .push(at("fails", |app, _, response| {
                response.status_code(StatusCode::UNAUTHORIZED);
                response.add_header("x-app", "mine", true).unwrap();
                response.render(app.failure());
            }))
            .push(at("outcome", |app, request, response| {
                response.render(app.outcome(request.extensions().get::<Outcome>()))
            }))
            .push(at("stream", |app, _, response| response.stream(app.stream())));
        sender.serve_on_tokio(async |listener| {
            Server::new(TcpAcceptor::try_from(listener).unwrap()).serve(router).await;
        });
    }
}

adapter_tests!(suite, Salvo);
