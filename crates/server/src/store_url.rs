//! `--store`: parses the URL of a store and opens the store. A password in the URL is never shown.

use std::error::Error;
use std::ffi::OsStr;
use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::builder::{TypedValueParser, ValueParserFactory};
use clap::error::ErrorKind;
use clap::{Arg, Command};
use tidegate::StoreError;
use tidegate::postgres::PostgresStore;
use tidegate::redis::RedisStore;
use tidegate::sqlite::SqliteStore;
use tokio::time::timeout;

use crate::Failure;

/// The value of `--store`: `memory`, `sqlite:PATH`, `redis://...` or `postgres://...`.
///
/// Neither `Display` nor `Debug` shows a password.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct StoreUrl(Kind);

#[derive(Clone, PartialEq, Eq, Default)]
enum Kind {
    #[default]
    Memory,
    Sqlite(PathBuf),
    Redis(ServerUrl),
    Postgres(ServerUrl),
}

/// The environment variable with the URL.
const STORE_VARIABLE: &str = "TIDEGATE_STORE";

/// The most bytes of a file with a URL.
const MAX_FILE_BYTES: u64 = 64 << 10;

impl StoreUrl {
    /// Returns the URL of the arguments, which may be in a file.
    pub(crate) fn from_arguments(store: Option<&StoreUrl>, file: Option<&Path>) -> Result<Option<Self>, Failure> {
        match (store, file) {
            (Some(url), _) => Ok(Some(url.clone())),
            (None, Some(path)) => StoreUrl::from_file(path).map(Some),
            (None, None) => Ok(None),
        }
    }

    /// Returns the URL in the environment.
    pub(crate) fn from_env() -> Result<Option<Self>, Failure> {
        let url = std::env::var_os(STORE_VARIABLE).map(|value| parse_store(&value).map(StoreUrl)).transpose();
        url.map_err(|message| Failure::Store(format!("{STORE_VARIABLE}: {message}")))
    }

    fn from_file(path: &Path) -> Result<Self, Failure> {
        let mut text = String::new();
        let read = File::open(path).and_then(|file| file.take(MAX_FILE_BYTES).read_to_string(&mut text));
        let url = match read {
            Ok(_) => parse_store(OsStr::new(text.trim_end())),
            Err(error) => Err(format!("cannot be read: {error}")),
        };
        url.map(StoreUrl).map_err(|message| Failure::Store(format!("{}: {message}", path.display())))
    }

    /// Whether it is the memory of this process.
    pub fn is_memory(&self) -> bool {
        self.0 == Kind::Memory
    }
}

impl fmt::Display for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::Memory => f.write_str("memory"),
            Kind::Sqlite(path) => write!(f, "sqlite:{}", path.display()),
            Kind::Redis(address) | Kind::Postgres(address) => address.fmt(f),
        }
    }
}

impl fmt::Debug for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StoreUrl({self})")
    }
}

/// How long a server may take to accept a connection. The stores give up earlier on one that is not there.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);

/// A store that is open.
pub(crate) enum OpenStore {
    Sqlite(SqliteStore),
    Redis(RedisStore),
    Postgres(PostgresStore),
}

impl StoreUrl {
    /// Opens the store; `None` for memory, which needs no opening.
    pub(crate) async fn open(&self) -> Result<Option<OpenStore>, Failure> {
        let opened = timeout(CONNECT_TIMEOUT, self.connect()).await;
        let opened = opened.unwrap_or_else(|_| Err(format!("no answer within {} seconds", CONNECT_TIMEOUT.as_secs())));
        opened.map_err(|why| {
            let advice = self.open_advice().unwrap_or_default();
            Failure::Store(format!("{self} cannot be used: {why}\n{advice}"))
        })
    }

    async fn connect(&self) -> Result<Option<OpenStore>, String> {
        let opened = match &self.0 {
            Kind::Memory => return Ok(None),
            Kind::Sqlite(path) if path.is_dir() => return Err("that is a folder".to_owned()),
            Kind::Sqlite(path) => SqliteStore::open(path).map(OpenStore::Sqlite),
            Kind::Redis(address) => RedisStore::connect(address.with_password()).await.map(OpenStore::Redis),
            Kind::Postgres(address) => PostgresStore::connect(address.with_password()).await.map(OpenStore::Postgres),
        };
        opened.map(Some).map_err(|error| self.describe_error(&error))
    }

    /// Describes an error of this store, with its root cause if that says more.
    pub(crate) fn describe_error(&self, error: &StoreError) -> String {
        let text = error.to_string();
        // The cause of a malformed address may quote a part of a password. SQLite's errors are complete.
        if !error.is_retryable() || matches!(self.0, Kind::Sqlite(_)) {
            return text;
        }
        let mut cause: &dyn Error = error;
        while let Some(next) = cause.source() {
            cause = next;
        }
        let cause = cause.to_string();
        if text.contains(&cause) { text } else { format!("{text}: {cause}") }
    }

    /// Advises what to do if the store cannot be opened.
    fn open_advice(&self) -> Option<&'static str> {
        Some(match &self.0 {
            Kind::Memory => return None,
            Kind::Sqlite(_) => {
                "Expected sqlite:PATH with the path of a file, in a folder that exists and can be written."
            }
            Kind::Redis(_) => {
                "Expected redis://[USER:PASSWORD@]HOST[:PORT][/DB] of a Redis or Valkey that is running, and listens there \
                 without TLS, which is not built in. Signs such as @ / ? & # in a password are percent-encoded."
            }
            Kind::Postgres(_) => {
                "Expected postgres://USER[:PASSWORD]@HOST[:PORT]/DB of a Postgres that is running, and listens there \
                 without TLS, which is not built in. Signs such as @ / ? & # in a password are percent-encoded."
            }
        })
    }

    /// Advises how to remove keys under `prefix` that have no lifetime.
    pub(crate) fn removal_advice(&self, prefix: &str) -> Option<String> {
        Some(match &self.0 {
            Kind::Memory => return None,
            Kind::Redis(_) => {
                format!(
                    "Remove them with redis-cli: their names, which `--scan --pattern '{prefix}|*'` lists, begin so."
                )
            }
            // Long names are stored as hashes, which a prefix does not find.
            Kind::Sqlite(_) | Kind::Postgres(_) => {
                "Remove them with SQL, while no other replay runs: DELETE FROM tidegate WHERE expires_at IS NULL. Only \
                 what a replay has written has no expiry."
                    .to_owned()
            }
        })
    }
}

/// The URL of a server, of which only the scheme and the host are ever shown.
#[derive(Clone, PartialEq, Eq)]
struct ServerUrl(String);

impl ServerUrl {
    fn new(url: &str) -> Self {
        ServerUrl(url.to_owned())
    }

    /// Returns the whole URL, to connect.
    fn with_password(&self) -> &str {
        &self.0
    }

    /// Returns the host and port, if it is certain which part of the URL they are.
    fn server(&self) -> Option<&str> {
        let (_, rest) = self.0.split_once("://")?;
        let (before, after) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
        // A password with such a character is cut in two: its first half is where the host should be.
        if after.contains('@') {
            return None;
        }
        let server = before.rsplit_once('@').map_or(before, |(_, server)| server);
        // A port that is no number may be the password of a URL without a host.
        server.split(',').all(has_port_or_none).then_some(server)
    }
}

fn has_port_or_none(server: &str) -> bool {
    match server.rsplit_once(':') {
        Some((_, port)) => server.ends_with(']') || port.bytes().all(|byte| byte.is_ascii_digit()),
        None => true,
    }
}

impl fmt::Display for ServerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = self.0.split("://").next().unwrap_or_default();
        write!(f, "{scheme}://{}", self.server().unwrap_or("..."))
    }
}

const ACCEPTED: &str = "memory, sqlite:PATH, redis://[USER:PASSWORD@]HOST[:PORT][/DB] or \
                        postgres://USER[:PASSWORD]@HOST[:PORT]/DB";

const NO_TLS: &str = "rediss:// is Redis over TLS, which is not built in: expected redis://, such as to a TLS tunnel on \
                      this machine";

/// Parses a [`StoreUrl`]. clap's own parser would quote a wrong value with its password.
#[derive(Debug, Clone)]
pub struct StoreUrlParser;

impl ValueParserFactory for StoreUrl {
    type Parser = StoreUrlParser;

    fn value_parser() -> StoreUrlParser {
        StoreUrlParser
    }
}

impl TypedValueParser for StoreUrlParser {
    type Value = StoreUrl;

    fn parse_ref(&self, command: &Command, arg: Option<&Arg>, value: &OsStr) -> Result<StoreUrl, clap::Error> {
        parse_store(value).map(StoreUrl).map_err(|message| {
            let option = arg.and_then(Arg::get_long).unwrap_or("store");
            command.clone().error(ErrorKind::ValueValidation, format!("--{option}: {message}"))
        })
    }
}

fn parse_store(value: &OsStr) -> Result<Kind, String> {
    if let Some(path) = strip_prefix(value, "sqlite:") {
        return sqlite_path(path).map(Kind::Sqlite);
    }
    let text = value.to_str().unwrap_or_default();
    match text.split_once("://").map(|(scheme, _)| scheme) {
        None if text == "memory" => Ok(Kind::Memory),
        Some("redis") => Ok(Kind::Redis(ServerUrl::new(text))),
        Some("postgres" | "postgresql") => Ok(Kind::Postgres(ServerUrl::new(text))),
        Some("rediss") => Err(NO_TLS.to_owned()),
        Some(scheme) if is_scheme(scheme) => Err(format!("there is no store {scheme}://, expected {ACCEPTED}")),
        // The value is not quoted: a password could be anywhere in it.
        _ => Err(format!("not a store, expected {ACCEPTED}")),
    }
}

/// Checks the path of an SQLite file, which is taken literally.
fn sqlite_path(path: &OsStr) -> Result<PathBuf, String> {
    let starts_with = |start| strip_prefix(path, start).is_some();
    let wrong = if path.is_empty() {
        "sqlite: without a path, expected sqlite:PATH, such as sqlite:limits.db"
    } else if path == ":memory:" {
        "sqlite::memory: would be gone with the process, expected memory, or sqlite:PATH"
    } else if starts_with("//") {
        "sqlite:// is no URL here, expected the path alone, such as sqlite:limits.db or sqlite:/var/lib/limits.db"
    } else if starts_with("file:") {
        "sqlite:file: is no URI here, expected the path alone; a file of that name is sqlite:./file:..."
    } else {
        return Ok(PathBuf::from(path));
    };
    Err(wrong.to_owned())
}

fn is_scheme(text: &str) -> bool {
    let is_sign = |byte: u8| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte);
    (1..=20).contains(&text.len()) && text.bytes().all(is_sign)
}

/// Returns the rest after `start`. A path need not be UTF-8.
#[cfg(unix)]
fn strip_prefix<'a>(value: &'a OsStr, start: &str) -> Option<&'a OsStr> {
    use std::os::unix::ffi::OsStrExt;
    value.as_bytes().strip_prefix(start.as_bytes()).map(OsStr::from_bytes)
}

#[cfg(not(unix))]
fn strip_prefix<'a>(value: &'a OsStr, start: &str) -> Option<&'a OsStr> {
    value.to_str()?.strip_prefix(start).map(OsStr::new)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::Cli;

    fn parse(store: impl AsRef<OsStr>) -> Result<Cli, clap::Error> {
        let arguments = ["tidegate", "simulate", "--config", "c", "--trace", "-", "--store"].map(OsStr::new);
        Cli::try_parse_from(arguments.into_iter().chain([store.as_ref()]))
    }

    #[test]
    fn sqlite_paths_are_taken_literally() {
        for path in ["limits.db", "/var/lib/limits.db", "a b%20?c#d@e:f", "./file:x", "redis://x", "é", " "] {
            assert!(parse_store(OsStr::new(&format!("sqlite:{path}"))) == Ok(Kind::Sqlite(path.into())), "{path}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_path_need_not_be_utf8() {
        use std::os::unix::ffi::OsStrExt;
        let path = OsStr::from_bytes(b"\xff.db");
        assert!(parse_store(OsStr::from_bytes(b"sqlite:\xff.db")) == Ok(Kind::Sqlite(path.into())));
        assert!(parse_store(OsStr::from_bytes(b"redis://\xff")).is_err());
    }

    #[test]
    fn passwords_are_never_shown() {
        for store in ["redis://u:hunter2@h/0", "postgres://u:hunter2@h/d", "postgresql://h/d?password=hunter2"] {
            let shown = format!("{:?}", parse(store).unwrap());
            assert!(shown.contains("://h)") && !shown.contains("hunter2"), "{shown}");
        }
        for store in ["rediss://u:hunter2@h", "mysql://u:hunter2@h", "hunter2://h", "u:hunter2@h", "redis:u:hunter2@h"]
        {
            let error = parse(store).unwrap_err();
            let shown = format!("{error} {error:?}").replace("hunter2://,", "");
            assert!(!shown.contains("hunter2"), "{shown}");
        }
    }

    #[test]
    fn url_in_a_file_is_read_and_never_shown() {
        let path = std::env::temp_dir().join(format!("tidegate-store-url-{}", std::process::id()));
        let read = |text: &str| {
            std::fs::write(&path, text).unwrap();
            StoreUrl::from_arguments(None, Some(&path)).map(Option::unwrap)
        };
        assert_eq!(read("redis://u:hunter2@h/0\n").unwrap().to_string(), "redis://h");
        for wrong in ["", "u:hunter2@h", "rediss://u:hunter2@h", "redis\n://u:hunter2@h"] {
            let error = read(wrong).unwrap_err().to_string();
            assert!(error.starts_with(&*path.to_string_lossy()) && !error.contains("hunter2"), "{error}");
        }
        std::fs::remove_file(&path).unwrap();
        let error = StoreUrl::from_arguments(None, Some(&path)).unwrap_err().to_string();
        assert!(error.contains("cannot be read"), "{error}");
        // The flag comes before the file. Without either, the caller has a default.
        assert!(StoreUrl::from_arguments(Some(&StoreUrl::default()), Some(&path)).unwrap().unwrap().is_memory());
        assert!(StoreUrl::from_arguments(None, None).unwrap().is_none());
    }

    #[test]
    fn only_scheme_and_host_are_shown() {
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
            assert_eq!(ServerUrl::new(url).to_string(), shown);
        }
    }

    #[test]
    fn an_ambiguous_url_shows_no_host() {
        for url in [
            "redis://user:hun/ter2@cache.example",
            "redis://user:hun?ter2@cache.example",
            "redis://user:hun#ter2@cache.example",
            "redis://user:hunter2",
            "redis://:hunter2/0",
            "postgres://db.example/app?password=hunter@2",
        ] {
            let scheme = url.split("://").next().unwrap();
            assert_eq!(ServerUrl::new(url).to_string(), format!("{scheme}://..."), "{url}");
        }
    }
}
