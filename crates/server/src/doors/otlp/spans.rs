//! Spans around every HTTP and gRPC request, in addition to the library's spans around store calls.

use axum::Router;
use axum::extract::{MatchedPath, Request};
use axum::middleware::{Next, from_fn};
use axum::response::Response;
use http::{HeaderMap, Method};
use opentelemetry::Context;
use opentelemetry::propagation::{Extractor, TextMapPropagator};
use opentelemetry::trace::TraceContextExt;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::SdkTracer;
use tonic::{Code, Status};
use tracing::field::Empty;
use tracing::{Instrument, Metadata, Span, debug_span};
use tracing_opentelemetry::OpenTelemetrySpanExt;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::{LevelFilter, filter_fn};

use super::TraceLayer;

/// The end of a gRPC service's route.
const ANY_METHOD: &str = "/{*rest}";

/// Makes traces of our spans only. Log events may contain keys, and other crates' spans include those of the connection to the
/// collector.
pub(super) fn layer(tracer: SdkTracer) -> TraceLayer {
    let ours = |about: &Metadata<'_>| about.is_span() && about.target().starts_with("tidegate");
    let layer = tracing_opentelemetry::layer().with_tracer(tracer);
    let layer = layer.with_location(false).with_threads(false).with_target(false).with_tracked_inactivity(false);
    layer.with_filter(filter_fn(ours).with_max_level_hint(LevelFilter::DEBUG)).boxed()
}

/// Puts a span around every request of a router.
pub(super) fn instrument(router: Router) -> Router {
    router.layer(from_fn(async |request: Request, next: Next| {
        let span = span(&request);
        let answer = next.run(request).instrument(span.clone()).await;
        record(&span, &answer);
        answer
    }))
}

/// Creates the span of a request. It has the route and never the path or the query, which may contain keys.
fn span(request: &Request) -> Span {
    let span = debug_span!(
        "request",
        otel.name = Empty,
        otel.kind = "server",
        otel.status_code = Empty,
        http.request.method = method(request.method()),
        http.response.status_code = Empty,
        http.route = Empty,
        rpc.system = Empty,
        rpc.service = Empty,
        rpc.grpc.status_code = Empty,
    );
    let name = method(request.method());
    match request.extensions().get::<MatchedPath>().map(MatchedPath::as_str) {
        None => span.record("otel.name", name),
        Some(route) => match route.strip_suffix(ANY_METHOD) {
            Some(service) => {
                let service = service.trim_start_matches('/');
                span.record("otel.name", service).record("rpc.system", "grpc").record("rpc.service", service)
            }
            None => span.record("otel.name", format!("{name} {route}")).record("http.route", route),
        },
    };
    let parent = TraceContextPropagator::new().extract_with_context(&Context::new(), &TraceHeaders(request.headers()));
    if parent.span().span_context().is_valid() {
        // It fails without a trace layer, and then there is no trace to join.
        let _ = span.set_parent(parent);
    }
    span
}

fn record(span: &Span, answer: &Response) {
    span.record("http.response.status_code", answer.status().as_u16());
    // A gRPC error has HTTP status 200 and a header. A successful call has its status in the trailers.
    let refused = Status::from_header_map(answer.headers()).map(|status| status.code());
    if let Some(code) = refused {
        span.record("rpc.grpc.status_code", code as i64);
    }
    if answer.status().is_server_error() || refused.is_some_and(is_server_error_code) {
        span.record("otel.status_code", "ERROR");
    }
}

/// Whether a status is an error of the server and not of the client, by the conventions of OpenTelemetry.
fn is_server_error_code(code: Code) -> bool {
    use Code::{DataLoss, DeadlineExceeded, Internal, Unavailable, Unimplemented, Unknown};
    matches!(code, Unknown | DeadlineExceeded | Unimplemented | Internal | Unavailable | DataLoss)
}

/// Returns the name of a common method; clients can invent others without bound.
fn method(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::PATCH => "PATCH",
        Method::DELETE => "DELETE",
        Method::OPTIONS => "OPTIONS",
        _ => "_OTHER",
    }
}

/// The trace context in request headers.
struct TraceHeaders<'a>(&'a HeaderMap);

impl Extractor for TraceHeaders<'_> {
    fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).and_then(|value| value.to_str().ok())
    }

    fn keys(&self) -> Vec<&str> {
        self.0.keys().map(http::HeaderName::as_str).collect()
    }
}
