//! Rate limit files of envoyproxy/ratelimit, unchanged, and matching of descriptors to their rules.
//!
//! ```
//! use tidegate::config::envoy::{Domains, RuleMatch};
//! use tidegate::Limiter;
//!
//! let text = "
//! domain: shop
//! descriptors:
//!   - key: remote_address
//!     rate_limit:
//!       unit: minute
//!       requests_per_unit: 100
//! ";
//! let domains = Domains::parse(text, "shop.yaml")?;
//! let limiter = Limiter::builder().limits(domains.limits()).build()?;
//!
//! # let asked = async {
//! if let RuleMatch::Limited(matched) = domains.find("shop", &[("remote_address", "192.0.2.1")]) {
//!     let decision = limiter.limit(matched.limit, matched.key).await?;
//!     println!("{} left", decision.remaining());
//! }
//! # Ok::<(), tidegate::Error>(()) };
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The supported fields, and the differences to upstream, are in `docs/book/src/reference/envoy-config.md` in the repository.

mod matching;
mod read;
#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

pub use matching::{Descriptor, MatchedLimit, Override, RuleMatch};

use super::error::{ConfigError, ConfigErrors};
use super::{read_file, without_byte_order_mark, yaml};
use crate::limiter::Limit;
use matching::{RuleHasher, RuleLevel};
use read::DomainReader;

/// The domains of valid rate limit files.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Domains {
    domains: HashMap<Box<str>, Domain, RuleHasher>,
    /// In the order of the files.
    limits: Vec<(Arc<str>, Limit)>,
    /// Rules of 0 requests, and whether they are in shadow mode.
    always_over: Vec<(Arc<str>, bool)>,
    /// The names of all limits for overrides.
    overrides: HashSet<Arc<str>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Domain {
    rules: RuleLevel,
    /// The name of the limit for overrides.
    overrides: Arc<str>,
}

impl Domains {
    /// Reads files, of one domain each. Returns all errors of invalid files.
    pub fn from_paths<P: AsRef<Path>>(paths: impl IntoIterator<Item = P>) -> Result<Self, ConfigErrors> {
        Self::read(paths.into_iter().map(|path| {
            let path = path.as_ref();
            let file: Arc<str> = path.to_string_lossy().into();
            // A named pipe would block here, also when a running server reads its rules again.
            let is_irregular = std::fs::metadata(path).is_ok_and(|found| !found.is_file());
            let text =
                if is_irregular { Err(ConfigError::of_file(&file, "not a file")) } else { read_file(path, &file) };
            (file, text)
        }))
    }

    /// Parses a text with one domain. Returns all errors; they call the text `file`.
    pub fn parse(text: &str, file: &str) -> Result<Self, ConfigErrors> {
        Self::read([(file.into(), Ok(text))])
    }

    fn read<T: AsRef<str>>(
        files: impl IntoIterator<Item = (Arc<str>, Result<T, ConfigError>)>,
    ) -> Result<Self, ConfigErrors> {
        let mut reader = DomainReader::default();
        let mut errors = ConfigErrors::default();
        for (file, text) in files {
            errors.append(match text {
                Ok(text) => reader.read_file(text.as_ref(), &file),
                Err(error) => error.into(),
            });
        }
        if errors.is_empty() { Ok(reader.domains) } else { Err(errors) }
    }

    /// Returns the limits of all rules with a rate, in the order of the files. They are named as in Envoy's statistics
    /// (`domain.key_value.key2`). Each domain has one more, `domain.(override)`; its quota comes with each request, see
    /// [`Domains::find_override`]. A number tells duplicate names apart.
    ///
    /// A rule of 0 requests has no limit: it is [always over](MatchedLimit::always_over).
    pub fn limits(&self) -> impl Iterator<Item = (String, Limit)> {
        self.limits.iter().map(|(name, limit)| (name.to_string(), limit.clone()))
    }

    /// Returns the names of rules of 0 requests, and whether they are in shadow mode.
    pub fn always_over(&self) -> impl Iterator<Item = (String, bool)> {
        self.always_over.iter().map(|(name, shadow)| (name.to_string(), *shadow))
    }

    /// Returns whether a limit is for overrides.
    pub fn is_override(&self, name: &str) -> bool {
        self.overrides.contains(name)
    }
}

/// Returns whether a text is a rate limit file rather than a [`Config`](super::Config): whether `domain` or
/// `descriptors` is at its top level. The text may still be invalid.
pub fn is_config(text: &str) -> bool {
    yaml::has_field(without_byte_order_mark(text), &["domain", "descriptors"])
}

/// The time unit of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Unit {
    /// A second.
    Second,
    /// A minute.
    Minute,
    /// An hour.
    Hour,
    /// A day.
    Day,
    /// Seven days. Like all units, weeks begin with the epoch, a Thursday.
    Week,
    /// 30 days.
    Month,
    /// 365 days.
    Year,
}

impl Unit {
    /// All units, the shortest first.
    pub const ALL: [Unit; 7] = [Unit::Second, Unit::Minute, Unit::Hour, Unit::Day, Unit::Week, Unit::Month, Unit::Year];

    /// Returns the name in config files, which ignore case.
    pub const fn as_str(self) -> &'static str {
        match self {
            Unit::Second => "second",
            Unit::Minute => "minute",
            Unit::Hour => "hour",
            Unit::Day => "day",
            Unit::Week => "week",
            Unit::Month => "month",
            Unit::Year => "year",
        }
    }

    /// Returns the length.
    pub const fn period(self) -> Duration {
        const DAY: u64 = 86_400;
        Duration::from_secs(match self {
            Unit::Second => 1,
            Unit::Minute => 60,
            Unit::Hour => 3_600,
            Unit::Day => DAY,
            Unit::Week => 7 * DAY,
            Unit::Month => 30 * DAY,
            Unit::Year => 365 * DAY,
        })
    }
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
