//! `[defaults]` and `[envoy]`.

use std::time::Duration;

use tidegate_core::{MAX_COUNT, OnStoreError};

use super::reader::{Field, Fields};
use crate::limiter::DenyList;

pub(super) const POLICIES: &[(&str, OnStoreError)] = &[
    (OnStoreError::Open.as_str(), OnStoreError::Open),
    (OnStoreError::Closed.as_str(), OnStoreError::Closed),
    (OnStoreError::Local.as_str(), OnStoreError::Local),
];

/// What holds for every limit.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Defaults {
    /// Keys and networks that no limit admits.
    pub deny: Vec<String>,
    /// The failure policy of limits that do not say otherwise.
    pub on_store_error: OnStoreError,
    /// Sets the keys of this config apart from those of others that share the store.
    pub prefix: String,
    /// Among how many replicas a limit with the policy `local` is divided.
    pub expected_replicas: u32,
    /// How long a store may take to answer.
    pub store_timeout: Duration,
}

impl Default for Defaults {
    fn default() -> Self {
        Defaults {
            deny: Vec::new(),
            on_store_error: OnStoreError::default(),
            prefix: String::new(),
            expected_replicas: 1,
            store_timeout: Duration::from_millis(50),
        }
    }
}

const TIMEOUT: &str = "a time from 1ms to 1h, such as \"50ms\"";

impl Defaults {
    pub(super) fn read(mut fields: Fields<'_>) -> Self {
        let mut read = Defaults::default();
        if let Some(entries) = fields.get("deny").and_then(|field| deny(&field)) {
            read.deny = entries;
        }
        if let Some(policy) = fields.get("on_store_error").and_then(|field| field.one_of(POLICIES)) {
            read.on_store_error = policy;
        }
        if let Some(prefix) = fields.get("prefix").and_then(|field| field.text("a text")) {
            read.prefix = prefix.to_owned();
        }
        if let Some(replicas) = fields.get("expected_replicas").and_then(|field| field.whole_in(1, MAX_COUNT)) {
            read.expected_replicas = replicas as u32;
        }
        let (least, most) = (Duration::from_millis(1), Duration::from_secs(3_600));
        let timeout = fields.get("store_timeout").and_then(|field| field.duration_in(least, most, TIMEOUT));
        read.store_timeout = timeout.unwrap_or(read.store_timeout);
        fields.finish();
        read
    }
}

/// The entries of a deny list.
pub(super) fn deny(field: &Field<'_>) -> Option<Vec<String>> {
    const ENTRY: &str = "a key, an address or a network such as \"203.0.113.0/24\"";
    let entries = field.list("a list of keys, addresses and networks, such as [\"203.0.113.0/24\"]")?;
    let accepted = entries.filter_map(|entry| {
        let text = entry.text(ENTRY)?;
        match DenyList::default().add(text) {
            Ok(()) => Some(text.to_owned()),
            Err(_) => {
                entry.refuse(ENTRY);
                None
            }
        }
    });
    Some(accepted.collect())
}

/// Configs of another kind that are served too.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Envoy {
    /// Files in the format of envoyproxy/ratelimit, as they are written in the config.
    pub configs: Vec<String>,
}

impl Envoy {
    pub(super) fn read(mut fields: Fields<'_>) -> Self {
        const FILE: &str = "the path of a file";
        let files = fields.get("configs").and_then(|field| field.list("a list of files, such as [\"ratelimit.yaml\"]"));
        let files = files.into_iter().flatten().filter_map(|entry| match entry.text(FILE)? {
            "" => {
                entry.refuse(FILE);
                None
            }
            path => Some(path.to_owned()),
        });
        let configs = files.collect();
        fields.finish();
        Envoy { configs }
    }
}
