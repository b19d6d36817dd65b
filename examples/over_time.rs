//! Draws the requests that each algorithm admits over time: `docs/book/src/pictures/algorithms.svg`.
//!
//! `cargo run -p tidegate-examples --example over_time > docs/book/src/pictures/algorithms.svg`, or with `-- --check` to see
//! whether the picture in the repository is what the code does.

use std::error::Error;
use std::{env, fs};

use tidegate_examples::over_time::{PICTURE, picture};

fn main() -> Result<(), Box<dyn Error>> {
    let picture = picture()?;
    if env::args().nth(1).as_deref() != Some("--check") {
        print!("{picture}");
    } else if fs::read_to_string(PICTURE)? == picture {
        println!("docs/book/src/pictures/algorithms.svg is what the code does");
    } else {
        return Err("docs/book/src/pictures/algorithms.svg is not what the code does: draw it anew".into());
    }
    Ok(())
}
