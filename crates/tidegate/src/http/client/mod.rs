//! The address of a client, which no client can forge.

mod address;
mod entry;
mod forwarded;
mod found;
#[cfg(feature = "config")]
mod settings;
mod walk;
mod warning;

pub use address::ClientAddress;
pub use found::{Client, ClientText};
pub use warning::{ForwardingWarning, UntrustedForwarding};
