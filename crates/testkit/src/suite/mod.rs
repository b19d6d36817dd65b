//! The conformance suite: one named case for each rule that every store must follow.
//!
//! A case is a plain async function over a [`Subject`]. It panics when the store breaks the contract. Its message has
//! the quota, the step, the expected and the actual result. A case about a feature that the store does not claim
//! returns [`Applicability::NotApplicable`].
//!
//! Most cases pass in their own time. The exceptions are the cases about many concurrent callers, and those about
//! `try_apply`, `apply` and `apply_each` themselves. They run on the store's clock, with periods so long that nothing
//! refills.
//!
//! The cases about eviction count the keys of the whole store, so no other test may use it at the same time.

mod batches;
mod caller;
mod concurrency;
mod decisions;
mod eviction;
mod isolation;
mod leases;
mod operations;
mod precision;
mod quota_changes;
mod regressions;
mod spans;
mod time;

use tidegate_core::TestableStore;

use crate::{Applicability, Subject};
pub use batches::{
    batch_is_applied_in_order, batch_under_two_quotas_is_applied_in_order, denied_joint_request_consumes_nothing,
    empty_batches_are_allowed, immediate_store_never_waits, joint_request_keeps_usage_of_a_changed_quota,
    joint_request_rejects_one_key_under_two_quotas, joint_request_rejects_other_operations,
    joint_request_sums_repeated_keys, joint_request_takes_from_every_limit, joint_retry_after_is_honest,
    try_apply_agrees_with_apply,
};
pub use concurrency::{
    concurrent_callers_never_double_spend, concurrent_weighted_callers_never_double_spend,
    joint_requests_are_atomic_under_concurrency,
};
pub use decisions::{
    capacity_is_admitted_exactly, check_writes_nothing, cost_above_capacity_is_never_retryable,
    denied_request_consumes_nothing, exhausted_key_is_denied, new_key_is_allowed, weighted_cost_is_consumed,
};
pub use eviction::{busy_keys_are_not_evicted, eviction_changes_no_decision, idle_keys_are_evicted};
pub use isolation::{
    equal_scopes_share_a_budget, keys_have_separate_budgets, limits_have_separate_budgets,
    prefixes_have_separate_budgets, tricky_keys_stay_distinct,
};
pub use leases::{
    admitting_twice_takes_one_place, backwards_clock_stands_still_for_leases,
    concurrent_leases_never_exceed_the_capacity, every_store_method_decides_leases_alike, expired_leases_are_evicted,
    keys_have_separate_leases, late_release_changes_nothing, lease_check_writes_nothing, lease_expires_after_its_ttl,
    leases_and_units_do_not_mix, leases_are_admitted_up_to_the_capacity, quota_change_keeps_leases,
    releasing_twice_frees_one_place, renewing_extends_a_lease, reset_releases_every_lease,
    similar_lease_ids_stay_distinct, switch_between_rate_and_leases_resets_the_key,
};
pub use operations::{
    refund_removes_the_newest_usage_first, refund_restores_quota, reserve_goes_into_debt, reserve_stops_at_max_debt,
    reset_clears_the_key,
};
pub use precision::{fractional_rates_are_exact, very_large_numbers_are_exact, very_small_numbers_are_exact};
pub use quota_changes::{
    algorithm_change_keeps_usage, alternating_tiers_keep_refilling, alternating_tiers_share_usage,
    idle_key_is_new_under_any_quota, quota_cut_becomes_debt, quota_raise_keeps_usage,
};
pub use regressions::{burst_of_one_limits, check_then_add_does_not_over_admit, idle_key_gets_no_more_than_its_burst};
pub use spans::{next_after_is_honest, reset_after_is_honest, retry_after_is_honest};
pub use time::{
    backwards_clock_is_honest, backwards_clock_stands_still, polling_loses_nothing, unused_grants_roll_over,
    windows_begin_at_start,
};

/// Creates one `#[test]` for each case, in a module of that name, so that the first failure does not hide the rest.
/// Each test evaluates the subject expression again.
///
/// ```
/// use tidegate_testkit::{MapStore, Subject, conformance_tests};
///
/// conformance_tests!(map_store, Subject::new(MapStore::new()));
/// # fn main() {}
/// ```
#[macro_export]
macro_rules! conformance_tests {
    ($module:ident, $subject:expr) => {
        $crate::__with_cases! { __conformance_module ($module, $subject) }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __conformance_module {
    (($module:ident, $subject:expr) $($case:ident)*) => {
        mod $module {
            #[allow(unused_imports, reason = "the subject may be made without anything from around it")]
            use super::*;

            $(
                #[test]
                fn $case() {
                    let subject = $subject;
                    let shared = subject.clone();
                    subject
                        .run(async move { $crate::suite::$case(&shared).await })
                        .report(concat!(module_path!(), "::", stringify!($case)));
                }
            )*
        }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __with_cases {
    ($callback:ident $arguments:tt) => {
        $crate::$callback! {
            $arguments
            new_key_is_allowed
            exhausted_key_is_denied
            weighted_cost_is_consumed
            capacity_is_admitted_exactly
            cost_above_capacity_is_never_retryable
            denied_request_consumes_nothing
            check_writes_nothing
            keys_have_separate_budgets
            limits_have_separate_budgets
            prefixes_have_separate_budgets
            equal_scopes_share_a_budget
            tricky_keys_stay_distinct
            concurrent_callers_never_double_spend
            concurrent_weighted_callers_never_double_spend
            joint_requests_are_atomic_under_concurrency
            reserve_goes_into_debt
            reserve_stops_at_max_debt
            refund_restores_quota
            refund_removes_the_newest_usage_first
            reset_clears_the_key
            retry_after_is_honest
            reset_after_is_honest
            next_after_is_honest
            backwards_clock_stands_still
            backwards_clock_is_honest
            polling_loses_nothing
            windows_begin_at_start
            unused_grants_roll_over
            fractional_rates_are_exact
            very_large_numbers_are_exact
            very_small_numbers_are_exact
            joint_request_takes_from_every_limit
            denied_joint_request_consumes_nothing
            joint_retry_after_is_honest
            joint_request_sums_repeated_keys
            joint_request_rejects_other_operations
            joint_request_rejects_one_key_under_two_quotas
            joint_request_keeps_usage_of_a_changed_quota
            empty_batches_are_allowed
            batch_is_applied_in_order
            batch_under_two_quotas_is_applied_in_order
            try_apply_agrees_with_apply
            immediate_store_never_waits
            quota_raise_keeps_usage
            quota_cut_becomes_debt
            algorithm_change_keeps_usage
            alternating_tiers_share_usage
            alternating_tiers_keep_refilling
            idle_key_is_new_under_any_quota
            idle_keys_are_evicted
            busy_keys_are_not_evicted
            eviction_changes_no_decision
            burst_of_one_limits
            idle_key_gets_no_more_than_its_burst
            check_then_add_does_not_over_admit
            leases_are_admitted_up_to_the_capacity
            every_store_method_decides_leases_alike
            lease_expires_after_its_ttl
            renewing_extends_a_lease
            late_release_changes_nothing
            releasing_twice_frees_one_place
            admitting_twice_takes_one_place
            lease_check_writes_nothing
            reset_releases_every_lease
            quota_change_keeps_leases
            switch_between_rate_and_leases_resets_the_key
            keys_have_separate_leases
            similar_lease_ids_stay_distinct
            backwards_clock_stands_still_for_leases
            expired_leases_are_evicted
            concurrent_leases_never_exceed_the_capacity
            leases_and_units_do_not_mix
        }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __case_names {
    (() $($case:ident)*) => {
        /// The name of every case, in the order of the suite.
        pub const CASES: &[&str] = &[$(stringify!($case)),*];

        /// Runs one case by its name. Returns `None` when there is no such case.
        pub async fn run<S: TestableStore + 'static>(subject: &Subject<S>, case: &str) -> Option<Applicability> {
            match case {
                // Boxed, so that the future is not as large as all cases together.
                $(stringify!($case) => Some(Box::pin($case(subject)).await),)*
                _ => None,
            }
        }
    };
}

crate::__with_cases! { __case_names () }
