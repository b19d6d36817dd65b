//! The sections `[defaults]`, `[envoy]` and `[http]`.

use std::num::NonZeroU8;
use std::time::Duration;

use tidegate_core::{MAX_COUNT, OnStoreError};

use super::reader::{Field, Fields};
use super::tree::Value;
use crate::http_settings::TrustProxy;
use crate::http_settings::{HeaderStyle, LegacyReset};
use crate::limiter::DenyList;

pub(super) const POLICIES: &[(&str, OnStoreError)] = &[
    (OnStoreError::Open.as_str(), OnStoreError::Open),
    (OnStoreError::Closed.as_str(), OnStoreError::Closed),
    (OnStoreError::Local.as_str(), OnStoreError::Local),
];

/// Defaults of all limits.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Defaults {
    /// Keys and networks that every limit denies.
    pub deny: Vec<String>,
    /// The default failure policy.
    pub on_store_error: OnStoreError,
    /// The prefix of all keys, for configs that share a store.
    pub prefix: String,
    /// The number of replicas that divide a limit with the policy `local`.
    pub expected_replicas: u32,
    /// The timeout of the store.
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
        if let Some(entries) = fields.optional("deny").and_then(|field| deny_list(&field)) {
            read.deny = entries;
        }
        if let Some(policy) = fields.optional("on_store_error").and_then(|field| field.one_of(POLICIES)) {
            read.on_store_error = policy;
        }
        if let Some(prefix) = fields.optional("prefix").and_then(|field| field.text("a text")) {
            read.prefix = prefix.to_owned();
        }
        if let Some(replicas) =
            fields.optional("expected_replicas").and_then(|field| field.whole_number_in(1, MAX_COUNT))
        {
            read.expected_replicas = replicas as u32;
        }
        let (min, max) = (Duration::from_millis(1), Duration::from_secs(3_600));
        let timeout = fields.optional("store_timeout").and_then(|field| field.duration_in(min, max, TIMEOUT));
        read.store_timeout = timeout.unwrap_or(read.store_timeout);
        fields.reject_unknown();
        read
    }
}

/// Reads the entries of a deny list.
pub(super) fn deny_list(field: &Field<'_>) -> Option<Vec<String>> {
    const ENTRY: &str = "a key, an address or a network such as \"203.0.113.0/24\"";
    let entries = field.list("a list of keys, addresses and networks, such as [\"203.0.113.0/24\"]")?;
    let accepted = entries.filter_map(|entry| {
        let text = entry.text(ENTRY)?;
        match DenyList::default().add(text) {
            Ok(()) => Some(text.to_owned()),
            Err(_) => {
                entry.reject(ENTRY);
                None
            }
        }
    });
    Some(accepted.collect())
}

/// Envoy rate limit files to serve as well.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct EnvoyConfig {
    /// Paths of files in the format of envoyproxy/ratelimit, as written in the config.
    pub configs: Vec<String>,
}

impl EnvoyConfig {
    pub(super) fn read(mut fields: Fields<'_>) -> Self {
        const FILE: &str = "the path of a file";
        let files =
            fields.optional("configs").and_then(|field| field.list("a list of files, such as [\"ratelimit.yaml\"]"));
        let files = files.into_iter().flatten().filter_map(|entry| match entry.text(FILE)? {
            "" => {
                entry.reject(FILE);
                None
            }
            path => Some(path.to_owned()),
        });
        let configs = files.collect();
        fields.reject_unknown();
        EnvoyConfig { configs }
    }
}

/// Settings of HTTP transports.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct HttpConfig {
    /// The proxies that are trusted with the client address.
    pub trust_proxy: TrustProxy,
    /// The response headers that describe limits.
    pub headers: Vec<HeaderStyle>,
    /// The unit of `X-RateLimit-Reset`.
    pub legacy_reset: LegacyReset,
    /// The header that a trusted peer sends, in lower case.
    pub client_header: String,
    /// The prefix length that identifies an IPv6 client.
    pub ipv6_prefix: u8,
}

impl Default for HttpConfig {
    fn default() -> Self {
        HttpConfig {
            trust_proxy: TrustProxy::default(),
            headers: vec![HeaderStyle::Ietf],
            legacy_reset: LegacyReset::default(),
            client_header: "x-forwarded-for".to_owned(),
            ipv6_prefix: 64,
        }
    }
}

const STYLES: &[(&str, HeaderStyle)] =
    &[("ietf", HeaderStyle::Ietf), ("draft03", HeaderStyle::Draft03), ("legacy", HeaderStyle::Legacy)];
const RESETS: &[(&str, LegacyReset)] = &[("delta", LegacyReset::Delta), ("epoch", LegacyReset::Epoch)];

impl HttpConfig {
    pub(super) fn read(mut fields: Fields<'_>) -> Self {
        let mut read = HttpConfig::default();
        if let Some(trust) = fields.optional("trust_proxy").and_then(trust_proxy) {
            read.trust_proxy = trust;
        }
        if let Some(styles) = fields.optional("headers").and_then(|field| field.list("a list, such as [\"ietf\"]")) {
            read.headers.clear();
            for field in styles {
                match field.one_of(STYLES) {
                    Some(style) if read.headers.contains(&style) => field.reject("each of them once"),
                    style => read.headers.extend(style),
                }
            }
        }
        if let Some(reset) = fields.optional("legacy_reset").and_then(|field| field.one_of(RESETS)) {
            read.legacy_reset = reset;
        }
        if let Some(name) = fields.optional("client_header").and_then(header_name) {
            read.client_header = name;
        }
        if let Some(prefix) = fields.optional("ipv6_prefix").and_then(|field| field.whole_number_in(1, 128)) {
            read.ipv6_prefix = prefix as u8;
        }
        fields.reject_unknown();
        read
    }
}

fn trust_proxy(field: Field<'_>) -> Option<TrustProxy> {
    const TRUST: &str = "false, a number of hops from 1 to 255, or a list of networks such as [\"10.0.0.0/8\"]";
    match &field.node.value {
        Value::Bool { value: false, .. } => Some(TrustProxy::None),
        Value::Number { whole: Some(hops @ 1..=255), .. } => NonZeroU8::new(*hops as u8).map(TrustProxy::Hops),
        Value::List(_) => {
            let networks = field.list(TRUST)?.filter_map(|entry| {
                let network = entry.text(NETWORK)?.parse().ok();
                if network.is_none() {
                    entry.reject(NETWORK);
                }
                network
            });
            Some(TrustProxy::Networks(networks.collect()))
        }
        _ => {
            field.reject(TRUST);
            None
        }
    }
}

const NETWORK: &str = "an address or a network such as \"10.0.0.0/8\"";

/// Longer than any real header, and short enough for the HTTP libraries.
const MAX_HEADER_NAME_BYTES: usize = 256;

fn header_name(field: Field<'_>) -> Option<String> {
    const NAME: &str = "the name of a header, such as \"x-forwarded-for\"";
    let name = field.text(NAME)?;
    // A token of RFC 9110.
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    if !(1..=MAX_HEADER_NAME_BYTES).contains(&name.len()) || !name.bytes().all(is_token) {
        field.reject(NAME);
        return None;
    }
    Some(name.to_ascii_lowercase())
}
