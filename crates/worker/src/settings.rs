//! What a Worker is told by its configuration.

use std::time::Duration;

use tidegate::api::BearerToken;
use tidegate::config::{Config, ConfigErrors, Syntax};
use worker::Env;

use crate::{CrossShard, Shards};

/// The name under which the configuration binds the objects.
pub const BINDING: &str = "TIDEGATE";

/// The headers of a message to an object: which one it is, and out of how many.
pub(crate) const SHARD: &str = "tidegate-shard";
pub(crate) const SHARDS: &str = "tidegate-shards";

/// What a Worker is told by its configuration. Each is a variable, the token a secret.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Settings {
    /// `TIDEGATE_CONFIG`: the limits, in TOML as `tidegate serve` reads it.
    pub config: Config,
    /// `TIDEGATE_SHARDS`: how many objects; 128 unless said otherwise.
    pub shards: Shards,
    /// `TIDEGATE_APART`: `refuse`, or `refund`.
    pub cross_shard: CrossShard,
    /// Who may ask the API.
    pub(crate) access: Access,
    /// `TIDEGATE_TESTING`: whether whoever asks may pass the time. Never in production.
    pub testing: bool,
}

/// Who may ask the API of a Worker, which everybody can reach.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) enum Access {
    /// Nobody: nothing was said.
    #[default]
    Nobody,
    /// Whoever shows `TIDEGATE_TOKEN`.
    Token(BearerToken),
    /// Everybody: `TIDEGATE_OPEN` says so.
    Everybody,
}

/// What is wrong with the settings of a Worker.
#[derive(Debug)]
#[non_exhaustive]
pub enum SettingsError {
    /// The limits.
    Config(ConfigErrors),
    /// A variable, what it says, and what is expected.
    Variable(&'static str, String, &'static str),
    /// The token, which is not said again.
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
    /// What this environment says.
    pub fn from_env(env: &Env) -> Result<Self, SettingsError> {
        // A secret is read as a variable is.
        Self::read(|name| env.var(name).ok().map(|value| value.to_string()))
    }

    /// How long an object is waited for: what the config says. The default of other stores, 50 ms, is nothing said here,
    /// where an object may be asleep, or on another continent: two seconds then.
    pub(crate) fn timeout(&self) -> Duration {
        let told = self.config.defaults().store_timeout;
        if told == Config::default().defaults().store_timeout { Duration::from_secs(2) } else { told }
    }

    fn read(variable: impl Fn(&str) -> Option<String>) -> Result<Self, SettingsError> {
        // Without limits of its own, it serves those who bring theirs.
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
            None if is_on("TIDEGATE_OPEN")? => Access::Everybody,
            None => Access::Nobody,
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
    fn nothing_said_is_nobody_may_ask() {
        let settings = read(&[]).unwrap();
        assert_eq!((settings.shards.count(), settings.testing), (128, false));
        assert_eq!((settings.access, settings.cross_shard), (Access::Nobody, CrossShard::Refuse));
        assert_eq!(read(&[("TIDEGATE_OPEN", "true")]).unwrap().access, Access::Everybody);
    }

    #[test]
    fn what_is_wrong_is_said_and_a_token_never_is() {
        for (name, value, said) in [
            ("TIDEGATE_SHARDS", "0", "from 1 to 65535"),
            ("TIDEGATE_SHARDS", "many", "from 1 to 65535"),
            ("TIDEGATE_APART", "maybe", "refuse or refund"),
            ("TIDEGATE_TESTING", "yes", "true or false"),
            ("TIDEGATE_TOKEN", "hunter2", "16 to 1024"),
            ("TIDEGATE_CONFIG", "[limits.a]\nalgorithm = \"moon\"", "TIDEGATE_CONFIG"),
            ("TIDEGATE_CONFIG", "[envoy]\nconfigs = [\"rules.yaml\"]", "no files of Envoy's rules"),
        ] {
            let error = read(&[(name, value)]).unwrap_err();
            assert!(error.contains(name) && error.contains(said) && !error.contains("hunter2"), "{error}");
        }
        let token = read(&[("TIDEGATE_TOKEN", "0123456789abcdef"), ("TIDEGATE_OPEN", "true")]).unwrap();
        assert!(matches!(token.access, Access::Token(_)) && !format!("{token:?}").contains("0123"));
    }
}
