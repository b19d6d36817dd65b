//! Reading what is written after `--store`.

use std::ffi::OsStr;
use std::path::PathBuf;

use clap::builder::{TypedValueParser, ValueParserFactory};
use clap::error::ErrorKind;
use clap::{Arg, Command};

use super::{Address, Kind, StoreUrl};

const ACCEPTED: &str = "memory, sqlite:PATH, redis://[USER:PASSWORD@]HOST[:PORT][/DB] or \
                        postgres://USER[:PASSWORD]@HOST[:PORT]/DB";

const NO_TLS: &str = "rediss:// is Redis over TLS, which is not built in: expected redis://, such as to a TLS tunnel on \
                      this machine";

/// Reads a [`StoreUrl`]. A parser of its own, because clap would repeat a wrong value with the password in it.
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
        read(value).map(StoreUrl).map_err(|message| {
            let option = arg.and_then(Arg::get_long).unwrap_or("store");
            command.clone().error(ErrorKind::ValueValidation, format!("--{option}: {message}"))
        })
    }
}

fn read(value: &OsStr) -> Result<Kind, String> {
    if let Some(path) = after(value, "sqlite:") {
        return sqlite(path).map(Kind::Sqlite);
    }
    let text = value.to_str().unwrap_or_default();
    match text.split_once("://").map(|(scheme, _)| scheme) {
        None if text == "memory" => Ok(Kind::Memory),
        Some("redis") => Ok(Kind::Redis(Address::new(text))),
        Some("postgres" | "postgresql") => Ok(Kind::Postgres(Address::new(text))),
        Some("rediss") => Err(NO_TLS.to_owned()),
        Some(scheme) if is_scheme(scheme) => Err(format!("there is no store {scheme}://, expected {ACCEPTED}")),
        // Nothing of it is repeated: nobody knows where a password would be.
        _ => Err(format!("not a store, expected {ACCEPTED}")),
    }
}

/// The path of an SQLite file, as it is: nothing in it is decoded.
fn sqlite(path: &OsStr) -> Result<PathBuf, String> {
    let starts_with = |start| after(path, start).is_some();
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

/// What comes after `start`; a path need not be a text.
#[cfg(unix)]
fn after<'a>(value: &'a OsStr, start: &str) -> Option<&'a OsStr> {
    use std::os::unix::ffi::OsStrExt;
    value.as_bytes().strip_prefix(start.as_bytes()).map(OsStr::from_bytes)
}

#[cfg(not(unix))]
fn after<'a>(value: &'a OsStr, start: &str) -> Option<&'a OsStr> {
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
    fn paths_are_taken_as_they_are() {
        for path in ["limits.db", "/var/lib/limits.db", "a b%20?c#d@e:f", "./file:x", "redis://x", "é", " "] {
            assert!(read(OsStr::new(&format!("sqlite:{path}"))) == Ok(Kind::Sqlite(path.into())), "{path}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_path_need_not_be_a_text() {
        use std::os::unix::ffi::OsStrExt;
        let path = OsStr::from_bytes(b"\xff.db");
        assert!(read(OsStr::from_bytes(b"sqlite:\xff.db")) == Ok(Kind::Sqlite(path.into())));
        assert!(read(OsStr::from_bytes(b"redis://\xff")).is_err());
    }

    #[test]
    fn no_password_is_shown() {
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
}
