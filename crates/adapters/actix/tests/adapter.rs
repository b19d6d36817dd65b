//! The adapter suite in actix-web, and the middleware around resources and other middlewares.

use std::net::SocketAddr;

use actix_web::dev::{Service, ServiceResponse};
use actix_web::error::ErrorUnauthorized;
use actix_web::web::{Data, ReqData, get, resource};
use actix_web::{App as Actix, HttpMessage, HttpResponse, HttpServer, rt};
use tidegate::Key;
use tidegate::enforce::Outcome;
use tidegate::http::{Extensions, RateLimit, keys};
use tidegate_actix::GateMiddleware;
use tidegate_testkit::adapter_tests;
use tidegate_testkit::adapters::{self, Adapter, AddressSender, App, gate, limiter};

struct ActixWeb;

impl Adapter for ActixWeb {
    fn serve(app: App, sender: AddressSender) {
        let server = HttpServer::new(move || {
            Actix::new()
                .app_data(Data::new(app.clone()))
                .wrap(GateMiddleware::new(app.gate()))
                .route("/", get().to(async |app: Data<App>| app.page()))
                .route("/users/{id}", get().to(async |app: Data<App>| app.page()))
                .route("/fails", get().to(fails))
                .route("/outcome", get().to(outcome))
                .route("/stream", get().to(async |app: Data<App>| HttpResponse::Ok().streaming(app.stream())))
        });
        let server = server.workers(1).disable_signals().bind("127.0.0.1:0").unwrap();
        sender.send(server.addrs()[0]);
        rt::System::new().block_on(server.run()).unwrap();
    }
}

async fn outcome(app: Data<App>, outcome: Option<ReqData<Outcome>>) -> String {
    app.outcome(outcome.as_deref())
}

async fn fails(app: Data<App>) -> HttpResponse {
    HttpResponse::Unauthorized().insert_header(("x-app", "mine")).body(app.failure())
}

adapter_tests!(suite, ActixWeb);

/// Returns the status, the header `ratelimit` and the body.
fn fetch(address: SocketAddr, path: &str) -> (u16, String, String) {
    let reply = adapters::get(address, path, &[]);
    (reply.status, reply.header("ratelimit").unwrap_or_default(), reply.body)
}

/// Serves an app on a port of its own. `$app` is an expression that creates it.
macro_rules! serve {
    ($app:expr) => {
        AddressSender::start_server(move |sender| {
            let server = HttpServer::new(move || $app).workers(1).disable_signals().bind("127.0.0.1:0").unwrap();
            sender.send(server.addrs()[0]);
            rt::System::new().block_on(server.run()).unwrap();
        })
    };
}

#[test]
fn resource_gate_applies_within_the_gate_of_the_app() {
    let (api, login) = (GateMiddleware::new(gate("api", 3)), GateMiddleware::new(gate("login", 1)));
    let address = serve!({
        Actix::new()
            .wrap(api.clone())
            .route("/", get().to(async || "ok"))
            .service(resource("/login").wrap(login.clone()).to(async || "welcome"))
    });
    let (status, header, body) = fetch(address, "/login");
    assert_eq!((status, &*body), (200, "welcome"));
    assert!(header.contains(r#""login";r=0"#) && header.contains(r#""api";r=2"#), "{header}");
    assert_eq!(fetch(address, "/login").0, 429);
    let (status, header, _) = fetch(address, "/");
    assert_eq!((status, &*header), (200, r#""api";r=0;t=60"#));
    assert_eq!(fetch(address, "/").0, 429);
}

/// The user, as an outer middleware knows it.
#[derive(Clone)]
struct User(String);

#[test]
fn user_from_an_outer_middleware_can_be_the_key() {
    let limits = RateLimit::new(limiter("api", 1).enforcer("api").unwrap())
        .key(keys::extension(|User(user)| Key::from_parts([user]).into_owned()));
    let address = serve!({
        Actix::new()
            .wrap(GateMiddleware::new(limits.clone()))
            .wrap_fn(|request, service| {
                let mut known = Extensions::new();
                known.insert(User(request.query_string().to_owned()));
                request.extensions_mut().insert(known);
                service.call(request)
            })
            .route("/", get().to(async || "ok"))
    });
    for (user, status) in [("alice", 200), ("bob", 200), ("alice", 429)] {
        assert_eq!(fetch(address, &format!("/?{user}")).0, status, "{user}");
    }
}

#[test]
fn failing_inner_middleware_is_charged_by_its_status() {
    let limits = RateLimit::new(limiter("api", 1).enforcer("api").unwrap()).charge_when(|status, _| status == 401);
    let address = serve!({
        Actix::new()
            .wrap_fn(|_, _| async { Err::<ServiceResponse, _>(ErrorUnauthorized("who are you?")) })
            .wrap(GateMiddleware::new(limits.clone()))
            .route("/", get().to(async || "ok"))
    });
    let (status, _, body) = fetch(address, "/");
    assert_eq!((status, &*body), (401, "who are you?"));
    assert_eq!(fetch(address, "/").0, 429);
}
