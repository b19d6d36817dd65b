//! The adapter suite in ntex.

use futures_util::StreamExt;
use ntex::util::Bytes;
use ntex::web::types::State;
use ntex::web::{self, App as Ntex, HttpRequest, HttpResponse, get};
use tidegate::enforce::Outcome;
use tidegate_ntex::GateMiddleware;
use tidegate_testkit::adapter_tests;
use tidegate_testkit::adapters::{Adapter, AddressSender, App};

struct NtexWeb;

impl Adapter for NtexWeb {
    const ROUTES: bool = false;

    fn serve(app: App, sender: AddressSender) {
        let system = ntex::rt::System::new("app", ntex::rt::DefaultRuntime);
        system.block_on(async move {
            let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            let address = listener.local_addr().unwrap();
            let server = web::HttpServer::new(async move || {
                Ntex::new()
                    .state(app.clone())
                    .middleware(GateMiddleware::new(app.gate()))
                    .route("/", get().to(async |app: State<App>| HttpResponse::Ok().body(app.page())))
                    .route("/fails", get().to(fails))
                    .route("/outcome", get().to(outcome))
                    .route("/stream", get().to(stream))
            });
            let running = server.workers(1).disable_signals().listen(listener).unwrap().run();
            sender.send(address);
            running.await.unwrap();
        });
    }
}

async fn fails(app: State<App>) -> HttpResponse {
    HttpResponse::Unauthorized().header("x-app", "mine").body(app.failure())
}

async fn outcome(app: State<App>, request: HttpRequest) -> HttpResponse {
    HttpResponse::Ok().body(app.outcome(request.extensions().get::<Outcome>()))
}

async fn stream(app: State<App>) -> HttpResponse {
    HttpResponse::Ok().streaming(app.stream().map(|piece| piece.map(|piece| Bytes::copy_from_slice(&piece))))
}

adapter_tests!(suite, NtexWeb);
