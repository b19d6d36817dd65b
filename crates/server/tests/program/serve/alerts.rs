//! The alerts of `deploy/`, in a real Prometheus.
//!
//! They watch ten minutes. Here the same rules watch seconds, and nothing else about them is changed.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use axum::Router;
use axum::http::StatusCode;
use axum::routing::get;
use metrics_exporter_prometheus::PrometheusBuilder;
use serde_json::{Value, json};
use tidegate::http::RateLimit;
use tidegate::tower::RateLimitLayer;
use tidegate::{Limiter, Quota, days};
use tidegate_servers::{Prometheus, required_env, wait_until};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

use super::{LIMITS, Program, url, write_file};

const RULES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/prometheus-alerts.yaml");

/// The shipped rules with shorter spans.
fn quick_rules() -> String {
    let shipped = std::fs::read_to_string(RULES).expect("the shipped rules");
    let spans = [("[5m]", "[10s]"), ("for: 10m", "for: 1s"), ("for: 5m", "for: 1s"), ("for: 1m", "for: 1s")];
    spans.iter().fold(shipped, |rules, (span, shorter)| {
        assert!(rules.contains(span), "{span}");
        rules.replace(span, shorter)
    })
}

/// Serves a login where every password is wrong, limited as the guide of the HTTP layer says, and its metrics.
fn serve_library(runtime: &Runtime) -> SocketAddr {
    let metrics = PrometheusBuilder::new().install_recorder().expect("there is no other recorder in this process");
    let quota = Quota::sliding_log(5, days(1)).expect("a quota");
    let limiter = Limiter::builder().limit("failed-logins", quota).build().expect("a limiter");
    let limits = RateLimit::new(limiter.enforcer("failed-logins").expect("it exists"));
    let limits = limits.charge_when(|status, _| status == StatusCode::UNAUTHORIZED);
    let login = get(|| async { StatusCode::UNAUTHORIZED }).layer(RateLimitLayer::new(limits));
    let router = Router::new().route("/login", login).route("/metrics", get(move || async move { metrics.render() }));
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).expect("a port");
    let address = listener.local_addr().expect("bound");
    let service = router.into_make_service_with_connect_info::<SocketAddr>();
    runtime.spawn(async move { axum::serve(listener, service).await });
    address
}

/// Guesses a password of a client of the program, which checks first and takes when the password was wrong.
fn guess(client: &reqwest::blocking::Client, program: &Program) {
    let request = |path: &str| -> Value {
        let body = json!({ "limit": "login", "key": "ann" });
        client.post(url(program, path)).json(&body).send().expect("sent").json().expect("a decision")
    };
    if request("/v1/check")["allowed"] == true {
        request("/v1/limit");
    }
}

#[test]
fn alert_fires_for_guessed_passwords() {
    let prometheus = required_env("TIDEGATE_PROMETHEUS");
    let promtool = Path::new(&prometheus).with_file_name("promtool");
    let checked = Command::new(promtool).args(["check", "rules", RULES]).output().expect("promtool");
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));

    let runtime = Runtime::new().expect("a runtime");
    let library = serve_library(&runtime);
    let program = Program::start(&["--config", &write_file("alerts.toml", LIMITS)]);
    let served = program.http.expect("it listens for HTTP");
    let prometheus = Prometheus::start(Path::new(&prometheus), &quick_rules(), &[library, served]).expect("it starts");

    let client = reqwest::blocking::Client::new();
    let is_firing = |alerts: &Value, instance: SocketAddr, limit: &str| {
        let (instance, limit) = (json!(instance.to_string()), json!(limit));
        alerts["data"]["alerts"].as_array().expect("a list").iter().any(|alert| {
            let labels = &alert["labels"];
            (&labels["alertname"], &labels["instance"], &labels["limit"])
                == (&json!("TidegateManyDenials"), &instance, &limit)
                && alert["state"] == "firing"
        })
    };
    let mut alerts = Value::Null;
    let fired = wait_until(|| {
        client.get(format!("http://{library}/login")).send().expect("an answer");
        guess(&client, &program);
        alerts =
            client.get(format!("{}/api/v1/alerts", prometheus.url())).send().expect("asked").json().unwrap_or_default();
        alerts["status"] == "success"
            && is_firing(&alerts, library, "failed-logins")
            && is_firing(&alerts, served, "login")
    });
    assert!(fired, "{alerts:#}\n{}", prometheus.log());
}
