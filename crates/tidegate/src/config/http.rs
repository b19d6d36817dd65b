//! `[http]`.

use std::num::NonZeroU8;

use super::reader::{Field, Fields};
use super::tree::Value;
use crate::header_style::{HeaderStyle, LegacyReset};
use crate::trust::TrustProxy;

/// How the HTTP transports read clients and answer them.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Http {
    /// Whose word about the client's address is believed.
    pub trust_proxy: TrustProxy,
    /// Which headers tell clients about their limits.
    pub headers: Vec<HeaderStyle>,
    /// What `X-RateLimit-Reset` counts.
    pub legacy_reset: LegacyReset,
    /// The one header that is read from a trusted peer, in lower case.
    pub client_header: String,
    /// How many bits of an IPv6 address tell clients apart.
    pub ipv6_prefix: u8,
}

impl Default for Http {
    fn default() -> Self {
        Http {
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

impl Http {
    pub(super) fn read(mut fields: Fields<'_>) -> Self {
        let mut read = Http::default();
        if let Some(trust) = fields.get("trust_proxy").and_then(trust_proxy) {
            read.trust_proxy = trust;
        }
        if let Some(styles) = fields.get("headers").and_then(|field| field.list("a list, such as [\"ietf\"]")) {
            read.headers.clear();
            for field in styles {
                match field.one_of(STYLES) {
                    Some(style) if read.headers.contains(&style) => field.refuse("each of them once"),
                    style => read.headers.extend(style),
                }
            }
        }
        if let Some(reset) = fields.get("legacy_reset").and_then(|field| field.one_of(RESETS)) {
            read.legacy_reset = reset;
        }
        if let Some(name) = fields.get("client_header").and_then(header_name) {
            read.client_header = name;
        }
        if let Some(prefix) = fields.get("ipv6_prefix").and_then(|field| field.whole_in(1, 128)) {
            read.ipv6_prefix = prefix as u8;
        }
        fields.finish();
        read
    }
}

fn trust_proxy(field: Field<'_>) -> Option<TrustProxy> {
    const TRUST: &str = "false, a number of hops from 1 to 255, or a list of networks such as [\"10.0.0.0/8\"]";
    match &field.node.value {
        Value::Bool { value: false, .. } => Some(TrustProxy::Nobody),
        Value::Number { whole: Some(hops @ 1..=255), .. } => NonZeroU8::new(*hops as u8).map(TrustProxy::Hops),
        Value::List(_) => {
            let networks = field.list(TRUST)?.filter_map(|entry| {
                let network = entry.text(NETWORK)?.parse().ok();
                if network.is_none() {
                    entry.refuse(NETWORK);
                }
                network
            });
            Some(TrustProxy::Networks(networks.collect()))
        }
        _ => {
            field.refuse(TRUST);
            None
        }
    }
}

const NETWORK: &str = "an address or a network such as \"10.0.0.0/8\"";

/// More than any header's name has, and less than would be too much for the HTTP libraries.
const LONGEST_NAME: usize = 256;

fn header_name(field: Field<'_>) -> Option<String> {
    const NAME: &str = "the name of a header, such as \"x-forwarded-for\"";
    let name = field.text(NAME)?;
    // A token of RFC 9110.
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    if !(1..=LONGEST_NAME).contains(&name.len()) || !name.bytes().all(is_token) {
        field.refuse(NAME);
        return None;
    }
    Some(name.to_ascii_lowercase())
}
