//! Requests and decisions as JSON, the same wherever the program reads and writes them.

mod cost;
mod decision;
mod key;

pub(crate) use cost::{Cost, Millis};
pub(crate) use decision::write_decision;
pub(crate) use key::{Key, MAX_KEY};
