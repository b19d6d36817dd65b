//! What one call has settled differently from its limit.

use std::net::IpAddr;

use tidegate_core::{Key, OnStoreError, Quota};

/// What one call has settled differently from its limit, or beside it.
#[derive(Clone, Copy, Default)]
pub(crate) struct Terms<'a> {
    pub(crate) quota: Option<&'a Quota>,
    pub(crate) on_store_error: Option<OnStoreError>,
    /// Whom the deny lists look at as well as the key.
    pub(crate) address: Option<&'a IpAddr>,
    pub(crate) whole_key: Option<&'a Key<'a>>,
}
