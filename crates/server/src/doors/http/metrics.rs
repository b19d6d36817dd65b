//! `GET /metrics` for Prometheus: the library's metrics, and those of the app, which are read on demand.

use std::mem;
use std::sync::Arc;

use http::header::{CONTENT_TYPE, HeaderName};
use metrics::{Unit, counter, describe_counter, describe_gauge, gauge};
use metrics_exporter_prometheus::formatting::sanitize_label_value;
use tidegate::Timestamp;
use tidegate::concurrency::Completion;

use super::pages::PageWriter;
use crate::app::App;
use crate::app::stats::recorder;

const DECISIONS: &str = "tidegate_decisions_total";
const RELEASES: &str = "tidegate_releases_total";
const SKIPPED: &str = "tidegate_top_keys_skipped_total";
const KEYS: &str = "tidegate_memory_keys";
const BYTES: &str = "tidegate_memory_bytes";
const RELOADS: &str = "tidegate_config_reloads_total";
const RELOAD_OK: &str = "tidegate_config_reload_ok";
const LOADED: &str = "tidegate_config_loaded_timestamp_seconds";
const LIMITS: &str = "tidegate_limits";
const BUILD: &str = "tidegate_build_info";
const START: &str = "tidegate_start_time_seconds";
const UPTIME: &str = "tidegate_uptime_seconds";

/// Describes the app's metrics to the recorder.
pub(super) fn describe() {
    describe_counter!(RELEASES, "Leases that were released, by limit and outcome of the work.");
    describe_gauge!(KEYS, Unit::Count, "Keys in the memory store.");
    describe_gauge!(BYTES, Unit::Bytes, "Bytes that the memory store takes.");
    describe_counter!(RELOADS, "Config reloads, by result.");
    describe_gauge!(RELOAD_OK, "Whether the config that was read last is active: 1, or 0 if it was wrong.");
    describe_gauge!(LOADED, Unit::Seconds, "When the active config was read, in Unix time.");
    describe_gauge!(LIMITS, Unit::Count, "Limits that are served.");
    describe_gauge!(BUILD, "Always 1; the version is a label.");
    describe_gauge!(START, Unit::Seconds, "When the server started, in Unix time.");
    describe_gauge!(UPTIME, Unit::Seconds, "How long the server has been running.");
}

/// The media type of the page.
pub(super) const HEADERS: [(HeaderName, &str); 1] = [(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")];

/// Renders the page of `GET /metrics`.
pub(super) async fn render(app: Arc<App>, (): (), mut page: PageWriter) -> PageWriter {
    export(&app);
    page.write(recorder::handle().render().as_bytes()).await;
    write_counts(&app, &mut page).await;
    page
}

/// Counts a lease that was released.
pub(super) fn record_release(limit: &str, completion: Completion) {
    counter!(RELEASES, "limit" => limit.to_owned(), "outcome" => completion.as_str()).increment(1);
}

/// Writes the counts of every limit. The recorder would take ten times as long, and keep a copy of each name.
///
/// They are the one source of decisions, so that each counts once, whichever store answered and whether one was called at all.
async fn write_counts(app: &App, page: &mut PageWriter) {
    let limits = app.stats.all_limits();
    page.write(&family(DECISIONS, "Requests to take, by limit and outcome.")).await;
    for limit in limits.values() {
        let (name, counts) = (sanitize_label_value(&limit.name), limit.counts.total());
        for (outcome, reason, count) in counts.iter_exported() {
            let reason = reason.map_or_else(String::new, |reason| format!(",reason=\"{reason}\""));
            let line = format!("{DECISIONS}{{limit=\"{name}\",outcome=\"{outcome}\"{reason}}} {count}\n");
            page.write(line.as_bytes()).await;
        }
    }
    let mut is_first = true;
    for limit in limits.values() {
        page.slice().pause_if_due().await;
        let skipped = limit.top_keys.skipped();
        if skipped > 0 {
            if mem::take(&mut is_first) {
                page.write(&family(SKIPPED, "Denials that the list of top keys missed, by limit.")).await;
            }
            let line = format!("{SKIPPED}{{limit=\"{}\"}} {skipped}\n", sanitize_label_value(&limit.name));
            page.write(line.as_bytes()).await;
        }
    }
}

/// Returns the lines before the counters of a name.
fn family(name: &str, help: &str) -> Vec<u8> {
    format!("# HELP {name} {help}\n# TYPE {name} counter\n").into_bytes()
}

/// Passes the app's other statistics to the recorder.
fn export(app: &App) {
    app.buffers.export();
    let stats = &app.stats;
    if let Some(memory) = app.store.memory() {
        gauge!(KEYS).set(memory.keys as f64);
        gauge!(BYTES).set(memory.bytes as f64);
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

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use axum::extract::Request;
    use http_body_util::BodyExt;
    use tidegate::api::Op;
    use tidegate::config::envoy::Domains;
    use tidegate::config::{Config, Syntax};
    use tidegate::{Key, MemoryStore};
    use tokio::runtime::Handle;
    use tower::ServiceExt;

    use super::*;
    use crate::app::config::ActiveConfig;
    use crate::app::store::AppStore;
    use crate::doors::Access;
    use crate::request::DecisionRequest;

    const LIMITS: &str = "[limits.'say \"no\"']\nalgorithm = \"sliding_log\"\nrate = 1\nperiod = \"1d\"\n";

    #[tokio::test]
    async fn decisions_are_counted_by_limit_outcome_and_reason() {
        let config = Config::parse(LIMITS, Syntax::Toml, "test.toml").expect("a config");
        let config = ActiveConfig::new(config, Domains::default(), Vec::new(), Vec::new(), false);
        let store = AppStore::Memory(Arc::new(MemoryStore::builder().max_keys(1_000).build()));
        let app = Arc::new(App::new(store, config, false).expect("an app"));
        for _ in 0..3 {
            let _ = app.decide(&DecisionRequest::new(Op::Limit, "say \"no\"", Key::from("u"))).await.expect("decided");
        }
        let router = super::super::router(app, Access::new(None), &Handle::current());
        let response = router.oneshot(Request::get("/metrics").body(Body::empty()).expect("a request")).await;
        let text = response.expect("infallible").into_body().collect().await.expect("a body").to_bytes();
        let text = String::from_utf8(text.to_vec()).expect("a text");
        let family: Vec<&str> = text.lines().filter(|line| line.contains(DECISIONS)).collect();
        let name = r#"limit="say \"no\"""#;
        assert_eq!(
            family[..2],
            [
                "# HELP tidegate_decisions_total Requests to take, by limit and outcome.",
                "# TYPE tidegate_decisions_total counter",
            ]
        );
        for count in [
            format!("{DECISIONS}{{{name},outcome=\"allowed\"}} 1"),
            format!("{DECISIONS}{{{name},outcome=\"denied\",reason=\"rate\"}} 2"),
            format!("{DECISIONS}{{limit=\"/v1/apply\",outcome=\"allowed\"}} 0"),
        ] {
            assert!(family.contains(&&*count), "{count} is missing in {family:#?}");
        }
    }
}
