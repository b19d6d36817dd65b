//! `GET /metrics` for Prometheus: the library's metrics, and those of the app, which are read on demand.

use std::sync::Arc;

use axum::extract::State;
use axum::response::IntoResponse;
use http::header::CONTENT_TYPE;
use metrics::{Label, Unit, counter, describe_counter, describe_gauge, gauge};
use tidegate::Timestamp;
use tidegate::concurrency::Completion;

use crate::app::App;
use crate::app::stats::recorder;

const DECISIONS: &str = "tidegate_decisions_total";
const RELEASES: &str = "tidegate_releases_total";
const SKIPPED: &str = "tidegate_top_keys_skipped_total";
const KEYS: &str = "tidegate_memory_keys";
const BYTES: &str = "tidegate_memory_bytes";
const FORGOTTEN: &str = "tidegate_memory_forgotten_busy_total";
const RELOADS: &str = "tidegate_config_reloads_total";
const RELOAD_OK: &str = "tidegate_config_reload_ok";
const LOADED: &str = "tidegate_config_loaded_timestamp_seconds";
const LIMITS: &str = "tidegate_limits";
const BUILD: &str = "tidegate_build_info";
const START: &str = "tidegate_start_time_seconds";
const UPTIME: &str = "tidegate_uptime_seconds";

/// Tells the recorder what the app's metrics mean.
pub(super) fn describe() {
    describe_counter!(DECISIONS, "Requests to take, by limit and outcome.");
    describe_counter!(RELEASES, "Leases that were released, by limit and outcome of the work.");
    describe_counter!(SKIPPED, "Denials that the list of top keys missed, by limit.");
    describe_gauge!(KEYS, Unit::Count, "Keys in the memory store.");
    describe_gauge!(BYTES, Unit::Bytes, "Bytes that the memory store takes.");
    describe_counter!(FORGOTTEN, "Busy keys that the memory store evicted for lack of room: each got its quota back.");
    describe_counter!(RELOADS, "Config reloads, by result.");
    describe_gauge!(RELOAD_OK, "Whether the config that was read last is active: 1, or 0 if it was wrong.");
    describe_gauge!(LOADED, Unit::Seconds, "When the active config was read, in Unix time.");
    describe_gauge!(LIMITS, Unit::Count, "Limits that are served.");
    describe_gauge!(BUILD, "Always 1; the version is a label.");
    describe_gauge!(START, Unit::Seconds, "When the server started, in Unix time.");
    describe_gauge!(UPTIME, Unit::Seconds, "How long the server has been running.");
}

/// `GET /metrics`.
pub(super) async fn page(State(app): State<Arc<App>>) -> impl IntoResponse {
    export(&app);
    ([(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], recorder::handle().render())
}

/// Counts a lease that was released.
pub(super) fn record_release(limit: &str, completion: Completion) {
    counter!(RELEASES, "limit" => limit.to_owned(), "outcome" => completion.as_str()).increment(1);
}

/// Exports the app's statistics. They are the one source of decisions, so that each counts once, whichever store answered
/// and whether one was called at all.
fn export(app: &App) {
    let stats = &app.stats;
    for limit in stats.all_limits() {
        for (outcome, reason, count) in limit.counts.total().iter_exported() {
            let mut labels = vec![Label::new("limit", limit.name.clone())];
            labels.push(Label::from_static_parts("outcome", outcome));
            labels.extend(reason.map(|reason| Label::from_static_parts("reason", reason)));
            counter!(DECISIONS, labels).absolute(count);
        }
        if limit.top_keys.skipped() > 0 {
            counter!(SKIPPED, "limit" => limit.name.clone()).absolute(limit.top_keys.skipped());
        }
    }
    if let Some(memory) = app.store.memory() {
        gauge!(KEYS).set(memory.keys as f64);
        gauge!(BYTES).set(memory.bytes as f64);
        counter!(FORGOTTEN).absolute(memory.forgotten_busy);
    }
    counter!(RELOADS, "result" => "ok").absolute(stats.reloads.succeeded());
    counter!(RELOADS, "result" => "failed").absolute(stats.reloads.failed());
    gauge!(RELOAD_OK).set(if stats.reloads.errors().is_none() { 1.0 } else { 0.0 });
    gauge!(LOADED).set(unix_seconds(stats.reloads.active_since()));
    gauge!(LIMITS).set(app.config.load().limit_count as f64);
    gauge!(BUILD, "version" => env!("CARGO_PKG_VERSION"), "store" => app.store.name()).set(1.0);
    gauge!(START).set(unix_seconds(stats.started));
    gauge!(UPTIME).set(stats.uptime().as_secs_f64());
}

fn unix_seconds(at: Timestamp) -> f64 {
    at.as_micros() as f64 / 1e6
}
