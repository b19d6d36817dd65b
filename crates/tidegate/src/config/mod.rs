//! Limits from a file, in TOML or in YAML, with errors that carry line and column. Every field, with its default and its
//! bounds, is in `docs/config.md` in the repository.
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

mod defaults;
mod duration;
pub mod envoy;
mod error;
mod file;
mod http;
mod limits;
mod nearest;
mod reader;
mod scalar;
#[cfg(test)]
mod tests;
mod toml;
mod tree;
mod yaml;

use std::path::Path;
use std::sync::Arc;

pub use defaults::{Defaults, Envoy};
pub use duration::parse_duration;
pub use error::{ConfigError, ConfigErrors};
pub use http::Http;

pub use crate::header_style::{HeaderStyle, LegacyReset};
pub use crate::trust::TrustProxy;

use crate::limiter::{Limit, Limiter, LimiterBuilder};
use limits::Shared;
use reader::{Fields, Reader};
use tree::{Node, Position};

/// How a config is written. The structure is the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Syntax {
    /// TOML.
    Toml,
    /// YAML, of which a config is one document.
    Yaml,
}

impl Syntax {
    /// YAML for files that end in `.yaml` or `.yml`, and in `.json`, since JSON is YAML; TOML for all others.
    pub fn of_path(path: &Path) -> Self {
        let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
        let is_yaml = ["yaml", "yml", "json"].iter().any(|yaml| ending.eq_ignore_ascii_case(yaml));
        if is_yaml { Syntax::Yaml } else { Syntax::Toml }
    }
}

/// A config that was read whole, with nothing wrong in it. The default one has no limits.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Config {
    limits: Vec<(String, Limit)>,
    defaults: Defaults,
    envoy: Envoy,
    http: Http,
}

impl Config {
    /// The config in a file, in the syntax of its ending; or everything that is wrong with it.
    pub fn from_path(path: impl AsRef<Path>) -> Result<Self, ConfigErrors> {
        let path = path.as_ref();
        let file: Arc<str> = path.to_string_lossy().into();
        let text = file::read(path, &file).map_err(|error| ConfigErrors::new(vec![error]))?;
        Self::parse(&text, Syntax::of_path(path), &file)
    }

    /// The config in a text; or everything that is wrong with it. Errors call the text `file`.
    pub fn parse(text: &str, syntax: Syntax, file: &str) -> Result<Self, ConfigErrors> {
        let file: Arc<str> = file.into();
        let text = file::without_mark(text);
        let mut errors = Vec::new();
        let tree = match syntax {
            Syntax::Toml => toml::parse(text, &file, &mut errors),
            Syntax::Yaml => yaml::parse(text, &file, &mut errors),
        };
        let Some(tree) = tree else { return Err(ConfigErrors::new(errors)) };
        let reader = Reader::new(&file, errors);
        let config = Self::read(&tree, &reader);
        match (config, reader.into_errors()) {
            (Some(config), errors) if errors.is_empty() => Ok(config),
            (_, errors) => Err(ConfigErrors::new(errors)),
        }
    }

    fn read(tree: &Node, reader: &Reader<'_>) -> Option<Self> {
        let mut root = Fields::root(reader, tree)?;
        let limits = root.get("limits").and_then(|field| field.fields());
        let defaults = root.get("defaults").and_then(|field| field.fields()).map(Defaults::read).unwrap_or_default();
        let envoy = root.get("envoy").and_then(|field| field.fields()).map(Envoy::read).unwrap_or_default();
        let http = root.get("http").and_then(|field| field.fields()).map(Http::read).unwrap_or_default();
        root.finish();
        let shared = Shared { on_store_error: defaults.on_store_error, ipv6_prefix: http.ipv6_prefix };
        let none_written = limits.as_ref().is_none_or(|limits| limits.all().next().is_none());
        if none_written && envoy.configs.is_empty() && reader.is_content() {
            let message = "missing, expected at least one limit: a table limits.NAME with algorithm, rate and period";
            reader.error(Position::START, "limits", message);
        }
        let limits = limits.map(|limits| limits::read(limits, &shared)).unwrap_or_default();
        Some(Config { limits, defaults, envoy, http })
    }

    /// The limits by name, in the order of the file, with the defaults applied.
    pub fn limits(&self) -> &[(String, Limit)] {
        &self.limits
    }

    /// What holds for every limit.
    pub fn defaults(&self) -> &Defaults {
        &self.defaults
    }

    /// Configs of another kind that are served too.
    pub fn envoy(&self) -> &Envoy {
        &self.envoy
    }

    /// How the HTTP transports read clients and answer them.
    pub fn http(&self) -> &Http {
        &self.http
    }

    /// A limiter with these limits, this deny list and this prefix, that still wants a store.
    pub fn limiter(&self) -> LimiterBuilder {
        let builder = Limiter::builder().limits(self.limits.iter().cloned()).prefix(&self.defaults.prefix);
        builder.deny_all(&self.defaults.deny).expect("every entry was looked at when the config was read")
    }
}
