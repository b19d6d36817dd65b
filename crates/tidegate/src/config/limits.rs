//! `[limits.NAME]`.
//!
//! A value that is refused is told to the reader and left out, and reading goes on: a config with an error is never
//! built, so what stands in for the value does not matter.

use std::time::Duration;

use tidegate_core::{
    Algorithm, MAX_COUNT, MAX_PERIOD, MAX_SHARDS, MIN_PERIOD, OnStoreError, Quota, QuotaError, seconds,
};

use super::defaults::{self, POLICIES};
use super::reader::{Field, Fields};
use crate::limiter::{Limit, Normalize, ShardBy};

/// What limits take from elsewhere in the file.
pub(super) struct Shared {
    pub(super) on_store_error: OnStoreError,
    pub(super) ipv6_prefix: u8,
}

pub(super) fn read(limits: Fields<'_>, shared: &Shared) -> Vec<(String, Limit)> {
    let named = limits.all().filter_map(|(name, field)| {
        if name.is_empty() || name.chars().any(char::is_control) {
            field.refuse_name("a name of one character or more, without control characters");
        }
        Some((name.to_owned(), limit(field.fields()?, shared)?))
    });
    named.collect()
}

fn limit(mut fields: Fields<'_>, shared: &Shared) -> Option<Limit> {
    let (quota, rate_is_known) = quota(&mut fields);
    let mut limit = quota.map(|quota| Limit::new(quota).on_store_error(shared.on_store_error));

    set(
        &mut limit,
        fields.get("shards"),
        |field| field.whole_in(1, MAX_SHARDS.into()),
        |limit, shards| {
            if rate_is_known { limit.shards(shards as u32) } else { Ok(limit) }
        },
    );
    let words = [("key", ShardBy::Key), ("spread", ShardBy::Spread)];
    set(
        &mut limit,
        fields.get("shard_by"),
        |field| field.one_of(&words),
        |limit, by| {
            let limit = limit.shard_by(by);
            limit.check_spread().map(|()| limit)
        },
    );
    set(
        &mut limit,
        fields.get("on_store_error"),
        |field| field.one_of(POLICIES),
        |limit, policy| Ok(limit.on_store_error(policy)),
    );
    set(&mut limit, fields.get("deny"), defaults::deny, |limit, entries| {
        Ok(limit.clone().deny(entries).unwrap_or(limit))
    });
    set(&mut limit, fields.get("shadow"), Field::bool, |limit, shadow| Ok(limit.shadow(shadow)));
    let ip = Normalize::Ip { ipv6_prefix: shared.ipv6_prefix };
    let words = [("lowercase", Normalize::Lowercase), ("trim", Normalize::Trim), ("ip", ip)];
    set(
        &mut limit,
        fields.get("normalize"),
        |field| field.one_of(&words),
        |limit, normalize| Ok(limit.normalize(normalize)),
    );
    fields.finish();
    limit
}

/// The quota, and whether its rate or capacity, of which shards get a part each, is the file's own.
fn quota(fields: &mut Fields<'_>) -> (Option<Quota>, bool) {
    let named = fields.need("algorithm", &one_of_the_algorithms());
    let algorithm = named.as_ref().and_then(algorithm);
    if algorithm == Some(Algorithm::Concurrency) {
        return concurrency(fields);
    }
    // Of one that is misspelt nobody knows what it needs.
    let misspelt = named.is_some() && algorithm.is_none();
    let mut need = |name, expected: &str| if misspelt { fields.get(name) } else { fields.need(name, expected) };
    let rate = need("rate", &count()).and_then(|field| field.whole_in(1, MAX_COUNT));
    let period = need("period", PERIOD).and_then(|field| field.duration_in(MIN_PERIOD, MAX_PERIOD, PERIOD));
    // The other parameters are looked at even when rate or period was refused.
    let mut quota =
        algorithm.and_then(|algorithm| Quota::new(algorithm, rate.unwrap_or(1), period.unwrap_or(seconds(1))).ok());
    set(&mut quota, fields.get("capacity"), |field| field.whole_in(1, MAX_COUNT), Quota::capacity);
    set(&mut quota, fields.get("start"), Field::duration, Quota::start);
    set(
        &mut quota,
        fields.get("buckets"),
        |field| field.whole_in(1, 64),
        |quota, buckets| {
            // They must divide the period, which has to be known for that.
            if period.is_some() { quota.buckets(buckets) } else { Ok(quota) }
        },
    );
    set(&mut quota, fields.get("max_debt"), |field| field.whole_in(0, MAX_COUNT), Quota::max_debt);
    set(&mut quota, fields.get("ttl"), Field::duration, no_ttl);
    (quota, rate.is_some())
}

/// A quota of leases.
fn concurrency(fields: &mut Fields<'_>) -> (Option<Quota>, bool) {
    for (name, instead) in [("rate", "capacity"), ("period", "ttl")] {
        if let Some(field) = fields.get(name) {
            field.refuse(&format!("no {name}, which concurrency does not use: set its {instead}"));
        }
    }
    let capacity = fields.need("capacity", &count()).and_then(|field| field.whole_in(1, MAX_COUNT));
    let ttl = fields.need("ttl", PERIOD).and_then(|field| field.duration_in(MIN_PERIOD, MAX_PERIOD, PERIOD));
    let mut quota = Quota::concurrency(capacity.unwrap_or(1), ttl.unwrap_or(seconds(1))).ok();
    // These are refused, each in its own words.
    set(&mut quota, fields.get("start"), Field::duration, Quota::start);
    set(&mut quota, fields.get("buckets"), |field| field.whole_in(1, 64), Quota::buckets);
    set(&mut quota, fields.get("max_debt"), |field| field.whole_in(0, MAX_COUNT), Quota::max_debt);
    (quota, capacity.is_some())
}

fn count() -> String {
    format!("a whole number from 1 to {MAX_COUNT}")
}

const PERIOD: &str = "a time from 1ms to 366d, such as \"500ms\", \"10s\", \"1m\", \"1h\" or \"1d\"";

fn one_of_the_algorithms() -> String {
    format!("one of {}", Algorithm::ALL.map(|algorithm| format!("{:?}", algorithm.as_str())).join(", "))
}

fn algorithm(field: &Field<'_>) -> Option<Algorithm> {
    field.one_of(&Algorithm::ALL.map(|algorithm| (algorithm.as_str(), algorithm)))
}

fn no_ttl(quota: Quota, ttl: Duration) -> Result<Quota, QuotaError> {
    let expected = format!("no ttl, which {} does not use (concurrency does)", quota.algorithm());
    Err(QuotaError::new("ttl", format!("{ttl:?}"), expected))
}

/// Reads an optional field and puts it into what is being built, or refuses it with what would be accepted.
fn set<'a, T: Clone, V>(
    built: &mut Option<T>,
    field: Option<Field<'a>>,
    read: impl FnOnce(&Field<'a>) -> Option<V>,
    with: impl FnOnce(T, V) -> Result<T, QuotaError>,
) {
    let Some((value, field)) = field.and_then(|field| Some((read(&field)?, field))) else { return };
    if let Some(before) = built.clone() {
        match with(before, value) {
            Ok(after) => *built = Some(after),
            Err(error) => field.refuse(error.expected()),
        }
    }
}
