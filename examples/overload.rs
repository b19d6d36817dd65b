//! Draws the behaviour of each controller when a service gets more work than it can do: `docs/pictures/overload.svg`.
//!
//! `cargo run -p tidegate-examples --example overload > docs/pictures/overload.svg`. With `-- --check` it compares the
//! picture in the repository with the code; with `-- --table` it prints the figures in `docs/book/src/explanation/concurrency.md`.

use std::error::Error;
use std::{env, fs};

use tidegate_examples::overload::{PICTURE, picture, table};

fn main() -> Result<(), Box<dyn Error>> {
    match env::args().nth(1).as_deref() {
        None => print!("{}", picture()),
        Some("--table") => print!("{}", table()),
        Some("--check") if fs::read_to_string(PICTURE)? == picture() => {
            println!("docs/pictures/overload.svg matches the code");
        }
        Some("--check") => return Err("docs/pictures/overload.svg is not what the code does: draw it anew".into()),
        Some(other) => return Err(format!("{other} is not --check or --table").into()),
    }
    Ok(())
}
