//! The limits as they are now, read without touching memory that other threads write.
//!
//! Limits are read by every decision and hardly ever replaced. So every thread keeps the limits it saw last, beside
//! the version they had; a reader compares the version, which stays in every processor's cache until somebody
//! replaces a limit, and fetches the limits anew only when it has changed.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwap;

use super::limits::Limits;

/// Versions are drawn from here, so that no two limiters ever share one, but for [`FIRST`].
static NEXT_VERSION: AtomicU64 = AtomicU64::new(1);

/// Limits and their version.
type Seen = Option<(u64, Arc<Limits>)>;

thread_local! {
    /// What this thread saw last of a few limiters, by their versions.
    static SEEN: RefCell<[Seen; PLACES]> = const { RefCell::new([const { None }; PLACES]) };
}

/// How many limiters a thread remembers. Two whose versions fall on the same place take turns, and are fetched.
const PLACES: usize = 4;

/// The limits of a limiter. What every decision looks at comes first.
#[repr(C)]
pub(super) struct Current {
    version: AtomicU64,
    /// The limits it was built with.
    first: Limits,
    limits: ArcSwap<Limits>,
}

/// The version of limits that were never replaced: most limiters' for ever.
const FIRST: u64 = 0;

impl Current {
    pub(super) fn new(limits: Limits) -> Self {
        Current { version: AtomicU64::new(FIRST), limits: ArcSwap::from_pointee(limits.clone()), first: limits }
    }

    /// The limits it was built with, as long as nobody has replaced any or closed the limiter.
    #[inline(always)]
    pub(super) fn first(&self) -> Option<&Limits> {
        // No store ever writes that version, so there is nothing to acquire; and what the compiler knows it still knows after this.
        (self.version.load(Ordering::Relaxed) == FIRST).then_some(&self.first)
    }

    /// Works with the limits as they are now.
    pub(super) fn with<R>(&self, work: impl Fn(&Limits) -> R) -> R {
        // Those are this limiter's own, and what they are called is every limiter's.
        if let Some(first) = self.first() {
            return work(first);
        }
        let version = self.version.load(Ordering::Acquire);
        let seen = SEEN.try_with(|seen| {
            // Only a store that asks a limiter in the middle of a decision finds this borrowed.
            if let Ok(seen) = seen.try_borrow()
                && let Some((known, limits)) = &seen[version as usize % PLACES]
                && *known == version
            {
                return work(limits);
            }
            let limits = self.load();
            if let Ok(mut seen) = seen.try_borrow_mut() {
                seen[version as usize % PLACES] = Some((version, Arc::clone(&limits)));
            }
            work(&limits)
        });
        // What a thread saw is gone while its own variables are torn down.
        seen.unwrap_or_else(|_| work(&self.load()))
    }

    /// The limits as they are now, to keep.
    pub(super) fn load(&self) -> Arc<Limits> {
        self.limits.load_full()
    }

    /// Replaces the limits by what `change` makes of them.
    pub(super) fn update<E>(&self, mut change: impl FnMut(&Limits) -> Result<Limits, E>) -> Result<(), E> {
        loop {
            let before = self.limits.load_full();
            let after = Arc::new(change(&before)?);
            let found = self.limits.compare_and_swap(&before, after);
            if Arc::ptr_eq(&found, &before) {
                break;
            }
        }
        // After the limits: whoever sees the new version finds limits at least as new.
        self.renew();
        Ok(())
    }

    /// Makes everybody fetch the limits anew, whether they were replaced or not.
    pub(super) fn renew(&self) {
        // Not a store: whoever sees this version also has what others have put there before it.
        self.version.swap(next_version(), Ordering::AcqRel);
    }
}

fn next_version() -> u64 {
    NEXT_VERSION.fetch_add(1, Ordering::Relaxed)
}
