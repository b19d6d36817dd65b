//! The stores: where the state of keys lives.

pub(crate) mod memory;
