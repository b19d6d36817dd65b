//! What the stores on databases share: one table, a row for each key.

#[cfg(feature = "sqlite")]
mod lifetime;
mod name;
mod rows;

#[cfg(feature = "sqlite")]
pub(super) use lifetime::expires_at;
pub(super) use name::TableName;
pub(super) use rows::Rows;
