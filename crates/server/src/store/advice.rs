//! What to do next, for each kind of store.

use super::{Kind, StoreUrl};

impl StoreUrl {
    /// What to do when it cannot be opened.
    pub(super) fn how_to_open(&self) -> Option<&'static str> {
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

    /// What to do when keys under `prefix`, written without a lifetime, could not be removed.
    pub(crate) fn how_to_remove(&self, prefix: &str) -> Option<String> {
        Some(match &self.0 {
            Kind::Memory => return None,
            Kind::Redis(_) => {
                format!(
                    "Remove them with redis-cli: their names, which `--scan --pattern '{prefix}|*'` lists, begin so."
                )
            }
            // Names that are long are kept as hashes, so a prefix would not find them.
            Kind::Sqlite(_) | Kind::Postgres(_) => {
                "Remove them with SQL, while no other replay runs: DELETE FROM tidegate WHERE expires_at IS NULL. Only \
                 what a replay has written has no expiry."
                    .to_owned()
            }
        })
    }
}
