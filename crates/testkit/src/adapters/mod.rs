//! The adapter suite: what a [`Gate`](tidegate::http::Gate) has to do in every framework, one named case at a time.
//!
//! A framework is tried as a small app behind a gate, over real sockets: an [`Adapter`] serves it, the suite asks. A case
//! panics when what comes back is not what the enforcer has decided. [`adapter_tests!`](crate::adapter_tests) makes one
//! `#[test]` of each, so a new adapter passes by adding one file.

mod app;
mod client;
mod counting;
mod flights;
mod outages;
mod setting;
mod telling;
mod who;

pub use app::{Adapter, App, Listening, Pieces};
pub use counting::{
    a_cost_above_the_capacity_cannot_be_retried, a_response_is_charged_for_when_it_is_one_of_those,
    each_request_costs_what_it_says, hooks_are_told, shadow_mode_denies_nobody, two_limits_are_taken_together_or_not,
};
pub use flights::{
    a_client_that_hangs_up_gives_its_permit_back, a_full_body_gives_its_permit_back, a_key_has_permits_of_its_own,
    a_request_without_a_permit_is_turned_away, a_streamed_body_holds_its_permit_until_its_end,
    an_answered_head_gives_its_permit_back, wasted_work_is_said_to_be, who_is_denied_holds_no_permit,
    who_is_turned_away_teaches_nothing,
};
pub use outages::{a_dead_store_admits_when_open, a_dead_store_refuses_when_closed, a_slow_store_is_waited_for};
pub use telling::{
    a_denial_can_be_the_service_s_own, a_denied_head_has_no_body, an_allowed_request_is_served,
    an_answer_of_the_handler_stays_as_it_is, denied_requests_do_not_reach_the_handler, headers_of_all_families,
    headers_of_draft03, headers_of_ietf, headers_of_legacy, headers_of_no_family, the_handler_is_told,
};
pub use who::{
    a_forged_address_is_not_believed, a_header_can_be_the_key, a_route_can_be_the_key, a_skipped_request_is_left_alone,
    a_trusted_proxy_is_believed, the_gate_sees_the_whole_head, who_is_on_the_deny_list_is_forbidden,
};

/// Makes one `#[test]` of every case of the [suite](crate::adapters), in a module of that name.
///
/// ```
/// use tidegate_testkit::adapter_tests;
/// use tidegate_testkit::adapters::{Adapter, App, Listening};
///
/// struct Mine;
///
/// impl Adapter for Mine {
///     fn serve(app: App, listening: Listening) {
///         // The app of this framework, behind `app.gate()`: listens, says where, and serves.
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
            headers_of_ietf
            headers_of_draft03
            headers_of_legacy
            headers_of_all_families
            headers_of_no_family
            a_denial_can_be_the_service_s_own
            an_answer_of_the_handler_stays_as_it_is
            the_handler_is_told
            the_gate_sees_the_whole_head
            a_forged_address_is_not_believed
            a_trusted_proxy_is_believed
            a_header_can_be_the_key
            a_route_can_be_the_key
            a_skipped_request_is_left_alone
            who_is_on_the_deny_list_is_forbidden
            each_request_costs_what_it_says
            a_cost_above_the_capacity_cannot_be_retried
            a_response_is_charged_for_when_it_is_one_of_those
            two_limits_are_taken_together_or_not
            shadow_mode_denies_nobody
            hooks_are_told
            a_dead_store_admits_when_open
            a_dead_store_refuses_when_closed
            a_slow_store_is_waited_for
            a_full_body_gives_its_permit_back
            an_answered_head_gives_its_permit_back
            a_streamed_body_holds_its_permit_until_its_end
            a_client_that_hangs_up_gives_its_permit_back
            a_request_without_a_permit_is_turned_away
            a_key_has_permits_of_its_own
            who_is_turned_away_teaches_nothing
            who_is_denied_holds_no_permit
            wasted_work_is_said_to_be
        }
    };
}
