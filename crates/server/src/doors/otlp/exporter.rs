//! An exporter that logs when the collector fails and when it works again.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::metrics::Temporality;
use opentelemetry_sdk::metrics::data::ResourceMetrics;
use opentelemetry_sdk::metrics::exporter::PushMetricExporter;
use opentelemetry_sdk::trace::{SpanData, SpanExporter};
use tracing::{info, warn};

/// An exporter that logs its first failure and its recovery, and nothing in between.
#[derive(Debug)]
pub(super) struct LoggedExporter<E> {
    exporter: E,
    signal: &'static str,
    failing: AtomicBool,
}

impl<E> LoggedExporter<E> {
    pub(super) fn new(exporter: E, signal: &'static str) -> Self {
        LoggedExporter { exporter, signal, failing: AtomicBool::new(false) }
    }

    fn log_change(&self, result: OTelSdkResult) -> OTelSdkResult {
        let before = self.failing.swap(result.is_err(), Ordering::Relaxed);
        match &result {
            Err(error) if !before => warn!(%error, "the collector takes no {} for now", self.signal),
            Ok(()) if before => info!("the collector takes {} again", self.signal),
            _ => {}
        }
        result
    }
}

impl<E: SpanExporter> SpanExporter for LoggedExporter<E> {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        self.log_change(self.exporter.export(batch).await)
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

impl<E: PushMetricExporter> PushMetricExporter for LoggedExporter<E> {
    async fn export(&self, metrics: &ResourceMetrics) -> OTelSdkResult {
        self.log_change(self.exporter.export(metrics).await)
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
