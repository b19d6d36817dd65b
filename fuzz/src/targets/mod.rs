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

/// The byte in front and what is behind it; a missing one is 0.
fn take(data: &[u8]) -> (u8, &[u8]) {
    match data {
        [first, rest @ ..] => (*first, rest),
        [] => (0, data),
    }
}
