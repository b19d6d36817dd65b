//! The settings of a Worker, from its configuration.

use std::time::Duration;

use http::HeaderMap;
use tidegate::api::{BearerToken, Problem};
use tidegate::config::{Config, ConfigErrors, Syntax};
use worker::Env;

use crate::{CrossShard, Shards};

/// The name under which the configuration binds the objects.
pub const BINDING: &str = "TIDEGATE";

/// The settings of a Worker. Each is a variable of its configuration; the token is a secret.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Settings {
    /// `TIDEGATE_CONFIG`: the limits, in TOML as `tidegate serve` reads it.
    pub config: Config,
    /// `TIDEGATE_SHARDS`: the number of objects. Defaults to 128.
    pub shards: Shards,
    /// `TIDEGATE_APART`: `refuse`, or `refund`.
    pub cross_shard: CrossShard,
    /// The clients that may use the API.
    pub(crate) access: Access,
    /// `TIDEGATE_TESTING`: whether clients may pass in the time. Never set it in production.
    pub testing: bool,
}

/// The clients that may use the API of a Worker, which is on the public internet.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) enum Access {
    /// No client. This is the default.
    #[default]
    Closed,
    /// Clients that present `TIDEGATE_TOKEN`.
    Token(BearerToken),
    /// Every client, with `TIDEGATE_OPEN`.
    Open,
}

impl Access {
    /// Checks that a request with these headers may use the API.
    pub(crate) fn check(&self, headers: &HeaderMap) -> Result<(), Problem> {
        match self {
            Access::Open => Ok(()),
            Access::Token(token) if token.is_presented(headers) => Ok(()),
            Access::Token(_) => Err(Problem::unauthorized()),
            Access::Closed => Err(Problem::forbidden(
                "nobody may ask this Worker before it has a token: set the secret TIDEGATE_TOKEN, or TIDEGATE_OPEN=true for \
                 everybody",
            )),
        }
    }
}

/// An error in the settings of a Worker.
#[derive(Debug)]
#[non_exhaustive]
pub enum SettingsError {
    /// The limits are invalid.
    Config(ConfigErrors),
    /// A variable is invalid: its name, its value, and the expected value.
    Variable(&'static str, String, &'static str),
    /// The token is invalid. The error does not repeat it.
    Token,
}

impl std::fmt::Display for SettingsError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            SettingsError::Config(errors) => write!(f, "TIDEGATE_CONFIG: {errors}"),
            SettingsError::Variable(name, found, expected) => write!(f, "{name}: found {found:?}, expected {expected}"),
            SettingsError::Token => write!(f, "TIDEGATE_TOKEN: {}", BearerToken::EXPECTED),
        }
    }
}

impl std::error::Error for SettingsError {}

impl Settings {
    /// Reads the settings from the variables of an environment.
    pub fn from_env(env: &Env) -> Result<Self, SettingsError> {
        // A secret is read as a variable is.
        Self::read(|name| env.var(name).ok().map(|value| value.to_string()))
    }

    /// Returns the timeout of a call to an object: the configured one, or else two seconds. The default of other
    /// stores, 50 ms, counts as not configured, because an object may be asleep or on another continent.
    pub(crate) fn timeout(&self) -> Duration {
        let timeout = self.config.defaults().store_timeout;
        if timeout == Config::default().defaults().store_timeout { Duration::from_secs(2) } else { timeout }
    }

    fn read(variable: impl Fn(&str) -> Option<String>) -> Result<Self, SettingsError> {
        // A Worker without limits still serves `/v1/apply`, whose requests carry their quotas.
        let config = match variable("TIDEGATE_CONFIG") {
            None => Config::default(),
            Some(text) => Config::parse(&text, Syntax::Toml, "TIDEGATE_CONFIG").map_err(SettingsError::Config)?,
        };
        if let Some(file) = config.envoy().configs.first() {
            let expected = "no files of Envoy's rules: there are neither files nor Envoy's protocol here";
            return Err(SettingsError::Variable("TIDEGATE_CONFIG", file.clone(), expected));
        }
        let is_on = |name| match variable(name) {
            None => Ok(false),
            Some(text) => match &*text {
                "true" => Ok(true),
                "false" => Ok(false),
                _ => Err(SettingsError::Variable(name, text, "true or false")),
            },
        };
        let shards = match variable("TIDEGATE_SHARDS") {
            None => Shards::default(),
            Some(text) => text.parse().ok().and_then(Shards::new).ok_or(SettingsError::Variable(
                "TIDEGATE_SHARDS",
                text,
                "a whole number from 1 to 65535",
            ))?,
        };
        let cross_shard = match variable("TIDEGATE_APART") {
            None => CrossShard::default(),
            Some(text) => match &*text {
                "refuse" => CrossShard::Refuse,
                "refund" => CrossShard::Refund,
                _ => return Err(SettingsError::Variable("TIDEGATE_APART", text, "refuse or refund")),
            },
        };
        let access = match variable("TIDEGATE_TOKEN") {
            Some(token) => Access::Token(BearerToken::parse(&token).ok_or(SettingsError::Token)?),
            None if is_on("TIDEGATE_OPEN")? => Access::Open,
            None => Access::Closed,
        };
        Ok(Settings { config, shards, cross_shard, access, testing: is_on("TIDEGATE_TESTING")? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<Settings, String> {
        let find = |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| value.to_string());
        Settings::read(find).map_err(|error| error.to_string())
    }

    #[test]
    fn default_settings_admit_no_client() {
        let settings = read(&[]).unwrap();
        assert_eq!((settings.shards.count(), settings.testing), (128, false));
        assert_eq!((settings.access, settings.cross_shard), (Access::Closed, CrossShard::Refuse));
        assert_eq!(read(&[("TIDEGATE_OPEN", "true")]).unwrap().access, Access::Open);
    }

    #[test]
    fn errors_name_the_variable_and_never_show_a_token() {
        for (name, value, expected) in [
            ("TIDEGATE_SHARDS", "0", "from 1 to 65535"),
            ("TIDEGATE_SHARDS", "many", "from 1 to 65535"),
            ("TIDEGATE_APART", "maybe", "refuse or refund"),
            ("TIDEGATE_TESTING", "yes", "true or false"),
            ("TIDEGATE_TOKEN", "hunter2", "16 to 1024"),
            ("TIDEGATE_CONFIG", "[limits.a]\nalgorithm = \"moon\"", "TIDEGATE_CONFIG"),
            ("TIDEGATE_CONFIG", "[envoy]\nconfigs = [\"rules.yaml\"]", "no files of Envoy's rules"),
        ] {
            let error = read(&[(name, value)]).unwrap_err();
            assert!(error.contains(name) && error.contains(expected) && !error.contains("hunter2"), "{error}");
        }
        let token = read(&[("TIDEGATE_TOKEN", "0123456789abcdef"), ("TIDEGATE_OPEN", "true")]).unwrap();
        assert!(matches!(token.access, Access::Token(_)) && !format!("{token:?}").contains("0123"));
    }
}
