//! What configs say, in both syntaxes.

mod accepted;
pub(super) mod mutations;
mod refused;
mod syntax;

use super::{Config, ConfigErrors, Syntax};

fn toml(text: &str) -> Result<Config, ConfigErrors> {
    Config::parse(text, Syntax::Toml, "t.toml")
}

fn yaml(text: &str) -> Result<Config, ConfigErrors> {
    Config::parse(text, Syntax::Yaml, "t.yaml")
}

/// What is wrong with a text, as people see it.
#[track_caller]
fn refused(result: Result<Config, ConfigErrors>) -> String {
    result.expect_err("a config with something wrong in it").to_string()
}

/// Everything that a config can say.
const FULL: &str = r#"
[limits.login]
algorithm = "fixed_window"
rate = 5
period = "1m"
capacity = 10
start = "30s"
max_debt = 3
shards = 2
shard_by = "spread"
on_store_error = "closed"
deny = ["198.51.100.7", "203.0.113.0/24", "mallory"]
shadow = true
normalize = "ip"

[limits.search]
algorithm = "sliding_window"
rate = 100
period = "10s"
buckets = 10

[limits."a.b"]
algorithm = "sliding_log"
rate = 2
period = "1d"
normalize = "lowercase"

[limits.api]
algorithm = "token_bucket"
rate = 50
period = "1s"
capacity = 100

[defaults]
deny = ["192.0.2.0/24"]
on_store_error = "local"
prefix = "shop"
expected_replicas = 3
store_timeout = "20ms"

[envoy]
configs = ["ratelimit.yaml"]

[http]
trust_proxy = ["10.0.0.0/8", "::1"]
headers = ["ietf", "legacy"]
legacy_reset = "epoch"
client_header = "X-Real-IP"
ipv6_prefix = 56
"#;
