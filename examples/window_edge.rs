//! Draws the requests that each algorithm admits around the edge of a window: `docs/pictures/window-edge.svg`.
//!
//! `cargo run -p tidegate-examples --example window_edge > docs/pictures/window-edge.svg`. With `-- --check` it
//! compares the picture in the repository with the code.

use std::error::Error;
use std::{env, fs};

use tidegate_examples::window_edge::{PICTURE, picture};

fn main() -> Result<(), Box<dyn Error>> {
    let picture = picture()?;
    if env::args().nth(1).as_deref() != Some("--check") {
        print!("{picture}");
    } else if fs::read_to_string(PICTURE)? == picture {
        println!("docs/pictures/window-edge.svg matches the code");
    } else {
        return Err("docs/pictures/window-edge.svg is not what the code does: draw it anew".into());
    }
    Ok(())
}
