//! HTTP semantics shared by every transport: keys, client addresses, headers, problems, the life of a request.
//!
//! [`ClientAddress`] finds the address of the client that sent a request, in a way no client can forge. The guide, with
//! settings for common proxies, is `docs/book/src/explanation/clients.md` in the repository.
//!
//! ```
//! use tidegate::http::{ClientAddress, HeaderMap, TrustProxy};
//!
//! let clients = ClientAddress::new().trust(TrustProxy::networks(["10.0.0.0/8"])?);
//!
//! // The client wrote the first of these addresses, the proxy at 10.0.0.1 the second.
//! let mut headers = HeaderMap::new();
//! headers.insert("x-forwarded-for", "192.0.2.66, 203.0.113.9".parse()?);
//!
//! let client = clients.find("10.0.0.1".parse()?, &headers);
//! assert_eq!(client.address().to_string(), "203.0.113.9");
//!
//! // A header from any other peer is ignored.
//! let client = clients.find("198.51.100.7".parse()?, &headers);
//! assert_eq!(client.address().to_string(), "198.51.100.7");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod adapter;
mod client_address;
mod gate;
mod headers;
pub mod keys;
pub(crate) mod lifecycle;
mod policy;
pub(crate) mod problem;
mod request;

pub use client_address::{Client, ClientAddress, ClientText, ForwardingWarning, UntrustedForwarding};
pub use gate::Gate;
pub use headers::LimitHeaders;
pub use lifecycle::{AdmittedRequest, InFlight, PendingRequest};
pub use policy::RateLimit;
pub use request::{PeerAddr, RequestHead, Route};

pub use crate::http_settings::{HeaderStyle, LegacyReset, TrustProxy};
pub use http::{Extensions, HeaderMap, HeaderName};
