//! Traces and metrics for an OpenTelemetry collector, over gRPC. Threads of their own send them, so that a collector that is
//! slow or not there costs spans and never a decision.

mod collector;
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

use super::gate::Gate;
use super::log::Also;
use crate::cli::Serve;
use crate::failure::Failure;
use collector::Collector;

/// What is sent to a collector, when there is to be one.
pub(super) struct Telemetry(Option<Providers>);

struct Providers {
    traces: SdkTracerProvider,
    metrics: SdkMeterProvider,
}

impl Telemetry {
    /// Begins to send, where the arguments say so. The collector need not be there yet. Has to be called within the runtime.
    pub(super) fn start(serve: &Serve) -> Result<Self, Failure> {
        let providers = serve.otlp.as_deref().map(Providers::to).transpose();
        providers.map(Telemetry).map_err(|error| Failure::Start(format!("--otlp: {error}")))
    }

    /// Who makes traces of spans.
    pub(super) fn layer(&self) -> Option<Also> {
        self.0.as_ref().map(|providers| spans::layer(providers.traces.tracer(env!("CARGO_PKG_NAME"))))
    }

    /// Sends what is counted at the gate, too.
    pub(super) fn observe(&self, gate: &Arc<Gate>) {
        if let Some(providers) = &self.0 {
            metrics::observe(&providers.metrics, gate);
        }
    }

    /// Whether somebody wants to see every request.
    pub(super) fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// The same answers, each request with a span around it.
    pub(super) fn around(&self, router: Router) -> Router {
        if self.is_on() { spans::around(router) } else { router }
    }

    /// Sends what is left, as far as that can be done in time.
    pub(super) async fn end(self, within: Duration) {
        let Some(Providers { traces, metrics }) = self.0 else { return };
        // Not on threads of the runtime, which would wait for them when it ends. Both wait for the same time, at once.
        let ended = [
            ending(move || traces.shutdown_with_timeout(within).is_ok()),
            ending(move || metrics.shutdown_with_timeout(within).is_ok()),
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
    fn to(url: &str) -> Result<Self, ExporterBuildError> {
        let resource = resource();
        let spans = SpanExporter::builder().with_tonic().with_endpoint(url).build()?;
        let traces = SdkTracerProvider::builder().with_resource(resource.clone());
        let traces = traces.with_batch_exporter(Collector::new(spans, "traces")).build();
        let counts = MetricExporter::builder().with_tonic().with_endpoint(url);
        // Whatever a variable says: of running totals nothing is lost that did not arrive.
        let counts = counts.with_temporality(Temporality::Cumulative).build()?;
        let metrics = metrics::provider(Collector::new(counts, "metrics"), resource);
        Ok(Providers { traces, metrics })
    }
}

/// Who sends: `tidegate`, unless the variables of OpenTelemetry name it.
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

/// Does it on a thread of its own.
fn ending(work: impl FnOnce() -> bool + Send + 'static) -> oneshot::Receiver<bool> {
    let (done, ended) = oneshot::channel();
    thread::spawn(move || {
        // Whoever has stopped waiting does not want to know.
        let _ = done.send(work());
    });
    ended
}
