//! A collector, and the log told when it is gone and when it is back.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::metrics::Temporality;
use opentelemetry_sdk::metrics::data::ResourceMetrics;
use opentelemetry_sdk::metrics::exporter::PushMetricExporter;
use opentelemetry_sdk::trace::{SpanData, SpanExporter};
use tracing::{info, warn};

/// An exporter of which the log says when it begins to fail and when it works again, and not each time it does.
#[derive(Debug)]
pub(super) struct Collector<E> {
    exporter: E,
    what: &'static str,
    failing: AtomicBool,
}

impl<E> Collector<E> {
    pub(super) fn new(exporter: E, what: &'static str) -> Self {
        Collector { exporter, what, failing: AtomicBool::new(false) }
    }

    fn told(&self, result: OTelSdkResult) -> OTelSdkResult {
        let before = self.failing.swap(result.is_err(), Ordering::Relaxed);
        match &result {
            Err(error) if !before => warn!(%error, "the collector takes no {} for now", self.what),
            Ok(()) if before => info!("the collector takes {} again", self.what),
            _ => {}
        }
        result
    }
}

impl<E: SpanExporter> SpanExporter for Collector<E> {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        self.told(self.exporter.export(batch).await)
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.exporter.shutdown_with_timeout(timeout)
    }

    fn shutdown(&self) -> OTelSdkResult {
        self.exporter.shutdown()
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.exporter.force_flush()
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.exporter.set_resource(resource);
    }
}

impl<E: PushMetricExporter> PushMetricExporter for Collector<E> {
    async fn export(&self, metrics: &ResourceMetrics) -> OTelSdkResult {
        self.told(self.exporter.export(metrics).await)
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.exporter.force_flush()
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.exporter.shutdown_with_timeout(timeout)
    }

    fn shutdown(&self) -> OTelSdkResult {
        self.exporter.shutdown()
    }

    fn temporality(&self) -> Temporality {
        self.exporter.temporality()
    }
}
