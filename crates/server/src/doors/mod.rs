//! Doors: the network protocols of the server (HTTP, gRPC, Redis, OTLP), all over one `App`.

mod access;
pub(crate) mod envoy;
pub(crate) mod grpc;
pub(crate) mod http;
#[cfg(feature = "otlp")]
pub(crate) mod otlp;
pub(crate) mod resp;

pub(crate) use access::{Access, AllowedHosts, HostName};

/// Without the feature `otlp` there is no telemetry to export.
#[cfg(not(feature = "otlp"))]
pub(crate) mod otlp {
    use std::sync::Arc;
    use std::time::Duration;

    use axum::Router;
    use tracing_subscriber::{Layer, Registry};

    use crate::Failure;
    use crate::app::App;
    use crate::cli::Serve;

    /// A layer that makes traces of spans.
    pub(crate) type TraceLayer = Box<dyn Layer<Registry> + Send + Sync>;

    /// No exporter.
    pub(crate) struct Telemetry;

    impl Telemetry {
        pub(crate) fn start(_serve: &Serve) -> Result<Self, Failure> {
            Ok(Telemetry)
        }

        pub(crate) fn trace_layer(&self) -> Option<TraceLayer> {
            None
        }

        pub(crate) fn observe(&self, _app: &Arc<App>) {}

        pub(crate) fn is_on(&self) -> bool {
            false
        }

        pub(crate) fn instrument(&self, router: Router) -> Router {
            router
        }

        pub(crate) async fn shutdown(self, _within: Duration) {}
    }
}
