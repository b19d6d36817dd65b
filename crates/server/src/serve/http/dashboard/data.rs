//! What the dashboard shows, as JSON: docs/dashboard.md says what each field means.

use std::cmp::Reverse;
use std::sync::Arc;

use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::response::IntoResponse;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use serde::{Deserialize, Serialize};
use tidegate::resilience::BreakerState;
use tidegate::{Clock, SystemClock, Timestamp, ceil_millis};

use crate::json::Problem;
use crate::serve::gate::Gate;
use crate::serve::served::Served;
use crate::serve::watch::{Account, Counter, Counts, Kind, Sample};

/// How many limits are told in full, those with the most traffic first.
const LIMITS: usize = 24;
/// How many keys are told.
const KEYS: usize = 25;

/// What is asked for.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::serve::http) struct Wanted {
    /// Only limits with this in their name, whatever its case.
    #[serde(default)]
    search: String,
}

/// `GET /dashboard/data`.
pub(in crate::serve::http) async fn data(
    State(gate): State<Arc<Gate>>,
    wanted: Result<Query<Wanted>, QueryRejection>,
) -> Result<impl IntoResponse, Problem> {
    let Query(wanted) = wanted.map_err(|error| Problem::bad_request(error.body_text()))?;
    let json = serde_json::to_vec(&Data::of(&gate, &wanted.search)).expect("numbers and texts are JSON");
    let headers =
        [(CONTENT_TYPE, "application/json"), (CACHE_CONTROL, "no-store"), (X_CONTENT_TYPE_OPTIONS, "nosniff")];
    Ok((headers, json))
}

#[derive(Serialize)]
struct Data {
    version: &'static str,
    now_ms: u64,
    uptime_s: u64,
    draining: bool,
    totals: Sums,
    history: History,
    limits: Limits,
    top_keys: TopKeys,
    store: StoreNow,
    config: ConfigNow,
}

/// What was decided since the start.
#[derive(Serialize)]
struct Sums {
    allowed: u64,
    denied: u64,
    failed: u64,
    shadowed: u64,
    without_store: u64,
}

#[derive(Serialize)]
struct Limits {
    served: usize,
    matching: usize,
    shown: Vec<LimitNow>,
}

#[derive(Serialize)]
struct LimitNow {
    name: String,
    quota: Option<QuotaNow>,
    totals: Sums,
    history: History,
}

#[derive(Serialize)]
struct QuotaNow {
    algorithm: &'static str,
    rate: u32,
    period_ms: u64,
    capacity: u32,
    shadow: bool,
}

/// The last seconds, the newest last.
#[derive(Serialize)]
struct History {
    allowed: Vec<u32>,
    denied: Vec<u32>,
    failed: Vec<u32>,
}

#[derive(Serialize)]
struct TopKeys {
    hidden: bool,
    skipped: u64,
    shown: Vec<TopKey>,
}

#[derive(Serialize)]
struct TopKey {
    limit: String,
    kind: Kind,
    key: String,
    whole: bool,
    /// Whether a key of this limit can be looked up: there is a quota for it, which does not come with each request.
    askable: bool,
    denied: u64,
    at_least: u64,
}

#[derive(Serialize)]
struct StoreNow {
    name: &'static str,
    breaker: Option<&'static str>,
    memory: Option<Memory>,
    calls: Option<CallsNow>,
}

#[derive(Serialize)]
struct Memory {
    keys: usize,
    bytes: usize,
    forgotten_busy: u64,
}

/// The last seconds, the newest last; nothing for a quantile of no calls.
#[derive(Serialize)]
struct CallsNow {
    calls: Vec<u32>,
    errors: Vec<u32>,
    p50_us: Vec<Option<u64>>,
    p99_us: Vec<Option<u64>>,
}

#[derive(Serialize)]
struct ConfigNow {
    demo: bool,
    loaded_ms: u64,
    reloads: u64,
    refused: u64,
    error: Option<String>,
}

impl Data {
    fn of(gate: &Gate, search: &str) -> Self {
        let watch = &gate.watch;
        let all = watch.accounts();
        let totals = all.iter().fold(Counts::default(), |sum, account| sum.plus(&account.tally.counts()));
        Data {
            version: env!("CARGO_PKG_VERSION"),
            now_ms: millis(SystemClock.now()),
            uptime_s: watch.uptime().as_secs(),
            draining: gate.is_draining(),
            totals: Sums::of(&totals),
            history: History::of(&watch.samples()),
            limits: Limits::of(gate, search),
            top_keys: TopKeys::of(gate, &all),
            store: StoreNow::of(gate),
            config: ConfigNow::of(gate),
        }
    }
}

impl Sums {
    fn of(counts: &Counts) -> Self {
        Sums {
            allowed: counts.allowed(),
            denied: counts.denied(),
            failed: counts.failed(),
            shadowed: counts.shadowed(),
            without_store: counts.without_store(),
        }
    }
}

impl Limits {
    fn of(gate: &Gate, search: &str) -> Self {
        let search = search.to_lowercase();
        let config = gate.served.load();
        let served = gate.watch.served().into_iter().filter(|account| is_of_interest(&config, account));
        let served: Vec<_> = served.collect();
        let matching = served.iter().filter(|account| account.name.to_lowercase().contains(&search));
        let mut matching: Vec<_> = matching.map(|account| (Reverse(account.traffic()), account)).collect();
        matching
            .sort_by(|(traffic, one), (other_traffic, other)| (traffic, &one.name).cmp(&(other_traffic, &other.name)));
        let shown = matching.iter().take(LIMITS).map(|(_, account)| LimitNow::of(gate, &config, account)).collect();
        Limits { served: served.len(), matching: matching.len(), shown }
    }
}

/// Limits whose quota comes with each request are there for everybody, and only shown to who uses them.
fn is_of_interest(config: &Served, account: &Account) -> bool {
    account.tally.counts() != Counts::default() || !config.has_no_quota(&account.name)
}

impl LimitNow {
    fn of(gate: &Gate, config: &Served, account: &Account) -> Self {
        LimitNow {
            name: account.name.clone(),
            quota: QuotaNow::of(gate, config, &account.name),
            totals: Sums::of(&account.tally.counts()),
            history: History::of(&account.samples()),
        }
    }
}

impl History {
    fn of(samples: &[Sample]) -> Self {
        History {
            allowed: samples.iter().map(|sample| sample.allowed).collect(),
            denied: samples.iter().map(|sample| sample.denied).collect(),
            failed: samples.iter().map(|sample| sample.failed).collect(),
        }
    }
}

impl QuotaNow {
    fn of(gate: &Gate, config: &Served, name: &str) -> Option<Self> {
        // A rule of 0 requests has none, nor has one that a reload has just taken away.
        let limit = gate.limiter.get(name).ok().filter(|_| !config.has_no_quota(name))?;
        let parts = limit.quota().parts();
        Some(QuotaNow {
            algorithm: parts.algorithm.as_str(),
            rate: parts.rate,
            period_ms: ceil_millis(parts.period),
            capacity: parts.capacity,
            shadow: limit.is_shadow(),
        })
    }
}

impl TopKeys {
    fn of(gate: &Gate, accounts: &[Arc<Account>]) -> Self {
        let config = gate.served.load();
        let of_limit = |account: &Arc<Account>| {
            let account = Arc::clone(account);
            let askable = QuotaNow::of(gate, &config, &account.name).is_some();
            account.top.counters().into_iter().map(move |counter| TopKey::of(&account.name, askable, counter))
        };
        let mut shown: Vec<TopKey> = accounts.iter().flat_map(of_limit).collect();
        shown.sort_by_key(|key| Reverse(key.denied));
        shown.truncate(KEYS);
        TopKeys {
            hidden: gate.watch.hides_keys(),
            skipped: accounts.iter().map(|account| account.top.skipped()).sum(),
            shown,
        }
    }
}

impl TopKey {
    fn of(limit: &str, askable: bool, counter: Counter) -> Self {
        TopKey {
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

impl StoreNow {
    fn of(gate: &Gate) -> Self {
        let memory = gate.backing.memory().map(|stats| Memory {
            keys: stats.keys,
            bytes: stats.bytes,
            forgotten_busy: stats.forgotten_busy,
        });
        let calls = gate.backing.calls().map(|calls| {
            let samples = calls.samples();
            CallsNow {
                calls: samples.iter().map(|sample| sample.calls).collect(),
                errors: samples.iter().map(|sample| sample.errors).collect(),
                p50_us: samples.iter().map(|sample| sample.p50).collect(),
                p99_us: samples.iter().map(|sample| sample.p99).collect(),
            }
        });
        let breaker = gate.backing.breaker().map(|state| match state {
            BreakerState::Closed => "closed",
            BreakerState::HalfOpen => "half_open",
            BreakerState::Open => "open",
        });
        StoreNow { name: gate.backing.name(), breaker, memory, calls }
    }
}

impl ConfigNow {
    fn of(gate: &Gate) -> Self {
        let reloads = &gate.watch.reloads;
        ConfigNow {
            demo: gate.served.load().is_demo,
            loaded_ms: millis(reloads.since()),
            reloads: reloads.served(),
            refused: reloads.refused(),
            error: reloads.wrong().map(|errors| errors.to_string()),
        }
    }
}

fn millis(at: Timestamp) -> u64 {
    at.as_micros() / 1000
}
