//! The adapter suite: tests for a [`Gate`](tidegate::http::Gate) in a web framework, one named case each.
//!
//! An [`Adapter`] serves a small app behind a gate, and the suite sends requests over real sockets. A case panics when the
//! response is not the enforcer's decision. [`adapter_tests!`](crate::adapter_tests) makes one `#[test]` of each case, so a
//! new adapter needs one test file. [`get`], [`gate`], [`limiter`] and [`Listening::open`] are for an adapter's own tests.

mod app;
mod counting;
mod fixtures;
mod http_client;
mod identity;
mod outages;
mod permits;
mod responses;

pub use app::{Adapter, App, Listening, Pieces};
pub use counting::{
    a_cost_above_the_capacity_cannot_be_retried, a_response_is_charged_for_when_it_is_one_of_those,
    each_request_costs_what_it_says, hooks_see_limited_requests, shadow_mode_denies_nobody,
    two_limits_are_taken_together_or_not,
};
pub use fixtures::{gate, limiter};
pub use http_client::{Reply, get};
pub use identity::{
    a_forged_address_is_not_believed, a_header_can_be_the_key, a_route_can_be_the_key, a_trusted_proxy_is_believed,
    denied_client_is_forbidden, gate_sees_the_whole_head, skipped_request_is_not_counted,
};
pub use outages::{a_dead_store_admits_when_open, a_dead_store_refuses_when_closed, a_slow_store_is_waited_for};
pub use permits::{
    a_client_that_hangs_up_gives_its_permit_back, a_full_body_gives_its_permit_back, a_key_has_permits_of_its_own,
    a_request_without_a_permit_is_turned_away, a_streamed_body_holds_its_permit_until_its_end,
    an_answered_head_gives_its_permit_back, denied_client_takes_no_permit, dropped_if_reports_dropped_work,
    limited_request_is_no_sample,
};
pub use responses::{
    a_denied_head_has_no_body, a_denied_head_has_no_body_over_http2, an_allowed_request_is_served,
    denial_can_be_customized, denied_requests_do_not_reach_the_handler, handler_receives_the_outcome,
    handler_response_is_unchanged, headers_of_all_families, headers_of_draft03, headers_of_ietf, headers_of_legacy,
    headers_of_no_family,
};

/// Makes one `#[test]` of each case of the [suite](crate::adapters), in a module with the given name.
///
/// ```
/// use tidegate_testkit::adapter_tests;
/// use tidegate_testkit::adapters::{Adapter, App, Listening};
///
/// struct Mine;
///
/// impl Adapter for Mine {
///     fn serve(app: App, listening: Listening) {
///         // Serves the app's pages behind `app.gate()`, and calls `listening.at(address)`.
/// #       let _ = (app.gate(), listening);
///     }
/// }
///
/// adapter_tests!(mine, Mine);
/// # fn main() {}
/// ```
#[macro_export]
macro_rules! adapter_tests {
    ($module:ident, $adapter:ty) => {
        $crate::__with_adapter_cases! { __adapter_module ($module, $adapter) }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __adapter_module {
    (($module:ident, $adapter:ty) $($case:ident)*) => {
        mod $module {
            use super::*;

            $(
                #[test]
                fn $case() {
                    $crate::adapters::$case::<$adapter>().report(concat!(module_path!(), "::", stringify!($case)));
                }
            )*
        }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __with_adapter_cases {
    ($callback:ident $arguments:tt) => {
        $crate::$callback! {
            $arguments
            an_allowed_request_is_served
            denied_requests_do_not_reach_the_handler
            a_denied_head_has_no_body
            a_denied_head_has_no_body_over_http2
            headers_of_ietf
            headers_of_draft03
            headers_of_legacy
            headers_of_all_families
            headers_of_no_family
            denial_can_be_customized
            handler_response_is_unchanged
            handler_receives_the_outcome
            gate_sees_the_whole_head
            a_forged_address_is_not_believed
            a_trusted_proxy_is_believed
            a_header_can_be_the_key
            a_route_can_be_the_key
            skipped_request_is_not_counted
            denied_client_is_forbidden
            each_request_costs_what_it_says
            a_cost_above_the_capacity_cannot_be_retried
            a_response_is_charged_for_when_it_is_one_of_those
            two_limits_are_taken_together_or_not
            shadow_mode_denies_nobody
            hooks_see_limited_requests
            a_dead_store_admits_when_open
            a_dead_store_refuses_when_closed
            a_slow_store_is_waited_for
            a_full_body_gives_its_permit_back
            an_answered_head_gives_its_permit_back
            a_streamed_body_holds_its_permit_until_its_end
            a_client_that_hangs_up_gives_its_permit_back
            a_request_without_a_permit_is_turned_away
            a_key_has_permits_of_its_own
            limited_request_is_no_sample
            denied_client_takes_no_permit
            dropped_if_reports_dropped_work
        }
    };
}
