//! `--store`: where the state of keys lives, as people write it.

mod address;
mod advice;
mod open;
mod parse;

use std::fmt;
use std::path::PathBuf;

use address::Address;
pub(crate) use open::Opened;

/// A store as it is written after `--store`: `memory`, `sqlite:PATH`, `redis://...` or `postgres://...`.
///
/// What it shows of itself, to people and in `Debug`, has no password in it.
#[derive(Clone, PartialEq, Eq)]
pub struct StoreUrl(Kind);

#[derive(Clone, PartialEq, Eq)]
enum Kind {
    Memory,
    Sqlite(PathBuf),
    Redis(Address),
    Postgres(Address),
}

impl StoreUrl {
    /// Whether it is this process's memory, for which every verb has settings of its own.
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
