//! Requests and decisions as JSON, the same wherever the program reads and writes them.

mod cost;
mod decision;
mod key;
mod lease;
mod op;

pub(crate) use cost::{Cost, Millis};
pub(crate) use decision::Reply;
pub(crate) use key::{Key, MAX_KEY};
pub(crate) use lease::Lease;
pub(crate) use op::{Op, OpName};
