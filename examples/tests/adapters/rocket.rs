//! rocket.

use std::net::SocketAddr;
use std::sync::Mutex;

use rocket::fairing::AdHoc;
use rocket::http::{Header, Status};
use rocket::response::Responder;
use rocket::response::stream::ByteStream;
use rocket::{Build, Config, State, get, routes};
use tidegate::rocket::{Gates, Limited};
use tidegate_testkit::adapter_tests;
use tidegate_testkit::adapters::{Adapter, App, Listening};

use super::setting::{gate, get as ask, start};

struct Rocket;

/// The name of the gate.
struct Api;

#[get("/")]
fn page(_limited: Limited<Api>, app: &State<App>) -> &'static str {
    app.page()
}

#[get("/users/<_id>")]
fn user(_limited: Limited<Api>, app: &State<App>, _id: &str) -> &'static str {
    app.page()
}

#[derive(Responder)]
struct Failure {
    body: (Status, &'static str),
    header: Header<'static>,
}

#[get("/fails")]
fn fails(_limited: Limited<Api>, app: &State<App>) -> Failure {
    Failure { body: (Status::Unauthorized, app.failure()), header: Header::new("x-app", "mine") }
}

#[get("/told")]
fn told(limited: Limited<Api>, app: &State<App>) -> String {
    app.told(limited.told())
}

#[get("/stream")]
fn stream(_limited: Limited<Api>, app: &State<App>) -> ByteStream<impl futures_util::Stream<Item = Vec<u8>> + use<>> {
    use futures_util::StreamExt;
    ByteStream(app.stream().map(|piece| piece.unwrap().to_vec()))
}

impl Adapter for Rocket {
    fn serve(app: App, listening: Listening) {
        let rocket = quiet()
            .attach(Gates::new().gate::<Api>(app.gate()))
            .manage(app)
            .mount("/", routes![page, user, fails, told, stream]);
        launch(rocket, move |address| listening.at(address));
    }
}

fn quiet() -> rocket::Rocket<Build> {
    let mut config = Config { port: 0, workers: 1, log_level: rocket::config::LogLevel::Off, ..Config::default() };
    config.shutdown.ctrlc = false;
    rocket::custom(config)
}

fn launch(rocket: rocket::Rocket<Build>, listening: impl FnOnce(SocketAddr) + Send + 'static) {
    let listening = Mutex::new(Some(listening));
    let rocket = rocket.attach(AdHoc::on_liftoff("where", move |rocket| {
        Box::pin(async move {
            let Config { address, port, .. } = *rocket.config();
            let listening = listening.lock().unwrap().take().unwrap();
            listening((address, port).into());
        })
    }));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(rocket.launch()).unwrap();
}

adapter_tests!(suite, Rocket);

struct Login;

#[get("/login")]
fn login(_api: Limited<Api>, _login: Limited<Login>) -> &'static str {
    "welcome"
}

#[get("/once/<_number>")]
fn number(_limited: Limited<Api>, _number: u64) -> &'static str {
    "a number"
}

#[get("/once/<_text>", rank = 2)]
fn text(_limited: Limited<Api>, _text: &str) -> &'static str {
    "a text"
}

/// A handler that does without.
#[get("/either")]
fn either(limited: Option<Limited<Api>>) -> &'static str {
    if limited.is_some() { "fresh" } else { "cached" }
}

/// With gates for `Api` and, if it is told to, for `Login`.
fn serve(with_login: bool) -> SocketAddr {
    start(move |told| {
        let mut gates = Gates::new().gate::<Api>(gate("api", 3));
        if with_login {
            gates = gates.gate::<Login>(gate("login", 1));
        }
        let rocket = quiet().attach(gates).mount("/", routes![login, number, text, either]);
        launch(rocket, move |address| told.send(address).unwrap());
    })
}

#[tokio::test]
async fn a_route_can_have_two_gates() {
    let address = serve(true);
    let (status, told, body) = ask(address, "/login").await;
    assert_eq!((status, &*body), (200, "welcome"));
    assert!(told.contains(r#""login";r=0"#) && told.contains(r#""api";r=2"#), "{told}");
    let (status, told, body) = ask(address, "/login").await;
    assert_eq!(status, 429);
    assert!(told.contains(r#""login";r=0"#) && body.contains(r#""violated-policies":["login"]"#), "{told} {body}");
}

#[tokio::test]
async fn a_request_that_is_forwarded_is_asked_about_once() {
    let (status, told, body) = ask(serve(true), "/once/text").await;
    assert_eq!((status, &*told, &*body), (200, r#""api";r=2;t=60"#, "a text"));
}

#[tokio::test]
async fn a_gate_that_is_not_there_is_a_mistake_and_no_open_door() {
    assert_eq!(ask(serve(false), "/login").await.0, 500);
}

#[tokio::test]
async fn a_handler_that_does_without_has_answered() {
    let address = serve(true);
    for expected in ["fresh", "fresh", "fresh", "cached"] {
        let (status, _, body) = ask(address, "/either").await;
        assert_eq!((status, &*body), (200, expected));
    }
}
