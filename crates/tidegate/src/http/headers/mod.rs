//! What clients are told about their limits.

mod ietf;
mod lasting;
mod number;
#[cfg(feature = "config")]
mod settings;

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use http::header::{HeaderMap, HeaderName, RETRY_AFTER};
use tidegate_core::{Decision, Outlook, Reason, ceil_seconds};

use crate::clock::{Clock, SystemClock};
use crate::enforce::{Outcome, Ruling, Rulings};
use crate::header_style::{HeaderStyle, LegacyReset};
use ietf::Fields;
#[cfg(feature = "tower")]
pub(crate) use ietf::Told;
use number::number;

const DRAFT03: [HeaderName; 3] = [
    HeaderName::from_static("ratelimit-limit"),
    HeaderName::from_static("ratelimit-remaining"),
    HeaderName::from_static("ratelimit-reset"),
];
const LEGACY: [HeaderName; 3] = [
    HeaderName::from_static("x-ratelimit-limit"),
    HeaderName::from_static("x-ratelimit-remaining"),
    HeaderName::from_static("x-ratelimit-reset"),
];

/// What is said of an admitted request.
#[cfg(feature = "tower")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Says {
    Nothing,
    /// [`HeaderStyle::Ietf`] and no other.
    Ietf,
    More,
}

/// Which headers tell clients about their limits: any number of families, [`HeaderStyle::Ietf`] unless said otherwise.
///
/// Whatever is chosen, a denial that can be retried has a `Retry-After`: [`RateLimit::answer`](super::RateLimit::answer)
/// writes it.
#[derive(Clone)]
pub struct LimitHeaders {
    styles: Vec<HeaderStyle>,
    legacy_reset: LegacyReset,
    clock: Arc<dyn Clock>,
    /// The fields of the first limits that were told of: more than one where limits are picked, replaced, or a handler's.
    fields: Arc<[OnceLock<Fields>; 4]>,
}

impl Default for LimitHeaders {
    fn default() -> Self {
        LimitHeaders::new([HeaderStyle::Ietf])
    }
}

impl LimitHeaders {
    /// Headers of these families; with none, clients are told nothing but when to retry.
    pub fn new(styles: impl IntoIterator<Item = HeaderStyle>) -> Self {
        let styles = styles.into_iter().collect();
        LimitHeaders {
            styles,
            legacy_reset: LegacyReset::default(),
            clock: Arc::new(SystemClock),
            fields: Arc::default(),
        }
    }

    /// What `X-RateLimit-Reset` counts: seconds from now unless said otherwise.
    #[must_use]
    pub fn legacy_reset(mut self, reset: LegacyReset) -> Self {
        self.legacy_reset = reset;
        self
    }

    /// Where [`LegacyReset::Epoch`] gets the time from: the system unless said otherwise.
    #[must_use]
    pub fn clock(mut self, clock: impl Clock + 'static) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// What is said of an admitted request.
    #[cfg(feature = "tower")]
    pub(super) fn says(&self) -> Says {
        match &*self.styles {
            [] => Says::Nothing,
            [HeaderStyle::Ietf] => Says::Ietf,
            _ => Says::More,
        }
    }

    /// What is said of the decision of one limit by [`Says::Ietf`], where nothing has to be worked out first: the fields of
    /// such a limit were kept.
    #[cfg(feature = "tower")]
    #[inline]
    pub(super) fn foretold(&self, policy: &Arc<str>, window: Option<Duration>, decision: &Decision) -> Option<Told> {
        self.fields.iter().map_while(OnceLock::get).find_map(|fields| fields.told(policy, window, decision))
    }

    /// Writes what is to be said of an outcome. What a layer further in has said stays: it is listed as well where headers
    /// are lists, and where they are not it counts if it is a denial that says when to try again, or unless there is less left
    /// here.
    pub fn write(&self, outcome: &Outcome, headers: &mut HeaderMap) {
        let (Outcome::Allowed(rulings) | Outcome::Limited(rulings)) = outcome else { return };
        if rulings.iter().any(|ruling| is_made_up(ruling.decision())) {
            self.write_all(&rulings.only(|ruling| !is_made_up(ruling.decision())), headers);
        } else {
            self.write_all(rulings, headers);
        }
    }

    fn write_all(&self, rulings: &Rulings, headers: &mut HeaderMap) {
        self.styles.iter().for_each(|style| self.write_style(*style, rulings, headers));
    }

    fn write_style(&self, style: HeaderStyle, rulings: &Rulings, headers: &mut HeaderMap) {
        let Some(binding) = rulings.binding() else { return };
        match style {
            HeaderStyle::Ietf => {
                let mut kept = self.fields.iter().map(|fields| fields.get_or_init(|| Fields::kept(rulings)));
                match kept.find(|fields| fields.fit(rulings)) {
                    Some(fields) => fields.write(rulings, headers),
                    None => Fields::of(rulings).write(rulings, headers),
                }
            }
            HeaderStyle::Draft03 => write_three(DRAFT03, binding, ceil_seconds, headers),
            HeaderStyle::Legacy => write_three(LEGACY, binding, |reset| self.legacy_reset_of(reset), headers),
        }
    }

    fn legacy_reset_of(&self, reset_after: Duration) -> u64 {
        match self.legacy_reset {
            LegacyReset::Delta => ceil_seconds(reset_after),
            LegacyReset::Epoch => {
                let reset = self.clock.now().saturating_add(reset_after);
                reset.as_micros().div_ceil(1_000_000)
            }
        }
    }
}

/// Whether a decision is no limit's, which is not listed: who is on a deny list, in shadow mode too, has no quota to be told
/// of, and for a store that is broken nobody knows one.
fn is_made_up(decision: &Decision) -> bool {
    match decision.reason() {
        Some(Reason::Deny) => true,
        Some(Reason::Store) => decision.allowed(),
        _ => false,
    }
}

/// When to come back, to a request that was denied and may.
pub(super) fn write_retry_after(wait: Duration, headers: &mut HeaderMap) {
    // A wait of none would be no wait.
    headers.insert(RETRY_AFTER, number(ceil_seconds(wait).max(1)));
}

fn write_three(names: [HeaderName; 3], ruling: &Ruling, reset: impl Fn(Duration) -> u64, headers: &mut HeaderMap) {
    let Outlook { remaining, reset_after, .. } = ruling.decision().outlook();
    let said = headers.get(&names[1]).and_then(|remaining| remaining.to_str().ok()?.parse().ok());
    // Whoever denies it says by how much, and when to come back; else it is the one with less left.
    if said.is_some_and(|said: u64| said <= remaining || headers.contains_key(RETRY_AFTER)) {
        return;
    }
    for (name, value) in names.into_iter().zip([ruling.decision().limit(), remaining, reset(reset_after)]) {
        headers.insert(name, number(value));
    }
}

impl fmt::Debug for LimitHeaders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LimitHeaders { styles, legacy_reset, .. } = self;
        f.debug_struct("LimitHeaders")
            .field("styles", styles)
            .field("legacy_reset", legacy_reset)
            .finish_non_exhaustive()
    }
}
