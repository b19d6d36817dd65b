//! HTTP semantics: what every transport that speaks HTTP does the same way.
//!
//! [`ClientAddress`] finds the address of the client that sent a request, in a way no client can forge. The guide, with
//! settings for common proxies, is `docs/clients.md` in the repository.
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
//! // Nobody else is believed.
//! let client = clients.find("198.51.100.7".parse()?, &headers);
//! assert_eq!(client.address().to_string(), "198.51.100.7");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod answer;
mod asking;
#[cfg(feature = "tower")]
pub(crate) mod at_once;
mod client;
pub(crate) mod demand;
#[cfg(any(feature = "actix", feature = "ntex", feature = "rocket"))]
pub(crate) mod foreign;
mod gate;
pub(crate) mod headers;
pub(crate) mod in_flight;
mod incoming;
mod joined;
pub mod keys;
mod passage;
mod problem;
mod rate_limit;

#[cfg(feature = "macros")]
pub(crate) use answer::response_with_defaults;
#[cfg(feature = "tower")]
pub(crate) use answer::to_method;
pub use asking::Asking;
pub use client::{Client, ClientAddress, ClientText, ForwardingWarning, UntrustedForwarding};
pub use gate::Gate;
pub use headers::LimitHeaders;
pub use in_flight::InFlight;
pub use incoming::{Incoming, Peer, Route};
pub use passage::Passage;
pub use rate_limit::RateLimit;

pub use crate::header_style::{HeaderStyle, LegacyReset};
pub use crate::trust::TrustProxy;
pub use http::{Extensions, HeaderMap, HeaderName};
