//! The requests that each algorithm admits around the edge of a window, as a picture.
//!
//! The decisions come from the real algorithms, through a [`Limiter`](tidegate::Limiter) whose clock is set to the time
//! of each request. So the picture cannot differ from the code.

mod draw;
mod run;

use std::error::Error;

/// The path of the picture in the repository.
pub const PICTURE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/pictures/window-edge.svg");

/// Returns the picture as an SVG, the same in every run.
pub fn picture() -> Result<String, Box<dyn Error>> {
    Ok(draw::picture(&run::runs()?))
}
