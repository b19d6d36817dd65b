//! From what a config says.

use super::LimitHeaders;
use crate::config::Http;

impl From<&Http> for LimitHeaders {
    fn from(http: &Http) -> Self {
        LimitHeaders::new(http.headers.iter().copied()).legacy_reset(http.legacy_reset)
    }
}
