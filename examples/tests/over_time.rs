//! The picture in the book shows what the code does.

use tidegate_examples::over_time::{PICTURE, picture};

#[test]
fn picture_in_the_book_is_up_to_date() {
    let kept = std::fs::read_to_string(PICTURE).unwrap_or_default();
    let how = "cargo run -p tidegate-examples --example over_time > docs/book/src/pictures/algorithms.svg";
    let name = "docs/book/src/pictures/algorithms.svg";
    assert!(kept == picture().unwrap(), "{name} is not what the code does; draw it anew: {how}");
}
