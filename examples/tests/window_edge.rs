//! The picture in the docs matches the code.

use tidegate_examples::window_edge::{PICTURE, picture};

#[test]
fn picture_in_the_docs_is_up_to_date() {
    let kept = std::fs::read_to_string(PICTURE).unwrap_or_default();
    let how = "cargo run -p tidegate-examples --example window_edge > docs/pictures/window-edge.svg";
    assert!(kept == picture().unwrap(), "docs/pictures/window-edge.svg is not what the code does; draw it anew: {how}");
}
