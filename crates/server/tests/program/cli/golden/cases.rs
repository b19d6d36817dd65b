//! Traces and their decisions, worked out by hand.

/// A config, and a trace with its decisions.
pub(super) struct GoldenTrace {
    pub(super) config: &'static str,
    pub(super) cases: &'static [TraceCase],
}

/// One line of a trace and its decision.
type TraceCase = (&'static str, &'static str);

/// A token every third of a second. Times are rounded up to whole milliseconds.
pub(super) const FRACTIONAL_TOKENS: GoldenTrace = GoldenTrace {
    config: "[limits.a]\nalgorithm = 'token_bucket'\nrate = 3\nperiod = '1s'\ncapacity = 1\n",
    cases: &[
        (
            r#"{"at_ms":0,"op":"limit","limit":"a","key":"u"}"#,
            r#"{"allowed":true,"limit":1,"remaining":0,"retry_after_ms":null,"reset_after_ms":334,"reason":null}"#,
        ),
        (
            r#"{"at_ms":0,"op":"limit","limit":"a","key":"u"}"#,
            r#"{"allowed":false,"limit":1,"remaining":0,"retry_after_ms":334,"reset_after_ms":334,"reason":"rate"}"#,
        ),
        (
            r#"{"at_ms":333,"op":"limit","limit":"a","key":"u"}"#,
            r#"{"allowed":false,"limit":1,"remaining":0,"retry_after_ms":1,"reset_after_ms":1,"reason":"rate"}"#,
        ),
        (
            r#"{"at_ms":334,"op":"limit","limit":"a","key":"u"}"#,
            r#"{"allowed":true,"limit":1,"remaining":0,"retry_after_ms":null,"reset_after_ms":334,"reason":null}"#,
        ),
    ],
};

/// A token every 500 ms, three at most.
pub(super) const TOKEN_BUCKET: GoldenTrace = GoldenTrace {
    config: "[limits.a]\nalgorithm = 'token_bucket'\nrate = 2\nperiod = '1s'\ncapacity = 3\n",
    cases: &[
        (
            r#"{"at_ms":0,"op":"limit","limit":"a","key":"u"}"#,
            r#"{"allowed":true,"limit":3,"remaining":2,"retry_after_ms":null,"reset_after_ms":500,"reason":null}"#,
        ),
        (
            r#"{"at_ms":0,"op":"limit","limit":"a","key":"u","cost":2}"#,
            r#"{"allowed":true,"limit":3,"remaining":0,"retry_after_ms":null,"reset_after_ms":1500,"reason":null}"#,
        ),
        (
            r#"{"at_ms":0,"op":"limit","limit":"a","key":"u","cost":1}"#,
            r#"{"allowed":false,"limit":3,"remaining":0,"retry_after_ms":500,"reset_after_ms":1500,"reason":"rate"}"#,
        ),
        (
            r#"{"at_ms":499,"op":"limit","limit":"a","key":"u"}"#,
            r#"{"allowed":false,"limit":3,"remaining":0,"retry_after_ms":1,"reset_after_ms":1001,"reason":"rate"}"#,
        ),
        (
            r#"{"at_ms":500,"op":"limit","limit":"a","key":"u"}"#,
            r#"{"allowed":true,"limit":3,"remaining":0,"retry_after_ms":null,"reset_after_ms":1500,"reason":null}"#,
        ),
        (
            r#"{"at_ms":500,"op":"limit","limit":"a","key":"u","cost":4}"#,
            r#"{"allowed":false,"limit":3,"remaining":0,"retry_after_ms":null,"reset_after_ms":1500,"reason":"cost_exceeds_capacity"}"#,
        ),
        // 0.2 are left. 1.8 are owed, at 500 ms each.
        (
            r#"{"at_ms":600,"op":"reserve","limit":"a","key":"u","cost":2}"#,
            r#"{"allowed":true,"limit":3,"remaining":0,"retry_after_ms":900,"reset_after_ms":2400,"reason":null}"#,
        ),
        (
            r#"{"at_ms":600,"op":"refund","limit":"a","key":"u","cost":2}"#,
            r#"{"allowed":true,"limit":3,"remaining":0,"retry_after_ms":null,"reset_after_ms":1400,"reason":null}"#,
        ),
        (
            r#"{"at_ms":600,"op":"check","limit":"a","key":"u"}"#,
            r#"{"allowed":false,"limit":3,"remaining":0,"retry_after_ms":400,"reset_after_ms":1400,"reason":"rate"}"#,
        ),
        (
            r#"{"at_ms":600,"op":"limit","limit":"a","key":"somebody else","cost":3}"#,
            r#"{"allowed":true,"limit":3,"remaining":0,"retry_after_ms":null,"reset_after_ms":1500,"reason":null}"#,
        ),
        (
            r#"{"at_ms":600,"op":"reset","limit":"a","key":"u"}"#,
            r#"{"allowed":true,"limit":3,"remaining":3,"retry_after_ms":null,"reset_after_ms":0,"reason":null}"#,
        ),
    ],
};

/// Two in every minute of the clock.
pub(super) const FIXED_WINDOW: GoldenTrace = GoldenTrace {
    config: "[limits.a]\nalgorithm = 'fixed_window'\nrate = 2\nperiod = '1m'\n",
    cases: &[
        (
            r#"{"at_ms":59000,"op":"limit","limit":"a","key":null}"#,
            r#"{"allowed":true,"limit":2,"remaining":1,"retry_after_ms":null,"reset_after_ms":1000,"reason":null}"#,
        ),
        (
            r#"{"at_ms":59500,"op":"limit","limit":"a","key":null}"#,
            r#"{"allowed":true,"limit":2,"remaining":0,"retry_after_ms":null,"reset_after_ms":500,"reason":null}"#,
        ),
        // Null is the global key, and no string is.
        (
            r#"{"at_ms":59500,"op":"check","limit":"a","key":""}"#,
            r#"{"allowed":true,"limit":2,"remaining":2,"retry_after_ms":null,"reset_after_ms":0,"reason":null}"#,
        ),
        (
            r#"{"at_ms":59999,"op":"limit","limit":"a","key":null}"#,
            r#"{"allowed":false,"limit":2,"remaining":0,"retry_after_ms":1,"reset_after_ms":1,"reason":"rate"}"#,
        ),
        (
            r#"{"at_ms":60000,"op":"limit","limit":"a","key":null}"#,
            r#"{"allowed":true,"limit":2,"remaining":1,"retry_after_ms":null,"reset_after_ms":60000,"reason":null}"#,
        ),
    ],
};

/// Four in ten seconds. The units of the last bucket count less and less.
pub(super) const SLIDING_WINDOW: GoldenTrace = GoldenTrace {
    config: "[limits.a]\nalgorithm = 'sliding_window'\nrate = 4\nperiod = '10s'\n",
    cases: &[
        (
            r#"{"at_ms":0,"op":"limit","limit":"a","key":["t","u"],"cost":4}"#,
            r#"{"allowed":true,"limit":4,"remaining":0,"retry_after_ms":null,"reset_after_ms":20000,"reason":null}"#,
        ),
        // The parts of a key never run together.
        (
            r#"{"at_ms":0,"op":"check","limit":"a","key":"t|u","cost":4}"#,
            r#"{"allowed":true,"limit":4,"remaining":4,"retry_after_ms":null,"reset_after_ms":0,"reason":null}"#,
        ),
        (
            r#"{"at_ms":10000,"op":"limit","limit":"a","key":["t","u"]}"#,
            r#"{"allowed":false,"limit":4,"remaining":0,"retry_after_ms":2500,"reset_after_ms":10000,"reason":"rate"}"#,
        ),
        (
            r#"{"at_ms":12499,"op":"limit","limit":"a","key":["t","u"]}"#,
            r#"{"allowed":false,"limit":4,"remaining":0,"retry_after_ms":1,"reset_after_ms":7501,"reason":"rate"}"#,
        ),
        (
            r#"{"at_ms":12500,"op":"limit","limit":"a","key":["t","u"]}"#,
            r#"{"allowed":true,"limit":4,"remaining":0,"retry_after_ms":null,"reset_after_ms":17500,"reason":null}"#,
        ),
        (
            r#"{"at_ms":15000,"op":"limit","limit":"a","key":["t","u"]}"#,
            r#"{"allowed":true,"limit":4,"remaining":0,"retry_after_ms":null,"reset_after_ms":15000,"reason":null}"#,
        ),
    ],
};

/// Two in any second, exactly.
pub(super) const SLIDING_LOG: GoldenTrace = GoldenTrace {
    config: "[limits.a]\nalgorithm = 'sliding_log'\nrate = 2\nperiod = '1s'\n",
    cases: &[
        (
            r#"{"at_ms":0,"op":"limit","limit":"a","key":"u"}"#,
            r#"{"allowed":true,"limit":2,"remaining":1,"retry_after_ms":null,"reset_after_ms":1000,"reason":null}"#,
        ),
        (
            r#"{"at_ms":300,"op":"limit","limit":"a","key":"u"}"#,
            r#"{"allowed":true,"limit":2,"remaining":0,"retry_after_ms":null,"reset_after_ms":1000,"reason":null}"#,
        ),
        (
            r#"{"at_ms":999,"op":"limit","limit":"a","key":"u"}"#,
            r#"{"allowed":false,"limit":2,"remaining":0,"retry_after_ms":1,"reset_after_ms":301,"reason":"rate"}"#,
        ),
        (
            r#"{"at_ms":1000,"op":"limit","limit":"a","key":"u"}"#,
            r#"{"allowed":true,"limit":2,"remaining":0,"retry_after_ms":null,"reset_after_ms":1000,"reason":null}"#,
        ),
        (
            r#"{"at_ms":1000,"op":"refund","limit":"a","key":"u"}"#,
            r#"{"allowed":true,"limit":2,"remaining":1,"retry_after_ms":null,"reset_after_ms":300,"reason":null}"#,
        ),
    ],
};

/// Two at once, each for a second.
pub(super) const CONCURRENCY: GoldenTrace = GoldenTrace {
    config: "\
        [limits.a]\nalgorithm = 'concurrency'\ncapacity = 2\nttl = '1s'\n\
        [limits.shadow]\nalgorithm = 'concurrency'\ncapacity = 1\nttl = '1m'\nshadow = true\n",
    cases: &[
        (
            r#"{"at_ms":0,"op":"admit","limit":"a","key":"u","lease":"0000000000000001"}"#,
            r#"{"allowed":true,"limit":2,"remaining":1,"retry_after_ms":null,"reset_after_ms":1000,"reason":null}"#,
        ),
        (
            r#"{"at_ms":300,"op":"admit","limit":"a","key":"u","lease":"0000000000000002"}"#,
            r#"{"allowed":true,"limit":2,"remaining":0,"retry_after_ms":null,"reset_after_ms":1000,"reason":null}"#,
        ),
        (
            r#"{"at_ms":300,"op":"admit","limit":"a","key":"u","lease":"0000000000000003"}"#,
            r#"{"allowed":false,"limit":2,"remaining":0,"retry_after_ms":700,"reset_after_ms":1000,"reason":"concurrency"}"#,
        ),
        // The response was lost: the retry has the same lease.
        (
            r#"{"at_ms":400,"op":"admit","limit":"a","key":"u","lease":"0000000000000002"}"#,
            r#"{"allowed":true,"limit":2,"remaining":0,"retry_after_ms":null,"reset_after_ms":1000,"reason":null}"#,
        ),
        (
            r#"{"at_ms":999,"op":"renew","limit":"a","key":"u","lease":"0000000000000001"}"#,
            r#"{"allowed":true,"limit":2,"remaining":0,"retry_after_ms":null,"reset_after_ms":1000,"reason":null}"#,
        ),
        (
            r#"{"at_ms":1400,"op":"renew","limit":"a","key":"u","lease":"0000000000000002"}"#,
            r#"{"allowed":false,"limit":2,"remaining":1,"retry_after_ms":null,"reset_after_ms":599,"reason":"concurrency"}"#,
        ),
        (
            r#"{"at_ms":1400,"op":"check","limit":"a","key":"u","cost":2}"#,
            r#"{"allowed":false,"limit":2,"remaining":1,"retry_after_ms":599,"reset_after_ms":599,"reason":"concurrency"}"#,
        ),
        (
            r#"{"at_ms":1400,"op":"admit","limit":"a","key":"u","lease":"0000000000000003"}"#,
            r#"{"allowed":true,"limit":2,"remaining":0,"retry_after_ms":null,"reset_after_ms":1000,"reason":null}"#,
        ),
        // Too late: another lease has its place.
        (
            r#"{"at_ms":1400,"op":"release","limit":"a","key":"u","lease":"0000000000000002"}"#,
            r#"{"allowed":false,"limit":2,"remaining":0,"retry_after_ms":null,"reset_after_ms":1000,"reason":"concurrency"}"#,
        ),
        (
            r#"{"at_ms":1500,"op":"release","limit":"a","key":"u","lease":"0000000000000001"}"#,
            r#"{"allowed":true,"limit":2,"remaining":1,"retry_after_ms":null,"reset_after_ms":900,"reason":null}"#,
        ),
        (
            r#"{"at_ms":1500,"op":"release","limit":"a","key":"u","lease":"0000000000000001"}"#,
            r#"{"allowed":false,"limit":2,"remaining":1,"retry_after_ms":null,"reset_after_ms":900,"reason":"concurrency"}"#,
        ),
        (
            r#"{"at_ms":1500,"op":"reset","limit":"a","key":"u"}"#,
            r#"{"allowed":true,"limit":2,"remaining":2,"retry_after_ms":null,"reset_after_ms":0,"reason":null}"#,
        ),
        (
            r#"{"at_ms":1500,"op":"admit","limit":"shadow","key":"u","lease":"0000000000000001"}"#,
            r#"{"allowed":true,"limit":1,"remaining":0,"retry_after_ms":null,"reset_after_ms":60000,"reason":null}"#,
        ),
        (
            r#"{"at_ms":1500,"op":"admit","limit":"shadow","key":"u","lease":"0000000000000002"}"#,
            r#"{"allowed":true,"limit":1,"remaining":0,"retry_after_ms":null,"reset_after_ms":60000,"reason":"concurrency"}"#,
        ),
        // Shadow mode denies no request, and a denied one holds no lease.
        (
            r#"{"at_ms":1500,"op":"release","limit":"shadow","key":"u","lease":"0000000000000002"}"#,
            r#"{"allowed":true,"limit":1,"remaining":0,"retry_after_ms":null,"reset_after_ms":60000,"reason":"concurrency"}"#,
        ),
    ],
};

pub(super) const DENY_LISTS_SHADOW_MODE_AND_SHARDS: GoldenTrace = GoldenTrace {
    config: "\
        [limits.shadow]\nalgorithm = 'sliding_log'\nrate = 1\nperiod = '1s'\nshadow = true\n\
        [limits.denied]\nalgorithm = 'sliding_log'\nrate = 1\nperiod = '1s'\ndeny = ['203.0.113.0/24']\n\
        [limits.cut]\nalgorithm = 'fixed_window'\nrate = 4\nperiod = '1s'\nshards = 2\n",
    cases: &[
        (
            r#"{"at_ms":0,"op":"limit","limit":"shadow","key":"u"}"#,
            r#"{"allowed":true,"limit":1,"remaining":0,"retry_after_ms":null,"reset_after_ms":1000,"reason":null}"#,
        ),
        (
            r#"{"at_ms":0,"op":"limit","limit":"shadow","key":"u"}"#,
            r#"{"allowed":true,"limit":1,"remaining":0,"retry_after_ms":null,"reset_after_ms":1000,"reason":"rate"}"#,
        ),
        (
            r#"{"at_ms":0,"op":"limit","limit":"denied","key":"203.0.113.9"}"#,
            r#"{"allowed":false,"limit":1,"remaining":0,"retry_after_ms":null,"reset_after_ms":0,"reason":"deny"}"#,
        ),
        // A key belongs to one shard of a sharded limit.
        (
            r#"{"at_ms":0,"op":"check","limit":"cut","key":"u"}"#,
            r#"{"allowed":true,"limit":2,"remaining":2,"retry_after_ms":null,"reset_after_ms":0,"reason":null}"#,
        ),
    ],
};
