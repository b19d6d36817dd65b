//! What is told to the outside: metrics with the feature `metrics`, spans with the feature `tracing`, and without them
//! nothing, at no cost.

pub(crate) use recorded::*;
pub(crate) use spans::CallSpan;

#[cfg(feature = "metrics")]
mod recorded {
    use metrics::{
        Label, SharedString, Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram,
    };
    use tidegate_core::{OnStoreError, Reason, StoreError, Timestamp};

    use super::super::BreakerState;
    use crate::clock::Clock;

    const DECISIONS: &str = "tidegate_decisions_total";
    const FALLBACK: &str = "tidegate_fallback_total";
    const SECONDS: &str = "tidegate_store_seconds";
    const ERRORS: &str = "tidegate_store_errors_total";
    const BREAKER: &str = "tidegate_breaker_state";
    const OPENED: &str = "tidegate_breaker_opened_total";
    #[cfg(feature = "redis")]
    const RELOADS: &str = "tidegate_script_reloads_total";

    /// Tells the recorder what each metric means. Whoever records one calls this when it is made.
    pub(crate) fn describe() {
        describe_counter!(DECISIONS, "Requests to take, by limit and what became of them.");
        describe_counter!(FALLBACK, "Requests the store could not answer, by limit and failure policy.");
        describe_histogram!(SECONDS, Unit::Seconds, "How long a call of the store took, whatever came of it.");
        describe_counter!(ERRORS, "Requests the store could not answer, by store and kind of error.");
        describe_gauge!(BREAKER, "The circuit breaker: 0 is closed, 1 half open, 2 open.");
        describe_counter!(OPENED, "How often the circuit breaker opened.");
        #[cfg(feature = "redis")]
        describe_counter!(RELOADS, "How often a server had forgotten a script and got it again.");
    }

    pub(crate) fn decided(limit: &str, outcome: &'static str, reason: Option<Reason>) {
        let mut labels = vec![label("limit", limit), Label::from_static_parts("outcome", outcome)];
        labels.extend(reason.map(|reason| Label::from_static_parts("reason", reason.as_str())));
        counter!(DECISIONS, labels).increment(1);
    }

    pub(crate) fn fell_back(limit: &str, policy: OnStoreError) {
        counter!(FALLBACK, "limit" => limit.to_owned(), "policy" => policy.as_str()).increment(1);
    }

    /// When a call began.
    pub(crate) struct Began(Timestamp);

    pub(crate) fn began(clock: &dyn Clock) -> Began {
        Began(clock.now())
    }

    pub(crate) fn ended(began: Began, clock: &dyn Clock, store: &str, call: &'static str) {
        let took = clock.now().since(began.0);
        histogram!(SECONDS, "store" => store.to_owned(), "call" => call).record(took);
    }

    pub(crate) fn failed(store: &str, error: &StoreError) {
        counter!(ERRORS, "store" => store.to_owned(), "kind" => error.kind().as_str()).increment(1);
    }

    pub(crate) fn breaker_state(store: &str, state: BreakerState) {
        gauge!(BREAKER, "store" => store.to_owned()).set(f64::from(state as u8));
    }

    pub(crate) fn breaker_opened(store: &str) {
        counter!(OPENED, "store" => store.to_owned()).increment(1);
    }

    #[cfg(feature = "redis")]
    pub(crate) fn script_reloaded(store: &str) {
        counter!(RELOADS, "store" => store.to_owned()).increment(1);
    }

    fn label(name: &'static str, value: &str) -> Label {
        Label::new(name, SharedString::from(value.to_owned()))
    }
}

#[cfg(not(feature = "metrics"))]
mod recorded {
    use tidegate_core::{OnStoreError, Reason, StoreError};

    use super::super::BreakerState;
    use crate::clock::Clock;

    pub(crate) struct Began;

    pub(crate) fn describe() {}
    pub(crate) fn decided(_limit: &str, _outcome: &'static str, _reason: Option<Reason>) {}
    pub(crate) fn fell_back(_limit: &str, _policy: OnStoreError) {}
    pub(crate) fn began(_clock: &dyn Clock) -> Began {
        Began
    }
    pub(crate) fn ended(_began: Began, _clock: &dyn Clock, _store: &str, _call: &'static str) {}
    pub(crate) fn failed(_store: &str, _error: &StoreError) {}
    pub(crate) fn breaker_state(_store: &str, _state: BreakerState) {}
    pub(crate) fn breaker_opened(_store: &str) {}
    #[cfg(feature = "redis")]
    pub(crate) fn script_reloaded(_store: &str) {}
}

/// The first error of many is told, and the end of it: between them a breaker tries again every second.
pub(crate) fn left_alone(_store: &str, _error: Option<&tidegate_core::StoreError>) {
    #[cfg(feature = "tracing")]
    tracing::warn!(
        store = _store,
        error = _error.map(tracing::field::display),
        "the store is left alone, and limits go by their failure policies"
    );
}

pub(crate) fn answers_again(_store: &str) {
    #[cfg(feature = "tracing")]
    tracing::info!(store = _store, "the store answers again");
}

#[cfg(feature = "tracing")]
mod spans {
    use tidegate_core::{Op, Request};
    use tracing::field::Empty;
    use tracing::{Instrument, Span, debug_span};

    /// The span of one call of a store.
    pub(crate) struct CallSpan(Span);

    impl CallSpan {
        pub(crate) fn new(store: &str, call: &'static str, requests: &[Request<'_>]) -> Self {
            let requested = requests.len();
            let span =
                debug_span!("store", store, call, limit = Empty, op = Empty, requests = requested, outcome = Empty);
            if let [request] = requests {
                span.record("limit", request.scope.limit()).record("op", name(request.op));
            }
            CallSpan(span)
        }

        pub(crate) async fn around<T>(&self, work: impl Future<Output = T>) -> T {
            work.instrument(self.0.clone()).await
        }

        pub(crate) fn record(&self, outcome: &'static str) {
            self.0.record("outcome", outcome);
        }
    }

    fn name(op: Op) -> &'static str {
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

        pub(crate) async fn around<T>(&self, work: impl Future<Output = T>) -> T {
            work.await
        }

        pub(crate) fn record(&self, _outcome: &'static str) {}
    }
}
