//! What a program wants to be told.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use super::{Caller, Outcome};

pub(super) type Hook = Arc<dyn Fn(&Caller<'_>, &Outcome) + Send + Sync>;

/// What a program wants to be told of.
#[derive(Clone, Default)]
pub(super) struct Hooks {
    pub(super) on_limited: Option<Hook>,
    pub(super) on_error: Option<Hook>,
}

impl Hooks {
    pub(super) fn tell(&self, caller: &Caller<'_>, outcome: &Outcome) {
        let hook = match outcome {
            Outcome::Limited(_) | Outcome::Overloaded(_) | Outcome::Denied(_) => &self.on_limited,
            Outcome::Unavailable(_) | Outcome::Invalid(_) => &self.on_error,
            Outcome::Allowed(_) if self.on_error.is_some() && outcome.is_without_store() => &self.on_error,
            Outcome::Allowed(_) if self.on_limited.is_some() && outcome.is_shadowed() => &self.on_limited,
            Outcome::Allowed(_) => return,
        };
        if let Some(hook) = hook {
            // A hook that panics is its own business: the request was decided already. The panic's message has been printed
            // by then.
            let _ = catch_unwind(AssertUnwindSafe(|| hook(caller, outcome)));
        }
    }
}
