//! How much room there is in memory.

use clap::Args;
use clap::error::ErrorKind;
use tidegate::{MemoryStore, MemoryStoreBuilder};

use super::wrong;
use crate::failure::Failure;
use crate::store::StoreUrl;

/// How much room there is in memory.
#[derive(Debug, Clone, Copy, Default, Args)]
pub struct Room {
    /// How many keys there is room for in memory, at about 29 bytes each [default: 1000000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    pub max_keys: Option<u64>,
    /// How many bytes more may go to what is larger: sliding logs, places at work, sliding windows of many buckets
    /// [default: 268435456]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1_048_576..=1_099_511_627_776))]
    pub max_bytes: Option<u64>,
}

impl Room {
    /// Refused where the state of keys is somewhere else.
    pub(crate) fn check(&self, verb: &str, store: &StoreUrl) -> Result<(), Failure> {
        let given = [("--max-keys", self.max_keys), ("--max-bytes", self.max_bytes)];
        match given.into_iter().find(|(_, given)| given.is_some() && !store.is_memory()) {
            None => Ok(()),
            Some((name, _)) => {
                let why = format!("{name} is for --store memory: another store has room of its own");
                Err(Failure::Usage(wrong(verb, ErrorKind::ArgumentConflict, &why)))
            }
        }
    }

    /// A store in memory with as much room.
    pub(crate) fn builder(&self) -> MemoryStoreBuilder {
        let mut builder = MemoryStore::builder();
        if let Some(keys) = self.max_keys {
            builder = builder.max_keys(usize::try_from(keys).unwrap_or(usize::MAX));
        }
        if let Some(bytes) = self.max_bytes {
            builder = builder.max_bytes(usize::try_from(bytes).unwrap_or(usize::MAX));
        }
        builder
    }
}
