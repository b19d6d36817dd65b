//! The targets.

mod forwarding;
mod frames;
mod headers;
mod keys;
mod resp;

pub use forwarding::forwarding;
pub use frames::frames;
pub use headers::headers;
pub use keys::keys;
pub use resp::resp;

/// Returns the first byte, or 0 if there is none, and the rest.
fn take(data: &[u8]) -> (u8, &[u8]) {
    match data {
        [first, rest @ ..] => (*first, rest),
        [] => (0, data),
    }
}
