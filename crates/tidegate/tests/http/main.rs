//! The HTTP semantics that need no server: the address of a client.

mod client_address;
