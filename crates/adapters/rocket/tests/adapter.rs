//! The adapter suite in rocket, and several guards on one route.

use std::net::SocketAddr;
use std::sync::Mutex;

use rocket::fairing::AdHoc;
use rocket::http::{Header, Status};
use rocket::response::Responder;
use rocket::response::stream::ByteStream;
use rocket::{Build, Config, State, get, routes};
use tidegate_rocket::{GateFairing, GateGuard};
use tidegate_testkit::adapter_tests;
use tidegate_testkit::adapters::{self, Adapter, AddressSender, App, gate};

struct Rocket;

/// The name of the gate.
struct Api;

#[get("/")]
fn page(_guard: GateGuard<Api>, app: &State<App>) -> &'static str {
    app.page()
}

#[get("/users/<_id>")]
fn user(_guard: GateGuard<Api>, app: &State<App>, _id: &str) -> &'static str {
    app.page()
}

#[derive(Responder)]
struct Failure {
    body: (Status, &'static str),
    header: Header<'static>,
}

#[get("/fails")]
fn fails(_guard: GateGuard<Api>, app: &State<App>) -> Failure {
    Failure { body: (Status::Unauthorized, app.failure()), header: Header::new("x-app", "mine") }
}

#[get("/outcome")]
fn outcome(guard: GateGuard<Api>, app: &State<App>) -> String {
    app.outcome(guard.outcome())
}

#[get("/stream")]
fn stream(_guard: GateGuard<Api>, app: &State<App>) -> ByteStream<impl futures_util::Stream<Item = Vec<u8>> + use<>> {
    use futures_util::StreamExt;
    ByteStream(app.stream().map(|piece| piece.unwrap().to_vec()))
}

impl Adapter for Rocket {
    fn serve(app: App, sender: AddressSender) {
        let rocket = silent_rocket()
            .attach(GateFairing::new().gate::<Api>(app.gate()))
            .manage(app)
            .mount("/", routes![page, user, fails, outcome, stream]);
        launch_and_report(rocket, move |address| sender.send(address));
    }
}

fn silent_rocket() -> rocket::Rocket<Build> {
    let mut config = Config { port: 0, workers: 1, log_level: rocket::config::LogLevel::Off, ..Config::default() };
    config.shutdown.ctrlc = false;
    rocket::custom(config)
}

fn launch_and_report(rocket: rocket::Rocket<Build>, report: impl FnOnce(SocketAddr) + Send + 'static) {
    let report = Mutex::new(Some(report));
    let rocket = rocket.attach(AdHoc::on_liftoff("where", move |rocket| {
        Box::pin(async move {
            let Config { address, port, .. } = *rocket.config();
            let report = report.lock().unwrap().take().unwrap();
            report((address, port).into());
        })
    }));
    let runtime = rocket::tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(rocket.launch()).unwrap();
}

adapter_tests!(suite, Rocket);

struct Login;

#[get("/login")]
fn login(_api: GateGuard<Api>, _login: GateGuard<Login>) -> &'static str {
    "welcome"
}

#[get("/once/<_number>")]
fn number(_guard: GateGuard<Api>, _number: u64) -> &'static str {
    "a number"
}

#[get("/once/<_text>", rank = 2)]
fn text(_guard: GateGuard<Api>, _text: &str) -> &'static str {
    "a text"
}

/// A handler with an optional guard.
#[get("/either")]
fn optional_guard(guard: Option<GateGuard<Api>>) -> &'static str {
    if guard.is_some() { "fresh" } else { "cached" }
}

/// Returns the status, the header `ratelimit` and the body.
fn fetch(address: SocketAddr, path: &str) -> (u16, String, String) {
    let reply = adapters::get(address, path, &[]);
    (reply.status, reply.header("ratelimit").unwrap_or_default(), reply.body)
}

/// Serves with a gate for `Api` and, optionally, one for `Login`.
fn serve(with_login: bool) -> SocketAddr {
    AddressSender::start_server(move |sender| {
        let mut gates = GateFairing::new().gate::<Api>(gate("api", 3));
        if with_login {
            gates = gates.gate::<Login>(gate("login", 1));
        }
        let rocket = silent_rocket().attach(gates).mount("/", routes![login, number, text, optional_guard]);
        launch_and_report(rocket, move |address| sender.send(address));
    })
}

#[test]
fn route_can_have_two_gates() {
    let address = serve(true);
    let (status, header, body) = fetch(address, "/login");
    assert_eq!((status, &*body), (200, "welcome"));
    assert!(header.contains(r#""login";r=0"#) && header.contains(r#""api";r=2"#), "{header}");
    let (status, header, body) = fetch(address, "/login");
    assert_eq!(status, 429);
    assert!(header.contains(r#""login";r=0"#) && body.contains(r#""violated-policies":["login"]"#), "{header} {body}");
}

#[test]
fn forwarded_request_is_counted_once() {
    let (status, header, body) = fetch(serve(true), "/once/text");
    assert_eq!((status, &*header, &*body), (200, r#""api";r=2;t=60"#, "a text"));
}

#[test]
fn unknown_gate_fails_closed() {
    assert_eq!(fetch(serve(false), "/login").0, 500);
}

#[test]
fn handler_with_an_optional_guard_answers_itself() {
    let address = serve(true);
    for expected in ["fresh", "fresh", "fresh", "cached"] {
        let (status, _, body) = fetch(address, "/either");
        assert_eq!((status, &*body), (200, expected));
    }
}
