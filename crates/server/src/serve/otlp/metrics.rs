//! What is counted at the gate, read whenever metrics are sent.

use std::sync::Arc;

use opentelemetry::KeyValue;
use opentelemetry::metrics::{Meter, MeterProvider};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::metrics::exporter::PushMetricExporter;
use opentelemetry_sdk::metrics::{Instrument, SdkMeterProvider, Stream};
use tidegate::MemoryStats;

use crate::serve::gate::Gate;

const DECISIONS: &str = "tidegate.decisions";

/// How many rows the decisions may have: a limit has two to begin with, and the config says how many limits there are.
/// Without this, what is beyond the first 2,000 is thrown together.
const ROWS: usize = 20_000;

/// Sends metrics now and then, on a thread of its own.
pub(super) fn provider(exporter: impl PushMetricExporter, resource: Resource) -> SdkMeterProvider {
    let rows = |instrument: &Instrument| {
        let stream = (instrument.name() == DECISIONS).then(|| Stream::builder().with_cardinality_limit(ROWS).build());
        stream.and_then(Result::ok)
    };
    SdkMeterProvider::builder().with_resource(resource).with_periodic_exporter(exporter).with_view(rows).build()
}

/// Has everything that is counted at the gate sent. The names are those of `/metrics`, as OpenTelemetry writes them.
pub(super) fn observe(provider: &SdkMeterProvider, gate: &Arc<Gate>) {
    let meter = provider.meter(env!("CARGO_PKG_NAME"));
    decisions(&meter, Arc::clone(gate));
    if gate.backing.memory().is_some() {
        let held = |name, unit, description, read| memory(&meter, name, unit, description, Arc::clone(gate), read);
        held("tidegate.memory.keys", "{key}", "Keys in the memory store.", |stats| stats.keys as u64);
        held("tidegate.memory.bytes", "By", "Bytes that the memory store takes.", |stats| stats.bytes as u64);
    } else {
        store(&meter, gate);
    }
}

fn decisions(meter: &Meter, gate: Arc<Gate>) {
    let counter = meter.u64_observable_counter(DECISIONS).with_unit("{request}");
    let counter = counter.with_description("Requests to take, by limit and what became of them.");
    let counter = counter.with_callback(move |observer| {
        for account in gate.watch.accounts() {
            for (outcome, reason, count) in account.tally.counts().each_to_tell() {
                let mut attributes = vec![KeyValue::new("limit", account.name.clone())];
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
    gate: Arc<Gate>,
    read: fn(MemoryStats) -> u64,
) {
    let gauge = meter.u64_observable_gauge(name).with_unit(unit).with_description(description);
    let gauge = gauge.with_callback(move |observer| {
        if let Some(stats) = gate.backing.memory() {
            observer.observe(read(stats), &[]);
        }
    });
    gauge.build();
}

/// What there is to say about a store outside.
fn store(meter: &Meter, gate: &Arc<Gate>) {
    let name = [KeyValue::new("store", gate.backing.name())];
    let (of, attributes) = (Arc::clone(gate), name.clone());
    let errors = meter.u64_observable_counter("tidegate.store.errors").with_unit("{request}");
    let errors = errors.with_description("Requests the store could not answer.");
    let errors = errors.with_callback(move |observer| {
        if let Some(calls) = of.backing.calls() {
            observer.observe(calls.errors(), &attributes);
        }
    });
    errors.build();
    let (of, attributes) = (Arc::clone(gate), name);
    let breaker = meter.u64_observable_gauge("tidegate.breaker.state");
    let breaker = breaker.with_description("The circuit breaker: 0 is closed, 1 half open, 2 open.");
    let breaker = breaker.with_callback(move |observer| {
        if let Some(state) = of.backing.breaker() {
            observer.observe(state as u64, &attributes);
        }
    });
    breaker.build();
}
