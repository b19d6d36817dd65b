//! The active config: limits, Envoy rules, client address and response headers, as they are served.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use tidegate::api::apply::is_isolated_prefix;
pub(crate) use tidegate::api::apply::isolate_prefix;
use tidegate::config::envoy::Domains;
use tidegate::config::{Config, ConfigErrors, MAX_CONFIG_BYTES, Syntax};
use tidegate::http::{ClientAddress, LimitHeaders, RateLimit};
use tidegate::store::Scope;
use tidegate::{Limit, Limiter, LimiterBuilder, Quota, seconds};

use crate::check::is_envoy_config;

/// The built-in config, which is served without `--config`.
const DEMO_CONFIG: &str = include_str!("../../samples/demo.toml");

/// The limits whose quota comes with each request.
pub(crate) const CL_THROTTLE: &str = "CL.THROTTLE";
pub(crate) const THROTTLE: &str = "THROTTLE";
pub(crate) const APPLY: &str = "/v1/apply";
const INLINE_QUOTA_LIMITS: [&str; 3] = [CL_THROTTLE, THROTTLE, APPLY];

/// The bytes of the files of a config; `None` for an unreadable one.
pub(crate) type FileContents = Vec<Option<Vec<u8>>>;

/// The config that is served now.
#[derive(Debug)]
pub(crate) struct ActiveConfig {
    pub(crate) config: Config,
    /// The rules in Envoy's format.
    pub(crate) domains: Domains,
    /// The files that the config names.
    pub(crate) files: Vec<PathBuf>,
    /// The bytes of the config and of those files when they were read, or just before; `None` for an unreadable one.
    pub(crate) contents: FileContents,
    /// Whether it is the built-in demonstration.
    pub(crate) is_demo: bool,
    /// The source of a client's address.
    pub(crate) client_address: ClientAddress,
    /// The headers and denials for proxies that ask by forward-auth.
    pub(crate) http_policy: RateLimit,
    /// How many limits are served.
    pub(crate) limit_count: usize,
}

impl ActiveConfig {
    /// Loads the config in a file, ours or Envoy's, or the built-in one. The error has everything that is wrong.
    pub(crate) fn load(path: Option<&Path>) -> Result<Self, ConfigErrors> {
        let Some(path) = path else {
            let demo = Config::parse(DEMO_CONFIG, Syntax::Toml, "demo.toml")?;
            return Ok(ActiveConfig::new(demo, Domains::default(), Vec::new(), Vec::new(), true));
        };
        let mut contents = vec![read_file(path)];
        if is_envoy_config(path) {
            return Ok(ActiveConfig::new(Config::default(), Domains::from_paths([path])?, Vec::new(), contents, false));
        }
        let config = Config::from_path(path)?;
        let files = named_files(&config, path);
        contents.extend(files.iter().map(|file| read_file(file)));
        let domains = Domains::from_paths(&files)?;
        Ok(ActiveConfig::new(config, domains, files, contents, false))
    }

    /// Loads the config in a file again. A pipe is fine at the start; now it would block for ever, so that only a regular file is
    /// read.
    pub(crate) fn reload(path: &Path) -> Result<Self, String> {
        if fs::metadata(path).is_ok_and(|found| !found.is_file()) {
            return Err(format!("{}: not a file", path.display()));
        }
        ActiveConfig::load(Some(path)).map_err(|errors| errors.to_string())
    }

    /// Returns the files that the config in a file names.
    pub(crate) fn files_of(path: &Path) -> Result<Vec<PathBuf>, ConfigErrors> {
        if is_envoy_config(path) {
            return Ok(Vec::new());
        }
        Config::from_path(path).map(|config| named_files(&config, path))
    }

    pub(crate) fn new(
        config: Config,
        domains: Domains,
        files: Vec<PathBuf>,
        contents: FileContents,
        is_demo: bool,
    ) -> Self {
        let (client_address, headers) = (ClientAddress::from(config.http()), LimitHeaders::from(config.http()));
        // Only its responses are used: the limit comes with each request.
        let http_policy = RateLimit::unlimited().headers(headers);
        let mut active =
            ActiveConfig { config, domains, files, contents, is_demo, client_address, http_policy, limit_count: 0 };
        active.limit_count = active.limits().count();
        active
    }

    /// Returns a limiter with the limits of the config, still without a store.
    pub(crate) fn limiter(&self) -> LimiterBuilder {
        self.config.limiter().limits(self.envoy_limits())
    }

    /// Returns a limiter for requests that carry their own quota, still without a store. The quotas of its limits are
    /// never used.
    pub(crate) fn inline_quota_limiter(&self) -> LimiterBuilder {
        let prefix = isolate_prefix(&self.config.defaults().prefix);
        let limit = Limit::new(placeholder_quota()).on_store_error(self.config.defaults().on_store_error);
        let builder = Limiter::builder().limits(INLINE_QUOTA_LIMITS.map(|name| (name, limit.clone()))).prefix(prefix);
        builder.deny_all(&self.config.defaults().deny).expect("the config has checked every entry")
    }

    /// Returns the limits that are served, by name.
    pub(crate) fn limits(&self) -> impl Iterator<Item = (String, Limit)> {
        let envoys = self.envoy_limits().filter(|(name, _)| !self.domains.is_override(name));
        self.config.limits().iter().cloned().chain(envoys)
    }

    /// Whether the quota of this limit comes with each request, so that there is none to show.
    pub(crate) fn has_no_quota(&self, limit: &str) -> bool {
        has_inline_quota(limit) || self.domains.is_override(limit)
    }

    /// Returns every name that a request can have.
    pub(crate) fn names(&self) -> Vec<String> {
        let ours = self.config.limits().iter().map(|(name, _)| name.clone());
        let envoys = self.domains.limits().map(|(name, _)| name);
        let always_over = self.domains.always_over().map(|(name, _)| name);
        ours.chain(envoys).chain(always_over).chain(INLINE_QUOTA_LIMITS.map(str::to_owned)).collect()
    }

    fn envoy_limits(&self) -> impl Iterator<Item = (String, Limit)> {
        let policy = self.config.defaults().on_store_error;
        self.domains.limits().map(move |(name, limit)| (name, limit.on_store_error(policy)))
    }
}

/// Reads a file to notice when it changes. `None` for one that cannot be read or is too large, and for a pipe, which can be read
/// only once.
pub(crate) fn read_file(path: &Path) -> Option<Vec<u8>> {
    fs::metadata(path).ok().filter(|found| found.is_file() && found.len() <= MAX_CONFIG_BYTES)?;
    let mut bytes = Vec::new();
    File::open(path).ok()?.take(MAX_CONFIG_BYTES).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

/// Returns the files that a config names, relative to its folder.
fn named_files(config: &Config, path: &Path) -> Vec<PathBuf> {
    let folder = path.parent().unwrap_or(Path::new(""));
    config.envoy().configs.iter().map(|file| folder.join(file)).collect()
}

/// Whether the quota of this limit comes with each request.
pub(crate) fn has_inline_quota(limit: &str) -> bool {
    INLINE_QUOTA_LIMITS.contains(&limit)
}

/// Returns the label of a limit in metrics. Names that clients choose are no labels: their number is unbounded.
pub(crate) fn metric_label(scope: &Scope) -> &str {
    match scope.limit() {
        chosen if is_isolated_prefix(scope.prefix()) && !has_inline_quota(chosen) => APPLY,
        limit => limit,
    }
}

/// A valid quota where another one decides.
fn placeholder_quota() -> Quota {
    Quota::token_bucket(1, seconds(1)).expect("a quota like any other")
}
