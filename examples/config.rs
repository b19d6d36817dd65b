//! Limits from a TOML file, and the errors of an invalid one.
//!
//! `cargo run -p tidegate-examples --example config`

use std::error::Error;

use tidegate::config::{Config, Syntax};

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/limits.toml");

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let config = Config::from_path(FILE)?;
    for (name, limit) in config.limits() {
        let quota = limit.quota().parts();
        println!("{name}: {}, {} per {:?}", quota.algorithm, quota.rate, quota.period);
    }

    let limiter = config.limiter().build()?;
    let _ = limiter.limit("login", "Alice").cost(5).await?;
    let same = limiter.limit("login", "alice").await?;
    println!("login for alice after 5 for Alice: allowed = {}", same.allowed());
    let denied = limiter.limit("send", "203.0.113.9").await?;
    println!("send for an address of a denied network: allowed = {}", denied.allowed());
    let shadowed = limiter.limit("export", "acme").cost(3).await?;
    println!("export in shadow mode: allowed = {}, reason = {:?}", shadowed.allowed(), shadowed.reason());

    // The error lists every mistake, with line and column.
    let wrong = "[limits.login]\nalgorithm = \"fixed_windw\"\nrate = 0\nperiod = \"1 minute\"\n";
    let errors = Config::parse(wrong, Syntax::Toml, "wrong.toml").unwrap_err();
    println!("\n{errors}");
    Ok(())
}
