//! Shared drawing of the pictures. Coordinates are whole tenths of a pixel, so a picture is the same on every machine.

use std::fmt::Write;

pub(crate) fn text(svg: &mut String, class: &str, x: i64, y: i64, text: &str) {
    let _ = writeln!(svg, "<text class=\"{class}\" x=\"{}\" y=\"{}\">{text}</text>", pixels(x), pixels(y));
}

/// Converts tenths of a pixel to pixels.
pub(crate) fn pixels(tenths: i64) -> String {
    match tenths % 10 {
        0 => (tenths / 10).to_string(),
        tenth => format!("{}.{tenth}", tenths / 10),
    }
}
