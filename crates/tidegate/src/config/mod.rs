//! Limits from a TOML or YAML file, with errors that carry line and column.
//!
//! `docs/book/src/reference/config.md` in the repository lists every field, with its default and its bounds.
//!
//! ```
//! use tidegate::config::{Config, Syntax};
//!
//! let text = r#"
//! [limits.login]
//! algorithm = "fixed_window"
//! rate = 5
//! period = "1m"
//! "#;
//! let config = Config::parse(text, Syntax::Toml, "limits.toml")?;
//! let limiter = config.limiter().build()?;
//! assert_eq!(limiter.names(), ["login"]);
//!
//! let errors = Config::parse(&text.replace("5", "0"), Syntax::Toml, "limits.toml").unwrap_err();
//! assert_eq!(
//!     errors.to_string(),
//!     "limits.toml:4:8: limits.login.rate: found 0, expected a whole number from 1 to 4294967295"
//! );
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod envoy;
mod error;
mod limits;
mod reader;
mod settings;
#[cfg(test)]
mod tests;
mod toml;
mod tree;
mod yaml;

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

pub use error::{ConfigError, ConfigErrors};
pub use reader::parse_duration;
pub use settings::{Defaults, EnvoyConfig, HttpConfig};

pub use crate::http_settings::{HeaderStyle, LegacyReset, TrustProxy};

use crate::limiter::{Limit, Limiter, LimiterBuilder};
use limits::InheritedSettings;
use reader::{ErrorCollector, Fields};
use tree::{Node, Position};

/// The syntax of a config. Its structure is the same in both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Syntax {
    /// TOML.
    Toml,
    /// YAML, as a single document.
    Yaml,
}

impl Syntax {
    /// Returns YAML for files that end in `.yaml`, `.yml` or `.json` (JSON is YAML), and TOML for all others.
    pub fn of_path(path: &Path) -> Self {
        let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
        let is_yaml = ["yaml", "yml", "json"].iter().any(|yaml| ending.eq_ignore_ascii_case(yaml));
        if is_yaml { Syntax::Yaml } else { Syntax::Toml }
    }
}

/// A valid config. The default one has no limits.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Config {
    limits: Vec<(String, Limit)>,
    defaults: Defaults,
    envoy: EnvoyConfig,
    http: HttpConfig,
}

impl Config {
    /// Reads a file, in the syntax of its extension. Returns all errors of an invalid config.
    pub fn from_path(path: impl AsRef<Path>) -> Result<Self, ConfigErrors> {
        let path = path.as_ref();
        let file: Arc<str> = path.to_string_lossy().into();
        let text = read_file(path, &file)?;
        Self::parse(&text, Syntax::of_path(path), &file)
    }

    /// Parses a text. Returns all errors of an invalid config; they call the text `file`.
    pub fn parse(text: &str, syntax: Syntax, file: &str) -> Result<Self, ConfigErrors> {
        let file: Arc<str> = file.into();
        let text = without_byte_order_mark(text);
        let mut errors = ConfigErrors::default();
        let tree = match syntax {
            Syntax::Toml => toml::parse(text, &file, &mut errors),
            Syntax::Yaml => yaml::parse(text, &file, &mut errors),
        };
        let Some(tree) = tree else { return errors.into_result(None) };
        let collector = ErrorCollector::new(&file, errors);
        let config = Self::read(&tree, &collector);
        collector.into_errors().into_result(config)
    }

    fn read(tree: &Node, collector: &ErrorCollector<'_>) -> Option<Self> {
        let mut root = Fields::root(collector, tree)?;
        let limits = root.optional("limits").and_then(|field| field.fields());
        let defaults =
            root.optional("defaults").and_then(|field| field.fields()).map(Defaults::read).unwrap_or_default();
        let envoy = root.optional("envoy").and_then(|field| field.fields()).map(EnvoyConfig::read).unwrap_or_default();
        let http = root.optional("http").and_then(|field| field.fields()).map(HttpConfig::read).unwrap_or_default();
        root.reject_unknown();
        let inherited = InheritedSettings { on_store_error: defaults.on_store_error, ipv6_prefix: http.ipv6_prefix };
        let none_written = limits.as_ref().is_none_or(|limits| limits.all().next().is_none());
        if none_written && envoy.configs.is_empty() && collector.has_no_errors() {
            let message = "missing, expected at least one limit: a table limits.NAME with algorithm, rate and period";
            collector.error(Position::START, "limits", message);
        }
        let limits = limits.map(|limits| limits::read(limits, &inherited)).unwrap_or_default();
        Some(Config { limits, defaults, envoy, http })
    }

    /// Returns the limits by name, in the order of the file, with the defaults applied.
    pub fn limits(&self) -> &[(String, Limit)] {
        &self.limits
    }

    /// Returns the defaults of all limits.
    pub fn defaults(&self) -> &Defaults {
        &self.defaults
    }

    /// Returns the Envoy rate limit files to serve as well.
    pub fn envoy(&self) -> &EnvoyConfig {
        &self.envoy
    }

    /// Returns the settings of HTTP transports.
    pub fn http(&self) -> &HttpConfig {
        &self.http
    }

    /// Returns a limiter builder with these limits, deny list and prefix. It also has the timeout and the number of
    /// replicas for a store that does I/O, but no store yet.
    pub fn limiter(&self) -> LimiterBuilder {
        let builder = Limiter::builder()
            .limits(self.limits.iter().cloned())
            .prefix(&self.defaults.prefix)
            .outage_defaults(self.defaults.store_timeout, self.defaults.expected_replicas);
        builder.deny_all(&self.defaults.deny).expect("every entry was looked at when the config was read")
    }
}

/// The most bytes of a config file, far more than any needs: a device can be endless.
pub const MAX_CONFIG_BYTES: u64 = 64 << 20;

/// Reads a text file. Errors call it `file`.
pub(super) fn read_file(path: &Path, file: &Arc<str>) -> Result<String, ConfigError> {
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(MAX_CONFIG_BYTES + 1).read_to_end(&mut bytes))
        .map_err(|error| ConfigError::of_file(file, format!("cannot be read: {error}")))?;
    if bytes.len() as u64 > MAX_CONFIG_BYTES {
        return Err(ConfigError::of_file(file, format!("too large: expected at most {MAX_CONFIG_BYTES} bytes")));
    }
    String::from_utf8(bytes).map_err(|error| {
        let before = String::from_utf8_lossy(&error.as_bytes()[..error.utf8_error().valid_up_to()]);
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().map_or(0, |line| line.chars().count()) + 1;
        ConfigError::new(file, Position { line, column }, "", "not a text: expected UTF-8")
    })
}

/// Strips a byte order mark, which would shift the columns of the first line.
pub(super) fn without_byte_order_mark(text: &str) -> &str {
    text.strip_prefix('\u{feff}').unwrap_or(text)
}
