//! Draws answers as an SVG. It uses whole numbers and tenths only, so the picture is the same on every machine.

use std::fmt::Write;

use super::run::{PERIOD, RATE, Run};
use crate::svg::{pixels, text};

/// The range of the axis, in milliseconds from the edge.
const FIRST_TIME: i64 = -100;
const LAST_TIME: i64 = 1_300;

// Lengths are in tenths of a pixel.
const WIDTH: i64 = 9_000;
const LEFT: i64 = 400;
const RIGHT: i64 = 8_800;
const TOP: i64 = 860;
const PANEL: i64 = 1_520;
/// The height of one request, and of one admitted request in the line, which share a scale.
const UNIT: i64 = 46;
const MAX_TRAILING: i64 = 22;

const STYLE: &str = "\
text{font:13px system-ui,-apple-system,'Segoe UI',Roboto,sans-serif;fill:#1f2328}
.t{font-weight:600;font-size:15px}.n{fill:#59636e}.s{font-size:11px;fill:#59636e}.e{text-anchor:end}.m{text-anchor:middle}
.b{fill:#fff}.p{fill:#f6f8fa}.x{stroke:#818b98;stroke-width:1;shape-rendering:crispEdges}.d{stroke:#59636e;stroke-dasharray:6 4;stroke-width:1.2}
.l{fill:none;stroke:#0969da;stroke-width:1.8}.k{fill:#0969da}
.a{fill:none;stroke:#1a7f37;stroke-width:4.4;stroke-linecap:round}.r{fill:none;stroke:#cf222e;stroke-width:1.2}
@media(prefers-color-scheme:dark){text{fill:#e6edf3}.n,.s{fill:#9198a1}.b{fill:#0d1117}.p{fill:#161b22}
.x{stroke:#656c76}.d{stroke:#9198a1}.l{stroke:#58a6ff}.k{fill:#58a6ff}.a{stroke:#3fb950}.r{stroke:#ff7b72}}
";

pub(super) fn picture(runs: &[Run]) -> String {
    let height = TOP + PANEL * runs.len() as i64 + 300;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {}\" role=\"img\" aria-labelledby=\"title desc\">\n\
         <title id=\"title\">What each algorithm admits around the edge of a window</title>\n\
         <desc id=\"desc\">{}</desc>\n<style>\n{STYLE}</style>\n<rect class=\"b\" width=\"100%\" height=\"100%\"/>\n",
        pixels(WIDTH),
        pixels(height),
        runs.iter().map(|run| format!("{}, {}: {}.", run.name, run.note, summary(run))).collect::<Vec<_>>().join(" "),
    );
    legend(&mut svg);
    for (index, run) in runs.iter().enumerate() {
        panel(&mut svg, run, TOP + PANEL * index as i64);
    }
    let axis = TOP + PANEL * runs.len() as i64 + 60;
    for (at, label) in [(0, "an edge"), (250, "250 ms"), (500, "500 ms"), (750, "750 ms"), (1_000, "the next edge")] {
        text(&mut svg, "s m", x(at), axis, label);
    }
    svg.push_str("</svg>\n");
    svg
}

fn legend(svg: &mut String) {
    text(svg, "t", LEFT, 250, &format!("{RATE} a second, asked for more around the edge of a window"));
    let load = "The load: 12 at once, 5 ms before the edge; 12 at once, 15 ms after it; then one every 10 ms.";
    text(svg, "n", LEFT, 470, load);
    let _ = writeln!(svg, "<path class=\"a\" d=\"M{} {}h0\"/>", pixels(LEFT + 40), pixels(660));
    text(svg, "n", LEFT + 110, 705, "admitted");
    let _ = writeln!(svg, "<path class=\"r\" d=\"{}\"/>", cross(LEFT + 990, 660));
    text(svg, "n", LEFT + 1_060, 705, "denied");
    let _ = writeln!(svg, "<path class=\"l\" d=\"M{} {}h26\"/>", pixels(LEFT + 1_750), pixels(660));
    text(svg, "n", LEFT + 2_090, 705, "admitted in the second that ends here");
    let _ = writeln!(svg, "<path class=\"d\" d=\"M{} {}h26\"/>", pixels(LEFT + 4_900), pixels(660));
    text(svg, "n", LEFT + 5_240, 705, "the rate");
}

fn panel(svg: &mut String, run: &Run, top: i64) {
    let bottom = top + 320 + MAX_TRAILING * UNIT;
    let y = |units: i64| bottom - units * UNIT;
    text(svg, "t", LEFT, top + 210, run.name);
    text(svg, "n", LEFT + 1_520, top + 210, run.note);
    text(svg, "k e", RIGHT, top + 210, &summary(run));

    let (width, height) = (pixels(RIGHT - LEFT), pixels(MAX_TRAILING * UNIT));
    let _ = writeln!(
        svg,
        "<rect class=\"p\" x=\"{}\" y=\"{}\" width=\"{width}\" height=\"{height}\"/>",
        pixels(LEFT),
        pixels(y(MAX_TRAILING))
    );
    for edge in [0, PERIOD] {
        let _ = writeln!(svg, "<path class=\"x\" d=\"M{} {}v-{height}\"/>", pixels(x(edge)), pixels(bottom));
    }
    let _ = writeln!(svg, "<path class=\"d\" d=\"M{} {}h{width}\"/>", pixels(LEFT), pixels(y(RATE as i64)));
    for units in [0, RATE as i64, 2 * RATE as i64] {
        text(svg, "s e", LEFT - 60, y(units) + 40, &units.to_string());
    }
    line(svg, run, y);
    requests(svg, run, y);
}

/// Draws a mark for each request. Marks of equal time are stacked, the denied ones last.
fn requests(svg: &mut String, run: &Run, y: impl Fn(i64) -> i64) {
    let (mut admitted, mut denied) = (String::new(), String::new());
    let mut below = (FIRST_TIME, 0);
    for &(at, allowed) in &run.answers {
        below = if below.0 == at { (at, below.1 + 1) } else { (at, 0) };
        let middle = y(below.1) - UNIT / 2;
        if allowed {
            let _ = write!(admitted, "M{} {}h0", pixels(x(at)), pixels(middle));
        } else {
            denied.push_str(&cross(x(at), middle));
        }
    }
    let _ = writeln!(svg, "<path class=\"r\" d=\"{denied}\"/>\n<path class=\"a\" d=\"{admitted}\"/>");
}

/// Draws the number of requests admitted in the period that ends at each moment.
fn line(svg: &mut String, run: &Run, y: impl Fn(i64) -> i64) {
    let mut path = format!("M{} {}", pixels(x(FIRST_TIME)), pixels(y(0)));
    for (at, count) in run.trailing().into_iter().filter(|(at, _)| *at <= LAST_TIME) {
        let _ = write!(path, "H{}V{}", pixels(x(at)), pixels(y(count as i64)));
    }
    let _ = writeln!(svg, "<path class=\"l\" d=\"{path}H{}\"/>", pixels(x(LAST_TIME)));
}

fn summary(run: &Run) -> String {
    let most = run.trailing().into_iter().map(|(_, count)| count).max().unwrap_or(0);
    format!("at most {most} in one second, {} in all", run.admitted())
}

fn cross(x: i64, y: i64) -> String {
    format!("M{} {}l3 3m0-3l-3 3", pixels(x - 15), pixels(y - 15))
}

fn x(at: i64) -> i64 {
    LEFT + (at - FIRST_TIME) * (RIGHT - LEFT) / (LAST_TIME - FIRST_TIME)
}
