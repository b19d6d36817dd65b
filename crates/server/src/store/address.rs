//! The address of a server, which may have a password in it.

use std::fmt;

/// A URL, of which only the scheme and the server are ever shown.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Address(String);

impl Address {
    pub(super) fn new(url: &str) -> Self {
        Address(url.to_owned())
    }

    /// All of it, for whoever connects.
    pub(super) fn with_password(&self) -> &str {
        &self.0
    }

    /// The server, if it is certain which part of the URL that is.
    fn server(&self) -> Option<&str> {
        let (_, rest) = self.0.split_once("://")?;
        let (before, after) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
        // A password with such a sign in it is cut in two: its first half stands where the server should.
        if after.contains('@') {
            return None;
        }
        let server = before.rsplit_once('@').map_or(before, |(_, server)| server);
        // What looks like a port and is no number may be the password of a URL without a server.
        server.split(',').all(has_port_or_none).then_some(server)
    }
}

fn has_port_or_none(server: &str) -> bool {
    match server.rsplit_once(':') {
        Some((_, port)) => server.ends_with(']') || port.bytes().all(|byte| byte.is_ascii_digit()),
        None => true,
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = self.0.split("://").next().unwrap_or_default();
        write!(f, "{scheme}://{}", self.server().unwrap_or("..."))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_server_is_shown_and_nothing_else() {
        for (url, shown) in [
            ("redis://127.0.0.1", "redis://127.0.0.1"),
            ("redis://127.0.0.1:6379/3", "redis://127.0.0.1:6379"),
            ("redis://:hunter2@[::1]/", "redis://[::1]"),
            ("redis://:hunter2@[::1]:6379/", "redis://[::1]:6379"),
            ("redis://user:hunter2@cache.example", "redis://cache.example"),
            ("redis://user:hunter@2@cache.example", "redis://cache.example"),
            ("postgres://app:hunter2@db.example:5432/app", "postgres://db.example:5432"),
            ("postgres://db.example/app?password=hunter2", "postgres://db.example"),
            ("postgres://app:hunter2@one:1,two:2/app", "postgres://one:1,two:2"),
            ("postgresql:///app?host=/run/postgresql", "postgresql://"),
        ] {
            assert_eq!(Address::new(url).to_string(), shown);
        }
    }

    #[test]
    fn where_it_is_not_certain_which_part_the_server_is_none_is_shown() {
        for url in [
            "redis://user:hun/ter2@cache.example",
            "redis://user:hun?ter2@cache.example",
            "redis://user:hun#ter2@cache.example",
            "redis://user:hunter2",
            "redis://:hunter2/0",
            "postgres://db.example/app?password=hunter@2",
        ] {
            let scheme = url.split("://").next().unwrap();
            assert_eq!(Address::new(url).to_string(), format!("{scheme}://..."), "{url}");
        }
    }
}
