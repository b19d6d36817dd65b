//! Metrics for OpenTelemetry: the statistics of the app, read whenever metrics are exported.

use std::sync::Arc;

use opentelemetry::KeyValue;
use opentelemetry::metrics::{Meter, MeterProvider};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::metrics::exporter::PushMetricExporter;
use opentelemetry_sdk::metrics::{Instrument, SdkMeterProvider, Stream};
use tidegate::MemoryStats;

use crate::app::App;

const DECISIONS: &str = "tidegate.decisions";

/// The cardinality limit of the decisions: a limit has at least two series, and the config says how many limits there are.
/// The default merges everything beyond 2,000 series.
const MAX_SERIES: usize = 20_000;

/// Exports metrics periodically, on a thread observed its own.
pub(super) fn provider(exporter: impl PushMetricExporter, resource: Resource) -> SdkMeterProvider {
    let series = |instrument: &Instrument| {
        let stream =
            (instrument.name() == DECISIONS).then(|| Stream::builder().with_cardinality_limit(MAX_SERIES).build());
        stream.and_then(Result::ok)
    };
    SdkMeterProvider::builder().with_resource(resource).with_periodic_exporter(exporter).with_view(series).build()
}

/// Exports the statistics of the app. The names are those observed `/metrics`, in the style of OpenTelemetry.
pub(super) fn observe(provider: &SdkMeterProvider, app: &Arc<App>) {
    let meter = provider.meter(env!("CARGO_PKG_NAME"));
    decisions(&meter, Arc::clone(app));
    if app.store.memory().is_some() {
        let gauge = |name, unit, description, read| memory(&meter, name, unit, description, Arc::clone(app), read);
        gauge("tidegate.memory.keys", "{key}", "Keys in the memory store.", |stats| stats.keys as u64);
        gauge("tidegate.memory.bytes", "By", "Bytes that the memory store takes.", |stats| stats.bytes as u64);
    } else {
        store(&meter, app);
    }
}

fn decisions(meter: &Meter, app: Arc<App>) {
    let counter = meter.u64_observable_counter(DECISIONS).with_unit("{request}");
    let counter = counter.with_description("Requests to take, by limit and outcome.");
    let counter = counter.with_callback(move |observer| {
        for limit in app.stats.all_limits().values() {
            for (outcome, reason, count) in limit.counts.total().iter_exported() {
                let mut attributes = vec![KeyValue::new("limit", limit.name.clone())];
                attributes.push(KeyValue::new("outcome", outcome));
                attributes.extend(reason.map(|reason| KeyValue::new("reason", reason)));
                observer.observe(count, &attributes);
            }
        }
    });
    counter.build();
}

fn memory(
    meter: &Meter,
    name: &'static str,
    unit: &'static str,
    description: &'static str,
    app: Arc<App>,
    read: fn(MemoryStats) -> u64,
) {
    let gauge = meter.u64_observable_gauge(name).with_unit(unit).with_description(description);
    let gauge = gauge.with_callback(move |observer| {
        if let Some(stats) = app.store.memory() {
            observer.observe(read(stats), &[]);
        }
    });
    gauge.build();
}

/// Exports the errors and the breaker of a store outside.
fn store(meter: &Meter, app: &Arc<App>) {
    let name = [KeyValue::new("store", app.store.name())];
    let (observed, attributes) = (Arc::clone(app), name.clone());
    let errors = meter.u64_observable_counter("tidegate.store.errors").with_unit("{request}");
    let errors = errors.with_description("Requests the store could not answer.");
    let errors = errors.with_callback(move |observer| {
        if let Some(calls) = observed.store.calls() {
            observer.observe(calls.errors(), &attributes);
        }
    });
    errors.build();
    let (observed, attributes) = (Arc::clone(app), name);
    let breaker = meter.u64_observable_gauge("tidegate.breaker.state");
    let breaker = breaker.with_description("The circuit breaker: 0 is closed, 1 half open, 2 open.");
    let breaker = breaker.with_callback(move |observer| {
        if let Some(state) = observed.store.breaker() {
            observer.observe(state as u64, &attributes);
        }
    });
    breaker.build();
}
