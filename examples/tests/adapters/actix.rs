//! actix-web.

use actix_web::dev::{Service, ServiceResponse};
use actix_web::error::ErrorUnauthorized;
use actix_web::web::{Data, get, resource};
use actix_web::{App as Actix, HttpMessage, HttpResponse, HttpServer, rt};
use tidegate::Key;
use tidegate::enforce::Outcome;
use tidegate::http::{Extensions, Gate, RateLimit, keys};
use tidegate_testkit::adapter_tests;
use tidegate_testkit::adapters::{Adapter, App, Listening};

use super::setting::{gate, get as ask, limiter, start};

struct ActixWeb;

impl Adapter for ActixWeb {
    fn serve(app: App, listening: Listening) {
        let server = HttpServer::new(move || {
            Actix::new()
                .app_data(Data::new(app.clone()))
                .wrap(app.gate())
                .route("/", get().to(async |app: Data<App>| app.page()))
                .route("/users/{id}", get().to(async |app: Data<App>| app.page()))
                .route("/fails", get().to(fails))
                .route("/told", get().to(async |app: Data<App>, told: Option<Outcome>| app.told(told.as_ref())))
                .route("/stream", get().to(async |app: Data<App>| HttpResponse::Ok().streaming(app.stream())))
        });
        let server = server.workers(1).disable_signals().bind("127.0.0.1:0").unwrap();
        listening.at(server.addrs()[0]);
        rt::System::new().block_on(server.run()).unwrap();
    }
}

async fn fails(app: Data<App>) -> HttpResponse {
    HttpResponse::Unauthorized().insert_header(("x-app", "mine")).body(app.failure())
}

adapter_tests!(suite, ActixWeb);

/// Serves an app on a port of its own: `$app` is an expression that makes it.
macro_rules! serve {
    ($app:expr) => {
        start(move |told| {
            let server = HttpServer::new(move || $app).workers(1).disable_signals().bind("127.0.0.1:0").unwrap();
            told.send(server.addrs()[0]).unwrap();
            rt::System::new().block_on(server.run()).unwrap();
        })
    };
}

#[tokio::test]
async fn a_resource_has_a_gate_of_its_own_within_that_of_the_app() {
    let (api, login) = (gate("api", 3), gate("login", 1));
    let address = serve!({
        Actix::new()
            .wrap(api.clone())
            .route("/", get().to(async || "ok"))
            .service(resource("/login").wrap(login.clone()).to(async || "welcome"))
    });
    let (status, told, body) = ask(address, "/login").await;
    assert_eq!((status, &*body), (200, "welcome"));
    assert!(told.contains(r#""login";r=0"#) && told.contains(r#""api";r=2"#), "{told}");
    assert_eq!(ask(address, "/login").await.0, 429);
    let (status, told, _) = ask(address, "/").await;
    assert_eq!((status, &*told), (200, r#""api";r=0;t=60"#));
    assert_eq!(ask(address, "/").await.0, 429);
}

/// Who asks, as an outer middleware has found out.
#[derive(Clone)]
struct User(String);

#[tokio::test]
async fn what_an_outer_middleware_knows_can_be_the_key() {
    let limits = RateLimit::new((&limiter("api", 1), "api"))
        .key(keys::extension(|User(user)| Key::from_parts([user]).into_owned()));
    let address = serve!({
        Actix::new()
            .wrap(Gate::new(limits.clone()))
            .wrap_fn(|request, service| {
                let mut known = Extensions::new();
                known.insert(User(request.query_string().to_owned()));
                request.extensions_mut().insert(known);
                service.call(request)
            })
            .route("/", get().to(async || "ok"))
    });
    for (user, status) in [("alice", 200), ("bob", 200), ("alice", 429)] {
        assert_eq!(ask(address, &format!("/?{user}")).await.0, status, "{user}");
    }
}

#[tokio::test]
async fn a_middleware_that_fails_is_charged_for_by_its_status() {
    let limits = RateLimit::new((&limiter("api", 1), "api")).charge_when(|status, _| status == 401);
    let address = serve!({
        Actix::new()
            .wrap_fn(|_, _| async { Err::<ServiceResponse, _>(ErrorUnauthorized("who are you?")) })
            .wrap(Gate::new(limits.clone()))
            .route("/", get().to(async || "ok"))
    });
    let (status, _, body) = ask(address, "/").await;
    assert_eq!((status, &*body), (401, "who are you?"));
    assert_eq!(ask(address, "/").await.0, 429);
}
