//! Decodes Envoy's request leniently: strings need not be UTF-8.
//!
//! Descriptors contain client input, and a header may have any bytes. Envoy passes them on unchanged, though protobuf strings
//! are UTF-8, and admits a request without a response. To refuse such a message would let one byte bypass every limit.

use bytes::Bytes;
use envoy_types::pb::envoy::extensions::common::ratelimit::v3::RateLimitDescriptor;
use envoy_types::pb::envoy::extensions::common::ratelimit::v3::rate_limit_descriptor::{self, RateLimitOverride};
use envoy_types::pb::envoy::service::ratelimit::v3::RateLimitRequest;
use envoy_types::pb::google::protobuf::UInt64Value;
use prost::{DecodeError, Message};

/// Decodes a request, with replacement characters for bytes that are not UTF-8.
pub(super) fn decode(message: Bytes) -> Result<RateLimitRequest, DecodeError> {
    // Nearly all requests are UTF-8.
    RateLimitRequest::decode(message.clone()).or_else(|_| LenientRequest::decode(message).map(RateLimitRequest::from))
}

/// `RateLimitRequest` with bytes in place of strings.
#[derive(Clone, PartialEq, Message)]
struct LenientRequest {
    #[prost(bytes = "vec", tag = "1")]
    domain: Vec<u8>,
    #[prost(message, repeated, tag = "2")]
    descriptors: Vec<LenientDescriptor>,
    #[prost(uint32, tag = "3")]
    hits_addend: u32,
}

#[derive(Clone, PartialEq, Message)]
struct LenientDescriptor {
    #[prost(message, repeated, tag = "1")]
    entries: Vec<LenientEntry>,
    #[prost(message, optional, tag = "2")]
    limit: Option<RateLimitOverride>,
    #[prost(message, optional, tag = "3")]
    hits_addend: Option<UInt64Value>,
    #[prost(bool, tag = "4")]
    is_negative_hits: bool,
}

#[derive(Clone, PartialEq, Eq, Message)]
struct LenientEntry {
    #[prost(bytes = "vec", tag = "1")]
    key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    value: Vec<u8>,
}

impl From<LenientRequest> for RateLimitRequest {
    fn from(LenientRequest { domain, descriptors, hits_addend }: LenientRequest) -> Self {
        RateLimitRequest {
            domain: text(&domain),
            descriptors: descriptors.into_iter().map(RateLimitDescriptor::from).collect(),
            hits_addend,
        }
    }
}

impl From<LenientDescriptor> for RateLimitDescriptor {
    fn from(LenientDescriptor { entries, limit, hits_addend, is_negative_hits }: LenientDescriptor) -> Self {
        let entries = entries.into_iter();
        let entries = entries
            .map(|LenientEntry { key, value }| rate_limit_descriptor::Entry { key: text(&key), value: text(&value) });
        RateLimitDescriptor { entries: entries.collect(), limit, hits_addend, is_negative_hits }
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(value: &[u8]) -> Bytes {
        let entries = vec![LenientEntry { key: b"user".to_vec(), value: value.to_vec() }];
        let hits_addend = Some(UInt64Value { value: 3 });
        let limit = Some(RateLimitOverride { requests_per_unit: 5, unit: 2 });
        let descriptor = LenientDescriptor { entries, limit, hits_addend, is_negative_hits: true };
        LenientRequest { domain: b"edge".to_vec(), descriptors: vec![descriptor], hits_addend: 7 }
            .encode_to_vec()
            .into()
    }

    #[test]
    fn invalid_utf8_changes_only_its_own_string() {
        let strict = RateLimitRequest::decode(encoded("josé".as_bytes())).expect("text");
        assert_eq!(decode(encoded("josé".as_bytes())).expect("text"), strict);
        assert!(RateLimitRequest::decode(encoded(b"jos\xe9")).is_err());
        let mut lenient = decode(encoded(b"jos\xe9")).expect("a message");
        assert_eq!(lenient.descriptors[0].entries[0].value, "jos\u{fffd}");
        lenient.descriptors[0].entries[0].value = "josé".to_owned();
        assert_eq!(lenient, strict);
    }

    #[test]
    fn a_malformed_message_is_refused() {
        assert!(decode(Bytes::from_static(&[0x0a, 0x05, b'x'])).is_err());
    }
}
