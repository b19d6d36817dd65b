//! Telemetry: metrics with the feature `metrics`, and spans with the feature `tracing`.
//!
//! Without a feature, its functions do nothing.

pub(crate) use recorder::*;
pub(crate) use spans::CallSpan;

#[cfg(feature = "metrics")]
mod recorder {
    use std::sync::OnceLock;

    use metrics::{
        Key, Label, Level, Metadata, SharedString, Unit, counter, describe_counter, describe_gauge, describe_histogram,
        histogram, with_recorder,
    };
    use tidegate_core::{Decision, OnStoreError, Reason, StoreError, Timestamp};

    use crate::clock::Clock;

    const DECISIONS: &str = "tidegate_decisions_total";
    const FALLBACKS: &str = "tidegate_fallback_total";
    const STORE_SECONDS: &str = "tidegate_store_seconds";
    const STORE_ERRORS: &str = "tidegate_store_errors_total";
    const BREAKER_STATE: &str = "tidegate_breaker_state";
    const BREAKER_OPENED: &str = "tidegate_breaker_opened_total";
    const SETTLEMENTS: &str = "tidegate_settlements_total";
    const FORGOTTEN_BUSY: &str = "tidegate_memory_forgotten_busy_total";
    #[cfg(feature = "redis")]
    const SCRIPT_RELOADS: &str = "tidegate_script_reloads_total";

    static METADATA: Metadata<'static> = Metadata::new(module_path!(), Level::INFO, Some(module_path!()));

    /// The name of concurrency guards, which have none of their own, as clients see it.
    const GUARDS: &str = "concurrency";

    /// Registers the help texts. Each limiter, store or budget that records a metric calls this when it is created.
    pub(crate) fn describe_metrics() {
        describe_counter!(DECISIONS, "Requests to take, by limit and outcome.");
        describe_counter!(FALLBACKS, "Requests that the store failed, by limit and failure policy.");
        describe_histogram!(STORE_SECONDS, Unit::Seconds, "Duration of store calls, failed ones included.");
        describe_counter!(STORE_ERRORS, "Requests that the store failed, by store and kind of error.");
        describe_gauge!(BREAKER_STATE, "State of the circuit breaker: 0 is closed, 1 half open, 2 open.");
        describe_counter!(BREAKER_OPENED, "Times the circuit breaker opened.");
        describe_counter!(SETTLEMENTS, "Settlements of holds, by limit and outcome.");
        describe_counter!(
            FORGOTTEN_BUSY,
            "Busy keys that a memory store evicted for lack of room: each got its quota back."
        );
        #[cfg(feature = "redis")]
        describe_counter!(SCRIPT_RELOADS, "Times a server had lost a script and got it again.");
    }

    /// The outcomes of a decision: allowed or denied, each for no reason or one of them, and failed.
    const OUTCOMES: usize = 2 * REASONS + 1;
    const REASONS: usize = Reason::ALL.len() + 1;

    /// The counters of one limit's decisions. A counter is looked up in the recorder each time, because a recorder may be
    /// installed later. Its name and labels are made once, when it is first needed: most outcomes never happen.
    #[derive(Debug, Default)]
    pub(crate) struct DecisionCounters(OnceLock<Box<[OnceLock<Box<Key>>; OUTCOMES]>>);

    impl DecisionCounters {
        /// Counts a decision of `limit`, or without one that the store failed.
        pub(crate) fn count(&self, limit: &str, decision: Option<&Decision>) {
            let index = match decision {
                None => OUTCOMES - 1,
                Some(decision) => {
                    let reason = Reason::ALL.iter().position(|reason| decision.reason() == Some(*reason));
                    reason.map_or(0, |place| place + 1) + if decision.allowed() { 0 } else { REASONS }
                }
            };
            let key = self.0.get_or_init(Box::default)[index].get_or_init(|| Box::new(decision_key(limit, decision)));
            with_recorder(|recorder| recorder.register_counter(key, &METADATA).increment(1));
        }
    }

    fn decision_key(limit: &str, decision: Option<&Decision>) -> Key {
        let outcome = match decision.map(Decision::allowed) {
            Some(true) => "allowed",
            Some(false) => "denied",
            None => "failed",
        };
        let mut labels = vec![label("limit", limit), Label::from_static_parts("outcome", outcome)];
        let reason = decision.and_then(Decision::reason);
        labels.extend(reason.map(|reason| Label::from_static_parts("reason", reason.as_str())));
        Key::from_parts(DECISIONS, labels)
    }

    /// Counts a request that a concurrency guard has let pass or refused.
    pub(crate) fn record_guard(passed: bool) {
        static ALLOWED_LABELS: [Label; 2] =
            [Label::from_static_parts("limit", GUARDS), Label::from_static_parts("outcome", "allowed")];
        static DENIED_LABELS: [Label; 3] = [
            Label::from_static_parts("limit", GUARDS),
            Label::from_static_parts("outcome", "denied"),
            Label::from_static_parts("reason", Reason::Concurrency.as_str()),
        ];
        static ALLOWED: Key = Key::from_static_parts(DECISIONS, &ALLOWED_LABELS);
        static DENIED: Key = Key::from_static_parts(DECISIONS, &DENIED_LABELS);
        let key = if passed { &ALLOWED } else { &DENIED };
        with_recorder(|recorder| recorder.register_counter(key, &METADATA).increment(1));
    }

    /// Counts a busy key that a memory store evicted.
    pub(crate) fn record_forgotten_busy() {
        counter!(FORGOTTEN_BUSY).increment(1);
    }

    /// Exports the counter of evicted busy keys before there is one: Prometheus does not see the increase of a counter that
    /// appears with a value.
    pub(crate) fn register_forgotten_busy() {
        describe_metrics();
        counter!(FORGOTTEN_BUSY).increment(0);
    }

    pub(crate) fn record_fallback(limit: &str, policy: OnStoreError) {
        counter!(FALLBACKS, "limit" => limit.to_owned(), "policy" => policy.as_str()).increment(1);
    }

    /// A timer of one call, which knows its start.
    pub(crate) struct CallTimer(Timestamp);

    pub(crate) fn start_timer(clock: &dyn Clock) -> CallTimer {
        CallTimer(clock.now())
    }

    pub(crate) fn record_duration(timer: CallTimer, clock: &dyn Clock, store: &str, call: &'static str) {
        let duration = clock.now().since(timer.0);
        histogram!(STORE_SECONDS, "store" => store.to_owned(), "call" => call).record(duration);
    }

    pub(crate) fn record_store_error(store: &str, error: &StoreError) {
        counter!(STORE_ERRORS, "store" => store.to_owned(), "kind" => error.kind().as_str()).increment(1);
    }

    /// The gauge of one breaker's state.
    pub(crate) struct BreakerGauge(Key);

    impl BreakerGauge {
        pub(crate) fn new(store: &str) -> Self {
            BreakerGauge(Key::from_parts(BREAKER_STATE, vec![label("store", store)]))
        }

        pub(crate) fn set(&self, state: u8) {
            with_recorder(|recorder| recorder.register_gauge(&self.0, &METADATA).set(f64::from(state)));
        }
    }

    pub(crate) fn record_breaker_opened(store: &str) {
        counter!(BREAKER_OPENED, "store" => store.to_owned()).increment(1);
    }

    pub(crate) fn record_settlement(limit: &str, outcome: &'static str) {
        counter!(SETTLEMENTS, "limit" => limit.to_owned(), "outcome" => outcome).increment(1);
    }

    #[cfg(feature = "redis")]
    pub(crate) fn record_script_reload(store: &str) {
        counter!(SCRIPT_RELOADS, "store" => store.to_owned()).increment(1);
    }

    fn label(name: &'static str, value: &str) -> Label {
        Label::new(name, SharedString::from(value.to_owned()))
    }
}

#[cfg(not(feature = "metrics"))]
mod recorder {
    use tidegate_core::{Decision, OnStoreError, StoreError};

    use crate::clock::Clock;

    pub(crate) struct CallTimer;

    #[derive(Debug, Default)]
    pub(crate) struct DecisionCounters {}

    impl DecisionCounters {
        #[inline]
        pub(crate) fn count(&self, _limit: &str, _decision: Option<&Decision>) {}
    }

    pub(crate) struct BreakerGauge;

    impl BreakerGauge {
        pub(crate) fn new(_store: &str) -> Self {
            BreakerGauge
        }

        pub(crate) fn set(&self, _state: u8) {}
    }

    pub(crate) fn describe_metrics() {}
    pub(crate) fn record_guard(_passed: bool) {}
    pub(crate) fn record_forgotten_busy() {}
    pub(crate) fn register_forgotten_busy() {}
    pub(crate) fn record_fallback(_limit: &str, _policy: OnStoreError) {}
    pub(crate) fn start_timer(_clock: &dyn Clock) -> CallTimer {
        CallTimer
    }
    pub(crate) fn record_duration(_timer: CallTimer, _clock: &dyn Clock, _store: &str, _call: &'static str) {}
    pub(crate) fn record_store_error(_store: &str, _error: &StoreError) {}
    pub(crate) fn record_breaker_opened(_store: &str) {}
    pub(crate) fn record_settlement(_limit: &str, _outcome: &'static str) {}
    #[cfg(feature = "redis")]
    pub(crate) fn record_script_reload(_store: &str) {}
}

/// Logs the first error of an outage. The errors between this and [`log_outage_end`] are not logged: a breaker probes every
/// second.
pub(crate) fn log_outage_begin(_store: &str, _error: Option<&tidegate_core::StoreError>) {
    #[cfg(feature = "tracing")]
    tracing::warn!(
        store = _store,
        error = _error.map(tracing::field::display),
        "the store is left alone, and limits go by their failure policies"
    );
}

pub(crate) fn log_outage_end(_store: &str) {
    #[cfg(feature = "tracing")]
    tracing::info!(store = _store, "the store answers again");
}

#[cfg(feature = "tracing")]
mod spans {
    use tidegate_core::{Op, Request};
    use tracing::field::Empty;
    use tracing::{Instrument, Span, debug_span};

    /// A span around one call of a store.
    pub(crate) struct CallSpan(Span);

    impl CallSpan {
        pub(crate) fn new(store: &str, call: &'static str, requests: &[Request<'_>]) -> Self {
            let requested = requests.len();
            let span =
                debug_span!("store", store, call, limit = Empty, op = Empty, requests = requested, outcome = Empty);
            if let [request] = requests {
                span.record("limit", request.scope.limit()).record("op", op_name(request.op));
            }
            CallSpan(span)
        }

        pub(crate) async fn instrument<T>(&self, work: impl Future<Output = T>) -> T {
            work.instrument(self.0.clone()).await
        }

        pub(crate) fn record(&self, outcome: &'static str) {
            self.0.record("outcome", outcome);
        }
    }

    fn op_name(op: Op) -> &'static str {
        match op {
            Op::Limit(_) => "limit",
            Op::Check(_) => "check",
            Op::Reserve(_) => "reserve",
            Op::Refund(_) => "refund",
            Op::Reset => "reset",
            Op::Admit(_) => "admit",
            Op::Renew(_) => "renew",
            Op::Release(_) => "release",
        }
    }
}

#[cfg(not(feature = "tracing"))]
mod spans {
    use tidegate_core::Request;

    pub(crate) struct CallSpan;

    impl CallSpan {
        pub(crate) fn new(_store: &str, _call: &'static str, _requests: &[Request<'_>]) -> Self {
            CallSpan
        }

        pub(crate) async fn instrument<T>(&self, work: impl Future<Output = T>) -> T {
            work.await
        }

        pub(crate) fn record(&self, _outcome: &'static str) {}
    }
}
