//! Envoy's requests and the decisions that bind them, worked out by hand.

use super::cases::GoldenTrace;

/// Units begin with the epoch.
pub(super) const REQUESTS: GoldenTrace = GoldenTrace {
    config: "\
domain: shop
descriptors:
  - {key: path, value: /login, rate_limit: {unit: minute, requests_per_unit: 2}}
  - {key: user, rate_limit: {unit: hour, requests_per_unit: 3}}
  - {key: banned, rate_limit: {unit: day, requests_per_unit: 0}}
  - {key: internal, rate_limit: {unlimited: true}}
  - {key: muted, shadow_mode: true, rate_limit: {unit: day, requests_per_unit: 0}}
  - {key: watched, shadow_mode: true, rate_limit: {unit: second, requests_per_unit: 1}}
  - {key: pool, quota_mode: true, rate_limit: {unit: hour, requests_per_unit: 1}}
  - {key: reserve, quota_mode: true, rate_limit: {unit: hour, requests_per_unit: 2}}
",
    cases: &[
        (
            r#"{"at_ms":59000,"domain":"shop","descriptors":[{"entries":[{"key":"path","value":"/login"}]}]}"#,
            r#"{"allowed":true,"limit":2,"remaining":1,"retry_after_ms":null,"reset_after_ms":1000,"reason":null}"#,
        ),
        // Two are too many for one limit: nothing is taken from the other.
        (
            r#"{"at_ms":59000,"domain":"shop","descriptors":[{"entries":[{"key":"path","value":"/login"}]},{"entries":[{"key":"user","value":"u"}]}],"hits_addend":2}"#,
            r#"{"allowed":false,"limit":2,"remaining":1,"retry_after_ms":1000,"reset_after_ms":1000,"reason":"rate"}"#,
        ),
        // The smallest remainder.
        (
            r#"{"at_ms":59500,"domain":"shop","descriptors":[{"entries":[{"key":"user","value":"u"}]},{"entries":[{"key":"path","value":"/login"}]}]}"#,
            r#"{"allowed":true,"limit":2,"remaining":0,"retry_after_ms":null,"reset_after_ms":500,"reason":null}"#,
        ),
        (
            r#"{"at_ms":59500,"domain":"shop","descriptors":[{"entries":[{"key":"user","value":"u"}]},{"entries":[{"key":"path","value":"/login"}]}]}"#,
            r#"{"allowed":false,"limit":2,"remaining":0,"retry_after_ms":500,"reset_after_ms":500,"reason":"rate"}"#,
        ),
        (
            r#"{"at_ms":59500,"domain":"shop","descriptors":[{"entries":[{"key":"user","value":"u"}],"hitsAddend":"2"}]}"#,
            r#"{"allowed":true,"limit":3,"remaining":0,"retry_after_ms":null,"reset_after_ms":3540500,"reason":null}"#,
        ),
        // The longest wait.
        (
            r#"{"at_ms":59600,"domain":"shop","descriptors":[{"entries":[{"key":"path","value":"/login"}]},{"entries":[{"key":"user","value":"u"}]}]}"#,
            r#"{"allowed":false,"limit":3,"remaining":0,"retry_after_ms":3540400,"reset_after_ms":3540400,"reason":"rate"}"#,
        ),
        // 0 checks.
        (
            r#"{"at_ms":60000,"domain":"shop","descriptors":[{"entries":[{"key":"path","value":"/login"}],"hits_addend":0}]}"#,
            r#"{"allowed":true,"limit":2,"remaining":2,"retry_after_ms":null,"reset_after_ms":0,"reason":null}"#,
        ),
        // No rule, no domain, and no limit.
        (
            r#"{"at_ms":60000,"domain":"shop","descriptors":[{"entries":[{"key":"path","value":"/"}]}]}"#,
            r#"{"allowed":true,"limit":4294967295,"remaining":4294967295,"retry_after_ms":null,"reset_after_ms":0,"reason":null}"#,
        ),
        (
            r#"{"at_ms":60000,"domain":"mail","descriptors":[{"entries":[{"key":"path","value":"/login"}]}]}"#,
            r#"{"allowed":true,"limit":4294967295,"remaining":4294967295,"retry_after_ms":null,"reset_after_ms":0,"reason":null}"#,
        ),
        (
            r#"{"at_ms":60000,"domain":"shop","descriptors":[{"entries":[{"key":"internal","value":"x"}]},{"entries":[{"key":"path","value":"/login"}]}]}"#,
            r#"{"allowed":true,"limit":2,"remaining":1,"retry_after_ms":null,"reset_after_ms":60000,"reason":null}"#,
        ),
        (
            r#"{"at_ms":60000,"domain":"shop","descriptors":[{"entries":[{"key":"banned","value":"x"}]}]}"#,
            r#"{"allowed":false,"limit":0,"remaining":0,"retry_after_ms":null,"reset_after_ms":0,"reason":"cost_exceeds_capacity"}"#,
        ),
        (
            r#"{"at_ms":60000,"domain":"shop","descriptors":[{"entries":[{"key":"muted","value":"x"}]}]}"#,
            r#"{"allowed":true,"limit":0,"remaining":0,"retry_after_ms":null,"reset_after_ms":0,"reason":"cost_exceeds_capacity"}"#,
        ),
        // A check has the same result, and a refund passes.
        (
            r#"{"at_ms":60000,"domain":"shop","descriptors":[{"entries":[{"key":"banned","value":"x"}],"hits_addend":0}]}"#,
            r#"{"allowed":false,"limit":0,"remaining":0,"retry_after_ms":null,"reset_after_ms":0,"reason":"cost_exceeds_capacity"}"#,
        ),
        (
            r#"{"at_ms":60000,"domain":"shop","descriptors":[{"entries":[{"key":"banned","value":"x"}],"isNegativeHits":true}]}"#,
            r#"{"allowed":true,"limit":0,"remaining":0,"retry_after_ms":null,"reset_after_ms":0,"reason":null}"#,
        ),
        (
            r#"{"at_ms":60000,"domain":"shop","descriptors":[{"entries":[{"key":"watched","value":"x"}]}]}"#,
            r#"{"allowed":true,"limit":1,"remaining":0,"retry_after_ms":null,"reset_after_ms":1000,"reason":null}"#,
        ),
        (
            r#"{"at_ms":60000,"domain":"shop","descriptors":[{"entries":[{"key":"watched","value":"x"}]}]}"#,
            r#"{"allowed":true,"limit":1,"remaining":0,"retry_after_ms":null,"reset_after_ms":1000,"reason":"rate"}"#,
        ),
        (
            r#"{"at_ms":60000,"domain":"shop","descriptors":[{"entries":[{"key":"new","value":"x"}],"limit":{"requestsPerUnit":4,"unit":"MINUTE"}}]}"#,
            r#"{"allowed":true,"limit":4,"remaining":3,"retry_after_ms":null,"reset_after_ms":60000,"reason":null}"#,
        ),
        (
            r#"{"at_ms":60000,"domain":"shop","descriptors":[{"entries":[{"key":"user","value":"u"}],"isNegativeHits":true}]}"#,
            r#"{"allowed":true,"limit":3,"remaining":1,"retry_after_ms":null,"reset_after_ms":3540000,"reason":null}"#,
        ),
        // Quota mode: the request passes as long as one rule is not over, and that rule is shown.
        (
            r#"{"at_ms":60000,"domain":"shop","descriptors":[{"entries":[{"key":"pool","value":"x"}]},{"entries":[{"key":"reserve","value":"x"}]}]}"#,
            r#"{"allowed":true,"limit":1,"remaining":0,"retry_after_ms":null,"reset_after_ms":3540000,"reason":null}"#,
        ),
        (
            r#"{"at_ms":60000,"domain":"shop","descriptors":[{"entries":[{"key":"pool","value":"x"}]},{"entries":[{"key":"reserve","value":"x"}]}]}"#,
            r#"{"allowed":true,"limit":2,"remaining":0,"retry_after_ms":null,"reset_after_ms":3540000,"reason":null}"#,
        ),
    ],
};
