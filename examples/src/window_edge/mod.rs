//! The requests that each algorithm admits around the edge of a window, as a picture.
//!
//! The decisions are those of the real algorithms, asked through a [`Limiter`](tidegate::Limiter) whose clock is set
//! to the time of each request. So the picture cannot show what the code does not do.

mod draw;
mod run;

use std::error::Error;

/// The picture that is kept in the repository.
pub const PICTURE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/pictures/window-edge.svg");

/// The picture as an SVG, the same every time.
pub fn picture() -> Result<String, Box<dyn Error>> {
    Ok(draw::picture(&run::runs()?))
}
