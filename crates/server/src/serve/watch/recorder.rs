//! Where metrics are recorded: those of the library as they happen, those of the program when somebody looks.

use std::sync::OnceLock;

use metrics::{Label, Unit, counter, describe_counter, describe_gauge, gauge};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use tidegate::Timestamp;
use tidegate::concurrency::Work;

use crate::serve::gate::Gate;

const DECISIONS: &str = "tidegate_decisions_total";
const RELEASES: &str = "tidegate_releases_total";
const SKIPPED: &str = "tidegate_top_keys_skipped_total";
const KEYS: &str = "tidegate_memory_keys";
const BYTES: &str = "tidegate_memory_bytes";
const FORGOTTEN: &str = "tidegate_memory_forgotten_busy_total";
const CONNECTIONS: &str = "tidegate_connections";
const RELOADS: &str = "tidegate_config_reloads_total";
const RELOAD_OK: &str = "tidegate_config_reload_ok";
const LOADED: &str = "tidegate_config_loaded_timestamp_seconds";
const LIMITS: &str = "tidegate_limits";
const BUILD: &str = "tidegate_build_info";
const START: &str = "tidegate_start_time_seconds";
const UPTIME: &str = "tidegate_uptime_seconds";

/// From a tenth of a millisecond, which is a store beside us, to a second, which is far beyond any timeout.
const BUCKETS: [f64; 13] = [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0];

/// The recorder of this process. Whatever records begins with the first call, so that has to come before a store is made.
pub(crate) fn handle() -> &'static PrometheusHandle {
    static HANDLE: OnceLock<PrometheusHandle> = OnceLock::new();
    HANDLE.get_or_init(|| {
        let store = Matcher::Full("tidegate_store_seconds".to_owned());
        let builder = PrometheusBuilder::new().set_buckets_for_metric(store, &BUCKETS).expect("there are buckets");
        let handle = builder.install_recorder().expect("nobody else records in this process");
        describe();
        handle
    })
}

/// The gauge of a port's connections.
pub(crate) fn connections(port: &'static str) -> metrics::Gauge {
    gauge!(CONNECTIONS, "port" => port)
}

/// A place of a limit was given back after work that ended like this.
pub(crate) fn released(limit: &str, work: Work) {
    counter!(RELEASES, "limit" => limit.to_owned(), "outcome" => work.as_str()).increment(1);
}

/// All metrics as they are now, in the text format of Prometheus.
pub(crate) fn render(gate: &Gate) -> String {
    record(gate);
    handle().render()
}

fn describe() {
    describe_counter!(RELEASES, "Places that were given back, by limit and how the work ended.");
    describe_counter!(SKIPPED, "Denials that the list of top keys missed, by limit.");
    describe_gauge!(KEYS, Unit::Count, "Keys in the memory store.");
    describe_gauge!(BYTES, Unit::Bytes, "Bytes that the memory store takes.");
    describe_counter!(FORGOTTEN, "Busy keys that the memory store forgot for want of room: each got its quota back.");
    describe_gauge!(CONNECTIONS, Unit::Count, "Open connections, by port.");
    describe_counter!(RELOADS, "How often the config was read again, by result.");
    describe_gauge!(RELOAD_OK, "Whether the config that was read last is served: 1, or 0 when it was wrong.");
    describe_gauge!(LOADED, Unit::Seconds, "When the config was read that is served, in Unix time.");
    describe_gauge!(LIMITS, Unit::Count, "Limits that are served.");
    describe_gauge!(BUILD, "Always 1; the version is a label.");
    describe_gauge!(START, Unit::Seconds, "When the server started, in Unix time.");
    describe_gauge!(UPTIME, Unit::Seconds, "How long the server has been running.");
    describe_counter!(DECISIONS, "Requests to take, by limit and what became of them.");
}

/// Records what is only counted elsewhere. The tallies are the one source of decisions, so that each is counted once,
/// whichever store answered it and whether one was asked at all.
fn record(gate: &Gate) {
    let watch = &gate.watch;
    for account in watch.accounts() {
        for (outcome, reason, count) in account.tally.counts().each_to_tell() {
            let mut labels = vec![Label::new("limit", account.name.clone())];
            labels.push(Label::from_static_parts("outcome", outcome));
            labels.extend(reason.map(|reason| Label::from_static_parts("reason", reason)));
            counter!(DECISIONS, labels).absolute(count);
        }
        if account.top.skipped() > 0 {
            counter!(SKIPPED, "limit" => account.name.clone()).absolute(account.top.skipped());
        }
    }
    if let Some(memory) = gate.backing.memory() {
        gauge!(KEYS).set(memory.keys as f64);
        gauge!(BYTES).set(memory.bytes as f64);
        counter!(FORGOTTEN).absolute(memory.forgotten_busy);
    }
    counter!(RELOADS, "result" => "ok").absolute(watch.reloads.served());
    counter!(RELOADS, "result" => "failed").absolute(watch.reloads.refused());
    gauge!(RELOAD_OK).set(if watch.reloads.wrong().is_none() { 1.0 } else { 0.0 });
    gauge!(LOADED).set(seconds(watch.reloads.since()));
    gauge!(LIMITS).set(gate.served.load().count as f64);
    gauge!(BUILD, "version" => env!("CARGO_PKG_VERSION"), "store" => gate.backing.name()).set(1.0);
    gauge!(START).set(seconds(watch.started));
    gauge!(UPTIME).set(watch.uptime().as_secs_f64());
}

fn seconds(at: Timestamp) -> f64 {
    at.as_micros() as f64 / 1e6
}
