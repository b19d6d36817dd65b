//! The config as it is served.

use std::fs;
use std::path::{Path, PathBuf};

pub(crate) use tidegate::api::apply::apart;
use tidegate::api::apply::is_apart;
use tidegate::config::envoy::Domains;
use tidegate::config::{Config, ConfigErrors, Syntax};
use tidegate::http::{ClientAddress, LimitHeaders, RateLimit};
use tidegate::{Limit, Limiter, LimiterBuilder, Quota, Scope, seconds};

use crate::check::is_envoys;

/// What is served when no config is given.
const DEMO: &str = include_str!("../../samples/demo.toml");

/// The limits of requests that bring their quota with them.
pub(crate) const CL_THROTTLE: &str = "CL.THROTTLE";
pub(crate) const THROTTLE: &str = "THROTTLE";
pub(crate) const APPLY: &str = "/v1/apply";
const BROUGHT: [&str; 3] = [CL_THROTTLE, THROTTLE, APPLY];

/// The config as it is served.
#[derive(Debug)]
pub(crate) struct Served {
    pub(crate) config: Config,
    /// What is there in Envoy's format.
    pub(crate) domains: Domains,
    /// The files that the config names, which are read with it.
    pub(crate) files: Vec<PathBuf>,
    /// What the config and those files said when they were read, or just before; none for one that cannot be read.
    pub(crate) seen: Vec<Option<Vec<u8>>>,
    /// Whether it is the built-in one.
    pub(crate) is_demo: bool,
    /// How the clients of those are found who ask for them.
    pub(crate) client_address: ClientAddress,
    /// What those are answered who ask as a proxy does.
    pub(crate) answers: RateLimit,
    /// How many limits can be asked for.
    pub(crate) count: usize,
}

impl Served {
    /// The config in a file, ours or Envoy's, or the built-in one; or everything that is wrong with it.
    pub(crate) fn load(path: Option<&Path>) -> Result<Self, ConfigErrors> {
        let Some(path) = path else {
            let demo = Config::parse(DEMO, Syntax::Toml, "demo.toml")?;
            return Ok(Served::new(demo, Domains::default(), Vec::new(), Vec::new(), true));
        };
        let mut seen = vec![said(path)];
        if is_envoys(path) {
            return Ok(Served::new(Config::default(), Domains::from_paths([path])?, Vec::new(), seen, false));
        }
        let config = Config::from_path(path)?;
        let files = named_in(&config, path);
        seen.extend(files.iter().map(|file| said(file)));
        let domains = Domains::from_paths(&files)?;
        Ok(Served::new(config, domains, files, seen, false))
    }

    /// The files that the config in a file names.
    pub(crate) fn files_of(path: &Path) -> Result<Vec<PathBuf>, ConfigErrors> {
        if is_envoys(path) {
            return Ok(Vec::new());
        }
        Config::from_path(path).map(|config| named_in(&config, path))
    }

    pub(crate) fn new(
        config: Config,
        domains: Domains,
        files: Vec<PathBuf>,
        seen: Vec<Option<Vec<u8>>>,
        is_demo: bool,
    ) -> Self {
        let (client_address, headers) = (ClientAddress::from(config.http()), LimitHeaders::from(config.http()));
        // Only what it answers is of use here: which limit is asked comes with each request.
        let answers = RateLimit::new(nominal()).headers(headers);
        let mut served = Served { config, domains, files, seen, is_demo, client_address, answers, count: 0 };
        served.count = served.limits().count();
        served
    }

    /// A limiter with the limits of the config, which still wants a store.
    pub(crate) fn limiter(&self) -> LimiterBuilder {
        self.config.limiter().limits(self.envoy_limits())
    }

    /// A limiter for requests that bring their quota with them, which still wants a store. What its limits count by
    /// otherwise is never looked at.
    pub(crate) fn brought(&self) -> LimiterBuilder {
        let prefix = apart(&self.config.defaults().prefix);
        let limit = Limit::new(nominal()).on_store_error(self.config.defaults().on_store_error);
        let builder = Limiter::builder().limits(BROUGHT.map(|name| (name, limit.clone()))).prefix(prefix);
        builder.deny_all(&self.config.defaults().deny).expect("every entry was looked at when the config was read")
    }

    /// The limits that can be asked for, by name.
    pub(crate) fn limits(&self) -> impl Iterator<Item = (String, Limit)> {
        let envoys = self.envoy_limits().filter(|(name, _)| !self.domains.is_override(name));
        self.config.limits().iter().cloned().chain(envoys)
    }

    /// Whether the quota of this limit comes with each request, so that there is none to tell.
    pub(crate) fn has_no_quota(&self, limit: &str) -> bool {
        is_brought(limit) || self.domains.is_override(limit)
    }

    /// The name of everything that can be asked for.
    pub(crate) fn names(&self) -> Vec<String> {
        let ours = self.config.limits().iter().map(|(name, _)| name.clone());
        let envoys = self.domains.limits().map(|(name, _)| name);
        let always_over = self.domains.always_over().map(|(name, _)| name);
        ours.chain(envoys).chain(always_over).chain(BROUGHT.map(str::to_owned)).collect()
    }

    fn envoy_limits(&self) -> impl Iterator<Item = (String, Limit)> {
        let policy = self.config.defaults().on_store_error;
        self.domains.limits().map(move |(name, limit)| (name, limit.on_store_error(policy)))
    }
}

/// What a file says, to tell when that has changed. None of what cannot be read, and of a pipe, which says it only once.
pub(super) fn said(path: &Path) -> Option<Vec<u8>> {
    if path.is_file() { fs::read(path).ok() } else { None }
}

/// The files that a config names, which lie beside it.
fn named_in(config: &Config, path: &Path) -> Vec<PathBuf> {
    let beside = path.parent().unwrap_or(Path::new(""));
    config.envoy().configs.iter().map(|file| beside.join(file)).collect()
}

/// Whether requests bring the quota of this limit with them.
pub(crate) fn is_brought(limit: &str) -> bool {
    BROUGHT.contains(&limit)
}

/// What a limit is called in metrics. Names that clients make up are none, or there would be no end to them.
pub(crate) fn label(scope: &Scope) -> &str {
    match scope.limit() {
        made_up if is_apart(scope.prefix()) && !is_brought(made_up) => APPLY,
        limit => limit,
    }
}

/// A quota for what is judged by another.
fn nominal() -> Quota {
    Quota::token_bucket(1, seconds(1)).expect("a quota like any other")
}
