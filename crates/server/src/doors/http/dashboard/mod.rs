//! The dashboard: its page, and `GET /dashboard/data` for it. docs/book/src/reference/dashboard.md explains every field.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Router;
use axum::extract::Query;
use axum::extract::rejection::QueryRejection;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS};
use serde::{Deserialize, Serialize};
use tidegate::api::Problem;
use tidegate::resilience::BreakerState;
use tidegate::{Clock, SystemClock, Timestamp, ceil_millis};

use super::pages::{PageWriter, SharedPage};
use crate::app::App;
use crate::app::config::ActiveConfig;
use crate::app::stats::{Counter, DecisionCounts, KeyKind, LimitStats, Sample};
use crate::runtime::TimeSlice;

/// Only resources of this server, no inline code, and no frame of another page.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// The routes of the page and its parts. They hold no secret and need no token; [`data`] does.
pub(super) fn pages() -> Router<Arc<App>> {
    let page = || async { asset("text/html; charset=utf-8", include_str!("dashboard.html")) };
    let style = || async { asset("text/css; charset=utf-8", include_str!("dashboard.css")) };
    let script = || async { asset("text/javascript; charset=utf-8", include_str!("dashboard.js")) };
    let chart = || async { asset("text/javascript; charset=utf-8", include_str!("chart.js")) };
    let icon = || async { asset("image/svg+xml", include_str!("icon.svg")) };
    Router::new()
        .route("/", get(page))
        .route("/dashboard.css", get(style))
        .route("/dashboard.js", get(script))
        .route("/dashboard/chart.js", get(chart))
        .route("/dashboard/icon.svg", get(icon))
}

fn asset(kind: &'static str, text: &'static str) -> Response {
    let headers = [
        (CONTENT_TYPE, kind),
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "no-referrer"),
        // Another version of the program has another page.
        (CACHE_CONTROL, "no-cache"),
    ];
    (headers, text).into_response()
}

/// How many limits are shown, those with the most traffic first.
const MAX_LIMITS: usize = 24;
/// How many keys are shown.
const MAX_KEYS: usize = 25;

/// The query parameters.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DataQuery {
    /// Shows only limits with this in their name, in any case.
    #[serde(default)]
    search: String,
}

/// `GET /dashboard/data`.
pub(super) async fn data(
    query: Result<Query<DataQuery>, QueryRejection>,
    page: SharedPage<String>,
) -> Result<Response, Problem> {
    let Query(query) = query.map_err(|error| Problem::bad_request(error.body_text()))?;
    let headers =
        [(CONTENT_TYPE, "application/json"), (CACHE_CONTROL, "no-store"), (X_CONTENT_TYPE_OPTIONS, "nosniff")];
    Ok(page.respond(query.search, headers).await)
}

/// Renders the data with the limits that a search finds.
pub(super) async fn render(app: Arc<App>, search: String, mut page: PageWriter) -> PageWriter {
    let data = DashboardData::new(&app, &search, page.slice()).await;
    page.write(&serde_json::to_vec(&data).expect("numbers and strings are JSON")).await;
    page
}

/// The response.
#[derive(Serialize)]
struct DashboardData {
    version: &'static str,
    now_ms: u64,
    uptime_s: u64,
    draining: bool,
    totals: TotalsData,
    history: HistoryData,
    limits: LimitsData,
    top_keys: TopKeysData,
    store: StoreData,
    config: ConfigData,
}

/// Decisions since the start.
#[derive(Serialize)]
struct TotalsData {
    allowed: u64,
    denied: u64,
    failed: u64,
    shadowed: u64,
    without_store: u64,
}

#[derive(Serialize)]
struct LimitsData {
    served: usize,
    matching: usize,
    shown: Vec<LimitData>,
}

#[derive(Serialize)]
struct LimitData {
    name: String,
    quota: Option<QuotaData>,
    totals: TotalsData,
    history: HistoryData,
}

#[derive(Serialize)]
struct QuotaData {
    algorithm: &'static str,
    rate: u32,
    period_ms: u64,
    capacity: u32,
    shadow: bool,
}

/// The last seconds, the newest last.
#[derive(Serialize)]
struct HistoryData {
    allowed: Vec<u32>,
    denied: Vec<u32>,
    failed: Vec<u32>,
}

#[derive(Serialize)]
struct TopKeysData {
    hidden: bool,
    skipped: u64,
    shown: Vec<TopKeyData>,
}

#[derive(Serialize)]
struct TopKeyData {
    limit: String,
    kind: KeyKind,
    key: String,
    whole: bool,
    /// Whether a key of this limit can be looked up: the limit has a quota of its own.
    askable: bool,
    denied: u64,
    at_least: u64,
}

#[derive(Serialize)]
struct StoreData {
    name: &'static str,
    breaker: Option<&'static str>,
    memory: Option<MemoryData>,
    calls: Option<CallData>,
}

#[derive(Serialize)]
struct MemoryData {
    keys: usize,
    bytes: usize,
    forgotten_busy: u64,
}

/// The last seconds, the newest last; `None` for a quantile of no calls.
#[derive(Serialize)]
struct CallData {
    calls: Vec<u32>,
    errors: Vec<u32>,
    p50_us: Vec<Option<u64>>,
    p99_us: Vec<Option<u64>>,
}

#[derive(Serialize)]
struct ConfigData {
    demo: bool,
    loaded_ms: u64,
    reloads: u64,
    refused: u64,
    error: Option<String>,
}

impl DashboardData {
    async fn new(app: &App, search: &str, slice: &mut TimeSlice) -> Self {
        let stats = &app.stats;
        let all = stats.all_limits();
        let mut totals = DecisionCounts::default();
        for limit in all.values() {
            slice.pause_if_due().await;
            totals = totals.plus(&limit.counts.total());
        }
        DashboardData {
            version: env!("CARGO_PKG_VERSION"),
            now_ms: unix_millis(SystemClock.now()),
            uptime_s: stats.uptime().as_secs(),
            draining: app.is_draining(),
            totals: TotalsData::new(&totals),
            history: HistoryData::new(&stats.samples()),
            limits: LimitsData::new(app, search, slice).await,
            top_keys: TopKeysData::new(app, all.values(), slice).await,
            store: StoreData::new(app),
            config: ConfigData::new(app),
        }
    }
}

impl TotalsData {
    fn new(counts: &DecisionCounts) -> Self {
        TotalsData {
            allowed: counts.allowed(),
            denied: counts.denied(),
            failed: counts.failed(),
            shadowed: counts.shadowed(),
            without_store: counts.without_store(),
        }
    }
}

impl LimitsData {
    async fn new(app: &App, search: &str, slice: &mut TimeSlice) -> Self {
        let (config, limits) = (app.config.load_full(), app.stats.served_limits());
        let search = search.to_lowercase();
        let (mut served, mut matching, mut busiest) = (0, 0, BTreeMap::new());
        for limit in limits.values() {
            slice.pause_if_due().await;
            if !is_shown(&config, limit) {
                continue;
            }
            served += 1;
            if limit.name.to_lowercase().contains(&search) {
                matching += 1;
                busiest.insert((Reverse(limit.traffic()), &limit.name), limit);
                if busiest.len() > MAX_LIMITS {
                    busiest.pop_last();
                }
            }
        }
        let shown = busiest.values().map(|limit| LimitData::new(app, &config, limit)).collect();
        LimitsData { served, matching, shown }
    }
}

/// Whether a limit is shown: one whose quota comes with each request is always there, and shown only once it is used.
fn is_shown(config: &ActiveConfig, limit: &LimitStats) -> bool {
    !config.has_no_quota(&limit.name) || limit.counts.total() != DecisionCounts::default()
}

impl LimitData {
    fn new(app: &App, config: &ActiveConfig, limit: &LimitStats) -> Self {
        LimitData {
            name: limit.name.clone(),
            quota: QuotaData::new(app, config, &limit.name),
            totals: TotalsData::new(&limit.counts.total()),
            history: HistoryData::new(&limit.samples()),
        }
    }
}

impl HistoryData {
    fn new(samples: &[Sample]) -> Self {
        HistoryData {
            allowed: samples.iter().map(|sample| sample.allowed).collect(),
            denied: samples.iter().map(|sample| sample.denied).collect(),
            failed: samples.iter().map(|sample| sample.failed).collect(),
        }
    }
}

impl QuotaData {
    fn new(app: &App, config: &ActiveConfig, name: &str) -> Option<Self> {
        // A rule of 0 requests has none, nor has a limit that a reload has just removed.
        let limit = app.limiter.get(name).ok().filter(|_| !config.has_no_quota(name))?;
        let parts = limit.quota().parts();
        Some(QuotaData {
            algorithm: parts.algorithm.as_str(),
            rate: parts.rate,
            period_ms: ceil_millis(parts.period),
            capacity: parts.capacity,
            shadow: limit.is_shadow(),
        })
    }
}

impl TopKeysData {
    async fn new(app: &App, limits: impl Iterator<Item = &Arc<LimitStats>>, slice: &mut TimeSlice) -> Self {
        let config = app.config.load_full();
        let (mut shown, mut skipped) = (Vec::new(), 0);
        for limit in limits {
            slice.pause_if_due().await;
            skipped += limit.top_keys.skipped();
            let counters = limit.top_keys.counters();
            if counters.is_empty() {
                continue;
            }
            let askable = QuotaData::new(app, &config, &limit.name).is_some();
            shown.extend(counters.into_iter().map(|counter| TopKeyData::new(&limit.name, askable, counter)));
            shown.sort_by_key(|key: &TopKeyData| Reverse(key.denied));
            shown.truncate(MAX_KEYS);
        }
        TopKeysData { hidden: app.stats.hides_keys(), skipped, shown }
    }
}

impl TopKeyData {
    fn new(limit: &str, askable: bool, counter: Counter) -> Self {
        TopKeyData {
            limit: limit.to_owned(),
            askable,
            kind: counter.shown.kind,
            key: counter.shown.text,
            whole: counter.shown.whole,
            denied: counter.count,
            at_least: counter.count - counter.error,
        }
    }
}

impl StoreData {
    fn new(app: &App) -> Self {
        let memory = app.store.memory().map(|stats| MemoryData {
            keys: stats.keys,
            bytes: stats.bytes,
            forgotten_busy: stats.forgotten_busy,
        });
        let calls = app.store.calls().map(|calls| {
            let samples = calls.samples();
            CallData {
                calls: samples.iter().map(|sample| sample.calls).collect(),
                errors: samples.iter().map(|sample| sample.errors).collect(),
                p50_us: samples.iter().map(|sample| sample.p50).collect(),
                p99_us: samples.iter().map(|sample| sample.p99).collect(),
            }
        });
        let breaker = app.store.breaker().map(|state| match state {
            BreakerState::Closed => "closed",
            BreakerState::HalfOpen => "half_open",
            BreakerState::Open => "open",
        });
        StoreData { name: app.store.name(), breaker, memory, calls }
    }
}

impl ConfigData {
    fn new(app: &App) -> Self {
        let reloads = &app.stats.reloads;
        ConfigData {
            demo: app.config.load().is_demo,
            loaded_ms: unix_millis(reloads.active_since()),
            reloads: reloads.succeeded(),
            refused: reloads.failed(),
            error: reloads.errors().map(|errors| errors.to_string()),
        }
    }
}

fn unix_millis(at: Timestamp) -> u64 {
    at.as_micros() / 1000
}
