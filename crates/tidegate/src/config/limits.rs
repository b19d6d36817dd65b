//! The sections `[limits.NAME]`.
//!
//! A rejected value is reported and left out, and reading goes on. A config with an error is never built, so its stand-in
//! does not matter.

use std::time::Duration;

use tidegate_core::{
    Algorithm, MAX_COUNT, MAX_PERIOD, MAX_SHARDS, MIN_PERIOD, OnStoreError, Quota, QuotaError, seconds,
};

use super::reader::{Field, Fields};
use super::settings::{POLICIES, deny_list};
use crate::limiter::{Limit, Normalize};

/// Settings of other sections that limits inherit.
pub(super) struct InheritedSettings {
    pub(super) on_store_error: OnStoreError,
    pub(super) ipv6_prefix: u8,
}

pub(super) fn read(limits: Fields<'_>, inherited: &InheritedSettings) -> Vec<(String, Limit)> {
    let named = limits.all().filter_map(|(name, field)| {
        if name.is_empty() || name.chars().any(char::is_control) {
            field.reject_name("a name of one character or more, without control characters");
        }
        Some((name.to_owned(), limit(field.fields()?, inherited)?))
    });
    named.collect()
}

fn limit(mut fields: Fields<'_>, inherited: &InheritedSettings) -> Option<Limit> {
    let (quota, has_own_rate) = quota(&mut fields);
    let mut limit = quota.map(|quota| Limit::new(quota).on_store_error(inherited.on_store_error));

    set_optional(
        &mut limit,
        fields.optional("shards"),
        |field| field.whole_number_in(1, MAX_SHARDS.into()),
        |limit, shards| {
            if has_own_rate { limit.shards(shards as u32) } else { Ok(limit) }
        },
    );
    // The hash of the key picks the shard, and nothing else can: hot keys are for the two-tier store.
    set_optional(&mut limit, fields.optional("shard_by"), |field| field.one_of(&[("key", ())]), |limit, ()| Ok(limit));
    set_optional(
        &mut limit,
        fields.optional("on_store_error"),
        |field| field.one_of(POLICIES),
        |limit, policy| Ok(limit.on_store_error(policy)),
    );
    set_optional(&mut limit, fields.optional("deny"), deny_list, |limit, entries| {
        Ok(limit.clone().deny(entries).unwrap_or(limit))
    });
    set_optional(&mut limit, fields.optional("shadow"), Field::bool, |limit, shadow| Ok(limit.shadow(shadow)));
    let ip = Normalize::Ip { ipv6_prefix: inherited.ipv6_prefix };
    let words = [("lowercase", Normalize::Lowercase), ("trim", Normalize::Trim), ("ip", ip)];
    set_optional(
        &mut limit,
        fields.optional("normalize"),
        |field| field.one_of(&words),
        |limit, normalize| Ok(limit.normalize(normalize)),
    );
    fields.reject_unknown();
    limit
}

/// Returns the quota, and whether its rate or capacity, which shards divide, is the file's own.
fn quota(fields: &mut Fields<'_>) -> (Option<Quota>, bool) {
    let named = fields.required("algorithm", &expected_algorithms());
    let algorithm = named.as_ref().and_then(algorithm);
    if algorithm == Some(Algorithm::Concurrency) {
        return concurrency(fields);
    }
    // The required fields of a misspelt algorithm are unknown.
    let misspelt = named.is_some() && algorithm.is_none();
    let mut need =
        |name, expected: &str| if misspelt { fields.optional(name) } else { fields.required(name, expected) };
    let rate = need("rate", &expected_count()).and_then(|field| field.whole_number_in(1, MAX_COUNT));
    let period = need("period", PERIOD).and_then(|field| field.duration_in(MIN_PERIOD, MAX_PERIOD, PERIOD));
    // The other parameters are checked even when rate or period was rejected.
    let mut quota =
        algorithm.and_then(|algorithm| Quota::new(algorithm, rate.unwrap_or(1), period.unwrap_or(seconds(1))).ok());
    set_optional(&mut quota, fields.optional("capacity"), |field| field.whole_number_in(1, MAX_COUNT), Quota::capacity);
    set_optional(&mut quota, fields.optional("start"), Field::duration, Quota::start);
    set_optional(
        &mut quota,
        fields.optional("buckets"),
        |field| field.whole_number_in(1, 64),
        |quota, buckets| {
            // Buckets must divide the period, so it must be known.
            if period.is_some() { quota.buckets(buckets) } else { Ok(quota) }
        },
    );
    set_optional(&mut quota, fields.optional("max_debt"), |field| field.whole_number_in(0, MAX_COUNT), Quota::max_debt);
    set_optional(&mut quota, fields.optional("ttl"), Field::duration, reject_ttl);
    (quota, rate.is_some())
}

/// Reads a quota of leases.
fn concurrency(fields: &mut Fields<'_>) -> (Option<Quota>, bool) {
    for (name, instead) in [("rate", "capacity"), ("period", "ttl")] {
        if let Some(field) = fields.optional(name) {
            field.reject(&format!("no {name}, which concurrency does not use: set its {instead}"));
        }
    }
    let capacity = fields.required("capacity", &expected_count()).and_then(|field| field.whole_number_in(1, MAX_COUNT));
    let ttl = fields.required("ttl", PERIOD).and_then(|field| field.duration_in(MIN_PERIOD, MAX_PERIOD, PERIOD));
    let mut quota = Quota::concurrency(capacity.unwrap_or(1), ttl.unwrap_or(seconds(1))).ok();
    // Each is rejected in its own words.
    set_optional(&mut quota, fields.optional("start"), Field::duration, Quota::start);
    set_optional(&mut quota, fields.optional("buckets"), |field| field.whole_number_in(1, 64), Quota::buckets);
    set_optional(&mut quota, fields.optional("max_debt"), |field| field.whole_number_in(0, MAX_COUNT), Quota::max_debt);
    (quota, capacity.is_some())
}

fn expected_count() -> String {
    format!("a whole number from 1 to {MAX_COUNT}")
}

const PERIOD: &str = "a time from 1ms to 366d, such as \"500ms\", \"10s\", \"1m\", \"1h\" or \"1d\"";

fn expected_algorithms() -> String {
    format!("one of {}", Algorithm::ALL.map(|algorithm| format!("{:?}", algorithm.as_str())).join(", "))
}

fn algorithm(field: &Field<'_>) -> Option<Algorithm> {
    field.one_of(&Algorithm::ALL.map(|algorithm| (algorithm.as_str(), algorithm)))
}

fn reject_ttl(quota: Quota, ttl: Duration) -> Result<Quota, QuotaError> {
    let expected = format!("no ttl, which {} does not use (concurrency does)", quota.algorithm());
    Err(QuotaError::new("ttl", format!("{ttl:?}"), expected))
}

/// Reads an optional field and applies it, or rejects it with the expected value.
fn set_optional<'a, T: Clone, V>(
    built: &mut Option<T>,
    field: Option<Field<'a>>,
    read: impl FnOnce(&Field<'a>) -> Option<V>,
    with: impl FnOnce(T, V) -> Result<T, QuotaError>,
) {
    let Some((value, field)) = field.and_then(|field| Some((read(&field)?, field))) else { return };
    if let Some(before) = built.clone() {
        match with(before, value) {
            Ok(after) => *built = Some(after),
            Err(error) => field.reject(error.expected()),
        }
    }
}
