//! The adapter suite: tests for a [`Gate`](tidegate::http::Gate) in a web framework, one named case each.
//!
//! An [`Adapter`] serves a small app behind a gate, and the suite sends requests over real sockets. A case panics when
//! the response does not match the enforcer's decision. [`adapter_tests!`](crate::adapter_tests) creates one `#[test]`
//! for each case, so a new adapter needs one test file. [`get`], [`gate`], [`limiter`] and
//! [`AddressSender::start_server`] are for an adapter's own tests.

mod app;
mod counting;
mod fixtures;
mod http_client;
mod identity;
mod outages;
mod permits;
mod responses;

pub use app::{Adapter, AddressSender, App, BodyStream};
pub use counting::{
    cost_above_capacity_is_not_retryable, hooks_receive_limited_requests, only_matching_responses_are_charged,
    request_cost_is_consumed, shadow_mode_denies_nothing, two_limits_are_taken_jointly,
};
pub use fixtures::{gate, limiter};
pub use http_client::{Reply, get};
pub use identity::{
    denied_client_is_forbidden, forged_address_is_ignored, gate_receives_the_request_head, header_can_be_the_key,
    route_can_be_the_key, skipped_request_is_not_counted, trusted_proxy_names_the_client,
};
pub use outages::{failed_store_admits_when_open, failed_store_denies_when_closed, slow_store_delays_the_response};
pub use permits::{
    denied_client_takes_no_permit, disconnect_releases_the_permit, dropped_if_reports_dropped_work,
    each_key_has_separate_permits, full_body_releases_its_permit, head_response_releases_its_permit,
    limited_request_records_no_sample, request_without_permit_is_rejected,
    streamed_body_holds_its_permit_until_its_end,
};
pub use responses::{
    all_header_families_are_sent, allowed_request_is_served, denial_can_be_customized, denied_head_has_no_body,
    denied_head_has_no_body_over_http2, denied_request_does_not_reach_the_handler, disabled_headers_are_not_sent,
    draft03_headers_are_sent, handler_receives_the_outcome, handler_response_is_unchanged, ietf_headers_are_sent,
    legacy_headers_are_sent,
};

/// Creates one `#[test]` for each case of the [suite](crate::adapters), in a module with the given name.
///
/// ```
/// use tidegate_testkit::adapter_tests;
/// use tidegate_testkit::adapters::{Adapter, App, AddressSender};
///
/// struct Mine;
///
/// impl Adapter for Mine {
///     fn serve(app: App, sender: AddressSender) {
///         // Serves the app's pages behind `app.gate()`, and calls `sender.send(address)`.
/// #       let _ = (app.gate(), sender);
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
            allowed_request_is_served
            denied_request_does_not_reach_the_handler
            denied_head_has_no_body
            denied_head_has_no_body_over_http2
            ietf_headers_are_sent
            draft03_headers_are_sent
            legacy_headers_are_sent
            all_header_families_are_sent
            disabled_headers_are_not_sent
            denial_can_be_customized
            handler_response_is_unchanged
            handler_receives_the_outcome
            gate_receives_the_request_head
            forged_address_is_ignored
            trusted_proxy_names_the_client
            header_can_be_the_key
            route_can_be_the_key
            skipped_request_is_not_counted
            denied_client_is_forbidden
            request_cost_is_consumed
            cost_above_capacity_is_not_retryable
            only_matching_responses_are_charged
            two_limits_are_taken_jointly
            shadow_mode_denies_nothing
            hooks_receive_limited_requests
            failed_store_admits_when_open
            failed_store_denies_when_closed
            slow_store_delays_the_response
            full_body_releases_its_permit
            head_response_releases_its_permit
            streamed_body_holds_its_permit_until_its_end
            disconnect_releases_the_permit
            request_without_permit_is_rejected
            each_key_has_separate_permits
            limited_request_records_no_sample
            denied_client_takes_no_permit
            dropped_if_reports_dropped_work
        }
    };
}
