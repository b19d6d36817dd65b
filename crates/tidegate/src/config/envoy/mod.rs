//! Config files of envoyproxy/ratelimit, unchanged, and which of their rules a request meets.
//!
//! ```
//! use tidegate::config::envoy::{Domains, Found};
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
//! if let Found::Limited(found) = domains.find("shop", &[("remote_address", "192.0.2.1")]) {
//!     let decision = limiter.limit(found.limit, found.key).await?;
//!     println!("{} left", decision.remaining());
//! }
//! # Ok::<(), tidegate::Error>(()) };
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! What is read, and what differs, is in `docs/envoy-config.md` in the repository.

mod find;
mod merge;
mod pattern;
mod rate;
mod read;
mod rules;
#[cfg(test)]
mod tests;
mod unit;
mod value;

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

pub use find::{Descriptor, Found, Limited, Override};
pub use unit::Unit;

use super::error::{ConfigError, ConfigErrors};
use super::{file, yaml};
use crate::limiter::Limit;
use read::Reading;
use rules::{Hash, Level};

/// The domains of one file or several, read whole, with nothing wrong in them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Domains {
    domains: HashMap<Box<str>, Domain, Hash>,
    /// In the order of the files.
    limits: Vec<(Arc<str>, Limit)>,
    /// Those of 0 requests, and whether they are in shadow mode.
    always_over: Vec<(Arc<str>, bool)>,
    /// The names of the limits for descriptors that bring their own along, of every domain.
    overrides: HashSet<Arc<str>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Domain {
    rules: Level,
    /// The name of the limit for descriptors that bring their own along.
    overrides: Arc<str>,
}

impl Domains {
    /// The domains in these files, one in each; or everything that is wrong with them.
    pub fn from_paths<P: AsRef<Path>>(paths: impl IntoIterator<Item = P>) -> Result<Self, ConfigErrors> {
        Self::read(paths.into_iter().map(|path| {
            let path = path.as_ref();
            let file: Arc<str> = path.to_string_lossy().into();
            let text = file::read(path, &file);
            (file, text)
        }))
    }

    /// The domain in a text; or everything that is wrong with it. Errors call the text `file`.
    pub fn parse(text: &str, file: &str) -> Result<Self, ConfigErrors> {
        Self::read([(file.into(), Ok(text))])
    }

    fn read<T: AsRef<str>>(
        files: impl IntoIterator<Item = (Arc<str>, Result<T, ConfigError>)>,
    ) -> Result<Self, ConfigErrors> {
        let mut reading = Reading::default();
        let errors = files.into_iter().map(|(file, text)| match text {
            Ok(text) => reading.file(text.as_ref(), &file),
            Err(error) => vec![error],
        });
        match ConfigErrors::of_files(errors) {
            Some(errors) => Err(errors),
            None => Ok(reading.domains),
        }
    }

    /// The limits of every rule that has a rate, named as in upstream's statistics (`domain.key_value.key2`), in the order
    /// of the files, and one more for every domain, `domain.(override)`. Of that, every question brings its own quota: see
    /// [`Domains::find_override`]. Where two names would be the same, the later gets a number.
    ///
    /// A rule of 0 requests has no limit: it is [always over](Limited::always_over).
    pub fn limits(&self) -> impl Iterator<Item = (String, Limit)> {
        self.limits.iter().map(|(name, limit)| (name.to_string(), limit.clone()))
    }

    /// The rules of 0 requests by name, and whether they are in shadow mode.
    pub fn always_over(&self) -> impl Iterator<Item = (String, bool)> {
        self.always_over.iter().map(|(name, shadow)| (name.to_string(), *shadow))
    }

    /// Whether the limit of that name is one for descriptors that bring their own along.
    pub fn is_override(&self, name: &str) -> bool {
        self.overrides.contains(name)
    }
}

/// Whether a text is such a file, rather than a [`Config`](super::Config): there is a `domain` in it, or there are
/// `descriptors`, at its top. Whether anything is wrong with it is not looked at.
pub fn is_config(text: &str) -> bool {
    yaml::has_field(file::without_mark(text), &["domain", "descriptors"])
}
