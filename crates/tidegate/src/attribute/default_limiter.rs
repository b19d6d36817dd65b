//! The limiter of those who name none.

use std::sync::OnceLock;

use crate::Limiter;

static DEFAULT: OnceLock<Limiter> = OnceLock::new();

/// Sets the limiter that `#[limit]` asks where neither the attribute nor a layer has one. Once, before the first call:
/// a limit that moved to another limiter while it is in use would begin anew.
pub fn set_default_limiter(limiter: Limiter) -> Result<(), DefaultLimiterIsSet> {
    DEFAULT.set(limiter).map_err(|_| DefaultLimiterIsSet)
}

pub(super) fn default_limiter() -> Option<&'static Limiter> {
    DEFAULT.get()
}

/// The default limiter was set before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the default limiter of this process was set before")]
pub struct DefaultLimiterIsSet;
