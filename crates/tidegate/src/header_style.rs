//! How clients are told about their limits: a setting that configs write and transports act on.

/// A family of response headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum HeaderStyle {
    /// `RateLimit` and `RateLimit-Policy`, as the IETF's working group has them now.
    Ietf,
    /// `RateLimit-Limit`, `RateLimit-Remaining` and `RateLimit-Reset`, as draft 03 had them.
    Draft03,
    /// `X-RateLimit-*`.
    Legacy,
}

/// What `X-RateLimit-Reset` counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LegacyReset {
    /// Seconds from now.
    #[default]
    Delta,
    /// Seconds since the epoch.
    Epoch,
}
