//! Exports traces and metrics to an OpenTelemetry collector over gRPC.
//!
//! Separate threads export them, so that a slow or missing collector costs spans and never a decision.

mod exporter;
mod metrics;
mod spans;

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use axum::Router;
use opentelemetry::trace::TracerProvider;
use opentelemetry::{Key, KeyValue};
use opentelemetry_otlp::{ExporterBuildError, MetricExporter, SpanExporter, WithExportConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::metrics::{SdkMeterProvider, Temporality};
use opentelemetry_sdk::trace::SdkTracerProvider;
use tokio::sync::oneshot;
use tokio::time::timeout;
use tracing::warn;

use tracing_subscriber::{Layer, Registry};

use crate::Failure;
use crate::app::App;
use crate::cli::Serve;
use exporter::LoggedExporter;

/// A layer that makes traces of spans. It has a filter of its own.
pub(crate) type TraceLayer = Box<dyn Layer<Registry> + Send + Sync>;

/// The export of traces and metrics, if `--otlp` is set.
pub(crate) struct Telemetry(Option<Providers>);

struct Providers {
    traces: SdkTracerProvider,
    metrics: SdkMeterProvider,
}

impl Telemetry {
    /// Starts the export if `--otlp` is set, within a runtime. The collector may start later.
    pub(crate) fn start(serve: &Serve) -> Result<Self, Failure> {
        let providers = serve.otlp.as_deref().map(Providers::connect).transpose();
        providers.map(Telemetry).map_err(|error| Failure::Start(format!("--otlp: {error}")))
    }

    /// Returns the layer that makes traces of spans.
    pub(crate) fn trace_layer(&self) -> Option<TraceLayer> {
        self.0.as_ref().map(|providers| spans::layer(providers.traces.tracer(env!("CARGO_PKG_NAME"))))
    }

    /// Exports the statistics of the app as metrics.
    pub(crate) fn observe(&self, app: &Arc<App>) {
        if let Some(providers) = &self.0 {
            metrics::observe(&providers.metrics, app);
        }
    }

    /// Whether every request gets a span.
    pub(crate) fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Puts a span around every request of a router.
    pub(crate) fn instrument(&self, router: Router) -> Router {
        if self.is_on() { spans::instrument(router) } else { router }
    }

    /// Exports the rest, as far as the time allows.
    pub(crate) async fn shutdown(self, within: Duration) {
        let Some(Providers { traces, metrics }) = self.0 else { return };
        // On threads outside of the runtime, whose shutdown would wait for them. Both run concurrently.
        let ended = [
            run_on_thread(move || traces.shutdown_with_timeout(within).is_ok()),
            run_on_thread(move || metrics.shutdown_with_timeout(within).is_ok()),
        ];
        let all = timeout(within, async {
            let mut all = true;
            for one in ended {
                all &= one.await.unwrap_or(false);
            }
            all
        });
        if !all.await.unwrap_or(false) {
            warn!("the last traces and metrics did not reach the collector");
        }
    }
}

impl Providers {
    fn connect(url: &str) -> Result<Self, ExporterBuildError> {
        let resource = resource();
        let spans = SpanExporter::builder().with_tonic().with_endpoint(url).build()?;
        let traces = SdkTracerProvider::builder().with_resource(resource.clone());
        let traces = traces.with_batch_exporter(LoggedExporter::new(spans, "traces")).build();
        let counts = MetricExporter::builder().with_tonic().with_endpoint(url);
        // Regardless of environment variables: a lost export of cumulative counts loses nothing.
        let counts = counts.with_temporality(Temporality::Cumulative).build()?;
        let metrics = metrics::provider(LoggedExporter::new(counts, "metrics"), resource);
        Ok(Providers { traces, metrics })
    }
}

/// The resource: service `tidegate`, unless OpenTelemetry's environment variables name it.
fn resource() -> Resource {
    let version = KeyValue::new("service.version", env!("CARGO_PKG_VERSION"));
    let found = Resource::builder().build();
    let name = found.get(&Key::from_static_str("service.name"));
    let builder = Resource::builder().with_attribute(version);
    match name {
        Some(name) if !name.as_str().starts_with("unknown_service") => builder.build(),
        _ => builder.with_service_name("tidegate").build(),
    }
}

/// Runs a blocking shutdown on a thread of its own.
fn run_on_thread(work: impl FnOnce() -> bool + Send + 'static) -> oneshot::Receiver<bool> {
    let (done, ended) = oneshot::channel();
    thread::spawn(move || {
        // The receiver may have timed out.
        let _ = done.send(work());
    });
    ended
}
