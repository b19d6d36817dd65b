//! A real Envoy that requests a decision for every request, with an upstream behind it.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use futures_util::future::join_all;
use http::HeaderValue;
use reqwest::{Client, Response};
use tidegate_servers::{Envoy, free_port, required_env};
use tokio::net::TcpListener;

use crate::serve::program::Program;
use crate::serve::write_file;

/// Rules in the format of envoyproxy/ratelimit. Units are years, so that no window ends in the middle of a test.
const RULES: &str = "\
domain: edge
descriptors:
  - key: user
    rate_limit:
      unit: year
      requests_per_unit: 7
  - key: user
    value: ann
    rate_limit:
      unit: year
      requests_per_unit: 3
  - key: watched
    shadow_mode: true
    rate_limit:
      unit: year
      requests_per_unit: 1
";

/// Tidegate, Envoy and the server behind it.
struct EnvoyProxy {
    config: String,
    /// The port of Tidegate, below the ports of outgoing connections.
    grpc: String,
    tidegate: Option<Program>,
    envoy: Envoy,
    client: Client,
    /// The number of requests that have passed.
    passed: Arc<AtomicUsize>,
}

impl EnvoyProxy {
    async fn start(name: &str) -> Self {
        EnvoyProxy::start_with(name, &[]).await
    }

    /// Starts with additional arguments.
    async fn start_with(name: &str, more: &[&str]) -> Self {
        let config = write_file(&format!("proxy-{name}.yaml"), RULES);
        let port = free_port().expect("a port");
        let grpc = format!("127.0.0.1:{port}");
        let tidegate = Some(Program::start(&[&["--config", &config, "--grpc", &grpc], more].concat()));
        let passed = Arc::new(AtomicUsize::new(0));
        let behind = start_upstream(Arc::clone(&passed)).await;
        let program = required_env("TIDEGATE_ENVOY");
        let envoy = Envoy::start(Path::new(&program), |listen| envoy_config(listen, port, behind)).expect("Envoy");
        EnvoyProxy { config, grpc, tidegate, envoy, client: Client::new(), passed }
    }

    async fn get(&self, header: &str, value: &str) -> Response {
        let request = self.client.get(self.envoy.url()).header(header, value);
        request.send().await.unwrap_or_else(|error| panic!("{error}: {}", self.envoy.log()))
    }

    /// Returns the status of the answer to a request of that user.
    async fn get_as_user(&self, name: &str) -> u16 {
        self.get("x-user", name).await.status().as_u16()
    }
}

/// Starts an upstream that echoes requests, and returns its port.
async fn start_upstream(passed: Arc<AtomicUsize>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let router = Router::new().fallback(async move || {
        passed.fetch_add(1, Ordering::Relaxed);
        "hello"
    });
    tokio::spawn(async move { axum::serve(listener, router).await });
    port
}

/// The failure mode is Envoy's default, to admit without a response. The timeout is longer, for busy machines.
fn envoy_config(listen: u16, tidegate: u16, behind: u16) -> String {
    let cluster = |name: &str, port: u16, more: &str| {
        format!(
            "
  - name: {name}
    connect_timeout: 10s
    load_assignment:
      cluster_name: {name}
      endpoints:
      - lb_endpoints:
        - endpoint: {{address: {{socket_address: {{address: 127.0.0.1, port_value: {port}}}}}}}{more}"
        )
    };
    let http2 = "
    typed_extension_protocol_options:
      envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
        '@type': type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
        explicit_http_config: {http2_protocol_options: {}}";
    let clusters = cluster("behind", behind, "") + &cluster("tidegate", tidegate, http2);
    format!(
        "
static_resources:
  listeners:
  - address: {{socket_address: {{address: 127.0.0.1, port_value: {listen}}}}}
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          '@type': type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: edge
          route_config:
            virtual_hosts:
            - name: all
              domains: ['*']
              routes:
              - match: {{prefix: /}}
                route:
                  cluster: behind
                  rate_limits:
                  - actions: [{{request_headers: {{header_name: x-user, descriptor_key: user}}}}]
                  - actions: [{{request_headers: {{header_name: x-watched, descriptor_key: watched}}}}]
          http_filters:
          - name: envoy.filters.http.ratelimit
            typed_config:
              '@type': type.googleapis.com/envoy.extensions.filters.http.ratelimit.v3.RateLimit
              domain: edge
              timeout: 20s
              enable_x_ratelimit_headers: DRAFT_VERSION_03
              rate_limit_service:
                transport_api_version: V3
                grpc_service: {{envoy_grpc: {{cluster_name: tidegate}}}}
          - name: envoy.filters.http.router
            typed_config:
              '@type': type.googleapis.com/envoy.extensions.filters.http.router.v3.Router
  clusters:{clusters}
"
    )
}

#[tokio::test]
async fn exactly_the_quota_passes() {
    let edge = EnvoyProxy::start("exactly").await;
    // All at once: they share one quota.
    let mut statuses = join_all((0..20).map(|_| edge.get_as_user("bob"))).await;
    statuses.sort_unstable();
    assert_eq!(statuses, [[200; 7].as_slice(), &[429; 13]].concat());
    assert_eq!(edge.passed.load(Ordering::Relaxed), 7);
    // Another client has its own quota, and a request without a rule has none.
    assert_eq!(edge.get_as_user("carl").await, 200);
    for _ in 0..10 {
        assert_eq!(edge.get("x-nobody", "x").await.status(), 200);
    }
}

#[tokio::test]
async fn clients_get_rate_limit_headers() {
    let edge = EnvoyProxy::start("headers").await;
    for (status, left, limited) in [(200, "2", None), (200, "1", None), (200, "0", None), (429, "0", Some("true"))] {
        let answer = edge.get("x-user", "ann").await;
        let header = |name: &str| answer.headers().get(name).map(|value| value.to_str().expect("text"));
        assert_eq!(answer.status(), status);
        assert_eq!(header("x-ratelimit-limit"), Some("3, 3;w=31536000"));
        assert_eq!(header("x-ratelimit-remaining"), Some(left));
        let reset = header("x-ratelimit-reset").and_then(|reset| reset.parse::<u32>().ok());
        assert!(reset.is_some_and(|reset| (1..=31_536_000).contains(&reset)), "{reset:?}");
        assert_eq!(header("x-envoy-ratelimited"), limited);
    }
}

/// Envoy passes on client input byte for byte, and admits a request without a response.
#[tokio::test]
async fn a_header_that_is_not_utf8_does_not_bypass_the_rule() {
    // With traces, every call goes through the router. A collector is not needed.
    for (name, more) in [("bytes", [].as_slice()), ("traced", &["--otlp", "http://127.0.0.1:9"])] {
        let edge = EnvoyProxy::start_with(name, more).await;
        let user = HeaderValue::from_bytes(b"jos\xe9").expect("a header may have that");
        let mut statuses = Vec::new();
        for _ in 0..9 {
            let request = edge.client.get(edge.envoy.url()).header("x-user", user.clone());
            statuses.push(request.send().await.expect("an answer").status().as_u16());
        }
        assert_eq!(statuses, [[200; 7].as_slice(), &[429; 2]].concat(), "{name}");
    }
}

#[tokio::test]
async fn shadow_mode_admits() {
    let edge = EnvoyProxy::start("shadow").await;
    for _ in 0..5 {
        let answer = edge.get("x-watched", "x").await;
        assert_eq!(answer.status(), 200);
        assert_eq!(answer.headers()["x-ratelimit-remaining"], "0");
    }
    assert_eq!(edge.passed.load(Ordering::Relaxed), 5);
}

#[tokio::test]
async fn envoy_admits_everything_while_tidegate_is_down_and_limits_after_its_restart() {
    let mut edge = EnvoyProxy::start("outage").await;
    for status in [200, 200, 200, 429] {
        assert_eq!(edge.get_as_user("ann").await, status);
    }
    let tidegate = edge.tidegate.take().expect("it runs");
    tidegate.signal("KILL");
    assert!(!tidegate.wait_for_exit().0.success());
    for _ in 0..10 {
        assert_eq!(edge.get_as_user("ann").await, 200);
    }
    edge.tidegate = Some(Program::start(&["--config", &edge.config, "--grpc", &edge.grpc]));
    for status in [200, 200, 200, 429] {
        assert_eq!(edge.get_as_user("ann").await, status);
    }
}
