//! Where the servers are that somebody has started.

/// The value of a variable that `cargo xtask servers` says.
///
/// # Panics
///
/// When it is not set: a test never passes because its server was missing.
pub fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| {
        panic!("{name} is not set: run `cargo xtask test` or `cargo xtask bench`, or `cargo xtask servers` and export what it prints")
    })
}
